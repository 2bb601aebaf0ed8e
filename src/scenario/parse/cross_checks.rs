//! What one table of a scenario demands of another: checked, and defaults that depend on several tables set, once each
//! table is right by itself.

use crate::scenario::Descriptor;
use crate::scenario::fields::Fields;
use crate::scenario::path::KeyPath;
use crate::scenario::problem::Problems;
use crate::scenario::{
    CommitPolicy, Content, Keys, LatencyKind, Load, Metric, Parse, Payload, Placement, ProducerMode, Scenario,
    Schedule, TRACE_HEADER_BYTES, Threshold,
};

/// Windows are chosen so that all producers together have this many messages in flight, …
const IN_FLIGHT_OF_ALL: usize = 100_000;
/// … but one producer of a closed loop no more than this many, …
const MOST_IN_FLIGHT_CLOSED: usize = 1_000;
/// … and one of an open loop no fewer.
const LEAST_IN_FLIGHT_OPEN: usize = 100;

/// Sets what is left to set, and adds a problem for each disagreement. `window` is the window the scenario asks for.
pub(super) fn settle(
    mut scenario: Scenario,
    window: Option<usize>,
    root: &Fields<'_>,
    descriptor: &Descriptor,
) -> Scenario {
    let problems = root.problems;
    producers_and_topics(&scenario, root);
    windows(&mut scenario, window, problems);
    capabilities(&scenario, descriptor, problems);
    stop(&scenario, root);
    pipeline(&scenario, root, descriptor);
    if scenario.consumers.is_some() {
        envelope(&scenario, descriptor, problems);
    }
    for (index, threshold) in scenario.thresholds.iter().enumerate() {
        if let Some((message, advice)) = unmeasured(threshold, &scenario) {
            let list = root.get("thresholds").and_then(|field| field.value.get("require").cloned());
            let require = KeyPath::of(&["thresholds", "require"]);
            let path = if list.is_some_and(|list| list.is_array()) { require.index(index) } else { require };
            problems.value(path, message, advice);
        }
    }
    scenario.broker.connections = scenario.broker.connections.min(scenario.producers.count);
    scenario
}

fn producers_and_topics(scenario: &Scenario, root: &Fields<'_>) {
    let problems = root.problems;
    let (producers, topics) = (scenario.producers.count, scenario.topology.topics);
    let counted = root.get("producers").is_some_and(|field| field.value.get("count").is_some());
    let count = KeyPath::of(if counted { &["producers", "count"] } else { &["topology", "topics"] });
    if producers < topics {
        let message = format!("{topics} topics need at least as many producers, not {producers}");
        problems.value(
            count,
            message,
            format!("let `producers.count` be {topics} or more, or `topology.topics` fewer"),
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
        true => share.max(LEAST_IN_FLIGHT_OPEN).max(producers.batch),
        false => share.clamp(1, MOST_IN_FLIGHT_CLOSED).max(producers.batch),
    });
    if producers.in_flight < producers.batch {
        let message = format!("a batch of {} does not fit a window of {}", producers.batch, producers.in_flight);
        let advice = "let `producers.in_flight` be at least `producers.batch`";
        problems.value(KeyPath::of(&["producers", "in_flight"]), message, advice);
    }
    if producers.round_barrier && open {
        let message = "a round barrier waits for acknowledgements, an open loop never does";
        let advice = "remove `round_barrier`, or the rate";
        problems.value(KeyPath::of(&["producers", "round_barrier"]), message, advice);
    }
}

fn capabilities(scenario: &Scenario, descriptor: &Descriptor, problems: &Problems) {
    let can = descriptor.capabilities;
    let consumers = scenario.consumers.as_ref();
    let asked: [(bool, bool, &[&str], &str); 7] = [
        (
            scenario.topology.partitions > 1,
            can.partitions,
            &["topology", "partitions"],
            "its topics have one partition",
        ),
        (scenario.topology.replication > 1, can.replication, &["topology", "replication"], "it does not replicate"),
        (scenario.producers.keys != Keys::None, can.keys, &["producers", "keys"], "its messages have no keys"),
        (
            !scenario.producers.headers.is_empty(),
            can.headers,
            &["producers", "headers"],
            "its messages have no headers",
        ),
        (consumers.is_some(), can.consumers, &["consumers"], "nothing can be consumed from it"),
        (consumers.is_some_and(|c| c.groups > 1), can.groups, &["consumers", "groups"], "it has no groups"),
        (
            consumers.is_some_and(|c| !c.properties.is_empty()),
            can.properties,
            &["consumers", "properties"],
            "it has no client library to pass properties to",
        ),
    ];
    for (wanted, possible, path, reason) in asked {
        if wanted && !possible && (path[0] != "consumers" || path.len() == 1 || can.consumers) {
            let path = KeyPath::of(path);
            let message = format!("`{path}` does not suit a broker of kind `{}`: {reason}", descriptor.kind);
            problems.value(path.clone(), message, format!("remove `{path}`"));
        }
    }
}

