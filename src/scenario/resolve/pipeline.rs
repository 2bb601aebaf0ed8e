//! `[pipeline]`: consumers that parse what they receive and write it to databases, and what they ask of the broker and of the run.

use toml::Value;

use super::broker::own_table;
use super::{Reader, path};
use crate::scenario::advice::{closest, list};
use crate::scenario::check::is_name;
use crate::scenario::kind::Descriptor;
use crate::scenario::tables::{CommitPolicy, Content, Parse, Payload, Pipeline, ProducerMode, Scenario, Sink};

/// Completes the pipeline with its `sinks`, as they are written. No sinks are a way to measure what reading and parsing cost.
pub(super) fn read(reader: &Reader<'_>, table: &mut Pipeline, sinks: &[Value]) {
    if table.timestamp.is_some() && table.parse == Parse::None {
        let advice = "remove it, or set `pipeline.parse = \"json\"`";
        reader.refuse("pipeline.timestamp", "`pipeline.parse = \"none\"` reads no fields", advice);
    }
    if table.broker_timestamp && table.timestamp.is_some() {
        let message = "`pipeline.timestamp` already names the field with the time";
        reader.refuse("pipeline.broker_timestamp", message, "remove one of them");
    }
    if let Some(name) = table.group.as_ref().filter(|name| !is_name(name)) {
        let advice = "use letters, digits, dots, hyphens, underscores";
        reader.refuse("pipeline.group", format!("\"{name}\" cannot name a group"), advice);
    }
    let sinks = sinks.iter().enumerate();
    table.sinks = sinks.filter_map(|(index, value)| sink(reader, index, value, table.parse)).collect();
}

fn sink(reader: &Reader<'_>, index: usize, value: &Value, parse: Parse) -> Option<Sink> {
    let place = path("pipeline.sinks").index(index);
    let sinks = reader.context.kinds.sinks;
    let known = || list(sinks.iter().map(|descriptor| descriptor.kind));
    let refuse = |message: String, advice: &str| reader.problems.value(place.clone(), message, advice);
    let Value::Table(table) = value else {
        refuse(format!("`{place}` should be a table"), "write `[[pipeline.sinks]]` with a `kind`");
        return None;
    };
    let Some(kind) = table.get("kind") else {
        refuse(format!("`kind` is missing in `{place}`"), &format!("this build knows {}", known()));
        return None;
    };
    let written = kind.as_str().unwrap_or_default();
    if let Some(absent) = reader.context.kinds.absent_sink(written) {
        let message = format!("this build does not have the sink \"{written}\"");
        reader.problems.value(place.key("kind"), message, absent.remedy());
        return None;
    }
    let Some(descriptor) = reader.context.kinds.sink(written) else {
        let advice = match closest(written, sinks.iter().map(|descriptor| descriptor.kind)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if sinks.is_empty() => "this build has no sinks".to_owned(),
            None => format!("this build knows {}", known()),
        };
        let message = format!(
            "unknown kind of sink {}",
            if written.is_empty() { kind.to_string() } else { format!("\"{written}\"") }
        );
        reader.problems.value(place.key("kind"), message, advice);
        return None;
    };
    let mut own = table.clone();
    own.remove("kind");
    let mut own = Value::Table(own);
    let schema = reader.context.own_schema(format!("sinks/{written}"), descriptor.options_schema);
    own_table(&mut own, &place, &schema, reader, &|table| (descriptor.check_options)(table).map(drop));
    let options = own.as_table().cloned().unwrap_or_default();
    let needs = (descriptor.check_options)(options.clone()).unwrap_or_default();
    if parse == Parse::None && !needs.fields.is_empty() {
        let fields = list(needs.fields.iter().map(String::as_str));
        let message = format!("a sink of kind `{written}` needs {fields} of every message");
        refuse(message, "let `pipeline.parse` be \"json\"");
    }
    Some(Sink { kind: written.to_owned(), options, needs })
}

