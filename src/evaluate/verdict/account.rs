//! Findings from the ledger: whether it balances, and which messages failed; and on a load that was to begin at a set time, and on a share of a
//! scenario.

use super::{Evidence, Finding, against, limits, note};
use crate::measure::{ConditionKind, FailureClass};
use crate::record::ReasonKind::*;
use crate::record::readable::{count, duration, percent};
use crate::record::{Condition, ErrorCount, Fault, FaultCommand, Status, saturating_sum};
use crate::scenario::on_one_line;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(ledger(evidence));
    findings.extend(status(evidence));
    findings.extend(missing(evidence));
    findings.extend(beyond_range(evidence));
    findings.extend(receive_errors(evidence));
    findings.extend(fault_failed(evidence));
    findings.extend(connections_missing(evidence));
    findings.extend(crashes(evidence));
    findings.extend(topic_replaced(evidence));
    if let Some(verification) = evidence.verification() {
        findings.extend(super::verification::findings(verification, evidence));
    }
    if evidence.record.environment.embedded {
        findings.push(against(
            Embedded,
            "The broker ran inside this process: it wrote nothing to disk, sent nothing over a network and shared the client's CPU.".to_owned(),
            "Use an embedded broker to try a scenario out. To measure a broker, set `broker.addresses`.",
            &[],
        ));
    }
    findings.extend(topic_not_empty(evidence));
    if evidence.record.environment.debug_build {
        findings.push(note(
            DebugBuild,
            "brokermark was built without optimisation, so its own cost per message is many times higher than in a release build.".to_owned(),
            "Build with `cargo build --release`.",
            &[],
        ));
    }
    findings
}

fn topic_not_empty(evidence: &Evidence<'_>) -> Option<Finding> {
    let messages = evidence.record.messages_before.filter(|messages| *messages > 0)?;
    Some(note(
        TopicNotEmpty,
        format!("The topics had been written to before: their end offsets added up to {}.", count(messages)),
        "Consumers that begin at the earliest message read what is left of it as well, and a broker that holds data may be slower: leave `topology.name` out, and each run has topics of its own.",
        &[("messages_before", messages as f64)],
    ))
}

/// What a fault was to show was not measured.
fn fault_failed(evidence: &Evidence<'_>) -> Option<Finding> {
    let commands = evidence.record.faults.iter().flat_map(Fault::commands);
    let failed: Vec<(&FaultCommand, &str)> =
        commands.filter_map(|(_, command)| Some((command, command.failure.as_deref()?))).collect();
    let (first, failure) = failed.first()?;
    let last = first.output.lines().rev().find(|line| !line.trim().is_empty());
    let said = last.map(|line| format!(", and said: {}", line.trim())).unwrap_or_default();
    Some(against(
        FaultFailed,
        format!(
            "Of the commands of faults, {} failed: {} {failure}{said}.",
            count(failed.len() as u64),
            on_one_line(&first.command)
        ),
        "Try the command in a shell, as the user and in the directory that `brokermark run` has; `faults` in the record has its output.",
        &[("failed", failed.len() as f64)],
    ))
}

fn connections_missing(evidence: &Evidence<'_>) -> Option<Finding> {
    let idle = evidence.record.idle_connections.as_ref()?;
    let sum = |errors: &[ErrorCount]| saturating_sum(errors.iter().map(|error| error.count));
    let (failed, lost) = (sum(&idle.failed), sum(&idle.lost));
    let first = idle.failed.first().or(idle.lost.first())?;
    Some(against(
        ConnectionsMissing,
        format!(
            "Of connections without messages, {} did not become ready and {} were lost: {}.",
            count(failed),
            count(lost),
            first.first_message
        ),
        "Look at the limits of connections and of open files of the broker and of its machine, or set a lower `idle_connections.connect_rate` or `idle_connections.count`.",
        &[("failed", failed as f64), ("lost", lost as f64)],
    ))
}

