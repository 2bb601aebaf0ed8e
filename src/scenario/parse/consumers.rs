//! `[consumers]`: the consumers, what they record and verify, groups with settings of their own, and the backlog that they find. Without
//! the table nothing is consumed, except by the instances of a pipeline, which are consumers: for them the table adds settings.

use std::time::Duration;

use super::Reader;
use super::load::FASTEST;
use super::payload::Sizes;
use crate::scenario::tables::{BacklogTable, ConsumersTable, Count, GroupTable, Rate, WorkKind, WorkMean, WorkTable};
use crate::scenario::{Backlog, ConsumerGroup, Consumers, Pipeline, ProducerMode, Work, WorkLaw, units};

/// Times of work whose mean is longer say more about a timer than about consumers; brokers also take a consumer for dead that is silent
/// for a minute.
const MAX_WORK: Duration = Duration::from_secs(10);

pub(super) fn read(
    reader: &Reader<'_>,
    table: Option<&ConsumersTable>,
    pipeline: Option<&Pipeline>,
    sizes: Sizes,
) -> Option<Consumers> {
    let without = ConsumersTable::default();
    let table = table.or(pipeline.map(|_| &without))?;
    if pipeline.is_some() {
        forbid_for_pipelines(reader);
    }
    // If other processes send or receive as well, this process cannot know what is missing.
    let alone =
        pipeline.is_none_or(|pipeline| pipeline.group.is_none() && pipeline.producer_mode != ProducerMode::None);
    if !alone && reader.has("consumers.verify") && table.verify {
        reader.refuse(
            "consumers.verify",
            "with `pipeline.group` or `producer_mode = \"none\"`, other processes may send or receive as well",
            "remove it; the row counts in the record's `pipeline` replace verification",
        );
    }
    let advice = "remove `groups`: there are as many as `[[consumers.group]]` tables";
    reader.exclusive("consumers", "group", "groups", advice);
    let properties = &table.properties.0;
    let groups = match &table.group {
        Some(groups) => groups.iter().enumerate().map(|(index, one)| group(reader, index, one, properties)).collect(),
        None => {
            let group = ConsumerGroup { properties: properties.clone(), ..ConsumerGroup::default() };
            vec![group; table.groups.map_or(1, Count::amount)]
        }
    };
    Some(Consumers {
        groups,
        members: pipeline.map_or_else(|| table.members.map_or(1, Count::amount), |pipeline| pipeline.instances),
        from: table.from,
        end_to_end: table.end_to_end,
        timing: table.timing,
        verify: alone && table.verify,
        backlog: table.backlog.as_ref().and_then(|table| backlog(reader, table, sizes)),
    })
}

fn forbid_for_pipelines(reader: &Reader<'_>) {
    for key in ["consumers.groups", "consumers.group"] {
        reader.forbid(key, "a pipeline's instances are one group", "remove it");
    }
    let advice = "remove it, and set `pipeline.instances`";
    reader.forbid("consumers.members", "a pipeline's instances are the members of its group", advice);
    let advice = "remove it, and set `pipeline.producer_mode = \"backlog\"`";
    reader.forbid("consumers.backlog", "a pipeline has a backlog mode of its own", advice);
}

/// `common`: the properties that all groups have.
fn group(reader: &Reader<'_>, index: usize, table: &GroupTable, common: &[(String, String)]) -> ConsumerGroup {
    let key = |name: &str| format!("consumers.group[{index}].{name}");
    let own = &table.properties.0;
    let is_overridden = |key: &str| own.iter().any(|(name, _)| name == key);
    let common = common.iter().filter(|(key, _)| !is_overridden(key));
    ConsumerGroup {
        work: table.work.as_ref().map(|table| work(reader, &key("work"), table)),
        rate: table.rate.and_then(|table| rate(reader, &key("rate"), table)),
        start_after: table.start_after.0,
        properties: common.chain(own).cloned().collect(),
    }
}

/// Messages per second.
fn rate(reader: &Reader<'_>, key: &str, rate: Rate) -> Option<f64> {
    let (message, advice) = match rate.0 {
        units::Rate::MessagesPerSecond(rate) if rate <= FASTEST => return Some(rate),
        units::Rate::MessagesPerSecond(_) => ("is more than a message in each nanosecond", "write less than 1G/s"),
        units::Rate::BytesPerSecond(_) => ("limits messages, not bytes", "write it as in \"10k/s\""),
    };
    reader.refuse(key, format!("`{key}` {message}"), advice);
    None
}

fn work(reader: &Reader<'_>, key: &str, table: &WorkTable) -> Work {
    let (mean, law, seed) = match table {
        WorkTable::Fixed(mean) | WorkTable::Drawn(WorkKind::Fixed { mean }) => (mean, WorkLaw::Fixed, Count(1)),
        WorkTable::Drawn(WorkKind::Exponential { mean, seed }) => (mean, WorkLaw::Exponential, *seed),
        WorkTable::Drawn(WorkKind::Lognormal { mean, sigma, seed }) => {
            (mean, WorkLaw::Lognormal { sigma: *sigma }, *seed)
        }
        WorkTable::Drawn(WorkKind::Pareto { mean, shape, seed }) => (mean, WorkLaw::Pareto { shape: *shape }, *seed),
    };
    let WorkMean(mean) = mean;
    if mean.0 > MAX_WORK {
        let key = if matches!(table, WorkTable::Fixed(_)) { key.to_owned() } else { format!("{key}.mean") };
        let advice = "write at most \"10s\": a broker takes consumers for dead that are silent for much longer";
        reader.refuse(&key, format!("`{key}` is too long"), advice);
    }
    Work { mean: mean.0, law, seed: seed.0 }
}

/// `[consumers.backlog]`. A size in bytes is divided by the payloads' mean size.
fn backlog(reader: &Reader<'_>, table: &BacklogTable, sizes: Sizes) -> Option<Backlog> {
    reader.exclusive("consumers.backlog", "messages", "payload_bytes", "keep one of them");
    let messages = match (table.messages, table.payload_bytes, sizes.mean) {
        (Some(messages), ..) => messages.0,
        (None, Some(bytes), Some(mean)) => ((bytes.0 as f64 / mean).ceil() as u64).max(1),
        (None, Some(_), None) => {
            let message = "a backlog in bytes needs payloads whose size is known beforehand";
            reader.refuse("consumers.backlog.payload_bytes", message, "write `messages` instead");
            return None;
        }
        (None, None, _) => {
            if !reader.has("consumers.backlog.payload_bytes") {
                let advice = "say how much is sent before the consumers begin: `messages = \"1M\"` or `payload_bytes = \"1GiB\"`";
                reader.missing("consumers.backlog", "messages", advice);
            }
            return None;
        }
    };
    Some(Backlog { messages, caught_up_within: table.caught_up_within.0 })
}
