//! What consumers, groups that begin late and a backlog ask of the broker and of the rest of the scenario.

use std::time::Duration;

use super::Reader;
use crate::scenario::path::KeyPath;
use crate::scenario::problem::Problems;
use crate::scenario::{Backlog, ConsumerGroup, Consumers, Descriptor, Load, Scenario, Schedule, StartFrom};

pub(super) fn check(scenario: &Scenario, reader: &Reader<'_>, descriptor: &Descriptor) {
    let Some(consumers) = &scenario.consumers else { return };
    let problems = reader.problems;
    if descriptor.capabilities.consumers && !descriptor.capabilities.properties {
        properties(consumers, reader, descriptor);
    }
    let late = consumers.groups.iter().position(|group| group.start_after > Duration::ZERO);
    if let Some(group) = late {
        start_after(scenario, consumers, group, problems);
    }
    if let Some(backlog) = consumers.backlog {
        self::backlog(scenario, consumers, backlog, problems);
    }
    if consumers.from == StartFrom::Latest && (late.is_some() || consumers.backlog.is_some()) {
        let message = "a group that begins after the load, at the latest message, would miss what was sent before";
        let advice = "set `consumers.from = \"earliest\"`, or let all groups begin before the load";
        problems.value(KeyPath::of(&["consumers", "from"]), message, advice);
    }
}

/// Refuses properties of all groups, or of single ones, that the broker's client does not have.
fn properties(consumers: &Consumers, reader: &Reader<'_>, descriptor: &Descriptor) {
    let known = descriptor.capabilities.group_properties;
    let table = KeyPath::of(&["consumers"]);
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

fn start_after(scenario: &Scenario, consumers: &Consumers, group: usize, problems: &Problems) {
    let path = KeyPath::of(&["consumers", "group"]).index(group).key("start_after");
    if consumers.backlog.is_some() {
        let message = "groups begin when the backlog is there";
        problems.value(path, message, "remove it, or `consumers.backlog`");
        return;
    }
    let run = &scenario.run;
    let latest = consumers.groups.iter().map(|group| group.start_after).max().unwrap_or_default();
    if let Some(duration) = run.stop.duration
        && latest >= run.warm_up + duration
    {
        let message = "a group would begin when the load has ended";
        problems.value(path, message, "make `start_after` shorter than `run.warm_up` and `run.duration` together");
    }
}

fn backlog(scenario: &Scenario, consumers: &Consumers, backlog: Backlog, problems: &Problems) {
    let path = KeyPath::of(&["consumers", "backlog"]);
    let Load::Open(schedule) = &scenario.load else {
        let message = "a closed loop has no rate that producers hold while a backlog drains";
        problems.value(path, message, "set `load.rate` or `load.schedule`");
        return;
    };
    if !consumers.verify {
        let message = "without verification, repetitions count as progress, so the end of a backlog is unknown";
        problems.value(KeyPath::of(&["consumers", "verify"]), message, "set it to true, or remove `consumers.backlog`");
    }
    let run = &scenario.run;
    let sent = match (schedule, run.stop.duration) {
        (Schedule::Constant { rate } | Schedule::Poisson { rate, .. }, Some(duration)) => {
            (rate * (run.warm_up + duration).as_secs_f64()) as u64
        }
        _ => u64::MAX,
    };
    let sent = sent.min(run.stop.messages.unwrap_or(u64::MAX));
    if sent <= backlog.messages {
        let message = format!("the load ends after {sent} messages, before a backlog of {} is there", backlog.messages);
        problems.value(path, message, "let the load last longer, raise its rate, or make the backlog smaller");
    }
}
