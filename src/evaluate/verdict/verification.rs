//! Findings from verification: messages that were lost, unread, removed, repeated or out of order, by group; and from a pipeline: whether every
//! database has every row once, and whether the pipeline kept up.

use super::{Evidence, Finding, against, limits, note};
use crate::measure::ConditionKind;
use crate::record::ReasonKind::*;
use crate::record::readable::{capital, count, duration, percent};
use crate::record::{Condition, GroupVerification, Pipeline, ReadBack, Verification, saturating_sum};

pub(super) fn findings(verification: &Verification, evidence: &Evidence<'_>) -> Vec<Finding> {
    let acknowledged = evidence.record.counts.acknowledged.saturating_add(evidence.record.counts.warm_up.acknowledged);
    let findings = [
        losses(verification, acknowledged, evidence),
        unread(verification, acknowledged),
        removed(verification, acknowledged),
        perhaps_removed(verification, acknowledged, evidence),
        behind(verification),
        stored(verification),
        order(verification),
        incomplete(verification),
    ];
    findings.into_iter().flatten().collect()
}

/// A sentence on the groups that `concerns` chooses: each by `each`, the first few in full.
fn describe_groups(
    verification: &Verification,
    concerns: impl Fn(&GroupVerification) -> bool,
    each: impl Fn(&GroupVerification) -> String,
) -> Option<String> {
    const NAMED: usize = 3;
    let concerned: Vec<&GroupVerification> = verification.groups.iter().filter(|group| concerns(group)).collect();
    if concerned.is_empty() {
        return None;
    }
    let mut described: Vec<String> = concerned.iter().take(NAMED).map(|group| each(group)).collect();
    if concerned.len() > NAMED {
        described.push(format!("and so on in {} more groups", concerned.len() - NAMED));
    }
    Some(capital(&described.join("; ")) + ".")
}

fn losses(verification: &Verification, acknowledged: u64, evidence: &Evidence<'_>) -> Option<Finding> {
    let Verification { lost, duplicated, corrupt, .. } = *verification;
    let concerns = |group: &GroupVerification| group.lost + group.duplicated + group.corrupt > 0;
    let described = describe_groups(verification, concerns, |group| {
        format!(
            "in group {}, {} of {} acknowledged messages were lost, {} were delivered twice without notice and {} were damaged",
            group.title(),
            count(group.lost),
            count(acknowledged),
            count(group.duplicated),
            count(group.corrupt)
        )
    })?;
    let is_deleted = |found: &Condition| matches!(found.kind, ConditionKind::TopicGone | ConditionKind::TopicReplaced);
    let advice = if evidence.record.conditions.iter().any(is_deleted) {
        "A topic was deleted while the trial ran (`conditions`), and what it held is gone with it: let no other client delete topics of a run."
    } else {
        "The broker or the settings of the client do not give the durability that was asked for: check acknowledgement level, replication, whether messages are stored (`durability`), retention and idempotence."
    };
    Some(against(
        Losses,
        described,
        advice,
        &[("lost", lost as f64), ("duplicated", duplicated as f64), ("corrupt", corrupt as f64)],
    ))
}

/// A sentence on the groups that lack messages, of which `became` tells the outcome.
fn describe_missing(
    verification: &Verification,
    acknowledged: u64,
    missing: fn(&GroupVerification) -> u64,
    became: &str,
) -> Option<String> {
    let describe = |group: &GroupVerification| {
        let (title, missing) = (group.title(), count(missing(group)));
        format!("in group {title}, {missing} of {} acknowledged messages {became}", count(acknowledged))
    };
    describe_groups(verification, |group| missing(group) > 0, describe)
}

fn unread(verification: &Verification, acknowledged: u64) -> Option<Finding> {
    let described = describe_missing(
        verification,
        acknowledged,
        |group| group.unread,
        "were not read when the wait for consumers ended",
    )?;
    Some(against(
        Unread,
        described,
        "The consumers were too slow, or found their partitions late, or were cut off; this does not show whether the broker kept the messages. Add members (each needs a partition, where topics have them), lower the load, or raise `run.drain_deadline` (without progress) or `run.catch_up_deadline` (with progress).",
        &[("unread", verification.unread as f64), ("acknowledged", acknowledged as f64)],
    ))
}

fn removed(verification: &Verification, acknowledged: u64) -> Option<Finding> {
    let described =
        describe_missing(verification, acknowledged, |group| group.removed, "were gone before the group read them")?;
    let rules = match verification.removal_rules.is_empty() {
        true => "a rule that it does not tell".to_owned(),
        false => removal_rules(verification),
    };
    Some(against(
        Removed,
        format!("{described} The broker removed them by its own rules: {rules}."),
        "The broker did what it is set to do, and lost nothing. To have every message read, relax these rules, or let the group read faster: add members (each needs a partition, where topics have them), or lower the load.",
        &[("removed", verification.removed as f64), ("acknowledged", acknowledged as f64)],
    ))
}

