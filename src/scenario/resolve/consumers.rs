//! `[consumers]`: the consumers, what they record and verify, groups with settings of their own, and the backlog that they find. Without
//! the table nothing is consumed, except by the instances of a pipeline, which are consumers: for them the table adds settings.

use std::time::Duration;

use super::line_sizes::Sizes;
use super::load::FASTEST;
use super::{Reader, path};
use crate::scenario::kind::Descriptor;
use crate::scenario::tables::{
    Backlog, BacklogTable, ConsumerGroup, Consumers, ConsumersTable, GroupTable, IdleConnections, IdleConnectionsTable,
    Load, MAX_GROUP_NAME, Pipeline, ProducerMode, Rate, Scenario, Schedule, StartFrom, Work, WorkKind, WorkLaw,
    WorkMean, WorkTable, units,
};

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
    names(reader, table.group.as_deref().unwrap_or_default());
    let groups = match &table.group {
        Some(groups) => groups.iter().enumerate().map(|(index, one)| group(reader, index, one, properties)).collect(),
        None => {
            let group = ConsumerGroup { properties: properties.clone(), ..ConsumerGroup::default() };
            vec![group; table.groups.unwrap_or(1)]
        }
    };
    Some(Consumers {
        groups,
        members: pipeline.map_or_else(|| table.members.unwrap_or(1), |pipeline| pipeline.instances),
        from: table.from,
        end_to_end: table.end_to_end,
        timing: table.timing,
        verify: alone && table.verify,
        backlog: table.backlog.as_ref().and_then(|table| backlog(reader, table, sizes)),
    })
}

/// Refuses names of groups that brokers would refuse or that two groups would have, and members of all groups where each has its own.
fn names(reader: &Reader<'_>, groups: &[GroupTable]) {
    let name = |(index, group): (usize, &GroupTable)| group.name.clone().unwrap_or_else(|| index.to_string());
    let names: Vec<String> = groups.iter().enumerate().map(name).collect();
    for (index, name) in names.iter().enumerate() {
        let key = format!("consumers.group[{index}].name");
        let is_possible = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if name.len() > MAX_GROUP_NAME || !name.chars().all(is_possible) {
            let message = format!("\"{name}\" cannot name a group of consumers");
            let advice = "use at most 32 letters, digits, hyphens and underscores: brokers know the group by it";
            reader.refuse(&key, message, advice);
        } else if let Some(other) = names[..index].iter().position(|other| other == name) {
            let message =
                format!("\"{name}\" also names group {other}; a group without a name is called by its number");
            reader.refuse(&key, message, "give each group a name of its own");
        }
    }
    if !groups.is_empty() && groups.iter().all(|group| group.members.is_some()) {
        let reason = "each `[[consumers.group]]` has `members` of its own";
        reader.forbid("consumers.members", reason, "remove it");
    }
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
        name: table.name.clone(),
        members: table.members,
        work: table.work.as_ref().map(|table| work(reader, &key("work"), table)),
        rate: table.rate.and_then(|table| rate(reader, &key("rate"), table)),
        start_after: table.start_after,
        properties: common.chain(own).cloned().collect(),
    }
}

/// What a refused rate has as 0 does not matter: nothing runs.
pub fn idle_connections(reader: &Reader<'_>, table: &IdleConnectionsTable) -> IdleConnections {
    let per_second = |key: &str, written| rate(reader, &format!("idle_connections.{key}"), written).unwrap_or(0.0);
    IdleConnections {
        first: 0,
        count: table.count,
        rate: per_second("connect_rate", table.connect_rate),
        churn: table.churn.map_or(0.0, |churn| per_second("churn", churn)),
        source_addresses: table.source_addresses.clone(),
    }
}

/// Messages or connections per second.
fn rate(reader: &Reader<'_>, key: &str, rate: Rate) -> Option<f64> {
    let (message, advice) = match rate.0 {
        units::Rate::MessagesPerSecond(rate) if rate <= FASTEST => return Some(rate),
        units::Rate::MessagesPerSecond(_) => ("is more than one in each nanosecond", "write less than 1G/s"),
        units::Rate::BytesPerSecond(_) => ("is in bytes, where a number is wanted", "write it as in \"10k/s\""),
    };
    reader.refuse(key, format!("`{key}` {message}"), advice);
    None
}

