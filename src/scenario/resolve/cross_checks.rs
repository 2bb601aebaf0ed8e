//! Checks that concern several tables of a scenario, and defaults that depend on several tables. They run once each table
//! is valid by itself.

use super::broker::named_key;
use super::{Reader, consumers, path, pipeline};
use crate::limits::{MAX_GROUPS_APART, TRACE_HEADER_BYTES};
use crate::measure::ConditionKind;
use crate::scenario::advice::list;
use crate::scenario::kind::{Capabilities, Contradiction, Descriptor};
use crate::scenario::tables::{
    Consumers, Content, Keys, LatencyKind, Load, Metric, Partitioning, Placement, ProducerMode, Scenario, Schedule,
    Threshold,
};

/// Windows are chosen so that all producers together have this many messages in flight, …
const IN_FLIGHT_OF_ALL: usize = 100_000;
/// … but one producer of a closed loop no more than this many, …
const MAX_IN_FLIGHT_CLOSED: usize = 1_000;
/// … and one of an open loop no fewer.
const MIN_IN_FLIGHT_OPEN: usize = 100;

/// Sets what is left to set, and adds a problem for each disagreement.
pub(super) fn settle(mut scenario: Scenario, reader: &Reader<'_>, descriptor: &Descriptor) -> Scenario {
    producers_and_topics(&scenario, reader);
    windows(&mut scenario, reader);
    capabilities(&scenario, reader, descriptor);
    topic_settings(&scenario, reader, descriptor);
    // A pipeline without producers would find nothing in a topic that was created for it.
    scenario.topology.existing |=
        scenario.pipeline.as_ref().is_some_and(|pipeline| pipeline.producer_mode == ProducerMode::None);
    tombstones(&scenario, reader);
    stop(&scenario, reader);
    pipeline::check(&scenario, reader, descriptor);
    consumers::check(&scenario, reader, descriptor);
    if scenario.consumers.is_some() {
        trace_header(&scenario, reader, descriptor);
    }
    for (index, threshold) in scenario.thresholds.iter().enumerate() {
        let unmeasured = || unmeasured(threshold, &scenario).map(|(message, advice)| (message, advice.to_owned()));
        if let Some((message, advice)) = untold(threshold, descriptor).or_else(unmeasured) {
            let element = format!("thresholds.require[{index}]");
            let key = if reader.has(&element) { &element } else { "thresholds.require" };
            reader.refuse(key, message, advice);
        }
    }
    if let Some(consumers) = &scenario.consumers {
        let thresholds = std::mem::take(&mut scenario.thresholds);
        scenario.thresholds =
            thresholds.into_iter().flat_map(|threshold| of_each_group(threshold, consumers)).collect();
    }
    scenario.broker.connections = scenario.broker.connections.min(scenario.producers.count);
    scenario
}

/// A threshold on the end-to-end latency of all groups as one for each of them: a quick group must not hide a slow one.
fn of_each_group(threshold: Threshold, consumers: &Consumers) -> Vec<Threshold> {
    let groups = consumers.groups.len();
    let is_of_all = matches!(threshold.metric, Metric::Latency(LatencyKind::EndToEnd, _)) && threshold.group.is_none();
    if !is_of_all || !(2..=MAX_GROUPS_APART).contains(&groups) {
        return vec![threshold];
    }
    let (metric, limit) = threshold.text.split_at(threshold.text.find(['<', '>', '=']).unwrap_or_default());
    (0..groups)
        .map(|number| {
            let name = consumers.name_of(number);
            let text = format!("{} of \"{name}\" {limit}", metric.trim_end());
            Threshold { text, group: Some(name), ..threshold.clone() }
        })
        .collect()
}

fn producers_and_topics(scenario: &Scenario, reader: &Reader<'_>) {
    let (producers, topics) = (scenario.producers.count, scenario.topology.topics);
    let key = if reader.has("producers.count") { "producers.count" } else { "topology.topics" };
    if producers < topics {
        let message = format!("{topics} topics need at least as many producers, not {producers}");
        let advice = format!("set `producers.count` to {topics} or more, or lower `topology.topics`");
        reader.refuse(key, message, advice);
    } else if scenario.producers.placement == Placement::Blocks && !producers.is_multiple_of(topics) {
        let message = format!("{producers} producers cannot be placed on {topics} topics in equal blocks");
        let below = producers / topics * topics;
        let advice = format!("take {below} or {}, or `placement = \"round-robin\"`", below + topics);
        reader.refuse(key, message, advice);
    }
}