/// What a pipeline asks of its broker and of the run.
pub(super) fn check(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let Some(pipeline) = &scenario.pipeline else { return };
    let title = descriptor.title();
    let can = descriptor.capabilities.offsets;
    if pipeline.commit == CommitPolicy::AfterWrite && !can {
        let message = format!("{title} has no offsets to commit after writing");
        let key = if reader.has("pipeline.commit") { "pipeline.commit" } else { "pipeline" };
        let advice = "set `pipeline.commit = \"on-receipt\"`; a crash then loses messages";
        reader.refuse(key, message, descriptor.advise(advice));
    }
    for (index, sink) in pipeline.sinks.iter().enumerate() {
        if sink.needs.offsets && !can {
            let message = format!("messages from {title} have no offsets to make document ids from");
            let advice = descriptor.advise("set `document_id = \"generated\"`");
            reader.refuse(&format!("pipeline.sinks[{index}]"), message, advice);
        }
    }
    if scenario.topology.topics > 1 {
        let message = format!("a pipeline reads one topic, not {}", scenario.topology.topics);
        reader.refuse("topology.topics", message, "set it to 1, and use more partitions");
    }
    if pipeline.group.is_some() && !can {
        let message = format!("a group on {title} does not outlive the run");
        reader.refuse("pipeline.group", message, descriptor.advise("remove it"));
    }
    if pipeline.producer_mode != ProducerMode::None && pipeline.parse == Parse::Json && !may_be_json(&scenario.payload)
    {
        let message = "payloads of this kind are not JSON: the pipeline would reject every message as unparsable";
        let advice = "send `template` or `lines`, or set `pipeline.parse = \"none\"`";
        reader.refuse("payload", message, advice);
    }
    if pipeline.producer_mode == ProducerMode::None {
        without_producers(scenario, reader, descriptor);
    }
    check_sinks(pipeline, reader);
}

/// What a pipeline asks of all its sinks.
fn check_sinks(pipeline: &Pipeline, reader: &Reader<'_>) {
    for (key, wanted) in [("wait_for_sinks", pipeline.wait_for_sinks), ("remove_rows", pipeline.remove_rows)] {
        if wanted && pipeline.sinks.is_empty() {
            reader.refuse(&format!("pipeline.{key}"), "the pipeline has no sinks", "remove it");
        }
    }
    if !pipeline.remove_rows {
        return;
    }
    let key = "pipeline.remove_rows";
    if pipeline.group.is_some() {
        let message = "other processes of the group may write to the same sinks: their rows would be removed as well";
        reader.refuse(key, message, "remove it, or `pipeline.group`");
    }
    if pipeline.wait_for_sinks {
        let message =
            "a sink that is not available at the start may hold rows of others, which would be removed as well";
        reader.refuse(key, message, "remove it, or `wait_for_sinks`");
    }
    for (index, sink) in pipeline.sinks.iter().enumerate() {
        if let Some(reason) = sink.needs.not_removable {
            let message = format!("the rows of this sink cannot be removed: {reason}");
            let advice = "add what is missing, or remove `pipeline.remove_rows`";
            reader.refuse(&format!("pipeline.sinks[{index}]"), message, advice);
        }
    }
}

/// What a pipeline needs when its topic has no producers. The topic is taken as it is.
fn without_producers(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    for key in ["partitions", "replication", "keep", "config"] {
        let reason = format!("without producers, the topic is taken as it is: `{key}` has no effect");
        reader.forbid(&format!("topology.{key}"), &reason, "remove it");
    }
    let mode = "pipeline.producer_mode";
    if scenario.topology.name.is_none() {
        let message = "without producers, a topic that belongs to the run is empty";
        reader.refuse(mode, message, "name the topic to read: `topology.name`");
    }
    if scenario.run.stop.duration.is_none() {
        let message = "without producers, only `run.duration` limits how long the pipeline may take";
        reader.refuse(mode, message, "set `run.duration`; the pipeline ends earlier when it has read everything");
    }
    if !descriptor.capabilities.offsets {
        let message = format!("{} has no end offsets, so the end of the messages is unknown", descriptor.title());
        let advice = "set `producer_mode = \"concurrent\"` or `\"backlog\"`";
        reader.refuse(mode, message, descriptor.advise(advice));
    } else if !descriptor.capabilities.existing_topics {
        let message = format!("brokermark does not ask {} what its topics look like", descriptor.title());
        let advice = "set `producer_mode = \"concurrent\"` or `\"backlog\"`";
        reader.refuse(mode, message, descriptor.advise(advice));
    }
}

fn may_be_json(payload: &Payload) -> bool {
    match payload.content {
        Content::Lines { .. } | Content::Files { .. } | Content::Template { .. } | Content::Log { .. } => true,
        // Five bytes come before its JSON.
        Content::Schema(_) => false,
        Content::Zeros { .. } | Content::Random { .. } | Content::MessagePack { .. } | Content::Vector { .. } => false,
    }
}
