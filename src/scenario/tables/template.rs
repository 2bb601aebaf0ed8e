//! Payload templates: text with `${…}` placeholders, checked when the scenario is read and rendered by the module `load`.

use crate::scenario::advice::{closest, list};
use crate::scenario::problem::Refusal;

/// A parsed template: its parts, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub parts: Vec<Part>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Literal(String),
    /// `${counter}`, `${counter:10}`: the message's number from 0, padded with zeros to `width` digits (0: not padded).
    Counter {
        width: usize,
    },
    /// `${random:0..100}`: a whole number, at least `low` and below `high`.
    RandomInteger {
        low: i64,
        high: i64,
    },
    /// `${random:0.0..100.0}`: at least `low` and below `high`.
    RandomFloat {
        low: f64,
        high: f64,
    },
    /// `${timestamp}`: seconds since 1970 with their fraction.
    Timestamp,
    /// `${timestamp_ms}`: whole milliseconds since 1970.
    TimestampMilliseconds,
    /// `${choice:a|b|c}`: one of them, all equally likely; at least two.
    Choice(Vec<String>),
}

/// Longest `${counter:N}`: no 64-bit number has more digits.
const MAX_COUNTER_WIDTH: usize = 20;

const PLACEHOLDERS: [&str; 5] = ["counter", "random", "timestamp", "timestamp_ms", "choice"];

impl Template {
    /// Reads `text`; `$$` stands for a dollar sign.
    ///
    /// # Errors
    /// On an unknown placeholder, a wrong argument, an unclosed `${` and a lone `$`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            literal.push_str(&rest[..dollar]);
            let tail = &rest[dollar + 1..];
            if let Some(after) = tail.strip_prefix('$') {
                literal.push('$');
                rest = after;
                continue;
            }
            let Some(inside) = tail.strip_prefix('{') else {
                return Err(Refusal::new("a lone `$` means nothing in a template", "write `$$` for a dollar sign"));
            };
            let Some((placeholder, after)) = inside.split_once('}') else {
                return Err(Refusal::new(
                    "`${` is not closed",
                    "close it with `}`, or write `$${` for the characters themselves",
                ));
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::parse(placeholder)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Template { parts })
    }
}

impl Part {
    fn parse(placeholder: &str) -> Result<Self, Refusal> {
        let (name, argument) = match placeholder.split_once(':') {
            Some((name, argument)) => (name.trim(), Some(argument)),
            None => (placeholder.trim(), None),
        };
        let whole = format!("${{{placeholder}}}");
        let refuse = |message: String, advice: &str| Err(Refusal::new(message, advice));
        match (name, argument) {
            ("counter", None) => Ok(Part::Counter { width: 0 }),
            ("counter", Some(width)) => match width.trim().parse() {
                Ok(width) if (1..=MAX_COUNTER_WIDTH).contains(&width) => Ok(Part::Counter { width }),
                _ => refuse(
                    format!("`{whole}` has no width"),
                    &format!("write a number of digits from 1 to {MAX_COUNTER_WIDTH}, as in `${{counter:10}}`"),
                ),
            },
            ("random", Some(range)) => random(range).map_or_else(
                || {
                    refuse(
                        format!("`{whole}` has no range"),
                        "write `${random:0..100}` for whole numbers or `${random:0.0..100.0}` for fractions; \
                         the lower bound comes first and the upper one is never reached",
                    )
                },
                Ok,
            ),
            ("random", None) => refuse(format!("`{whole}` needs a range"), "write it as in `${random:0..100}`"),
            ("timestamp", None) => Ok(Part::Timestamp),
            ("timestamp_ms", None) => Ok(Part::TimestampMilliseconds),
            ("timestamp" | "timestamp_ms", Some(_)) => {
                refuse(format!("`{name}` takes no argument"), &format!("write `${{{name}}}`"))
            }
            ("choice", argument) => match argument.map(choices) {
                Some(choices) if choices.len() >= 2 => Ok(Part::Choice(choices)),
                _ => {
                    refuse(format!("`{whole}` needs two or more choices"), "write it as in `${choice:red|green|blue}`")
                }
            },
            _ => {
                let advice = match closest(name, PLACEHOLDERS) {
                    Some(near) => format!("did you mean `${{{near}}}`?"),
                    None => format!("known here: {}", list(PLACEHOLDERS)),
                };
                refuse(format!("unknown placeholder `{whole}`"), &advice)
            }
        }
    }
}

fn choices(list: &str) -> Vec<String> {
    list.split('|').map(str::to_owned).collect()
}

fn random(range: &str) -> Option<Part> {
    let (low, high) = range.split_once("..")?;
    let (low, high) = (low.trim(), high.trim());
    if let (Ok(low), Ok(high)) = (low.parse::<i64>(), high.parse::<i64>()) {
        return (low < high).then_some(Part::RandomInteger { low, high });
    }
    let (low, high) = (low.parse::<f64>().ok()?, high.parse::<f64>().ok()?);
    (low < high && low.is_finite() && high.is_finite()).then_some(Part::RandomFloat { low, high })
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/tables/template.rs"]
mod tests;
