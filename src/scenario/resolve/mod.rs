//! Turns the tables of a scenario into the [`Scenario`].
//!
//! [`super::check`] has found every key and value that is wrong by itself. Here is what concerns several keys of a table, or a kind of
//! broker; what concerns several tables is in [`cross_checks`]. Each reader adds a problem for everything it cannot accept, and goes on
//! with a default, so that one reading finds as many problems as possible.

mod broker;
mod consumers;
mod cross_checks;
mod faults;
mod line_sizes;
mod load;
mod payload;
mod pipeline;
mod schema;
mod security;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value as Schema;
use toml::{Table, Value};

pub(super) use self::cross_checks::unmeasured_figure;
use super::Kinds;
use super::advice::list;
use super::check::{Check, Files, is_name, is_secret_source, language_schema, tables_of};
use super::path::{FOREIGN_TABLES, KeyPath};
use super::problem::{OwnKeys, Problems, SourcePosition, Tables};
use super::tables::{
    Load, Output, ProducerMode, Requirements, RunTable, Scenario, ScenarioTables, SchedulingPolicy, SchemaTable,
    Threads, Threshold,
};
use crate::limits::MAX_LATENCY_NS;

/// The histograms of latencies end here: what took longer is only counted.
const MAX_DRAIN: Duration = Duration::from_nanos(MAX_LATENCY_NS);

/// Every key of the language, with its table: `producers.count`.
#[cfg(test)]
pub(crate) fn every_key() -> Vec<String> {
    let tables = tables_of(&super::scenario_schema(Kinds { brokers: &[], sinks: &[], absent: &[], absent_sinks: &[] }));
    tables.iter().flat_map(|(table, keys)| keys.iter().map(move |key| format!("{table}.{key}"))).collect()
}

/// The keys of a broker's own table.
#[cfg(test)]
pub(crate) fn own_keys_of(kind: &str, kinds: Kinds<'_>) -> Vec<String> {
    let broker = Table::from_iter([("kind".to_owned(), kind.into())]);
    let keys = own_keys(&Table::from_iter([("broker".to_owned(), broker.into())]), kinds);
    keys.iter().map(|(key, _)| key.clone()).collect()
}

/// The keys of this name in the brokers' own tables: `broker.kafka.acks`.
pub fn keys_of_brokers(kinds: Kinds<'_>, name: &str) -> Vec<String> {
    let keys = own_keys(&Table::new(), kinds);
    keys.iter().filter(|(key, _)| *key == name).map(|(key, table)| format!("{table}.{key}")).collect()
}

/// The keys of the own tables of the scenario's kind of broker, or of all kinds, each with its table.
pub(super) fn own_keys(scenario: &Table, kinds: Kinds<'_>) -> OwnKeys {
    let written = scenario.get("broker").and_then(|broker| broker.get("kind")).and_then(Value::as_str);
    let of_kind = kinds.brokers.iter().filter(|descriptor| written.is_none_or(|kind| kind == descriptor.kind));
    let each = of_kind.flat_map(|descriptor| {
        let schema = (descriptor.options_schema)();
        let keys = schema.get("properties").and_then(Schema::as_object).cloned().unwrap_or_default();
        keys.into_iter().map(move |(key, _)| (key, format!("broker.{}", descriptor.kind)))
    });
    each.collect()
}

/// What reading depends on besides the text.
pub(super) struct Context<'a> {
    pub kinds: Kinds<'a>,
    /// The schema of a scenario with these kinds.
    pub schema: Schema,
    /// The language's tables with their keys.
    tables: Tables,
    /// The schemas of brokers' and sinks' own tables, by their kinds.
    own_schemas: RefCell<BTreeMap<String, Rc<Schema>>>,
    /// The files that it names.
    pub files: Files<'a>,
    /// The scenario's name where it gives none.
    pub default_name: String,
    /// What is known of the files read as payloads, so that a sweep reads each only once.
    line_files: RefCell<BTreeMap<PathBuf, Result<line_sizes::LineSizes, String>>>,
    /// The schemas that were read, likewise.
    schemas: RefCell<Vec<(SchemaTable, Result<schema::Read, schema::Refusal>)>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(kinds: Kinds<'a>, directory: &'a Path, default_name: String) -> Self {
        let mut schema = language_schema(kinds.names());
        let kind = &mut schema["properties"]["broker"]["properties"]["kind"];
        // An unknown kind gets better advice where it is read.
        kind["enum"].take();
        kind["x-advice"] = format!("it is one of {}", list(kinds.names())).into();
        Context {
            kinds,
            tables: tables_of(&schema).into(),
            schema,
            own_schemas: RefCell::default(),
            files: Files { directory, of_payloads: RefCell::default() },
            default_name,
            line_files: RefCell::default(),
            schemas: RefCell::default(),
        }
    }

    /// Collects the problems of a scenario, with advice on keys in the wrong table.
    pub(super) fn problems(&self, own_keys: &OwnKeys) -> Problems {
        Problems::new(self.tables.clone(), own_keys.clone())
    }

    /// The schema of the own table of a kind of broker or sink.
    fn own_schema(&self, kind: String, schema: fn() -> schemars::Schema) -> Rc<Schema> {
        self.own_schemas.borrow_mut().entry(kind).or_insert_with(|| Rc::new(schema().to_value())).clone()
    }
}