fn work(reader: &Reader<'_>, key: &str, table: &WorkTable) -> Work {
    let (mean, law, seed) = match table {
        WorkTable::Fixed(mean) | WorkTable::Drawn(WorkKind::Fixed { mean }) => (mean, WorkLaw::Fixed, 1),
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
    Work { mean: mean.0, law, seed }
}

/// `[consumers.backlog]`. A size in bytes is divided by the payloads' mean size.
fn backlog(reader: &Reader<'_>, table: &BacklogTable, sizes: Sizes) -> Option<Backlog> {
    reader.exclusive("consumers.backlog", "messages", "payload_bytes", "keep one of them");
    let messages = match (table.messages, table.payload_bytes, sizes.mean) {
        (Some(messages), ..) => messages,
        (None, Some(bytes), Some(mean)) => ((bytes as f64 / mean).ceil() as u64).max(1),
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
    Some(Backlog { messages, caught_up_within: table.caught_up_within })
}

/// What consumers, groups that begin late and a backlog ask of the broker and of the rest of the scenario.
pub(super) fn check(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let Some(consumers) = &scenario.consumers else { return };
    if descriptor.capabilities.consumers && !descriptor.capabilities.properties {
        properties(consumers, reader, descriptor);
    }
    let late = consumers.groups.iter().position(|group| group.start_after > Duration::ZERO);
    if let Some(group) = late {
        start_after(scenario, consumers, group, reader);
    }
    if let Some(backlog) = consumers.backlog {
        check_backlog(scenario, consumers, backlog, reader);
    }
    if consumers.from == StartFrom::Latest && (late.is_some() || consumers.backlog.is_some()) {
        let message = "a group that begins after the load, at the latest message, would miss what was sent before";
        let advice = "set `consumers.from = \"earliest\"`, or let all groups begin before the load";
        reader.refuse("consumers.from", message, advice);
    }
}

/// Refuses properties of all groups, or of single ones, that the broker's client does not have.
fn properties(consumers: &Consumers, reader: &Reader<'_>, descriptor: &Descriptor) {
    let known = descriptor.capabilities.group_properties;
    let table = path("consumers");
    let of_all = reader.has("consumers.properties");
    let unknown = |group: &ConsumerGroup| {
        group.properties.iter().map(|(key, _)| key.clone()).find(|key| !known.contains(&key.as_str()))
    };
    let found = consumers.groups.iter().enumerate().find_map(|(index, group)| Some((index, unknown(group)?)));
    let Some((group, key)) = found else { return };
    let table = if of_all { table } else { table.key("group").index(group) };
    let path = table.key("properties");
    if known.is_empty() {
        let kind = descriptor.kind;
        let message = format!(
            "`{path}` is not possible with a broker of kind `{kind}`: it has no client library to pass properties to"
        );
        reader.problems.value(path.clone(), message, format!("remove `{path}`"));
    } else {
        let path = path.key(&key);
        let names = known.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let message = format!("{} has no property \"{key}\" of consumers, only {names}", descriptor.title());
        reader.problems.value(path, message, descriptor.advise("remove it"));
    }
}

fn start_after(scenario: &Scenario, consumers: &Consumers, group: usize, reader: &Reader<'_>) {
    let key = &format!("consumers.group[{group}].start_after");
    if consumers.backlog.is_some() {
        let message = "groups begin when the backlog is there";
        reader.refuse(key, message, "remove it, or `consumers.backlog`");
        return;
    }
    let run = &scenario.run;
    let latest = consumers.groups.iter().map(|group| group.start_after).max().unwrap_or_default();
    if let Some(duration) = run.stop.duration
        && latest >= run.warm_up + duration
    {
        let message = "a group would begin when the load has ended";
        reader.refuse(key, message, "make `start_after` shorter than `run.warm_up` and `run.duration` together");
    }
}

fn check_backlog(scenario: &Scenario, consumers: &Consumers, backlog: Backlog, reader: &Reader<'_>) {
    let key = "consumers.backlog";
    let Load::Open(schedule) = &scenario.load else {
        let message = "a closed loop has no rate that producers hold while a backlog drains";
        reader.refuse(key, message, "set `load.rate` or `load.schedule`");
        return;
    };
    if !consumers.verify {
        let message = "without verification, repetitions count as progress, so the end of a backlog is unknown";
        reader.refuse("consumers.verify", message, "set it to true, or remove `consumers.backlog`");
    }
    let run = &scenario.run;
    let of_rate = |time: Duration| match schedule {
        Schedule::Constant { rate } | Schedule::Poisson { rate, .. } => (rate * time.as_secs_f64()) as u64,
        _ if time.is_zero() => 0,
        _ => u64::MAX,
    };
    // `run.messages` are measured: those of the warm-up come before them.
    let by_duration = run.stop.duration.map_or(u64::MAX, |duration| of_rate(run.warm_up + duration));
    let by_messages = run.stop.messages.map_or(u64::MAX, |messages| of_rate(run.warm_up).saturating_add(messages));
    let sent = by_duration.min(by_messages);
    if sent <= backlog.messages {
        let message = format!("the load ends after {sent} messages, before a backlog of {} is there", backlog.messages);
        reader.refuse(key, message, "let the load last longer, raise its rate, or make the backlog smaller");
    }
}
