//! Secrets of a parsed scenario, and of a command line.

use toml_edit::{Array, Decor, DocumentMut, Item, RawString, TableLike, Value};

use super::text::{mask_comments, mask_text, mask_url, mask_value};
use super::{MASK, is_secret_name, is_secret_path};

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
    let mut is_secret = false;
    for value in array.iter_mut() {
        if std::mem::take(&mut is_secret) {
            let decor = value.decor().clone();
            *value = Value::from(MASK);
            *value.decor_mut() = decor;
        } else {
            is_secret = value.as_str().is_some_and(precedes_secret);
        }
        mask_in_place(value, path);
    }
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
        toml::Value::Array(values) => {
            let mut is_secret = false;
            for value in values {
                match std::mem::take(&mut is_secret) {
                    true => *value = toml::Value::String(MASK.to_owned()),
                    false => is_secret = value.as_str().is_some_and(precedes_secret),
                }
                mask_below(value, path);
            }
        }
        toml::Value::String(text) => *text = mask_value(text),
        _ => {}
    }
}

/// Whether the next word of a command is the secret that this option asks for.
fn precedes_secret(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && is_secret_name(word)
}

fn is_secret(path: &[String]) -> bool {
    is_secret_path(&path.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The command line of this process as a record shows it. What is not Unicode is replaced.
pub fn masked_command_line() -> Vec<String> {
    mask_arguments(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()))
}

/// A command line as a record shows it.
pub fn mask_arguments(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut value_is_secret = false;
    let mask = |argument: String| {
        if std::mem::take(&mut value_is_secret) && !argument.starts_with("--") {
            return MASK.to_owned();
        }
        if let Some(text) = argument.strip_prefix("--set=") {
            return format!("--set={}", mask_override(text));
        }
        if let Some(shown) = mask_url(&argument) {
            return shown;
        }
        value_is_secret = precedes_secret(&argument);
        mask_override(&argument)
    };
    arguments.into_iter().map(mask).collect()
}

/// An override of the command line (`a.b=value`), or another argument of the form `name=value`.
pub fn mask_override(text: &str) -> String {
    match text.split_once('=') {
        Some((key, value)) if is_secret_name(key) && !value.trim_start().starts_with('{') => format!("{key}={MASK}"),
        Some((key, value)) => match (mask_url(value), value.parse()) {
            (Some(shown), _) => format!("{key}={shown}"),
            (None, Ok(Value::Array(mut array))) => {
                mask_array(&mut array, &mut vec![key.to_owned()]);
                format!("{key}={array}")
            }
            _ => mask_text(text),
        },
        None => mask_text(text),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/secrets/document.rs"]
mod tests;
