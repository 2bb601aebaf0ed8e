//! Checks that concern several tables of a scenario, and defaults that depend on several tables. They run once each table
//! is valid by itself.

use super::{Reader, consuming};
use crate::limits::TRACE_HEADER_BYTES;
use crate::scenario::Descriptor;
use crate::scenario::path::KeyPath;
use crate::scenario::problem::Problems;
use crate::scenario::{
    Capabilities, CommitPolicy, Content, Keys, LatencyKind, Load, Metric, Parse, Partitioning, Payload, Pipeline,
    Placement, ProducerMode, Scenario, Schedule, Threshold,
};

/// Windows are chosen so that all producers together have this many messages in flight, …
const IN_FLIGHT_OF_ALL: usize = 100_000;
/// … but one producer of a closed loop no more than this many, …
const MAX_IN_FLIGHT_CLOSED: usize = 1_000;
/// … and one of an open loop no fewer.
const MIN_IN_FLIGHT_OPEN: usize = 100;

/// Sets what is left to set, and adds a problem for each disagreement. `window` is the window the scenario asks for.
pub(super) fn settle(
    mut scenario: Scenario,
    window: Option<usize>,
    reader: &Reader<'_>,
    descriptor: &Descriptor,
) -> Scenario {
    let problems = reader.problems;
    producers_and_topics(&scenario, reader);
    windows(&mut scenario, window, problems);
    capabilities(&scenario, descriptor, problems);
    // A pipeline without producers would find nothing in a topic that was created for it.
    scenario.topology.existing |=
        scenario.pipeline.as_ref().is_some_and(|pipeline| pipeline.producer_mode == ProducerMode::None);
    tombstones(&scenario, problems);
    stop(&scenario, reader);
    pipeline(&scenario, reader, descriptor);
    consuming::check(&scenario, reader, descriptor);
    if scenario.consumers.is_some() {
        trace_header(&scenario, descriptor, problems);
    }
    for (index, threshold) in scenario.thresholds.iter().enumerate() {
        if let Some((message, advice)) = unmeasured(threshold, &scenario) {
            let list = reader.table.get("thresholds").and_then(|table| table.get("require"));
            let require = KeyPath::of(&["thresholds", "require"]);
            let path = if list.is_some_and(toml::Value::is_array) { require.index(index) } else { require };
            problems.value(path, message, advice);
        }
    }
    scenario.broker.connections = scenario.broker.connections.min(scenario.producers.count);
    scenario
}

fn producers_and_topics(scenario: &Scenario, reader: &Reader<'_>) {
    let problems = reader.problems;
    let (producers, topics) = (scenario.producers.count, scenario.topology.topics);
    let counted = reader.has("producers.count");
    let count = KeyPath::of(if counted { &["producers", "count"] } else { &["topology", "topics"] });
    if producers < topics {
        let message = format!("{topics} topics need at least as many producers, not {producers}");
        problems.value(
            count,
            message,
            format!("set `producers.count` to {topics} or more, or lower `topology.topics`"),
        );
    } else if scenario.producers.placement == Placement::Blocks && !producers.is_multiple_of(topics) {
        let message = format!("{producers} producers cannot be placed on {topics} topics in equal blocks");
        let below = producers / topics * topics;
        let advice = format!("take {below} or {}, or `placement = \"round-robin\"`", below + topics);
        problems.value(count, message, advice);
    }
}

fn windows(scenario: &mut Scenario, window: Option<usize>, problems: &Problems) {
    let producers = &mut scenario.producers;
    let open = matches!(scenario.load, Load::Open(_));
    let share = IN_FLIGHT_OF_ALL / producers.count;
    producers.in_flight = window.unwrap_or_else(|| match open {
        _ if producers.round_barrier => producers.batch,
        true => share.max(MIN_IN_FLIGHT_OPEN).max(producers.batch),
        false => share.clamp(1, MAX_IN_FLIGHT_CLOSED).max(producers.batch),
    });
    if producers.in_flight < producers.batch {
        let message = format!("a batch of {} does not fit a window of {}", producers.batch, producers.in_flight);
        let advice = "set `producers.in_flight` to `producers.batch` or more";
        problems.value(KeyPath::of(&["producers", "in_flight"]), message, advice);
    }
    if producers.round_barrier && open {
        let message = "a round barrier waits for acknowledgements, and an open loop does not";
        let advice = "remove `round_barrier`, or the rate";
        problems.value(KeyPath::of(&["producers", "round_barrier"]), message, advice);
    }
}

