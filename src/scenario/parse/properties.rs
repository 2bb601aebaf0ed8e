//! `properties`: settings that go to a client library unchanged. Keys with dots may be written with or without quotes.

use toml::{Table, Value};

use super::Context;
use crate::scenario::Secret;
use crate::scenario::fields::Field;

/// The properties in the order of the file. Secrets are read here, so that a missing one is found before connecting.
pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Vec<(String, String)> {
    let Value::Table(table) = field.value else {
        field.refuse(format!("`{}` should be a table", field.path), format!("write `[{}]`", field.path));
        return Vec::new();
    };
    let each = table.iter().filter_map(|(key, value)| {
        let field = Field { value, path: field.path.key(key), problems: field.problems };
        text(&field, context).map(|text| (key.clone(), text))
    });
    each.collect()
}

fn text(field: &Field<'_>, context: &Context<'_>) -> Option<String> {
    match field.value {
        Value::Table(_) => {
            let revealed = secret(field, context)?.reveal();
            revealed.map_err(|reason| field.refuse(reason, "set it, or put the property's value elsewhere")).ok()
        }
        Value::Array(_) => {
            field.refuse(format!("`{}` should be one value, not a list", field.path), "join the values with commas");
            None
        }
        simple => Some(plain(simple)),
    }
}

/// A simple value as client libraries expect it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `"inline"`, `{ env = "NAME" }` or `{ file = "path" }`.
pub(super) fn secret(field: &Field<'_>, context: &Context<'_>) -> Option<Secret> {
    if let Value::String(text) = field.value {
        return Some(Secret::Inline(text.clone()));
    }
    let advice = "write { env = \"NAME\" }, { file = \"path\" } or a string";
    if !field.value.is_table() {
        field.refuse(format!("`{}` should be a secret, not {}", field.path, field.value.type_str()), advice);
        return None;
    }
    let fields = field.fields(&["env", "file"])?;
    fields.exclusive("env", "file", "keep one of them");
    match (fields.get("env"), fields.get("file")) {
        (Some(name), _) => {
            let text = name.string()?;
            if text.is_empty() || text.contains(['=', '\0']) {
                name.refuse("this is not the name of an environment variable", advice);
                return None;
            }
            Some(Secret::Env(text.to_owned()))
        }
        (None, Some(file)) => Some(Secret::File(context.existing_file(&file)?)),
        (None, None) => {
            field.refuse(format!("`{}` has neither `env` nor `file`", field.path), advice);
            None
        }
    }
}

/// Joins the dotted keys of every table of properties: `linger.ms = 5` and `"linger.ms" = 5` become the same.
pub(in crate::scenario) fn flatten(scenario: &mut Table) {
    for [section, name] in crate::scenario::path::FOREIGN_TABLES {
        let inner = scenario.get_mut(section).and_then(Value::as_table_mut).and_then(|table| table.get_mut(name));
        if let Some(Value::Table(properties)) = inner {
            flatten_table(properties);
        }
    }
    let consumers = scenario.get_mut("consumers").and_then(Value::as_table_mut);
    let groups = consumers.and_then(|consumers| consumers.get_mut("group")).and_then(Value::as_array_mut);
    for group in groups.into_iter().flatten().filter_map(Value::as_table_mut) {
        if let Some(Value::Table(properties)) = group.get_mut("properties") {
            flatten_table(properties);
        }
    }
}

fn flatten_table(properties: &mut Table) {
    let mut flat = Table::new();
    collect("", std::mem::take(properties), &mut flat);
    *properties = flat;
}

fn collect(prefix: &str, table: Table, flat: &mut Table) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) if !is_secret_source(&inner) => collect(&name, inner, flat),
            value => {
                flat.insert(name, value);
            }
        }
    }
}

/// `{ env = … }` or `{ file = … }`, rightly or wrongly written.
pub(in crate::scenario) fn is_secret_source(table: &Table) -> bool {
    !table.is_empty() && table.keys().all(|key| key == "env" || key == "file")
}
