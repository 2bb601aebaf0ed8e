//! The JSON Schema of the language: that of its tables, completed by the kinds of brokers and sinks of a build.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::scenario::Kinds;
use crate::scenario::advice::list;
use crate::scenario::tables::{FORMATS, Format, ScenarioTables, schema_of};

/// The schema of a scenario, in which the own tables of these kinds of brokers, and those of sinks, are left open.
pub(in crate::scenario) fn language_schema(kinds: Vec<&str>) -> Value {
    static LANGUAGE: LazyLock<Value> = LazyLock::new(|| schema_of::<ScenarioTables>().to_value());
    let mut schema = LANGUAGE.clone();
    schema["required"] = json!(["broker"]);
    let broker = &mut schema["properties"]["broker"]["properties"];
    broker["kind"]["enum"] = json!(kinds);
    kinds.iter().for_each(|kind| broker[*kind] = json!({ "x-own": true }));
    schema["properties"]["pipeline"]["properties"]["sinks"]["items"] = json!({ "x-own": true });
    schema
}

/// The schema of a scenario with the tables of these kinds of brokers and sinks.
pub fn scenario_schema(kinds: Kinds<'_>) -> Value {
    let mut schema = language_schema(kinds.names());
    let broker = &mut schema["properties"]["broker"]["properties"];
    for kind in kinds.names() {
        let of_kind = kinds.brokers.iter().filter(|descriptor| descriptor.kind == kind);
        let mut tables: Vec<Value> = of_kind.map(|descriptor| (descriptor.options_schema)().to_value()).collect();
        tables.dedup();
        let mut table = if tables.len() > 1 { json!({ "anyOf": tables }) } else { tables.remove(0) };
        table["x-own"] = true.into();
        broker[kind] = table;
    }
    let sinks = kinds.sinks.iter().map(|descriptor| {
        let mut sink = (descriptor.options_schema)().to_value();
        sink["properties"]["kind"] = json!({ "type": "string", "const": descriptor.kind });
        match sink["required"].as_array_mut() {
            Some(required) => required.push("kind".into()),
            None => sink["required"] = json!(["kind"]),
        }
        sink
    });
    let sinks: Vec<Value> = sinks.collect();
    let sinks = if sinks.is_empty() { json!({ "not": {} }) } else { json!({ "anyOf": sinks }) };
    let items = &mut schema["properties"]["pipeline"]["properties"]["sinks"]["items"];
    *items = sinks;
    items["x-own"] = true.into();
    // A check tells of it where the credentials are read, with all else that is wrong with them.
    schema["properties"]["broker"]["properties"]["security"]["properties"]["sasl"]["required"] = json!(["mechanism"]);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema
}

/// The tables of a schema by their names, with their keys: those at the top, and those of `broker`.
pub(in crate::scenario) fn tables_of(schema: &Value) -> Vec<(String, Vec<String>)> {
    let mut tables = Vec::new();
    collect_tables("", schema, &mut tables);
    tables
}

fn collect_tables(prefix: &str, schema: &Value, found: &mut Vec<(String, Vec<String>)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let all = alternatives(property);
        let tables: Vec<&Value> = all.into_iter().filter(|one| one["properties"].is_object()).collect();
        let [table] = tables.as_slice() else { continue };
        let keys = table["properties"].as_object().into_iter().flat_map(|keys| keys.keys().cloned());
        let keys = keys.filter(|key| table["properties"][key.as_str()].get("x-own").is_none());
        found.push((path.clone(), keys.collect()));
        if path == "broker" || prefix.starts_with("broker") {
            collect_tables(&path, table, found);
        }
    }
}

/// The schemas of which one is to hold: those of a union without `null`, or the schema itself.
pub(super) fn alternatives(schema: &Value) -> Vec<&Value> {
    let union = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    match union {
        Some(union) => union.iter().flat_map(alternatives).filter(|one| one["type"] != "null").collect(),
        None => vec![schema],
    }
}

/// The words that a schema allows.
pub(super) fn words(schema: &Value) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    listed.chain(schema.get("const")).filter_map(Value::as_str).collect()
}

pub(super) fn format_of(schema: &Value) -> &str {
    schema.get("format").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn known_format(schema: &Value) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == format_of(schema))
}

/// Whether a value has the type that the schema asks for.
pub(super) fn has_type(schema: &Value, value: &toml::Value) -> bool {
    let types: &[&str] = match value {
        toml::Value::String(_) => &["string"],
        toml::Value::Integer(_) => &["integer", "number"],
        toml::Value::Float(_) => &["number"],
        toml::Value::Boolean(_) => &["boolean"],
        toml::Value::Array(_) => &["array"],
        toml::Value::Table(_) => &["object"],
        toml::Value::Datetime(_) => &[],
    };
    match schema.get("type") {
        None => true,
        Some(Value::Array(all)) => all.iter().any(|one| types.iter().any(|name| one == name)),
        Some(one) => types.iter().any(|name| one == name),
    }
}

/// What a value should be, for a sentence.
pub(super) fn wanted(schema: &Value) -> String {
    if let Some(wanted) = extra(schema, "x-wanted") {
        return wanted.to_owned();
    }
    let all = alternatives(schema);
    let all_words: Vec<&str> = all.iter().flat_map(|&one| words(one)).collect();
    let mut found: Vec<String> = Vec::new();
    if !all_words.is_empty() {
        found.push(if all_words.len() == 1 {
            format!("`{}`", all_words[0])
        } else {
            format!("one of {}", list(all_words))
        });
    }
    for one in all.iter().filter(|one| words(one).is_empty()) {
        let kind = one["type"].as_str().or_else(|| one["type"][0].as_str());
        let text = match (known_format(one), kind) {
            (Some(format), _) => format.wanted,
            (None, Some("object")) => "a table",
            (None, Some("array")) => "a list",
            (None, Some("boolean")) => "true or false",
            (None, Some("integer")) => "a whole number",
            (None, Some("number")) => "a number",
            _ => "a string",
        };
        if !found.iter().any(|known| known == text) {
            found.push(text.to_owned());
        }
    }
    found.join(" or ")
}

pub(super) fn advice_of(schema: &Value) -> Option<&str> {
    extra(schema, "x-advice")
}

/// What a schema says beside JSON Schema's own keywords, or a schema in its union.
fn extra<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    let own = schema.get(key).and_then(Value::as_str);
    own.or_else(|| {
        let union = ["oneOf", "anyOf"].iter().find_map(|union| schema.get(*union)?.as_array());
        union.into_iter().flatten().find_map(|one| extra(one, key))
    })
}