fn capabilities(scenario: &Scenario, descriptor: &Descriptor, problems: &Problems) {
    let can = descriptor.capabilities;
    for (wanted, possible, path, reason) in asked(scenario, can) {
        if wanted && !possible && (path[0] != "consumers" || path.len() == 1 || can.consumers) {
            let path = KeyPath::of(path);
            let message = format!("`{path}` is not possible with {}: {reason}", descriptor.title());
            problems.value(path.clone(), message, descriptor.advise(&format!("remove `{path}`")));
        }
    }
}

/// What may be asked of a broker: whether it is asked, whether it is possible, the key, and why it would not be.
fn asked(scenario: &Scenario, can: Capabilities) -> [(bool, bool, &'static [&'static str], &'static str); 11] {
    let consumers = scenario.consumers.as_ref();
    [
        (
            scenario.topology.partitions > 1,
            can.partitions,
            &["topology", "partitions"],
            "its topics have one partition",
        ),
        (scenario.topology.replication > 1, can.replication, &["topology", "replication"], "it does not replicate"),
        (
            !scenario.topology.config.is_empty(),
            can.topic_config,
            &["topology", "config"],
            "brokermark cannot give its topics settings",
        ),
        (
            scenario.topology.existing,
            can.existing_topics,
            &["topology", "existing"],
            "brokermark does not ask it what its topics look like",
        ),
        (scenario.producers.keys != Keys::None, can.keys, &["producers", "keys"], "its messages have no keys"),
        (
            !scenario.producers.header_sets[0].is_empty(),
            can.headers,
            &["producers", "headers"],
            "its messages have no headers",
        ),
        (
            scenario.producers.header_sets.len() > 1 && can.headers,
            can.own_headers,
            &["producers", "headers"],
            "brokermark gives all of its messages the same headers",
        ),
        (
            scenario.producers.partitioning != Partitioning::Client,
            can.own_partition,
            &["producers", "partitioning"],
            "brokermark cannot choose the partition of a message",
        ),
        (
            scenario.payload.tombstones > 0.0,
            can.null_payloads,
            &["payload", "tombstones"],
            "its messages have no null payload",
        ),
        (consumers.is_some(), can.consumers, &["consumers"], "nothing can be consumed from it"),
        (consumers.is_some_and(|c| c.groups.len() > 1), can.groups, &["consumers", "groups"], "it has no groups"),
    ]
}

/// A message without a payload says that its key has no value any more.
fn tombstones(scenario: &Scenario, problems: &Problems) {
    if scenario.payload.tombstones == 0.0 {
        return;
    }
    let path = KeyPath::of(&["payload", "tombstones"]);
    if scenario.producers.keys == Keys::None {
        let message = "a message without a payload and without a key says nothing";
        problems.value(path.clone(), message, "give messages keys: `producers.keys`");
    }
    if scenario.pipeline.is_some() {
        let message = "a pipeline has nothing to write of a message without a payload";
        problems.value(path, message, "remove it, or the pipeline");
    }
}

/// What a pipeline asks of its broker and of the run.
fn pipeline(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let Some(pipeline) = &scenario.pipeline else { return };
    let problems = reader.problems;
    let title = descriptor.title();
    let can = descriptor.capabilities.offsets;
    let written = reader.has("pipeline.commit");
    if pipeline.commit == CommitPolicy::AfterWrite && !can {
        let message = format!("{title} has no offsets to commit after writing");
        let path = KeyPath::of(if written { &["pipeline", "commit"] } else { &["pipeline"] });
        let advice = "set `pipeline.commit = \"on-receipt\"`; a crash then loses messages";
        problems.value(path, message, descriptor.advise(advice));
    }
    for (index, sink) in pipeline.sinks.iter().enumerate() {
        if sink.needs.offsets && !can {
            let message = format!("messages from {title} have no offsets to make document ids from");
            let advice = descriptor.advise("set `document_id = \"generated\"`");
            problems.value(KeyPath::of(&["pipeline", "sinks"]).index(index), message, advice);
        }
    }
    if scenario.topology.topics > 1 {
        let message = format!("a pipeline reads one topic, not {}", scenario.topology.topics);
        problems.value(KeyPath::of(&["topology", "topics"]), message, "set it to 1, and use more partitions");
    }
    if pipeline.group.is_some() && !can {
        let message = format!("a group on {title} does not outlive the run");
        problems.value(KeyPath::of(&["pipeline", "group"]), message, descriptor.advise("remove it"));
    }
    if pipeline.producer_mode != ProducerMode::None && pipeline.parse == Parse::Json && !may_be_json(&scenario.payload)
    {
        let message = "payloads of this kind are not JSON: the pipeline would reject every message as unparsable";
        let advice = "send `template` or `lines`, or set `pipeline.parse = \"none\"`";
        problems.value(KeyPath::of(&["payload"]), message, advice);
    }
    if pipeline.producer_mode == ProducerMode::None {
        without_producers(scenario, reader, descriptor);
    }
    sinks(pipeline, problems);
}