fn ledger(evidence: &Evidence<'_>) -> Option<Finding> {
    let counts = evidence.record.counts;
    if counts.balances() {
        return None;
    }
    let warm_up = counts.warm_up;
    let differ = match counts.producers_that_differ {
        0 => String::new(),
        producers => format!(" {} producers' own accounts do not add up.", count(producers)),
    };
    Some(against(
        LedgerMismatch,
        format!(
            "{} messages were attempted, but {} acknowledged + {} failed + {} unresolved are accounted for (in the warm-up: {} against {} + {} + {}).{differ}",
            count(counts.attempted),
            count(counts.acknowledged),
            count(counts.failed),
            count(counts.unresolved),
            count(warm_up.attempted),
            count(warm_up.acknowledged),
            count(warm_up.failed),
            count(warm_up.unresolved),
        ),
        "This is a bug of brokermark: report it with the record, and do not use the figures.",
        &[
            ("attempted", counts.attempted as f64),
            ("acknowledged", counts.acknowledged as f64),
            ("failed", counts.failed as f64),
            ("unresolved", counts.unresolved as f64),
        ],
    ))
}

fn status(evidence: &Evidence<'_>) -> Option<Finding> {
    match evidence.record.status {
        Status::Completed => None,
        Status::Interrupted => Some(against(
            Interrupted,
            "The trial was stopped by a signal before its stop condition.".to_owned(),
            "Let the run finish: `brokermark run --resume` repeats this trial and continues.",
            &[],
        )),
        Status::Stalled => Some(against(
            Stalled,
            "No message was sent and no outcome arrived for `run.stall_deadline`, so the load was ended before its stop condition.".to_owned(),
            "See the series for when the broker stopped answering, and `errors` for the messages of the clients. Set `run.duration` to end a load that may stall.",
            &[],
        )),
        Status::Running => Some(against(
            Unfinished,
            format!(
                "The trial had not ended when this was written: it is what had been measured after {}.",
                duration(evidence.record.throughput.window_ns as f64)
            ),
            "Let the trial finish. After a kill, `brokermark run --resume` repeats it and continues.",
            &[],
        )),
        Status::Failed => Some(against(
            Failed,
            format!("The trial failed: {}.", evidence.record.error.as_deref().unwrap_or("no cause was recorded").trim_end_matches('.')),
            "Remove the cause: `brokermark run --resume` then repeats this trial and continues.",
            &[],
        )),
    }
}

/// Messages that are in no percentile, of every kind together: a note while they are few, else a reason.
fn missing(evidence: &Evidence<'_>) -> Option<Finding> {
    if evidence.record.status == Status::Running {
        // They are still on their way.
        return None;
    }
    let counts = evidence.record.counts;
    // Acknowledged messages that were lost are a reason of their own, however few.
    let failed = counts.failed.saturating_sub(evidence.record.aborted_on_purpose());
    let kinds = [("failed", failed), ("unresolved", counts.unresolved), ("unsent", counts.unsent)];
    let messages = saturating_sum(kinds.iter().map(|(_, messages)| *messages));
    if messages == 0 {
        return None;
    }
    let all = counts.acknowledged.saturating_add(messages);
    let share = messages as f64 / all as f64;
    let found = if share > limits::MAX_MISSING_SHARE { against } else { note };
    let listed: Vec<String> = kinds
        .iter()
        .filter(|(_, messages)| *messages > 0)
        .map(|(kind, messages)| format!("{} {kind}", count(*messages)))
        .collect();
    let cause = last_condition(evidence);
    let held_up = cause.map(|cause| format!(" What held them up: {}.", cause.told_in_full())).unwrap_or_default();
    let evidence = format!(
        "{} of {} messages ({}) are in no percentile, where they would be the slowest: {}.{held_up}",
        count(messages),
        count(all),
        percent(share),
        listed.join(", ")
    );
    let advice = match (failed > 0, counts.unresolved > 0, counts.unsent > 0) {
        _ if cause.is_some() => "Remove what held them up: `conditions` has all of it, with the broker's own words.",
        (true, false, false) => "`errors` has the failures by class, each with the client's first message.",
        (false, true, false) => "Lower the load, or raise `run.drain_deadline` if the broker answers later.",
        (false, false, true) => "Lower the rate, or raise `producers.in_flight` if the broker answers late.",
        _ => {
            "`errors` has the failures by class; lower the load, or raise `run.drain_deadline` if the broker answers later."
        }
    };
    let figures: Vec<(&str, f64)> = kinds.map(|(kind, messages)| (kind, messages as f64)).to_vec();
    Some(found(
        MissingMessages,
        evidence,
        advice,
        &[&figures[..], &[("messages", all as f64), ("share", share)]].concat(),
    ))
}

