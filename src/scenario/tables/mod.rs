//! The tables of the scenario language, as they are written: one field for each key.
//!
//! A field's documentation, type, default and range are the reference of its key: the JSON Schema is derived from them, and
//! `super::check` checks a scenario against that schema before it becomes one of these types. What concerns several keys is checked
//! where a table becomes a part of the [`super::Scenario`].
//!
//! Beside what JSON Schema has, a schema here may have `x-wanted`, what a value should be, and `x-advice`, how to write it.

mod broker;
mod consumers;
mod load;
mod quantities;
mod run;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::broker::*;
pub use self::consumers::*;
pub use self::load::*;
pub use self::quantities::{ByteSize, Count, DurationText, Properties, Rate, RateOrRest, duration, size};
pub use self::run::*;
use super::{Content, Kinds, Load, RankRoles, Scenario};

/// A scenario of brokermark: a broker, the load on it, and what is measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields, title = "brokermark scenario")]
pub struct ScenarioTables {
    /// Name of the run's directory and of its topics. Default: the file's name without its ending.
    #[schemars(extend("format" = "name"))]
    pub name: Option<String>,
    /// Broker to load, its addresses and its settings.
    #[schemars(extend("x-advice" = "say which broker to load, as in `[broker]` with `kind = \"kafka\"`"))]
    pub broker: Option<BrokerTable>,
    /// Topics of a trial.
    pub topology: TopologyTable,
    /// Producers, their windows, keys and headers.
    pub producers: ProducersTable,
    /// Load model, its schedule and its pacing. Default: a closed loop.
    pub load: LoadTable,
    /// Content and size of messages.
    pub payload: PayloadTable,
    /// Consumers, and what they record and verify. Without the table nothing is consumed.
    pub consumers: Option<ConsumersTable>,
    /// Consumers that parse what they receive and write it to databases.
    pub pipeline: Option<PipelineTable>,
    /// Length of a trial, its deadlines, and its threads.
    pub run: RunTable,
    /// Swept keys and repeated trials: one scenario becomes many.
    pub sweep: SweepTable,
    /// Requirements that decide the exit code.
    pub thresholds: ThresholdsTable,
    /// Directory and formats of results.
    pub output: OutputTable,
    /// Processes that run producers, and those that run consumers, where several run the scenario.
    pub distribution: RankRoles,
}

impl ScenarioTables {
    /// Sets what a scenario leaves out and other keys decide.
    pub(super) fn settle(&mut self, scenario: &Scenario) {
        let count = |amount: usize| Some(Count(amount as u64));
        if let Some(broker) = &mut self.broker {
            broker.client = scenario.broker.client.map(str::to_owned);
            broker.connections = Count(scenario.broker.connections as u64);
        }
        self.producers.in_flight = count(scenario.producers.in_flight);
        self.load.model = Some(if scenario.load == Load::Closed { LoadKind::Closed } else { LoadKind::Open });
        let content = &scenario.payload.content;
        if matches!(content, Content::Zeros { .. } | Content::Random { .. } | Content::MessagePack { .. }) {
            self.payload.size.get_or_insert(DEFAULT_SIZE);
        }
        self.payload.pool = count(scenario.payload.pool);
        self.run.scheduling_policy = Some(scenario.threads.scheduling_policy);
        if let Some(consumers) = &scenario.consumers {
            let table = self.consumers.get_or_insert_default();
            table.members = count(consumers.members);
            table.verify = consumers.verify;
            if table.group.is_none() {
                table.groups = count(consumers.groups.len());
            }
        }
        self.topology.existing = scenario.topology.existing;
    }

    /// The keys that a scenario leaves out, with the values that they have: `producers.count` is 1.
    pub(super) fn defaults(&self, written: &Value) -> BTreeMap<String, Value> {
        let mut defaults = BTreeMap::new();
        if let Ok(all) = serde_json::to_value(self) {
            collect_absent("", &all, written, &mut defaults);
        }
        if self.topology.existing {
            // Those of the topics are as they were found.
            defaults.retain(|key, _| {
                !["topology.partitions", "topology.replication", "topology.keep"].contains(&key.as_str())
            });
        }
        defaults
    }

    /// The tables of a record: its scenario as written, with the defaults that it tells. A table that is of another version of the language
    /// has its defaults.
    pub fn of_record(scenario: &Value, defaults: &BTreeMap<String, Value>) -> Self {
        let mut scenario = scenario.clone();
        for (key, value) in defaults {
            insert(&mut scenario, key, value);
        }
        let is_readable = |key: &str, value: &Value| serde_json::from_value::<Self>(json!({ key: value })).is_ok();
        if let Some(tables) = scenario.as_object_mut() {
            tables.retain(|key, value| is_readable(key, value));
        }
        serde_json::from_value(scenario).unwrap_or_default()
    }
}

/// Sets a key, unless it is written already or leads through something that is not a table.
fn insert(scenario: &mut Value, key: &str, value: &Value) {
    let mut place = scenario;
    for step in key.split('.') {
        let Some(table) = place.as_object_mut() else { return };
        place = table.entry(step).or_insert_with(|| json!({}));
    }
    if place.as_object().is_some_and(|table| table.is_empty()) {
        *place = value.clone();
    }
}

fn collect_absent(prefix: &str, all: &Value, written: &Value, found: &mut BTreeMap<String, Value>) {
    for (key, value) in all.as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (value, written.get(key)) {
            (Value::Null, _) => {}
            (Value::Object(table), _) if table.is_empty() => {}
            (Value::Array(list), None) if list.is_empty() => {}
            (Value::Object(_), inner) if inner.is_none_or(Value::is_object) => {
                collect_absent(&path, value, inner.unwrap_or(&Value::Null), found);
            }
            (value, None) => _ = found.insert(path, value.clone()),
            _ => {}
        }
    }
}

/// The size of payloads where the scenario gives none.
const DEFAULT_SIZE: SizeTable = SizeTable::Fixed(PayloadSize(ByteSize(100)));

/// The schema of a type, without references, so that it can stand anywhere.
pub fn schema_of<T: JsonSchema>() -> Schema {
    // Editors' checkers know this version.
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    tidy(&mut schema);
    schema
}

/// Leaves out what says nothing, and writes the defaults of durations as a scenario does.
fn tidy(schema: &mut Schema) {
    schemars::transform::transform_subschemas(&mut tidy, schema);
    let Some(default) = schema.get("default") else { return };
    let duration = (default.get("secs").and_then(Value::as_u64), default.get("nanos").and_then(Value::as_u64));
    let is_table = default.is_object();
    match duration {
        (Some(seconds), Some(nanoseconds)) => {
            let duration = std::time::Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0));
            schema.insert("default".to_owned(), super::units::format_duration(duration).into());
        }
        _ if is_table || default.is_null() => _ = schema.remove("default"),
        _ => {}
    }
}

/// The schema of a scenario, in which the own tables of these kinds of brokers, and those of sinks, are left open.
pub(super) fn language_schema(kinds: Vec<&str>) -> Value {
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
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema
}

/// The tables of a schema by their names, with their keys: those at the top, and those of `broker`.
pub(super) fn tables_of(schema: &Value) -> Vec<(String, Vec<String>)> {
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
