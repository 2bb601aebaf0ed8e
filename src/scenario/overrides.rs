//! `--set a.b.c=value`: changes a scenario before it is read, and displaces what would contradict the change.

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::path::KeyPath;
use crate::secrets::mask_override;

/// One override of the command line.
#[derive(Debug)]
pub(super) struct Override {
    pub path: KeyPath,
    /// As given.
    pub text: String,
    value: Value,
}

impl Override {
    /// # Errors
    /// A report, ready to be shown.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refuse = |message: &str, advice: &str| Err(report(text, message, advice));
        let Some((key, value)) = text.split_once('=') else {
            return refuse("an override has no `=`", "write `--set producers.count=512`");
        };
        let Ok(path) = KeyPath::parse(key) else {
            return refuse("this is not a key", "write tables and keys with dots between, as in `producers.count`");
        };
        let value = value.trim();
        // `30s`, `127.0.0.1:9092` and `kafka` are not TOML, and become strings; so does what looks like a date.
        match value.parse::<Value>() {
            Ok(Value::Datetime(_)) => Ok(Override { path, text: text.to_owned(), value: value.into() }),
            Ok(value) => Ok(Override { path, text: text.to_owned(), value }),
            Err(_) if value.starts_with(['[', '{', '"', '\'']) => refuse(
                "the value is not complete TOML",
                "quote the whole override for the shell, as in --set 'a.b=[1, 2]'",
            ),
            Err(_) => Ok(Override { path, text: text.to_owned(), value: value.into() }),
        }
    }

    /// # Errors
    /// A report, ready to be shown, when the path leads through something that is not a table.
    pub(super) fn apply(&self, document: &mut DocumentMut) -> Result<(), String> {
        for path in self.displaced() {
            let parent = path.parent();
            if let (Some(table), Some(key)) = (find(document.as_table_mut(), &parent.keys()), path.keys().last()) {
                table.remove(key);
            }
        }
        self.pin(document);
        let keys = self.path.keys();
        let Some((last, tables)) = keys.split_last() else { return Ok(()) };
        let mut table: &mut dyn TableLike = document.as_table_mut();
        // A table with a header of its own cannot stand inside an inline one.
        let mut inline = false;
        for (depth, key) in tables.iter().enumerate() {
            let new = || if inline { Item::Value(InlineTable::new().into()) } else { Item::Table(implicit()) };
            let item = table.entry(key).or_insert_with(new);
            inline |= item.is_inline_table();
            let Some(inner) = item.as_table_like_mut() else {
                let message = format!("`{}` is not a table in the scenario", KeyPath::of(&keys[..=depth]));
                return Err(report(&self.text, &message, "override the value itself"));
            };
            table = inner;
        }
        if self.path.parent().is_foreign_table() && !table.contains_key(last) {
            remove_dotted(table, last);
        }
        let mut value = self.value.clone();
        match table.get_mut(last) {
            Some(Item::Value(old)) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            _ => {
                value.decor_mut().clear();
                table.insert(last, Item::Value(value));
            }
        }
        Ok(())
    }

    /// Keys that contradict this one: an override is a decision, so they go.
    fn displaced(&self) -> Vec<KeyPath> {
        let all: &[[&str; 2]] = match self.path.keys().as_slice() {
            ["broker", "address"] => &[["broker", "addresses"]],
            ["broker", "addresses"] => &[["broker", "address"]],
            ["load", "rate"] => &[["load", "schedule"], ["load", "model"]],
            ["load", "schedule"] => &[["load", "rate"], ["load", "model"]],
            ["load", "model"] if self.value.as_str() == Some("closed") => {
                &[["load", "rate"], ["load", "schedule"], ["load", "pacing"]]
            }
            _ => &[],
        };
        all.iter().map(|keys| KeyPath::of(keys)).collect()
    }

    /// A swept key that is overridden is swept no longer.
    fn pin(&self, document: &mut DocumentMut) {
        let Some(over) = find(document.as_table_mut(), &["sweep", "over"]) else { return };
        let swept: Vec<String> = over.iter().map(|(key, _)| key.to_owned()).collect();
        for key in swept {
            if KeyPath::parse(&key).is_ok_and(|path| path == self.path) {
                over.remove(&key);
            }
        }
        remove_dotted(over, &self.path.keys().join("."));
    }
}

fn report(text: &str, message: &str, advice: &str) -> String {
    format!("--set {}: {message}\n   = {advice}\n", mask_override(text))
}

fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

fn find<'a>(root: &'a mut Table, keys: &[&str]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = root;
    for key in keys {
        table = table.get_mut(key)?.as_table_like_mut()?;
    }
    Some(table)
}

/// Removes `a.b.c`, however its dots were written.
fn remove_dotted(table: &mut dyn TableLike, name: &str) {
    if table.remove(name).is_some() {
        return;
    }
    for (position, _) in name.match_indices('.') {
        if let Some(inner) = table.get_mut(&name[..position]).and_then(Item::as_table_like_mut) {
            remove_dotted(inner, &name[position + 1..]);
        }
    }
}
