//! Secrets of a parsed scenario.

use toml_edit::{Array, Decor, DocumentMut, Item, RawString, TableLike, Value};

use super::MASK;
use super::names::is_secret_path;
use super::text::{mask_comments, mask_value};

/// The scenario's text without its secrets.
pub fn mask_document(document: &mut DocumentMut) -> String {
    mask_decor(document.decor_mut());
    mask_table(document.as_table_mut(), &mut Vec::new());
    let trailing = mask_comments(document.trailing().as_str().unwrap_or_default());
    document.set_trailing(trailing);
    document.to_string()
}

fn mask_table(table: &mut dyn TableLike, path: &mut Vec<String>) {
    for (mut key, item) in table.iter_mut() {
        path.push(key.get().to_owned());
        mask_decor(key.leaf_decor_mut());
        mask_decor(key.dotted_decor_mut());
        match item {
            Item::Value(value) => mask_in_place(value, path),
            Item::Table(table) => {
                mask_decor(table.decor_mut());
                mask_table(table, path);
            }
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| {
                mask_decor(table.decor_mut());
                mask_table(table, path);
            }),
            Item::None => {}
        }
        path.pop();
    }
}

fn mask_in_place(value: &mut Value, path: &mut Vec<String>) {
    mask_decor(value.decor_mut());
    match value {
        Value::InlineTable(table) => return mask_table(table, path),
        Value::Array(array) if !is_secret(path) => return mask_array(array, path),
        _ => {}
    }
    let masked = match value.as_str() {
        _ if is_secret(path) => MASK.to_owned(),
        Some(text) => mask_value(text),
        None => return,
    };
    if value.as_str() != Some(&masked) {
        let decor = value.decor().clone();
        *value = Value::from(masked);
        *value.decor_mut() = decor;
    }
}

fn mask_array(array: &mut Array, path: &mut Vec<String>) {
    array.iter_mut().for_each(|value| mask_in_place(value, path));
    let trailing = mask_comments(array.trailing().as_str().unwrap_or_default());
    array.set_trailing(trailing);
}

/// Comments belong to the white space around keys and values.
fn mask_decor(decor: &mut Decor) {
    let masked = |raw: Option<&RawString>| raw.and_then(RawString::as_str).map(mask_comments);
    let (prefix, suffix) = (masked(decor.prefix()), masked(decor.suffix()));
    if let Some(prefix) = prefix {
        decor.set_prefix(prefix);
    }
    if let Some(suffix) = suffix {
        decor.set_suffix(suffix);
    }
}

/// Replaces every secret of a value whose key is at `path`.
pub fn mask_tree(value: &mut toml::Value, path: &[&str]) {
    mask_below(value, &mut path.iter().map(|key| (*key).to_owned()).collect());
}

fn mask_below(value: &mut toml::Value, path: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                path.push(key.clone());
                mask_below(value, path);
                path.pop();
            }
        }
        _ if is_secret(path) => *value = toml::Value::String(MASK.to_owned()),
        toml::Value::Array(values) => values.iter_mut().for_each(|value| mask_below(value, path)),
        toml::Value::String(text) => *text = mask_value(text),
        _ => {}
    }
}

fn is_secret(path: &[String]) -> bool {
    is_secret_path(&path.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_keep_their_layout() {
        let text = r#"# password = "hunter2"
[broker] # token: hunter2
addresses = [ # secret=hunter2
  "me:hunter2@host:1", # see https://me:hunter2@host
  # passwd = hunter2
]
[broker.properties]
sasl.password = "hunter2" # note
"ssl.key.pem" = "hunter2"
"linger.ms" = 5 # the password was: hunter2
url = 'https://me:hunter2@host/?a=b&access_token=hunter2&c=d'
[broker.security.sasl]
password = { env = "KAFKA_PASSWORD" }
[sweep.over]
"broker.security.sasl.password" = ["hunter2"]
# api-key=hunter2
"#;
        let mut document: DocumentMut = text.parse().unwrap();
        insta::assert_snapshot!(mask_document(&mut document), @r##"
        # password = "***"
        [broker] # token: ***
        addresses = [ # secret=***
          "***@host:1", # see https://***@host
          # passwd = ***
        ]
        [broker.properties]
        sasl.password = "***" # note
        "ssl.key.pem" = "***"
        "linger.ms" = 5 # the password was: ***
        url = "https://***@host/?a=b&access_token=***&c=d"
        [broker.security.sasl]
        password = { env = "KAFKA_PASSWORD" }
        [sweep.over]
        "broker.security.sasl.password" = "***"
        # api-key=***
        "##);
    }

    #[test]
    fn trees_are_masked_below_their_path() {
        let mut value: toml::Value = toml::Value::from("hunter2");
        mask_tree(&mut value, &["producers", "headers", "x", "api", "key"]);
        assert_eq!(value.as_str(), Some("***"));
        let mut table: toml::Value =
            toml::from_str("a.token = ['hunter2']\nb = 'Bearer hunter2'\nc = 'plain'").unwrap();
        mask_tree(&mut table, &[]);
        assert_eq!(table, toml::from_str("a.token = '***'\nb = 'Bearer ***'\nc = 'plain'").unwrap());
    }
}