fn windows(scenario: &mut Scenario, reader: &Reader<'_>) {
    let producers = &mut scenario.producers;
    let open = matches!(scenario.load, Load::Open(_));
    let share = IN_FLIGHT_OF_ALL / producers.count;
    if producers.in_flight == 0 {
        producers.in_flight = match open {
            _ if producers.round_barrier => producers.batch,
            true => share.max(MIN_IN_FLIGHT_OPEN).max(producers.batch),
            false => share.clamp(1, MAX_IN_FLIGHT_CLOSED).max(producers.batch),
        };
    }
    if producers.in_flight < producers.batch {
        let message = format!("a batch of {} does not fit a window of {}", producers.batch, producers.in_flight);
        reader.refuse("producers.in_flight", message, "set `producers.in_flight` to `producers.batch` or more");
    }
    if producers.round_barrier && open {
        let message = "a round barrier waits for acknowledgements, and an open loop does not";
        reader.refuse("producers.round_barrier", message, "remove `round_barrier`, or the rate");
    }
}

/// Something that a scenario may ask of a broker.
struct Wish {
    is_asked: bool,
    is_possible: bool,
    key: &'static str,
    /// Why it is not possible.
    reason: &'static str,
}

fn capabilities(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let can = descriptor.capabilities;
    let refused = wishes(scenario, can).into_iter().filter(|wish| wish.is_asked && !wish.is_possible);
    for Wish { key, reason, .. } in refused.filter(|wish| can.consumers || !wish.key.starts_with("consumers.")) {
        let message = format!("`{key}` is not possible with {}: {reason}", descriptor.title());
        reader.refuse(key, message, descriptor.advise(&format!("remove `{key}`")));
    }
}

fn wishes(scenario: &Scenario, can: Capabilities) -> [Wish; 12] {
    let Scenario { topology, producers, consumers, payload, .. } = scenario;
    let wish = |is_asked, is_possible, key, reason| Wish { is_asked, is_possible, key, reason };
    let has_headers = !producers.header_sets[0].is_empty();
    let headers_differ = producers.header_sets.len() > 1 && can.headers;
    let chooses_partitions = producers.partitioning != Partitioning::Client;
    let has_groups = consumers.as_ref().is_some_and(|consumers| consumers.groups.len() > 1);
    [
        wish(topology.partitions > 1, can.partitions, "topology.partitions", "its topics have one partition"),
        wish(topology.replication > 1, can.replication, "topology.replication", "it does not replicate"),
        wish(
            !topology.config.is_empty(),
            can.topic_config,
            "topology.config",
            "brokermark cannot give its topics settings",
        ),
        wish(
            topology.existing,
            can.existing_topics,
            "topology.existing",
            "brokermark does not ask it what its topics look like",
        ),
        wish(producers.keys != Keys::None, can.keys, "producers.keys", "its messages have no keys"),
        wish(has_headers, can.headers, "producers.headers", "its messages have no headers"),
        wish(
            headers_differ,
            can.own_headers,
            "producers.headers",
            "brokermark gives all of its messages the same headers",
        ),
        wish(
            chooses_partitions,
            can.own_partition,
            "producers.partitioning",
            "brokermark cannot choose the partition of a message",
        ),
        wish(payload.tombstones > 0.0, can.null_payloads, "payload.tombstones", "its messages have no null payload"),
        wish(consumers.is_some(), can.consumers, "consumers", "nothing can be consumed from it"),
        wish(has_groups, can.groups, "consumers.groups", "it has no groups"),
        wish(
            scenario.idle_connections.is_some(),
            can.idle_connections,
            "idle_connections",
            "its client opens no connections without messages",
        ),
    ]
}

/// Topics that are created must take the messages.
fn topic_settings(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let settings = scenario.topology.config.iter().cloned().collect();
    if let Some(Contradiction { message, advice }) = (descriptor.contradicts)(scenario, &settings) {
        let place = named_key(&message).unwrap_or_else(|| path("topology.config"));
        reader.problems.value(place, message, advice);
    }
}

/// A message without a payload says that its key has no value any more.
fn tombstones(scenario: &Scenario, reader: &Reader<'_>) {
    if scenario.payload.tombstones == 0.0 {
        return;
    }
    let key = "payload.tombstones";
    if scenario.producers.keys == Keys::None {
        let message = "a message without a payload and without a key says nothing";
        reader.refuse(key, message, "give messages keys: `producers.keys`");
    }
    if scenario.pipeline.is_some() {
        let message = "a pipeline has nothing to write of a message without a payload";
        reader.refuse(key, message, "remove it, or the pipeline");
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
        reader.refuse("load.schedule", message, "set `run.duration`");
    }
    if stop.messages.is_some() || stop.payload_bytes.is_some() {
        return;
    }
    let message = match &scenario.load {
        Load::Open(Schedule::Constant { .. }) => "`load` sets the rate, but the scenario sets no end",
        Load::Open(_) => "`load` sets the schedule, but the scenario sets no end",
        Load::Closed => "the scenario sets no end of the load",
    };
    let key = if reader.has("run") || !reader.has("load") { "run" } else { "load" };
    let advice = "set `run.duration`, `run.messages` or `run.payload_bytes`: the first that is reached ends the trial";
    reader.refuse(key, message, advice);
}

