//! Keeps secrets out of everything that is shown or written: the run's copy of the scenario, records, error messages.

use std::ops::Range;

use toml_edit::{DocumentMut, Item, TableLike, Value};

use super::path::KeyPath;

/// What stands in a secret's place.
const MASK: &str = "***";

/// A key with one of these in its name holds a secret.
const SECRET_WORDS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "jaas",
    "key.pem",
    "private.key",
    "api.key",
    "apikey",
    "access.key",
    "authorization",
    "oauthbearer.config",
];

/// … or with a name that is one of these but for a few slips, since that is how a secret comes into an error message …
const SLIPS: [(&str, usize); 3] = [("password", 2), ("passphrase", 2), ("secret", 1)];

/// … unless its name ends with one of these: it says where something is, not what.
const PLACE_WORDS: [&str; 5] = ["location", "path", "file", "url", "env"];

/// Whether values of that key are secrets, by its name.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase().replace(['_', '-'], ".");
    let last = name.rsplit('.').next().unwrap_or_default();
    let misspelt = SLIPS.iter().any(|(word, slips)| strsim::damerau_levenshtein(last, word) <= *slips);
    !PLACE_WORDS.contains(&last) && (misspelt || SECRET_WORDS.iter().any(|word| name.contains(word)))
}

fn is_secret(path: &KeyPath) -> bool {
    let keys = path.keys();
    match keys.as_slice() {
        ["broker" | "consumers", "properties", property @ ..] if !property.is_empty() => {
            is_secret_name(&property.join("."))
        }
        [.., last] => is_secret_name(last),
        [] => false,
    }
}

/// Replaces every secret of a scenario, and everything after a secret's name in its comment lines.
pub(super) fn mask_document(document: &mut DocumentMut) -> String {
    mask_table(document.as_table_mut(), &KeyPath::default());
    let text = document.to_string();
    let masked = MaskedText::new(&text);
    let lines = text.lines().zip(&masked.lines);
    lines
        .map(|(line, masked)| if line.trim_start().starts_with('#') { &masked.text } else { line })
        .fold(String::with_capacity(text.len()), |text, line| text + line + "\n")
}

fn mask_table(table: &mut dyn TableLike, path: &KeyPath) {
    for (key, item) in table.iter_mut() {
        let path = path.key(key.get());
        match item {
            Item::Value(value) => mask_value(value, &path),
            Item::Table(table) => mask_table(table, &path),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| mask_table(table, &path)),
            Item::None => {}
        }
    }
}

fn mask_value(value: &mut Value, path: &KeyPath) {
    match value {
        Value::InlineTable(table) => mask_table(table, path),
        Value::Array(array) if !is_secret(path) => array.iter_mut().for_each(|value| mask_value(value, path)),
        _ if is_secret(path) => {
            let decor = value.decor().clone();
            *value = Value::from(MASK);
            *value.decor_mut() = decor;
        }
        _ => {}
    }
}

/// Replaces every secret below `path`.
pub(super) fn mask_tree(value: &mut toml::Value, path: &KeyPath) {
    match value {
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(key, value)| mask_tree(value, &path.key(key)));
        }
        _ if is_secret(path) => *value = toml::Value::String(MASK.to_owned()),
        toml::Value::Array(values) => values.iter_mut().for_each(|value| mask_tree(value, path)),
        _ => {}
    }
}

/// `text`, an override as given on the command line (`a.b=value`), without its secrets: for whoever records the
/// command line.
pub fn mask_override(text: &str) -> String {
    match text.split_once('=') {
        Some((key, value)) if is_secret_name(key) && !value.trim_start().starts_with('{') => format!("{key}={MASK}"),
        _ => MaskedText::new(text).lines.into_iter().map(|line| line.text).collect::<Vec<_>>().join("\n"),
    }
}

/// A text's lines with the secrets taken out, found without parsing, since what is shown may not be valid TOML.
pub(super) struct MaskedText {
    pub lines: Vec<MaskedLine>,
}

/// A line without its secrets.
#[derive(Debug, Default)]
pub(super) struct MaskedLine {
    pub text: String,
    /// Bytes of the original line that are hidden, in order.
    hidden: Vec<Range<usize>>,
}

impl MaskedText {
    pub(super) fn new(text: &str) -> Self {
        let mut open = None;
        MaskedText { lines: text.lines().map(|line| MaskedLine::new(line, &mut open)).collect() }
    }
}

impl MaskedLine {
    /// `open` is the delimiter of a secret that began on an earlier line and has not ended yet.
    fn new(line: &str, open: &mut Option<&'static str>) -> Self {
        let mut hidden = Vec::new();
        let mut position = 0;
        if let Some(delimiter) = *open {
            position = line.find(delimiter).unwrap_or(line.len());
            hidden.push(0..position);
            if position == line.len() {
                return MaskedLine::with(line, hidden);
            }
            *open = None;
            position += delimiter.len();
        }
        while let Some(equals) = line[position..].find('=').map(|offset| position + offset) {
            position = equals + 1;
            if is_secret_name(key_before(&line[..equals])) {
                let (secret, still_open) = secret_after(line, position);
                position = secret.end.max(position);
                *open = still_open;
                hidden.extend((!secret.is_empty()).then_some(secret));
            }
        }
        MaskedLine::with(line, hidden)
    }