/// What a pipeline asks of all its sinks.
fn sinks(pipeline: &Pipeline, problems: &Problems) {
    for (key, wanted) in [("wait_for_sinks", pipeline.wait_for_sinks), ("remove_rows", pipeline.remove_rows)] {
        if wanted && pipeline.sinks.is_empty() {
            problems.value(KeyPath::of(&["pipeline", key]), "the pipeline has no sinks", "remove it");
        }
    }
    if !pipeline.remove_rows {
        return;
    }
    let path = KeyPath::of(&["pipeline", "remove_rows"]);
    if pipeline.group.is_some() {
        let message = "other processes of the group may write to the same sinks: their rows would be removed as well";
        problems.value(path.clone(), message, "remove it, or `pipeline.group`");
    }
    if pipeline.wait_for_sinks {
        let message =
            "a sink that is not available at the start may hold rows of others, which would be removed as well";
        problems.value(path, message, "remove it, or `wait_for_sinks`");
    }
    for (index, sink) in pipeline.sinks.iter().enumerate() {
        if let Some(reason) = sink.needs.not_removable {
            let message = format!("the rows of this sink cannot be removed: {reason}");
            let advice = "add what is missing, or remove `pipeline.remove_rows`";
            problems.value(KeyPath::of(&["pipeline", "sinks"]).index(index), message, advice);
        }
    }
}

/// What a pipeline needs when its topic has no producers. The topic is taken as it is.
fn without_producers(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let problems = reader.problems;
    for key in ["partitions", "replication", "keep", "config"] {
        if reader.has(&format!("topology.{key}")) {
            let message = format!("without producers, the topic is taken as it is: `{key}` has no effect");
            problems.key(KeyPath::of(&["topology", key]), message, "remove it");
        }
    }
    let mode = KeyPath::of(&["pipeline", "producer_mode"]);
    if scenario.topology.name.is_none() {
        let message = "without producers, a topic that belongs to the run is empty";
        problems.value(mode.clone(), message, "name the topic to read: `topology.name`");
    }
    if scenario.run.stop.duration.is_none() {
        let message = "without producers, only `run.duration` limits how long the pipeline may take";
        problems.value(
            mode.clone(),
            message,
            "set `run.duration`; the pipeline ends earlier when it has read everything",
        );
    }
    if !descriptor.capabilities.offsets {
        let message = format!("{} has no end offsets, so the end of the messages is unknown", descriptor.title());
        let advice = "set `producer_mode = \"concurrent\"` or `\"backlog\"`";
        problems.value(mode.clone(), message, descriptor.advise(advice));
    } else if !descriptor.capabilities.existing_topics {
        let message = format!("brokermark does not ask {} what its topics look like", descriptor.title());
        let advice = "set `producer_mode = \"concurrent\"` or `\"backlog\"`";
        problems.value(mode.clone(), message, descriptor.advise(advice));
    }
}

fn may_be_json(payload: &Payload) -> bool {
    match payload.content {
        Content::Lines { .. } | Content::Template { .. } | Content::Log { .. } => true,
        Content::Zeros { .. } | Content::Random { .. } | Content::MessagePack { .. } | Content::Vector { .. } => false,
    }
}