/// In a merged record, it is not known which of the missing messages the broker removed.
fn perhaps_removed(verification: &Verification, acknowledged: u64, evidence: &Evidence<'_>) -> Option<Finding> {
    if verification.removal_rules.is_empty() || evidence.record.shares.is_empty() {
        return None;
    }
    let described =
        describe_missing(verification, acknowledged, |group| group.undecided, "were not received by these shares")?;
    Some(against(
        Removed,
        format!(
            "{described} The broker removed messages by its own rules ({}), and shares do not tell which.",
            removal_rules(verification)
        ),
        "Relax these rules, or let the group read faster: then missing messages are lost or unread. A run in one process counts the removed messages.",
        &[("undecided", verification.undecided as f64), ("acknowledged", acknowledged as f64)],
    ))
}

fn removal_rules(verification: &Verification) -> String {
    let rules: Vec<String> = verification.removal_rules.iter().map(ToString::to_string).collect();
    rules.join(", ")
}

fn behind(verification: &Verification) -> Option<Finding> {
    let late = |group: &GroupVerification| group.catch_up_ns.filter(|ns| *ns > limits::MAX_CATCH_UP_NS);
    let described = describe_groups(
        verification,
        |group| late(group).is_some(),
        |group| {
            format!(
                "group {} was {} messages behind when the load ended, and received the last of them {} later",
                group.title(),
                count(group.consumer_lag_at_load_end.unwrap_or(0)),
                duration(group.catch_up_ns.unwrap_or(0) as f64)
            )
        },
    )?;
    let longest = verification.groups.iter().filter_map(late).max().unwrap_or(0);
    Some(note(
        ConsumersBehind,
        described,
        "The consumers did not keep up with the producers, so end-to-end latency grew as long as the load lasted: add members (each needs a partition, where topics have them), or lower the load.",
        &[("catch_up_ns", longest as f64)],
    ))
}

fn stored(verification: &Verification) -> Option<Finding> {
    let stored = verification.not_acknowledged_but_stored;
    let described = describe_groups(
        verification,
        |group| group.not_acknowledged_but_stored > 0,
        |group| {
            let stored = count(group.not_acknowledged_but_stored);
            format!("group {} received {stored} messages that had failed or had no outcome", group.title())
        },
    )?;
    Some(note(
        NotAcknowledgedButStored,
        described,
        "A failure does not mean that the broker has not stored the message: a producer that sends it again makes a duplicate, unless it is idempotent.",
        &[("not_acknowledged_but_stored", stored as f64)],
    ))
}

fn order(verification: &Verification) -> Option<Finding> {
    (verification.reordered > 0).then(|| {
        note(
            Reordered,
            format!("{} messages came after a later one of the same producer.", count(verification.reordered)),
            "Retries with several requests in flight do this; an idempotent producer keeps order.",
            &[("reordered", verification.reordered as f64)],
        )
    })
}

fn incomplete(verification: &Verification) -> Option<Finding> {
    let Verification { saturated, undecided, order_unchecked, .. } = *verification;
    let mut described = Vec::new();
    if saturated {
        described.push(format!(
            "The verifier's bounded memory was exceeded: of {} acknowledged messages it is unknown whether they arrived, and its other counts are lower bounds.",
            count(undecided)
        ));
    }
    if order_unchecked > 0 {
        described.push(format!(
            "The order of {} messages was not checked, because there were too many partitions and producers for the verifier's bounded memory.",
            count(order_unchecked)
        ));
    }
    (!described.is_empty()).then(|| {
        note(
            VerificationIncomplete,
            described.join(" "),
            "Fewer producers, or consumers that keep up, let it follow every message.",
            &[("undecided", undecided as f64), ("order_unchecked", order_unchecked as f64)],
        )
    })
}

