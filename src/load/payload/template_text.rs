//! Reads a template's text: literal parts and `${…}` placeholders.

use crate::load::LoadError;

/// A stretch of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Literal(String),
    /// `${counter}`, or `${counter:10}` padded with zeros to this many digits (1 to 20).
    Counter {
        digits: Option<usize>,
    },
    /// `${random:0..100}`: below the end.
    RandomInteger {
        start: i64,
        end: i64,
    },
    /// `${random:0.0..100.0}`: below the end.
    RandomFloat {
        start: f64,
        end: f64,
    },
    /// `${timestamp}`: Unix seconds with a fraction.
    Timestamp,
    /// `${timestamp_ms}`: Unix milliseconds.
    TimestampMs,
    /// `${choice:a|b|c}`: not empty.
    Choice(Vec<String>),
}

/// `$$` is a dollar sign; every other `$` begins a placeholder.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, LoadError> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        literal.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            literal.push('$');
            rest = after;
            continue;
        }
        let Some((inside, after)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) else {
            return Err(wrong("$", "a dollar sign must begin a placeholder, `${…}`; write `$$` for the sign itself"));
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(placeholder(inside)?);
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

fn placeholder(inside: &str) -> Result<Part, LoadError> {
    let (name, argument) = match inside.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (inside, None),
    };
    match (name, argument) {
        ("counter", None) => Ok(Part::Counter { digits: None }),
        ("counter", Some(digits)) => match digits.parse() {
            Ok(digits @ 1..=20) => Ok(Part::Counter { digits: Some(digits) }),
            _ => Err(wrong(inside, "a counter has 1 to 20 digits")),
        },
        ("timestamp", None) => Ok(Part::Timestamp),
        ("timestamp_ms", None) => Ok(Part::TimestampMs),
        ("choice", Some(choices)) => Ok(Part::Choice(choices.split('|').map(str::to_owned).collect())),
        ("random", Some(range)) => random(inside, range),
        _ => Err(wrong(inside, "use counter, counter:N, random:A..B, timestamp, timestamp_ms or choice:A|B")),
    }
}

fn random(inside: &str, range: &str) -> Result<Part, LoadError> {
    let Some((start, end)) = range.split_once("..") else {
        return Err(wrong(inside, "a range is written A..B"));
    };
    if let (Ok(start), Ok(end)) = (start.parse::<i64>(), end.parse::<i64>()) {
        if start < end {
            return Ok(Part::RandomInteger { start, end });
        }
    } else if let (Ok(start), Ok(end)) = (start.parse::<f64>(), end.parse::<f64>()) {
        if start < end && (end - start).is_finite() {
            return Ok(Part::RandomFloat { start, end });
        }
    } else {
        return Err(wrong(inside, "the ends of a range are numbers"));
    }
    Err(wrong(inside, "a range goes from the smaller number to the larger"))
}

fn wrong(placeholder: &str, reason: &str) -> LoadError {
    LoadError::Template { placeholder: placeholder.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_read() {
        let parts = parse(
            "$$${counter}-${counter:10}${random:-5..5}${random:0.0..1}${timestamp}${timestamp_ms}${choice:a||b c}é",
        );
        assert_eq!(
            parts.unwrap(),
            [
                Part::Literal("$".into()),
                Part::Counter { digits: None },
                Part::Literal("-".into()),
                Part::Counter { digits: Some(10) },
                Part::RandomInteger { start: -5, end: 5 },
                Part::RandomFloat { start: 0.0, end: 1.0 },
                Part::Timestamp,
                Part::TimestampMs,
                Part::Choice(vec!["a".into(), "".into(), "b c".into()]),
                Part::Literal("é".into()),
            ]
        );
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn mistakes_are_named() {
        for text in [
            "$",
            "$counter",
            "${counter",
            "${count}",
            "${counter:0}",
            "${counter:21}",
            "${random}",
            "${random:1}",
            "${random:5..5}",
            "${random:a..b}",
            "${random:1.0..nan}",
            "${random:0..inf}",
            "${choice}",
            "${timestamp:3}",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("payload template"), "{text}: {error}");
        }
    }
}
