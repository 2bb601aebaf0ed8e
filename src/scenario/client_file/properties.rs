//! The lines of a `.properties` file, as `java.util.Properties.load` reads them: `=`, `:` or blanks after a key, comments with `#` and `!`, lines that
//! go on after a backslash, and escapes.

use std::iter::Peekable;
use std::str::Chars;

/// A key with its value, without the blanks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Where it begins, from 1.
    pub line: usize,
    pub key: String,
    pub value: String,
}

/// Reads the lines of a file, in their order.
///
/// # Errors
/// The number of a line, and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Property>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let mut lines = text.split_terminator('\n').map(|line| line.trim_end_matches('\r')).zip(1..);
    while let Some((first, number)) = lines.next() {
        let mut line = trim_start(first).to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while goes_on(&line) {
            line.pop();
            let Some((next, _)) = lines.next() else { break };
            line.push_str(trim_start(next));
        }
        let (key, value) = divide(&line).map_err(|reason| (number, reason.to_owned()))?;
        // Kafka trims what Java leaves (`ConfigDef.parseType`).
        found.push(Property { line: number, key, value: value.trim().to_owned() });
    }
    Ok(found)
}

/// An even number of backslashes stands for half as many.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn trim_start(line: &str) -> &str {
    line.trim_start_matches(is_blank)
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

fn divide(line: &str) -> Result<(String, String), &'static str> {
    let mut rest = line.chars().peekable();
    let key = unescaped(&mut rest, |next| is_blank(next) || next == '=' || next == ':')?;
    while rest.next_if(|next| is_blank(*next)).is_some() {}
    if rest.next_if(|next| matches!(next, '=' | ':')).is_some() {
        while rest.next_if(|next| is_blank(*next)).is_some() {}
    }
    Ok((key, unescaped(&mut rest, |_| false)?))
}

/// Up to a character that `ends` it and has no backslash before it.
fn unescaped(rest: &mut Peekable<Chars<'_>>, ends: impl Fn(char) -> bool) -> Result<String, &'static str> {
    let mut units = Vec::new();
    let mut encoded = [0; 2];
    while let Some(next) = rest.next_if(|next| !ends(*next)) {
        let character = match next {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    let is_whole = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                    let unit = is_whole.then(|| u16::from_str_radix(&digits, 16).ok()).flatten();
                    units.push(unit.ok_or("`\\u` is followed by four hexadecimal digits")?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(character.encode_utf16(&mut encoded));
    }
    String::from_utf16(&units).map_err(|_| "`\\u` escapes are half a character")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation of `java.util.Properties.load`, and what Java 21 makes of the rest.
    #[test]
    fn lines_are_read_as_java_reads_them() {
        let text = "# a comment\n! another \\\n\nTruth = Beauty\n Truth:Beauty\nTruth\t\t\t:Beauty\n\
                    fruits        apple, banana, \\\n              pear\ncheeses\n\\:\\= = a=b:c\n\
                    escaped=t\\tab\\u00e9\\zx\\\\\npath=C:\\\\dir\\\\\r\nlast=goes on\\";
        let found = parse(text).unwrap();
        let pairs: Vec<(usize, &str, &str)> =
            found.iter().map(|one| (one.line, one.key.as_str(), one.value.as_str())).collect();
        assert_eq!(
            pairs,
            [
                (4, "Truth", "Beauty"),
                (5, "Truth", "Beauty"),
                (6, "Truth", "Beauty"),
                (7, "fruits", "apple, banana, pear"),
                (9, "cheeses", ""),
                (10, ":=", "a=b:c"),
                (11, "escaped", "t\tabézx\\"),
                (12, "path", "C:\\dir\\"),
                (13, "last", "goes on"),
            ]
        );
    }

    #[test]
    fn malformed_escapes_are_refused_with_their_line() {
        for text in ["a=1\nb=\\u12", "a=1\nb=\\u+123", "a=1\nb=\\ud800"] {
            assert_eq!(parse(text).unwrap_err().0, 2, "{text}");
        }
        assert_eq!(parse("smile=\\ud83d\\ude00").unwrap()[0].value, "😀");
        assert_eq!(parse(""), Ok(Vec::new()));
    }
}
