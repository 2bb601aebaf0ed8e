//! `[broker.<kind>]`: the broker's own table, which the broker checks itself; likewise a sink's own keys.

use toml::{Table, Value};

use super::Context;
use crate::scenario::fields::Fields;
use crate::scenario::path::KeyPath;
use crate::scenario::problem::{OwnKeys, Problems};
use crate::scenario::suggestion::{closest, list};
use crate::scenario::{Descriptor, Kinds};
use crate::secrets::is_secret_name;

pub(super) fn read(fields: &Fields<'_>, descriptor: &Descriptor, context: &Context<'_>) -> Table {
    let Some(field) = fields.get(descriptor.kind) else { return Table::new() };
    let Value::Table(table) = field.value else {
        field.refuse(format!("`{}` should be a table", field.path), format!("write `[{}]`", field.path));
        return Table::new();
    };
    let check = |table| (descriptor.check_options)(table);
    if let Err(error) = check(table.clone()) {
        refuse(table, &field.path, fields.problems, &check, &error);
    }
    with_files_found(table.clone(), &[], context)
}

/// The keys of the own tables of the scenario's kind of broker, or of all kinds, each with its table. Serde lists them when it
/// meets an unknown one.
pub(in crate::scenario) fn own_keys(scenario: &Table, kinds: Kinds<'_>) -> OwnKeys {
    let written = scenario.get("broker").and_then(|broker| broker.get("kind")).and_then(Value::as_str);
    let of_kind = |descriptor: &&Descriptor| written.is_none_or(|kind| kind == descriptor.kind);
    let unknown = || Table::from_iter([("-".to_owned(), Value::Boolean(true))]);
    let listed = kinds.brokers.iter().filter(of_kind).filter_map(|descriptor| {
        let refusal = (descriptor.check_options)(unknown()).err()?;
        let (_, expected) = refusal.message().split_once(", expected ")?;
        let table = format!("broker.{}", descriptor.kind);
        Some(quoted(expected).into_iter().map(|key| (key.to_owned(), table.clone())).collect::<Vec<_>>())
    });
    listed.flatten().collect()
}

/// Lets the paths of the keys `files`, and the `{ file = "path" }` of a secret, start at the scenario's own folder, as every path
/// does.
pub(super) fn with_files_found(mut table: Table, files: &[&str], context: &Context<'_>) -> Table {
    for key in files {
        if let Some(Value::String(path)) = table.get_mut(*key) {
            *path = context.resolve(path).display().to_string();
        }
    }
    for (_, value) in table.iter_mut().filter(|(key, _)| is_secret_name(key)) {
        if let Some(Value::String(path)) = value.as_table_mut().and_then(|secret| secret.get_mut("file")) {
            *path = context.resolve(path).display().to_string();
        }
    }
    table
}

/// Serde reports the error and what it expected, but not the key: that is found by its name, or by leaving keys out.
pub(super) fn refuse(
    table: &Table,
    path: &KeyPath,
    problems: &Problems,
    check: &dyn Fn(Table) -> Result<(), toml::de::Error>,
    error: &toml::de::Error,
) {
    let message = error.message();
    let (found, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let expected = quoted(expected);
    let written = quoted(found).into_iter().next().unwrap_or_default();
    let advice = match closest(written, expected.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if expected.is_empty() => None,
        None => Some(format!("known here: {}", list(expected.iter().copied()))),
    };
    if found.starts_with("unknown field")
        && let Some(place) = find(table, path, written)
    {
        let message = format!("unknown key `{written}` in `{}`", place.parent());
        problems.key(place, message, advice.unwrap_or_else(|| "this table has no keys".to_owned()));
        return;
    }
    let culprit = culprit(table, check, message);
    let place = culprit.map_or_else(|| path.clone(), |key| path.key(key));
    // Serde repeats the offending value.
    let (shown, advice) = match culprit {
        Some(key) if is_secret_name(key) => ("this value is not accepted", None),
        _ if advice.is_some() => (found, advice),
        _ => (message, None),
    };
    let message = format!("`{place}`: {}", shown.trim_end().replacen("unknown variant", "unknown value", 1));
    problems.add(crate::scenario::problem::SourcePosition::Value(place), message, advice);
}

/// The words between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn find(table: &Table, path: &KeyPath, name: &str) -> Option<KeyPath> {
    if table.contains_key(name) {
        return Some(path.key(name));
    }
    table.iter().find_map(|(key, value)| match value {
        Value::Table(inner) => find(inner, &path.key(key), name),
        Value::Array(values) => values.iter().enumerate().find_map(|(index, value)| {
            value.as_table().and_then(|inner| find(inner, &path.key(key).index(index), name))
        }),
        _ => None,
    })
}

/// The key without which the broker reports no error, or another one.
fn culprit<'a>(
    table: &'a Table,
    check: &dyn Fn(Table) -> Result<(), toml::de::Error>,
    message: &str,
) -> Option<&'a str> {
    table.keys().map(String::as_str).find(|key| {
        let mut without = table.clone();
        without.remove(*key);
        match check(without) {
            Ok(()) => true,
            Err(error) => error.message() != message && !error.message().starts_with("missing field"),
        }
    })
}