/// A scenario that is read: what is written in it, and where its problems go.
pub(super) struct Reader<'a> {
    pub table: &'a Table,
    pub context: &'a Context<'a>,
    pub problems: &'a Problems,
}

impl Reader<'_> {
    fn has(&self, key: &str) -> bool {
        path(key).is_in(self.table)
    }

    fn refuse(&self, key: &str, message: impl Into<String>, advice: impl Into<String>) {
        self.problems.value(path(key), message, advice);
    }

    /// Refuses `key` for a `reason` that makes sense of its presence.
    fn forbid(&self, key: &str, reason: &str, advice: &str) {
        if self.has(key) {
            self.problems.key(path(key), reason, advice);
        }
    }

    /// Refuses the second of two keys of a table of which only one may be given.
    fn exclusive(&self, table: &str, first: &str, second: &str, advice: &str) {
        let table = path(table);
        let (one, other) = (table.key(first), table.key(second));
        if one.is_in(self.table) && other.is_in(self.table) {
            self.problems.key(other, format!("`{first}` and `{second}` contradict each other"), advice);
        }
    }

    /// A table's key that is needed beside what else the table has.
    fn missing(&self, table: &str, key: &str, advice: &str) {
        if !self.has(&format!("{table}.{key}")) {
            self.problems.missing(&path(table), key, advice);
        }
    }
}

/// A path written in this program.
fn path(key: &str) -> KeyPath {
    KeyPath::parse(key).unwrap_or_default()
}

/// The scenario of one point, and its tables with all defaults. `None` or not, it counts only if no problem was added.
pub(super) fn read(table: &Table, context: &Context<'_>, problems: &Problems) -> Option<(Scenario, ScenarioTables)> {
    let reader = &Reader { table, context, problems };
    let mut checked = table.clone();
    // It is the same for all points, and was checked before.
    checked.remove("sweep");
    Check { files: &context.files, problems, files_exist: true }.table(
        &mut checked,
        &context.schema,
        &[],
        &KeyPath::default(),
    );
    let sinks = sinks_of(&mut checked);
    let mut tables = read_tables(&checked, problems)?;
    let broker = tables.broker.as_ref().and_then(|broker| broker::read(broker, &checked, reader));
    topology(reader, &tables);
    tables.producers.header_sets = load::header_sets(reader, &tables.producers.headers);
    let (payload, sizes) = payload::read(reader, &tables.payload, &tables.topology);
    let (load, pacing) = load::read(reader, &tables.load, sizes);
    if let Some(pipeline) = &mut tables.pipeline {
        pipeline::read(reader, pipeline, &sinks);
    }
    let consumers = consumers::read(reader, tables.consumers.as_ref(), tables.pipeline.as_ref(), sizes);
    let idle_connections = tables.idle_connections.as_ref().map(|table| consumers::idle_connections(reader, table));
    let threads = threads(reader, &tables.run, &load);
    let faults = faults::read(reader, &tables.faults, &tables.run.limits);
    let thresholds = thresholds(reader, &tables);
    if !reader.has("consumers") {
        let advice = "remove it, or add a [consumers] table";
        reader.forbid("distribution.readers", "nothing is consumed, so no rank can be a reader", advice);
    }
    if !problems.is_empty() {
        return None;
    }
    let (config, descriptor) = broker?;
    let scenario = Scenario {
        name: tables.name.clone().unwrap_or_else(|| context.default_name.clone()),
        broker: config,
        watch: tables.broker.as_ref().map(|broker| broker.watch.clone()).unwrap_or_default(),
        topology: tables.topology.clone(),
        producers: tables.producers.clone(),
        load,
        pacing,
        payload,
        consumers,
        idle_connections,
        pipeline: tables.pipeline.clone(),
        run: tables.run.limits.clone(),
        faults,
        threads,
        thresholds,
        when_invalid: tables.thresholds.when_invalid,
        output: output(&tables),
        distribution: tables.distribution.clone(),
        part: None,
    };
    let scenario = cross_checks::settle(scenario, reader, descriptor);
    tables.settle(&scenario);
    Some((scenario, tables))
}

/// Takes out the sinks, whose keys are their kinds' own.
fn sinks_of(scenario: &mut Table) -> Vec<Value> {
    let pipeline = scenario.get_mut("pipeline").and_then(Value::as_table_mut);
    match pipeline.and_then(|pipeline| pipeline.remove("sinks")) {
        Some(Value::Array(sinks)) => sinks,
        _ => Vec::new(),
    }
}

fn read_tables(checked: &Table, problems: &Problems) -> Option<ScenarioTables> {
    let tables = Value::Table(checked.clone()).try_into();
    // What the check has let through can be read, unless the check has a gap.
    let refuse = |error: toml::de::Error| {
        problems.add(SourcePosition::Value(KeyPath::default()), error.message(), None);
    };
    tables.map_err(refuse).ok()
}

