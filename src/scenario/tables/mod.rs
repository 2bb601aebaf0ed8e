//! The tables of the scenario language, one field for each key, and the [`Scenario`] that they become.
//!
//! A field's documentation, type, default and range are the reference of its key: the JSON Schema is derived from them, and
//! `super::check` checks a scenario against that schema before it becomes one of these types. What concerns several keys is checked
//! in `super::resolve`. Most tables are then parts of the [`Scenario`] as they are. The types named `…Table` are those of which
//! something else is made.
//!
//! The other modules (load, broker, engine) work on a [`Scenario`] only and may rely on what its docs promise: counts are never zero,
//! shares lie within their bounds, and what depends on another value agrees with it.
//!
//! Beside what JSON Schema has, a schema here may have `x-wanted`, what a value should be, and `x-advice`, how to write it.

mod broker;
mod consumers;
mod distribution;
mod faults;
mod idle_connections;
mod load;
mod payload;
mod pipeline;
mod quantities;
mod run;
mod share;
pub mod template;
mod threshold;
pub mod units;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::broker::*;
pub use self::consumers::*;
pub use self::distribution::*;
pub use self::faults::*;
pub use self::idle_connections::*;
pub use self::load::*;
pub use self::payload::*;
pub use self::pipeline::*;
pub use self::quantities::{ByteSize, Count, DurationText, Properties, Rate, RateOrRest, duration, fraction, size};
pub(super) use self::quantities::{FORMATS, Format};
pub use self::run::*;
pub use self::share::*;
pub use self::threshold::*;

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
    pub topology: Topology,
    /// Producers, their windows, keys and headers.
    pub producers: Producers,
    /// Load model, its schedule and its pacing. Default: a closed loop.
    pub load: LoadTable,
    /// Content and size of messages.
    pub payload: PayloadTable,
    /// Consumers, and what they record and verify. Without the table nothing is consumed.
    pub consumers: Option<ConsumersTable>,
    /// Connections without messages. Without the table there are none.
    pub idle_connections: Option<IdleConnectionsTable>,
    /// Consumers that parse what they receive and write it to databases.
    pub pipeline: Option<Pipeline>,
    /// Length of a trial, its deadlines, and its threads.
    pub run: RunTable,
    /// Commands that break something while the load runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultTable>,
    /// Swept keys and repeated trials: one scenario becomes many.
    pub sweep: SweepTable,
    /// Requirements that decide the exit code.
    pub thresholds: ThresholdsTable,
    /// Directory and formats of results.
    pub output: Output,
    /// Processes that run producers, and those that run consumers, where several run the scenario.
    pub distribution: RankRoles,
}

impl ScenarioTables {
    /// Sets what a scenario leaves out and other keys decide.
    pub(super) fn settle(&mut self, scenario: &Scenario) {
        if let Some(broker) = &mut self.broker {
            broker.client = scenario.broker.client.map(str::to_owned);
            broker.connections = scenario.broker.connections;
        }
        self.topology.existing = scenario.topology.existing;
        self.producers.in_flight = scenario.producers.in_flight;
        self.load.model = Some(if scenario.load == Load::Closed { LoadKind::Closed } else { LoadKind::Open });
        let content = &scenario.payload.content;
        if matches!(content, Content::Zeros { .. } | Content::Random { .. } | Content::MessagePack { .. }) {
            self.payload.size.get_or_insert(DEFAULT_SIZE);
        }
        self.payload.pool = Some(scenario.payload.pool);
        self.run.scheduling_policy = Some(scenario.threads.scheduling_policy);
        if let Some(consumers) = &scenario.consumers {
            let table = self.consumers.get_or_insert_default();
            table.members = Some(consumers.members);
            table.verify = consumers.verify;
            if table.group.is_none() {
                table.groups = Some(consumers.groups.len());
            }
        }
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
    pub fn from_record(scenario: &Value, defaults: &BTreeMap<String, Value>) -> Self {
        let mut scenario = scenario.clone();
        for (key, value) in defaults {
            insert(&mut scenario, key, value);
        }
        if let Some(tables) = scenario.as_object_mut() {
            tables.retain(|key, value| Self::from_json(&json!({ key: value })).is_some());
        }
        Self::from_json(&scenario).unwrap_or_default()
    }

    /// Through TOML, so that the tables are compiled for the reading of one format only.
    fn from_json(scenario: &Value) -> Option<Self> {
        toml::Value::try_from(scenario).ok()?.try_into().ok()
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
    // No list of one or more begins as an empty one.
    let is_empty = default.as_array().is_some_and(Vec::is_empty) && schema.get("minItems").is_some();
    let is_table = default.is_object();
    match duration {
        (Some(seconds), Some(nanoseconds)) => {
            let duration = Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0));
            schema.insert("default".to_owned(), units::format_duration(duration).into());
        }
        _ if is_table || is_empty || default.is_null() => _ = schema.remove("default"),
        _ => {}
    }
}

