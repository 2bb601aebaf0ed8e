//! The backlog that consumers found: how it was built and drained, and what the producers saw meanwhile.

use super::page::Page;
use crate::record::readable::{bytes, count, duration, rate};
use crate::record::{Backlog, BacklogPhase, GroupDrain, GroupTask, Record, WorkDistribution};

/// Nothing where no backlog was asked for.
pub(super) fn backlog(page: &mut Page, record: &Record) {
    let Some(backlog) = &record.backlog else { return };
    page.labelled("backlog", &built(backlog));
    for group in &backlog.groups {
        let name = if backlog.groups.len() > 1 { format!("group {}: ", group.group) } else { String::new() };
        page.labelled("", &format!("{name}{}", drained(group)));
    }
    let phases =
        [("build", Some(&backlog.build)), ("drain", backlog.drain.as_ref()), ("after", backlog.after.as_ref())];
    for (name, phase) in phases {
        if let Some(phase) = phase {
            page.labelled("", &producers(name, phase));
        }
    }
}

fn built(backlog: &Backlog) -> String {
    match (backlog.messages, backlog.payload_bytes) {
        (Some(messages), Some(payload)) => {
            format!("{} messages, {} of payload, when the consumers began", count(messages), bytes(payload as f64))
        }
        _ => "not there when the load ended, so no consumer began before".to_owned(),
    }
}

fn drained(group: &GroupDrain) -> String {
    match (group.duration_ns, group.received_per_second) {
        (Some(took_ns), per_second) => format!(
            "caught up after {} and {} messages, {}/s; {} behind then",
            duration(took_ns as f64),
            count(group.received),
            rate(per_second.unwrap_or_default()),
            count(group.behind)
        ),
        (None, _) => format!(
            "not caught up when the load ended: {} received, {} behind",
            count(group.received),
            count(group.behind)
        ),
    }
}

/// What the producers saw.
fn producers(name: &str, phase: &BacklogPhase) -> String {
    let latency = phase.response.as_ref().map_or_else(String::new, |response| {
        let p99 = response.p99_ns.map_or_else(|| "unknown".to_owned(), |p99_ns| duration(p99_ns as f64));
        format!(", response p50 {}, p99 {p99}", duration(response.p50_ns as f64))
    });
    format!(
        "{name} {} at {}/s, {}/s consumed{latency}",
        duration(phase.duration_ns as f64),
        rate(phase.messages_per_second),
        rate(phase.consumed_per_second)
    )
}

/// What a group was told to do, in brackets.
pub(super) fn task(task: &GroupTask) -> String {
    let work = task.work_mean_ns.map(|mean_ns| {
        let law = match task.work_distribution {
            None | Some(WorkDistribution::Fixed) => "",
            Some(WorkDistribution::Exponential) => "exponential ",
            Some(WorkDistribution::Lognormal) => "lognormal ",
            Some(WorkDistribution::Pareto) => "Pareto ",
        };
        format!("{} of {law}work on each", duration(mean_ns as f64))
    });
    let limit = task.rate_limit_per_second.map(|limit| format!("at most {}/s", rate(limit)));
    let start = task.start_after_ns.map(|after_ns| format!("from {} on", duration(after_ns as f64)));
    [work, limit, start].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