/// The name and output alone, which are the same for all points.
pub(super) fn identity(table: &Table, context: &Context<'_>) -> (String, Output) {
    let identity = ["name", "output"].iter().filter_map(|key| Some(((*key).to_owned(), table.get(*key)?.clone())));
    let tables = Value::Table(identity.collect()).try_into::<ScenarioTables>().unwrap_or_default();
    (tables.name.clone().unwrap_or_else(|| context.default_name.clone()), output(&tables))
}

fn output(tables: &ScenarioTables) -> Output {
    let mut output = tables.output.clone();
    output.formats.sort_unstable();
    output.formats.dedup();
    output
}

fn topology(reader: &Reader<'_>, tables: &ScenarioTables) {
    let table = &tables.topology;
    // Without producers, topics are taken as they are as well.
    let is_taken =
        table.existing || tables.pipeline.as_ref().is_some_and(|pipeline| pipeline.producer_mode == ProducerMode::None);
    if let Some(name) = &table.name {
        if is_taken && !is_existing_name(name) {
            let advice = "a name has 1 to 255 bytes, without control characters";
            reader.refuse("topology.name", "this cannot name a topic", advice);
        } else if !is_taken && !is_name(name) {
            let advice = "use 1 to 100 letters, digits, dots, hyphens and underscores; a topic of another name can be \
                          used with `topology.existing = true`";
            reader.refuse("topology.name", format!("\"{name}\" cannot name a topic"), advice);
        }
    }
    if table.existing {
        for key in ["partitions", "replication", "keep", "config"] {
            let reason = format!("`{key}` has no effect on topics that exist");
            reader.forbid(&format!("topology.{key}"), &reason, "remove it, or `existing`");
        }
        if !reader.has("topology.name") {
            reader.refuse("topology.existing", "topics that exist have a name", "set `topology.name`");
        }
    }
}

/// Whether any broker may have a topic of this name. Kafka's have up to 249 letters of few kinds, and RabbitMQ's streams up to 255 bytes of
/// any kind: which of them a broker has, it says itself.
fn is_existing_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// The threads that carry the load.
fn threads(reader: &Reader<'_>, table: &RunTable, load: &Load) -> Threads {
    if table.limits.drain_deadline >= MAX_DRAIN {
        let advice = "set it below 10m: longer latencies are not recorded";
        reader.refuse("run.drain_deadline", "`run.drain_deadline` is too long", advice);
    }
    let scheduling_policy = table.scheduling_policy.unwrap_or_else(|| SchedulingPolicy::for_load(load));
    Threads { count: table.threads, scheduling_policy }
}

fn thresholds(reader: &Reader<'_>, tables: &ScenarioTables) -> Vec<Threshold> {
    if reader.has("thresholds.when_invalid") {
        let advice = "`when_invalid` does nothing without it: write `require = [\"p99 < 10ms\"]`";
        reader.missing("thresholds", "require", advice);
    }
    let each = match &tables.thresholds.require {
        None => &[][..],
        Some(Requirements::One(one)) => std::slice::from_ref(one),
        Some(Requirements::Several(all)) => all.as_slice(),
    };
    each.iter().filter_map(|one| Threshold::parse(&one.0).ok()).collect()
}

/// Joins the dotted keys of every table of properties: `linger.ms = 5` and `"linger.ms" = 5` become the same. Returns a key that is written
/// both ways, if there is one.
pub(super) fn flatten_properties(scenario: &mut Table) -> Option<KeyPath> {
    let mut doubled = None;
    for table in FOREIGN_TABLES {
        let [section, name] = table else { continue };
        let inner = scenario.get_mut(*section).and_then(Value::as_table_mut).and_then(|table| table.get_mut(*name));
        if let Some(Value::Table(properties)) = inner {
            doubled = doubled.or(flatten(properties).map(|key| KeyPath::from_keys(table).key(&key)));
        }
    }
    let consumers = scenario.get_mut("consumers").and_then(Value::as_table_mut);
    let groups = consumers.and_then(|consumers| consumers.get_mut("group")).and_then(Value::as_array_mut);
    for (index, group) in groups.into_iter().flatten().enumerate() {
        if let Some(Value::Table(properties)) = group.get_mut("properties") {
            let table = path("consumers.group").index(index).key("properties");
            doubled = doubled.or(flatten(properties).map(|key| table.key(&key)));
        }
    }
    doubled
}

fn flatten(properties: &mut Table) -> Option<String> {
    let (mut flat, mut doubled) = (Table::new(), None);
    collect("", std::mem::take(properties), &mut flat, &mut doubled);
    *properties = flat;
    doubled
}

fn collect(prefix: &str, table: Table, flat: &mut Table, doubled: &mut Option<String>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            // An empty table stays, and is refused as a value.
            Value::Table(inner) if !inner.is_empty() && !is_secret_source(&inner) => {
                collect(&name, inner, flat, doubled);
            }
            value => {
                if flat.insert(name.clone(), value).is_some() {
                    *doubled = Some(name);
                }
            }
        }
    }
}
