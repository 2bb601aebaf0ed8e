//! `[pipeline]`: consumers that parse what they receive and write it to databases.

use std::time::Duration;

use toml::{Table, Value};

use super::{Context, options};
use crate::scenario::fields::{Field, Fields};
use crate::scenario::suggestion::{closest, list};
use crate::scenario::{CommitPolicy, Parse, Pipeline, ProducerMode, Sink, SinkNeeds, SinksRun};

/// Without the keys of each sink, which are its kind's own.
pub(super) const KEYS: &[&str] = &[
    "parse",
    "timestamp",
    "broker_timestamp",
    "batch",
    "linger",
    "writers",
    "instances",
    "group",
    "sinks_run",
    "commit",
    "producer_mode",
    "wait_for_sinks",
    "remove_rows",
    "sinks",
];

/// Beyond it a batch would be one of the host's memory.
const MAX_BATCH: usize = 1_000_000;
const MAX_WRITERS: usize = 10_000;
const MAX_INSTANCES: usize = 10_000;

pub(super) fn read(root: &Fields<'_>, context: &Context<'_>) -> Option<Pipeline> {
    let fields = root.get("pipeline")?.fields(KEYS)?;
    let amount = |key: &str, most: usize, default: usize| {
        fields.get(key).and_then(|field| field.amount(1, most)).unwrap_or(default)
    };
    let flag = |key: &str| fields.get(key).and_then(|field| field.boolean()).unwrap_or(false);
    let parse = [("json", Parse::Json), ("none", Parse::None)];
    let parse = fields.get("parse").and_then(|field| field.one_of(&parse)).unwrap_or(Parse::Json);
    let order = [("in-order", SinksRun::InOrder), ("in-parallel", SinksRun::InParallel)];
    let commits = [("after-write", CommitPolicy::AfterWrite), ("on-receipt", CommitPolicy::OnReceipt)];
    let feeds =
        [("concurrent", ProducerMode::Concurrent), ("backlog", ProducerMode::Backlog), ("none", ProducerMode::None)];
    let timestamp = fields.get("timestamp").and_then(|field| {
        let name = field.string()?.to_owned();
        if parse == Parse::None {
            field
                .refuse("`pipeline.parse = \"none\"` reads no fields", "remove it, or set `pipeline.parse = \"json\"`");
        }
        Some(name)
    });
    let broker_timestamp = fields.get("broker_timestamp").and_then(|field| {
        let wanted = field.boolean()?;
        if wanted && timestamp.is_some() {
            field.refuse("`pipeline.timestamp` already names the field with the time", "remove one of them");
        }
        Some(wanted)
    });
    Some(Pipeline {
        parse,
        timestamp,
        broker_timestamp: broker_timestamp.unwrap_or(false),
        batch: amount("batch", MAX_BATCH, 3000),
        linger: fields.get("linger").and_then(|field| field.duration()).unwrap_or(Duration::from_millis(50)),
        writers: amount("writers", MAX_WRITERS, 2),
        instances: amount("instances", MAX_INSTANCES, 1),
        group: group(&fields),
        sinks_run: fields.get("sinks_run").and_then(|field| field.one_of(&order)).unwrap_or(SinksRun::InOrder),
        commit: fields.get("commit").and_then(|field| field.one_of(&commits)).unwrap_or(CommitPolicy::AfterWrite),
        producer_mode: fields
            .get("producer_mode")
            .and_then(|field| field.one_of(&feeds))
            .unwrap_or(ProducerMode::Concurrent),
        wait_for_sinks: flag("wait_for_sinks"),
        remove_rows: flag("remove_rows"),
        sinks: sinks(&fields, parse, context),
    })
}

fn group(fields: &Fields<'_>) -> Option<String> {
    let field = fields.get("group")?;
    let name = field.string()?;
    if !super::is_name(name) {
        field.refuse(format!("\"{name}\" cannot name a group"), "use letters, digits, dots, hyphens, underscores");
    }
    Some(name.to_owned())
}

fn sinks(fields: &Fields<'_>, parse: Parse, context: &Context<'_>) -> Vec<Sink> {
    let Some(field) = fields.get("sinks") else { return Vec::new() };
    // No sinks are a way to measure what reading and parsing cost.
    if field.value.as_array().is_some_and(Vec::is_empty) {
        return Vec::new();
    }
    let each = field.elements("write `[[pipeline.sinks]]` with a `kind` for each database").unwrap_or_default();
    each.iter().filter_map(|field| one(field, parse, context)).collect()
}

fn one(field: &Field<'_>, parse: Parse, context: &Context<'_>) -> Option<Sink> {
    let Value::Table(table) = field.value else {
        field.refuse(format!("`{}` should be a table", field.path), "write `[[pipeline.sinks]]` with a `kind`");
        return None;
    };
    let kinds = || context.kinds.sinks.iter().map(|descriptor| descriptor.kind);
    let Some(kind) = table.get("kind") else {
        let message = format!("`kind` is missing in `{}`", field.path);
        field.refuse(message, format!("this build knows {}", list(kinds())));
        return None;
    };
    let kind = Field { value: kind, path: field.path.key("kind"), problems: field.problems };
    let written = kind.string()?;
    let Some(descriptor) = context.kinds.sink(written) else {
        let advice = match closest(written, kinds()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if context.kinds.sinks.is_empty() => "this build has no sinks".to_owned(),
            None => format!("this build knows {}", list(kinds())),
        };
        kind.refuse(format!("unknown kind of sink \"{written}\""), advice);
        return None;
    };
    let mut own = table.clone();
    own.remove("kind");
    let own = options::with_files_found(own, descriptor.files, context);
    let needs = (descriptor.check_options)(own.clone()).unwrap_or_else(|error| {
        let check = |table: Table| (descriptor.check_options)(table).map(drop);
        options::refuse(&own, &field.path, field.problems, &check, &error);
        SinkNeeds::default()
    });
    if parse == Parse::None && !needs.fields.is_empty() {
        let message = format!(
            "a sink of kind `{written}` needs {} of every message",
            list(needs.fields.iter().map(String::as_str))
        );
        field.refuse(message, "let `pipeline.parse` be \"json\"");
    }
    Some(Sink { kind: written.to_owned(), options: own, needs })
}