/// One fully described load: a scenario file with its overrides applied, at one point of its sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Names the run directory and the topics; `[a-zA-Z0-9._-]`, not empty.
    pub name: String,
    pub broker: BrokerConfig,
    /// Where the CPU and memory of the broker's processes are read.
    pub watch: Watch,
    pub topology: Topology,
    pub producers: Producers,
    pub load: Load,
    /// How producers of an open loop are woken.
    pub pacing: Pacing,
    pub payload: Payload,
    /// `None`: nothing is consumed, so nothing can be verified and no end-to-end latency is known.
    pub consumers: Option<Consumers>,
    /// Connections that carry no messages; `None`: there are none.
    pub idle_connections: Option<IdleConnections>,
    /// What the consumers do with what they receive; `None`: they only look at it. With one, there are consumers of one
    /// group.
    pub pipeline: Option<Pipeline>,
    pub run: RunLimits,
    /// In the order of their times.
    pub faults: Vec<Fault>,
    pub threads: Threads,
    /// What must hold for the run to exit with 0.
    pub thresholds: Vec<Threshold>,
    /// What a record whose figures cannot be trusted means where thresholds are set.
    pub when_invalid: WhenInvalid,
    pub output: Output,
    /// Which processes run producers and consumers, where several run the scenario.
    pub distribution: RankRoles,
    /// Where this is a part of a scenario that several processes run: which.
    pub part: Option<Part>,
}

impl Scenario {
    /// Whether what is sent is kept outside of this process.
    pub fn is_stored(&self) -> bool {
        !self.broker.addresses.is_empty() && !self.broker.is_embedded()
    }

    /// What a message with a payload of this size takes on the broker's disks, in bytes.
    pub fn stored_bytes(&self, payload_bytes: f64) -> f64 {
        (payload_bytes * f64::from(self.topology.replication)).max(1.0)
    }
}

/// The swept keys of one point with their values, as TOML.
pub type Point = BTreeMap<String, toml::Value>;

/// What a scenario expands to: its trials in the order in which they run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: String,
    /// The scenario as run: overrides applied, secrets masked.
    pub text: String,
    pub output: Output,
    /// The files that payloads are made from, by the path that the scenario has: what is in them is as much a part of the
    /// load as its text.
    pub payload_files: BTreeMap<String, PathBuf>,
    /// Between two trials.
    pub pause: Duration,
    /// When a point needs no further trial; `None`: all of them run.
    pub until: Option<Until>,
    pub trials: Vec<Trial>,
}

/// One execution of one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Index among the points of the sweep, from 0, in the order of the sweep.
    pub point_index: usize,
    pub point: Point,
    /// Which repetition of the point, from 1.
    pub trial: u32,
    pub scenario: Scenario,
    /// This point's scenario as JSON, secrets masked: what the record carries.
    pub document: Value,
    /// The keys that it leaves out, with the values that they have.
    pub defaults: BTreeMap<String, Value>,
}