/// What a pipeline asks of its broker and of the run.
fn pipeline(scenario: &Scenario, root: &Fields<'_>, descriptor: &Descriptor) {
    let Some(pipeline) = &scenario.pipeline else { return };
    let problems = root.problems;
    let kind = descriptor.kind;
    let can = descriptor.capabilities.offsets;
    let written = root.get("pipeline").is_some_and(|field| field.value.get("commit").is_some());
    if pipeline.commit == CommitPolicy::AfterWrite && !can {
        let message = format!("a consumer of kind `{kind}` cannot say up to where its messages have been written");
        let path = KeyPath::of(if written { &["pipeline", "commit"] } else { &["pipeline"] });
        problems.value(path, message, "let `pipeline.commit` be \"on-receipt\", knowing that a crash loses messages");
    }
    for (index, sink) in pipeline.sinks.iter().enumerate() {
        if sink.needs.offsets && !can {
            let message = format!("messages from a broker of kind `{kind}` have no offset to be told apart by");
            let advice = "let `document_id` be \"generated\"";
            problems.value(KeyPath::of(&["pipeline", "sinks"]).index(index), message, advice);
        }
    }
    if scenario.topology.topics > 1 {
        let message = format!("a pipeline reads one topic, not {}", scenario.topology.topics);
        problems.value(KeyPath::of(&["topology", "topics"]), message, "let it be 1, and have more partitions");
    }
    if pipeline.group.is_some() && !can {
        let message = format!("nothing of a group of kind `{kind}` outlives the run");
        problems.value(KeyPath::of(&["pipeline", "group"]), message, "remove it");
    }
    if pipeline.producer_mode != ProducerMode::None && pipeline.parse == Parse::Json && !may_be_json(&scenario.payload)
    {
        let message = "payloads of this kind are no JSON: the pipeline would take every message for unparsable";
        let advice = "send `template` or `lines`, or let `pipeline.parse` be \"none\"";
        problems.value(KeyPath::of(&["payload"]), message, advice);
    }
    if pipeline.producer_mode == ProducerMode::None {
        if scenario.topology.name.is_none() {
            let message = "without producers there is nothing to read in a topic of the run's own";
            problems.value(
                KeyPath::of(&["pipeline", "producer_mode"]),
                message,
                "name the topic to read: `topology.name`",
            );
        }
        if scenario.run.stop.duration.is_none() {
            let message = "without producers only `run.duration` bounds how long the pipeline may take";
            problems.value(
                KeyPath::of(&["pipeline", "producer_mode"]),
                message,
                "give `run.duration`: it ends before, once there is nothing left to read",
            );
        }
        if !can {
            let message = format!("of a broker of kind `{kind}` nobody knows when nothing is left to read");
            problems.value(
                KeyPath::of(&["pipeline", "producer_mode"]),
                message,
                "let the scenario's producers producer_mode the pipeline",
            );
        }
    }
}

fn may_be_json(payload: &Payload) -> bool {
    match payload.content {
        Content::Lines { .. } | Content::Template { .. } | Content::Log { .. } => true,
        Content::Zeros { .. } | Content::Random { .. } | Content::MessagePack { .. } | Content::Vector { .. } => false,
    }
}

fn stop(scenario: &Scenario, root: &Fields<'_>) {
    let stop = scenario.run.stop;
    if stop.messages.is_some() || stop.payload_bytes.is_some() || stop.duration.is_some() {
        return;
    }
    let message = match &scenario.load {
        Load::Open(Schedule::Constant { .. }) => "`load` says how fast, but nothing says how long",
        Load::Open(_) => "`load` says when messages are sent, but nothing says how long",
        Load::Closed => "nothing says how long the load lasts",
    };
    let path = if root.has("run") || !root.has("load") { "run" } else { "load" };
    let advice = "give `run.duration`, `run.messages` or `run.payload_bytes`: the first that is reached ends the trial";
    root.problems.value(KeyPath::of(&[path]), message, advice);
}

/// Verification and end-to-end latency need the engine's envelope on every message: in the payload where there is room,
/// else in a header.
fn envelope(scenario: &Scenario, descriptor: &Descriptor, problems: &Problems) {
    let wanted = scenario.consumers.as_ref().is_some_and(|consumers| consumers.end_to_end || consumers.verify);
    if !wanted || descriptor.capabilities.headers || scenario.payload.fits_trace_header() {
        return;
    }
    let kind = descriptor.kind;
    let (key, message, advice) = match &scenario.payload.content {
        Content::Zeros { .. } | Content::Random { .. } => (
            "size",
            format!(
                "payloads below {TRACE_HEADER_BYTES} bytes have no room for what consumers check, and `{kind}` has no headers"
            ),
            format!(
                "let every payload have {TRACE_HEADER_BYTES}B or more, or set both `consumers.verify` and `consumers.end_to_end` to false"
            ),
        ),
        Content::Vector { .. } => (
            "dimension",
            format!(
                "vectors below {TRACE_HEADER_BYTES} bytes have no room for what consumers check, and `{kind}` has no headers"
            ),
            "let it be 8 or more, or set both `consumers.verify` and `consumers.end_to_end` to false".to_owned(),
        ),
        Content::MessagePack { .. } | Content::Lines { .. } | Content::Template { .. } | Content::Log { .. } => (
            "kind",
            format!("this payload must not be altered, and `{kind}` has no headers for what consumers check"),
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
            ("nothing verifies what arrives", "add `[consumers]` with `verify = true`")
        }
        Metric::WrittenPerSecond if scenario.pipeline.as_ref().is_none_or(|pipeline| pipeline.sinks.is_empty()) => {
            ("nothing is written", "add `[[pipeline.sinks]]`")
        }
        Metric::ConsumerLag if scenario.pipeline.is_none() => ("nobody is behind", "add `[pipeline]`"),
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