fn stop(scenario: &Scenario, reader: &Reader<'_>) {
    let stop = scenario.run.stop;
    if stop.duration.is_some() {
        return;
    }
    if let Load::Open(schedule) = &scenario.load
        && schedule.comes_to_rest()
    {
        let message = "the schedule ends at a rate of zero, so what `run` asks for may never be due";
        reader.problems.value(KeyPath::of(&["load", "schedule"]), message, "set `run.duration`");
    }
    if stop.messages.is_some() || stop.payload_bytes.is_some() {
        return;
    }
    let message = match &scenario.load {
        Load::Open(Schedule::Constant { .. }) => "`load` sets the rate, but the scenario sets no end",
        Load::Open(_) => "`load` sets the schedule, but the scenario sets no end",
        Load::Closed => "the scenario sets no end of the load",
    };
    let path = if reader.has("run") || !reader.has("load") { "run" } else { "load" };
    let advice = "set `run.duration`, `run.messages` or `run.payload_bytes`: the first that is reached ends the trial";
    reader.problems.value(KeyPath::of(&[path]), message, advice);
}

/// Verification and end-to-end latency need the trace header on every message: in the payload where it fits, else in a
/// message header.
fn trace_header(scenario: &Scenario, descriptor: &Descriptor, problems: &Problems) {
    let wanted = scenario.consumers.as_ref().is_some_and(|consumers| consumers.end_to_end || consumers.verify);
    if !wanted || descriptor.capabilities.headers || scenario.payload.fits_trace_header() {
        return;
    }
    let kind = descriptor.kind;
    let (key, message, advice) = match &scenario.payload.content {
        Content::Zeros { .. } | Content::Random { .. } => (
            "size",
            format!(
                "payloads below {TRACE_HEADER_BYTES} bytes cannot carry the trace header, and `{kind}` has no headers"
            ),
            format!(
                "make every payload {TRACE_HEADER_BYTES}B or larger, or set both `consumers.verify` and `consumers.end_to_end` to false"
            ),
        ),
        Content::Vector { .. } => (
            "dimension",
            format!(
                "vectors below {TRACE_HEADER_BYTES} bytes cannot carry the trace header, and `{kind}` has no headers"
            ),
            "set it to 8 or more, or set both `consumers.verify` and `consumers.end_to_end` to false".to_owned(),
        ),
        Content::MessagePack { .. } | Content::Lines { .. } | Content::Template { .. } | Content::Log { .. } => (
            "kind",
            format!("this payload must not be altered, and `{kind}` has no headers for the trace header"),
            "set both `consumers.verify` and `consumers.end_to_end` to false, or send `zeros` or `random`".to_owned(),
        ),
    };
    problems.value(KeyPath::of(&["payload", key]), message, advice);
}

/// Why a threshold could never be judged, and what would help.
fn unmeasured(threshold: &Threshold, scenario: &Scenario) -> Option<(String, &'static str)> {
    let consumers = scenario.consumers.as_ref();
    let closed = scenario.load == Load::Closed;
    let (reason, advice) = match threshold.metric {
        Metric::Lost | Metric::Unread | Metric::Duplicated | Metric::Reordered | Metric::Corrupt
            if !consumers.is_some_and(|consumers| consumers.verify) =>
        {
            ("verification is off", "add `[consumers]` with `verify = true`")
        }
        Metric::WrittenPerSecond if scenario.pipeline.as_ref().is_none_or(|pipeline| pipeline.sinks.is_empty()) => {
            ("the pipeline has no sinks", "add `[[pipeline.sinks]]`")
        }
        Metric::ConsumerLag if scenario.pipeline.is_none() => {
            ("only a pipeline has a consumer lag", "add `[pipeline]`")
        }
        Metric::ConsumedPerSecond if consumers.is_none() => ("nothing is consumed", "add `[consumers]`"),
        Metric::Latency(LatencyKind::EndToEnd, _) if !consumers.is_some_and(|consumers| consumers.end_to_end) => {
            ("end-to-end latency is not measured", "add `[consumers]` with `end_to_end = true`")
        }
        Metric::Latency(LatencyKind::Response | LatencyKind::ScheduleDelay, _) if closed => (
            "a closed loop has no intended times, so it has neither response time nor schedule delay",
            "ask for `service`, or give the load a rate",
        ),
        _ => return None,
    };
    Some((format!("\"{}\" cannot be judged: {reason}", threshold.text), advice))
}