/// The condition that messages without an acknowledgement have met: one that lasted until the end, or else the longest. One that was over when the
/// window began has held none of them up.
fn last_condition<'a>(evidence: &Evidence<'a>) -> Option<&'a Condition> {
    let met = |condition: &&Condition| {
        condition.holds_producers_up() && (condition.end_ns.is_none() || condition.in_window_ns > 0)
    };
    evidence
        .record
        .conditions
        .iter()
        .filter(met)
        .max_by_key(|condition| (condition.end_ns.is_none(), condition.lasted_ns))
}

fn beyond_range(evidence: &Evidence<'_>) -> Option<Finding> {
    let latency = &evidence.record.latency;
    let all = [
        ("response", &latency.response),
        ("service", &latency.service),
        ("schedule delay", &latency.schedule_delay),
        ("end-to-end", &latency.end_to_end),
    ];
    let beyond: Vec<(&str, u64)> = all
        .iter()
        .filter_map(|(name, latency)| latency.as_ref().map(|latency| (*name, latency.beyond_range)))
        .filter(|(_, values)| *values > 0)
        .collect();
    if beyond.is_empty() {
        return None;
    }
    let listed: Vec<String> = beyond.iter().map(|(name, values)| format!("{} of {name}", count(*values))).collect();
    let total = saturating_sum(beyond.iter().map(|(_, values)| *values));
    Some(against(
        BeyondRange,
        format!(
            "Latencies were too large for the histogram ({}), so upper percentiles and the maximum are too low.",
            listed.join(", ")
        ),
        "The broker or the client stalled for minutes. See the series for when, and lower the load or repair the broker.",
        &[("values", total as f64)],
    ))
}

fn receive_errors(evidence: &Evidence<'_>) -> Option<Finding> {
    let retried = || evidence.record.receive_errors.iter().filter(|error| error.class != FailureClass::Crashed);
    let most = retried().next()?;
    let errors = saturating_sum(retried().map(|error| error.count));
    Some(note(
        ReceiveErrors,
        format!(
            "Consumers met {} errors while receiving (most of class {}: {}) and tried again each time.",
            count(errors),
            most.class,
            most.first_message.trim_end_matches('.')
        ),
        "Messages that consumers could not read in time count as unread, not as lost. `receive_errors` has the errors by class.",
        &[("errors", errors as f64)],
    ))
}

fn crashes(evidence: &Evidence<'_>) -> Option<Finding> {
    let crashed = evidence.record.receive_errors.iter().find(|error| error.class == FailureClass::Crashed)?;
    Some(against(
        ConsumerCrashed,
        format!(
            "{} consumer(s) crashed and received nothing more: {}.",
            count(crashed.count),
            crashed.first_message.trim_end_matches('.')
        ),
        "This is a bug of brokermark or of the client library: report it. Messages that were not received after the crash do not count against the broker.",
        &[("consumers", crashed.count as f64)],
    ))
}

fn topic_replaced(evidence: &Evidence<'_>) -> Option<Finding> {
    let is_replaced = |found: &&Condition| found.kind == ConditionKind::TopicReplaced && found.end_ns.is_none();
    let replaced = evidence.record.conditions.iter().find(is_replaced)?;
    Some(against(
        TopicReplaced,
        format!(
            "Another client deleted and created again, at {}: {}. Messages of before are gone with the old topic. The new one is not the run's, and is left as it is.",
            duration(replaced.begin_ns as f64),
            replaced.names.join(", ")
        ),
        "Let no other client delete topics of a run: without `topology.name`, each run has topics of its own.",
        &[("topics", replaced.subjects_max as f64)],
    ))
}

pub(super) fn share_findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let late = evidence.record.start.as_ref().filter(|start| start.late_ns > limits::LATE_START_NS).map(|start| {
        let late = duration(start.late_ns as f64);
        note(
            LateStart,
            format!("The load began {late} after the time that was set for it."),
            "Set `--start-at` later, so that every process has connected by then.",
            &[("late_ns", start.late_ns as f64)],
        )
    });
    let one_share = evidence.record.share.as_ref().map(|share| {
        note(
            OneShare,
            format!("This is share {} of {}: the figures are of its producers and consumers only.", share.number, share.count),
            "Put all shares together with `brokermark merge`: only then is it known what was lost, and whether thresholds hold.",
            &[("share", share.number as f64), ("shares", share.count as f64)],
        )
    });
    late.into_iter().chain(one_share).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/account.rs"]
mod tests;
