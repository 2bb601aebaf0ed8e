//! The part of YAML that OpenMessaging Benchmark's files are written in: keys with plain or quoted values, `|` blocks, lists of
//! values, and one level of nested keys. Anything else is refused by its line.

use std::collections::BTreeMap;

use crate::secrets::mask_text;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    List(Vec<String>),
    Table(BTreeMap<String, Value>),
}

/// Reads a document: a table.
///
/// # Errors
/// With the line that is not understood.
pub fn parse(text: &str) -> Result<BTreeMap<String, Value>, String> {
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        lines.push((index + 1, line.trim_end()));
    }
    let mut reader = Reader { lines, position: 0 };
    let table = reader.table(0)?;
    match reader.peek() {
        None => Ok(table),
        Some((number, line)) => Err(not_understood(number, line)),
    }
}

fn not_understood(number: usize, line: &str) -> String {
    format!("line {number} is not understood: `{}`", mask_text(line.trim()))
}

struct Reader<'a> {
    /// With their numbers.
    lines: Vec<(usize, &'a str)>,
    position: usize,
}

impl<'a> Reader<'a> {
    /// The next line that says something.
    fn peek(&mut self) -> Option<(usize, &'a str)> {
        while let Some((number, line)) = self.lines.get(self.position) {
            let content = line.trim_start();
            if !content.is_empty() && !content.starts_with('#') && content != "---" {
                return Some((*number, line));
            }
            self.position += 1;
        }
        None
    }

    /// Keys that are indented by so much.
    fn table(&mut self, indentation: usize) -> Result<BTreeMap<String, Value>, String> {
        let mut table = BTreeMap::new();
        while let Some((number, line)) = self.peek() {
            if indentation_of(line) < indentation {
                break;
            }
            let (key, rest) = match line.trim_start().split_once(':') {
                Some((key, rest)) if indentation_of(line) == indentation && is_key(key.trim()) => (key.trim(), rest),
                _ => return Err(not_understood(number, line)),
            };
            self.position += 1;
            let value = self.value(rest.trim(), indentation).map_err(|reason| format!("`{key}`: {reason}"))?;
            if table.insert(key.to_owned(), value).is_some() {
                return Err(format!("line {number} sets `{key}` again"));
            }
        }
        Ok(table)
    }

    fn value(&mut self, rest: &str, indentation: usize) -> Result<Value, String> {
        match uncommented(rest) {
            "|" | "|-" => Ok(Value::Text(self.block(indentation))),
            "" => match self.peek() {
                Some((_, next)) if next.trim_start().starts_with("- ") => self.list(indentation_of(next)),
                Some((_, next)) if indentation_of(next) > indentation => {
                    self.table(indentation_of(next)).map(Value::Table)
                }
                _ => Ok(Value::Text(String::new())),
            },
            plain => scalar(plain).map(Value::Text),
        }
    }

    /// Lines that are indented further than their key, without comments' meaning.
    fn block(&mut self, indentation: usize) -> String {
        let mut block = Vec::new();
        while let Some((_, line)) = self.lines.get(self.position) {
            if !line.trim().is_empty() && indentation_of(line) <= indentation {
                break;
            }
            block.push(line.trim());
            self.position += 1;
        }
        block.join("\n")
    }

    fn list(&mut self, indentation: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while let Some((_, line)) = self.peek() {
            let Some(item) = line.trim_start().strip_prefix("- ").filter(|_| indentation_of(line) == indentation)
            else {
                break;
            };
            items.push(scalar(uncommented(item.trim()))?);
            self.position += 1;
            // The further keys of an item that is a table: no broker's settings are in such a list, so they are not read.
            while self.peek().is_some_and(|(_, line)| indentation_of(line) > indentation) {
                self.position += 1;
            }
        }
        Ok(Value::List(items))
    }
}

fn indentation_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|character| character.is_ascii_alphanumeric() || "_-.".contains(character))
}

fn uncommented(text: &str) -> &str {
    let begin = if text.starts_with('#') { Some(0) } else { text.find(" #") };
    begin.map_or(text, |begin| text[..begin].trim_end())
}

/// Without its quotes.
fn scalar(text: &str) -> Result<String, String> {
    let quoted = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    match quoted('"').or_else(|| quoted('\'')) {
        Some(inside) if !inside.contains('\\') => Ok(inside.to_owned()),
        None if !text.starts_with(['"', '\'', '[', '{', '&', '*', '!', '>', '|']) => Ok(text.to_owned()),
        // It may be a secret.
        _ => {
            Err("the value is not understood: write it plain, in quotes without `\\`, or as a block after `|`"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_contain_is_read() {
        let text = "# licence\n---\nname : Kafka # a name\nquoted: \"a: b\"\nempty:\nblock: |\n  a=1\n\n  b=2\n\nclient:\n    url : \
                    pulsar://h:1\n    deeper:\n      size : 3\nuris:\n  - amqp://a\n  - amqp://b\nlast: true";
        let read = parse(text).unwrap();
        let value = |text: &str| Value::Text(text.to_owned());
        assert_eq!(read["name"], value("Kafka"));
        assert_eq!(read["quoted"], value("a: b"));
        assert_eq!(read["empty"], value(""));
        assert_eq!(read["block"], value("a=1\n\nb=2\n"));
        assert_eq!(read["uris"], Value::List(vec!["amqp://a".to_owned(), "amqp://b".to_owned()]));
        assert_eq!(read["last"], value("true"));
        let Value::Table(client) = &read["client"] else { panic!("{read:?}") };
        assert_eq!(client["url"], value("pulsar://h:1"));
        assert_eq!(client["deeper"], Value::Table([("size".to_owned(), value("3"))].into()));
    }

    /// Drivers' files have logins.
    #[test]
    fn a_refused_line_shows_no_secret() {
        for text in [
            "sasl.jaas.config=Plain required username=\"u\" password=\"hunter2\";",
            "password: [hunter2]",
            "url: {https://me:hunter2@h}",
            "- https://me:hunter2@h",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_its_line() {
        for (text, part) in
            [("a: 1\njust words", "line 2"), ("a: [1, 2]", "`a`"), ("a: 1\na: 2", "again"), ("a: 1\n   b: 2", "line 2")]
        {
            assert!(parse(text).unwrap_err().contains(part), "{text}: {}", parse(text).unwrap_err());
        }
    }
}