/// Verification and end-to-end latency need the trace header on every message: in the payload where it fits, else in a
/// message header.
fn trace_header(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
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
        Content::MessagePack { .. }
        | Content::Lines { .. }
        | Content::Files { .. }
        | Content::Template { .. }
        | Content::Log { .. }
        | Content::Schema(_) => (
            "kind",
            format!("this payload must not be altered, and `{kind}` has no headers for the trace header"),
            "set both `consumers.verify` and `consumers.end_to_end` to false, or send `zeros` or `random`".to_owned(),
        ),
    };
    reader.refuse(&format!("payload.{key}"), message, advice);
}

/// Why a threshold on a condition would hold in any case, and what would help.
fn untold(threshold: &Threshold, descriptor: &Descriptor) -> Option<(String, String)> {
    let Metric::Condition(kind) = threshold.metric else { return None };
    if (descriptor.tells)(kind) {
        return None;
    }
    let told = ConditionKind::ALL.into_iter().filter(|kind| (descriptor.tells)(*kind));
    let told: Vec<String> = told.map(|kind| kind.to_string()).collect();
    let advice = if told.is_empty() {
        "remove the threshold".to_owned()
    } else {
        format!("its conditions are {}", list(told.iter().map(String::as_str)))
    };
    let message = format!("\"{}\" cannot be judged: {} never tells `{kind}`", threshold.text, descriptor.title());
    Some((message, descriptor.advise(&advice)))
}

/// Why a threshold could never be judged, and what would help.
fn unmeasured(threshold: &Threshold, scenario: &Scenario) -> Option<(String, &'static str)> {
    let consumers = scenario.consumers.as_ref();
    if let Some(group) = &threshold.group {
        let names: Vec<String> = consumers
            .into_iter()
            .flat_map(|found| (0..found.groups.len()).map(|number| found.name_of(number)))
            .collect();
        let reason = if names.is_empty() {
            "nothing is consumed".to_owned()
        } else if !names.contains(group) {
            format!("the groups of consumers are {}", list(names.iter().map(String::as_str)))
        } else if names.len() > MAX_GROUPS_APART && matches!(threshold.metric, Metric::Latency(..)) {
            format!("latencies are kept apart of at most {MAX_GROUPS_APART} groups")
        } else {
            String::new()
        };
        if !reason.is_empty() {
            let advice = "name a group by `name` in its table `[[consumers.group]]`";
            return Some((format!("\"{}\" cannot be judged: {reason}", threshold.text), advice));
        }
    }
    let (reason, advice) = unmeasured_figure(threshold.metric, scenario)?;
    Some((format!("\"{}\" cannot be judged: {reason}", threshold.text), advice))
}

/// Why no record of the scenario has a figure, and what would help.
pub(in crate::scenario) fn unmeasured_figure(
    metric: Metric,
    scenario: &Scenario,
) -> Option<(&'static str, &'static str)> {
    let consumers = scenario.consumers.as_ref();
    let closed = scenario.load == Load::Closed;
    Some(match metric {
        metric if metric.needs_verification() && !consumers.is_some_and(|consumers| consumers.verify) => {
            ("verification is off", "add `[consumers]` with `verify = true`")
        }
        Metric::WrittenPerSecond if scenario.pipeline.as_ref().is_none_or(|pipeline| pipeline.sinks.is_empty()) => {
            ("the pipeline has no sinks", "add `[[pipeline.sinks]]`")
        }
        Metric::ConsumerLag if scenario.pipeline.is_none() => {
            ("only a pipeline has a consumer lag", "add `[pipeline]`")
        }
        Metric::ConsumedPerSecond | Metric::Condition(ConditionKind::Rebalancing | ConditionKind::GroupHasOthers)
            if consumers.is_none() =>
        {
            ("nothing is consumed", "add `[consumers]`")
        }
        Metric::Latency(LatencyKind::EndToEnd, _) if !consumers.is_some_and(|consumers| consumers.end_to_end) => {
            ("end-to-end latency is not measured", "add `[consumers]` with `end_to_end = true`")
        }
        Metric::Latency(LatencyKind::Response | LatencyKind::ScheduleDelay, _) if closed => (
            "a closed loop has no intended times, so it has neither response time nor schedule delay",
            "ask for `service`, or give the load a rate",
        ),
        _ => return None,
    })
}