    fn with(line: &str, hidden: Vec<Range<usize>>) -> Self {
        let mut text = String::with_capacity(line.len());
        let mut shown = 0;
        for range in &hidden {
            text.push_str(&line[shown..range.start]);
            text.push_str(MASK);
            shown = range.end;
        }
        text.push_str(&line[shown..]);
        MaskedLine { text, hidden }
    }

    /// Where the original's byte `offset` is shown.
    pub(super) fn shown_at(&self, offset: usize) -> usize {
        let mut shown = offset;
        for range in &self.hidden {
            if offset >= range.end {
                shown = shown + MASK.len() - range.len();
            } else if offset > range.start {
                shown -= offset - range.start;
            }
        }
        shown.min(self.text.len())
    }
}

/// The key, quotes and dots included, that ends where `text` does.
fn key_before(text: &str) -> &str {
    let text = text.trim_end();
    let is_key = |c: char| c.is_alphanumeric() || "_-.\"'".contains(c);
    let start = text.char_indices().rev().take_while(|(_, c)| is_key(*c)).last().map_or(text.len(), |(at, _)| at);
    text[start..].trim_matches(['"', '\''])
}

/// The secret that follows an equals sign, without its quotes, and the delimiter it still lacks at the line's end.
fn secret_after(line: &str, position: usize) -> (Range<usize>, Option<&'static str>) {
    let value = line[position..].trim_start();
    let start = line.len() - value.len();
    for (delimiter, spans_lines) in [("\"\"\"", true), ("'''", true), ("\"", false), ("'", false), ("[", true)] {
        if let Some(content) = value.strip_prefix(delimiter) {
            let start = start + delimiter.len();
            let closing = if delimiter == "[" { "]" } else { delimiter };
            return match find_closing(content, closing) {
                Some(length) => (start..start + length, None),
                None => (start..line.len(), spans_lines.then_some(closing)),
            };
        }
    }
    if value.starts_with('{') {
        return (start..start, None);
    }
    let length = value.find([',', '}']).unwrap_or(value.len());
    (start..start + length, None)
}

fn find_closing(content: &str, closing: &str) -> Option<usize> {
    let mut escaped = false;
    for (position, character) in content.char_indices() {
        if !escaped && content[position..].starts_with(closing) {
            return Some(position);
        }
        escaped = character == '\\' && !escaped && closing.starts_with('"');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets() {
        for name in ["password", "sasl.password", "ssl.key.pem", "client_secret", "Authorization", "api-key"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["count", "ssl.key.location", "keys", "username", "sasl.oauthbearer.token.endpoint.url"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn lines_are_masked_whatever_their_shape() {
        let text = r#"
password = "hunter2"
sasl = { username = "a", password = "hun\"ter2", mechanism = "PLAIN" }
password = { env = "PASSWORD" }
"ssl.key.password" = 'hunter2' # why
token = """hunter
hunter
2"""
password = "hunter2
password = hunter2
passwords = ["hunter2",
  "hunter2"]
"#;
        let shown: Vec<String> = MaskedText::new(text).lines.into_iter().map(|line| line.text).collect();
        insta::assert_snapshot!(shown.join("\n"), @r##"

        password = "***"
        sasl = { username = "a", password = "***", mechanism = "PLAIN" }
        password = { env = "PASSWORD" }
        "ssl.key.password" = '***' # why
        token = """***
        ***
        ***"""
        password = "***
        password = ***
        passwords = [***
        ***]
        "##);
    }

    #[test]
    fn positions_follow_what_is_shown() {
        let line = r#"sasl = { password = "a-long-secret", user = "a" }"#;
        let masked = MaskedLine::new(line, &mut None);
        let user = line.find("user").unwrap();
        assert_eq!(&masked.text[masked.shown_at(user)..][..4], "user");
        assert_eq!(masked.shown_at(3), 3);
    }

    #[test]
    fn overrides_are_masked() {
        assert_eq!(mask_override("broker.security.sasl.password=hunter 2"), "broker.security.sasl.password=***");
        assert_eq!(mask_override("producers.count=3"), "producers.count=3");
        assert_eq!(
            mask_override(r#"broker.security.sasl={username="a",password="hunter2"}"#),
            r#"broker.security.sasl={username="a",password="***"}"#
        );
    }

    #[test]
    fn documents_are_masked_and_keep_their_looks() {
        let text = r#"# password = "hunter2"
[broker.properties]
sasl.password = "hunter2" # note
"ssl.key.pem" = "hunter2"
"linger.ms" = 5
[broker.security.sasl]
password = { env = "KAFKA_PASSWORD" }
[sweep.over]
"broker.security.sasl.password" = ["hunter2"]
"#;
        let mut document: DocumentMut = text.parse().unwrap();
        insta::assert_snapshot!(mask_document(&mut document), @r##"
        # password = "***"
        [broker.properties]
        sasl.password = "***" # note
        "ssl.key.pem" = "***"
        "linger.ms" = 5
        [broker.security.sasl]
        password = { env = "KAFKA_PASSWORD" }
        [sweep.over]
        "broker.security.sasl.password" = "***"
        "##);
    }
}