pub(super) fn pipeline_findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(pipeline) = &evidence.record.pipeline else { return Vec::new() };
    [
        not_written(pipeline),
        written_twice(pipeline),
        sink_errors(pipeline),
        unparsable(pipeline),
        fell_behind(pipeline, evidence),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Rows that a database lacks, or has too often.
fn not_written(pipeline: &Pipeline) -> Option<Finding> {
    let missing = pipeline.sinks.iter().filter(|sink| sink.not_written + sink.refused > 0);
    let mut found: Vec<String> = missing
        .map(|sink| {
            let lacking = match (sink.not_written, sink.refused) {
                (0, refused) => format!("has refused {} rows", count(refused)),
                (missing, 0) => format!("has not written {} rows", count(missing)),
                (missing, refused) => format!("has not written {} rows and refused {}", count(missing), count(refused)),
            };
            format!("{} {lacking}", sink.name)
        })
        .collect();
    let produced = pipeline.reconciliation.produced.unwrap_or(pipeline.consumed);
    if found.is_empty() && pipeline.reconciliation.balanced == Some(false) {
        let own = pipeline.consumed.saturating_sub(pipeline.reconciliation.foreign);
        found.push(format!("{} messages were produced and {} consumed", count(produced), count(own)));
        found.extend(pipeline.sinks.iter().map(|sink| match (sink.row_count.delta, sink.read_back) {
            (Some(delta), _) => format!("{} wrote {} rows and counts {}", sink.name, count(sink.written), count(delta)),
            (None, Some(ReadBack { keys, found })) if found < keys => format!(
                "{} wrote {} rows, and {} of {} keys that were read back did not hold the last value that was written",
                sink.name,
                count(sink.written),
                count(keys - found),
                count(keys)
            ),
            _ => format!("{} wrote {}", sink.name, count(sink.written)),
        }));
    }
    if found.is_empty() {
        return None;
    }
    let sum = |figure: fn(&crate::record::SinkRecord) -> u64| saturating_sum(pipeline.sinks.iter().map(figure)) as f64;
    Some(against(
        NotReconciled,
        format!("Not every row is in every database exactly once: {}.", found.join("; ")),
        "See `pipeline.sinks` for the causes, by class. Rows that were not written were not committed, so the same group reads them again (except with `commit = \"on-receipt\"`). Refused rows will never be written.",
        &[("not_written", sum(|sink| sink.not_written)), ("refused", sum(|sink| sink.refused))],
    ))
}

fn written_twice(pipeline: &Pipeline) -> Option<Finding> {
    let duplicates = saturating_sum(pipeline.sinks.iter().map(|sink| sink.duplicates));
    let repeated = saturating_sum(pipeline.sinks.iter().map(|sink| sink.repeated));
    let all = duplicates.max(repeated);
    (all > 0).then(|| {
        note(
            WrittenTwice,
            format!("{} rows were written twice, or were there already when they were written.", count(all)),
            "After a crash, and when partitions were revoked before a write ended, messages that were written and not yet committed are read again. A batch whose answer was lost is written again. The pipeline delivers at least once, not exactly once.",
            &[("duplicates", duplicates as f64), ("repeated", repeated as f64)],
        )
    })
}

fn sink_errors(pipeline: &Pipeline) -> Option<Finding> {
    let errors = || pipeline.sinks.iter().flat_map(|sink| sink.errors.iter().map(move |error| (&sink.name, error)));
    let (name, most) = errors().max_by_key(|(_, error)| error.count)?;
    let all = saturating_sum(errors().map(|(_, error)| error.count));
    Some(note(
        SinkErrors,
        format!(
            "Writing failed {} times (mostly in {name}, of class {}: {}) and was tried again each time.",
            count(all),
            most.class,
            most.first_message.trim_end_matches('.')
        ),
        "While a database is unavailable the pipeline takes nothing from the broker, so consumer lag and latencies grow.",
        &[("errors", all as f64)],
    ))
}

fn unparsable(pipeline: &Pipeline) -> Option<Finding> {
    let unparsable = pipeline.reconciliation.unparsable;
    let first = pipeline.unparsable.first()?;
    Some(note(
        Unparsable,
        format!("{} messages could not be read (the first: {}, {}).", count(unparsable), first.class, first.first),
        "They were not written and count as done, so that they do not block the messages behind them.",
        &[("unparsable", unparsable as f64)],
    ))
}

fn fell_behind(pipeline: &Pipeline, evidence: &Evidence<'_>) -> Option<Finding> {
    let kept_up = pipeline.consumer_kept_up.filter(|kept_up| !kept_up.held)?;
    let sum = &pipeline.reconciliation;
    let others = match sum.foreign {
        0 => String::new(),
        foreign => format!(" The pipeline received {} messages of other programs as well.", count(foreign)),
    };
    let has_others = |found: &Condition| found.kind == ConditionKind::GroupHasOthers;
    // Without it, a group is the trial's own.
    let advice = match (evidence.record.conditions.iter().any(has_others), sum.balanced) {
        (true, _) => {
            "Other members of the group have partitions (`conditions`): messages in these are not done here. Leave `pipeline.group` out for a group of the trial's own."
        }
        (false, None) => {
            "If the group has members elsewhere, messages in their partitions are not done here: leave `pipeline.group` out for a group of the trial's own. Otherwise lower the rate, or give the bottleneck more resources."
        }
        (false, Some(_)) => {
            "Consumer lag grew for as long as the load lasted, so latencies depend on its length more than on the pipeline. Lower the rate, or give the bottleneck more resources."
        }
    };
    Some(note(
        FellBehind,
        format!(
            "When the load ended, {} of {} acknowledged messages were done ({}). {}{others}",
            count(kept_up.finished),
            count(kept_up.acknowledged),
            percent(kept_up.share),
            pipeline.bottleneck.evidence
        ),
        advice,
        &[
            ("finished", kept_up.finished as f64),
            ("acknowledged", kept_up.acknowledged as f64),
            ("share", kept_up.share),
        ],
    ))
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/verification.rs"]
mod tests;
