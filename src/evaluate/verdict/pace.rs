//! Findings from the pace of the trial: whether it was long enough, and whether it kept its rate.

use super::{Evidence, Finding, against, limits, note, steadiness, warm_up};
use crate::record::ReasonKind::*;
use crate::record::readable::{capital, count, duration, duration_at_least, percent, rate};
use crate::record::{Latency, LimitedBy, Limiter, Reason, Record};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let all = [too_short, rate_missed, cold_start, warm_up::too_short, steadiness::not_steady, rates_differ];
    all.into_iter().filter_map(|find| find(evidence)).collect()
}

fn too_short(evidence: &Evidence<'_>) -> Option<Finding> {
    let Record { pipeline, share, throughput, counts, .. } = evidence.record;
    // Without producers, the pipeline is what is measured, or the consumers of a share.
    let only_consumes = share.as_ref().is_some_and(|share| share.producers == 0);
    let (duration_ns, messages, what) = match pipeline.as_ref().filter(|_| counts.attempted == 0) {
        Some(pipeline) => (pipeline.working_ns, pipeline.consumed, "consumed"),
        None if only_consumes => (throughput.window_ns, counts.consumed.unwrap_or(0), "consumed"),
        None => (throughput.window_ns, counts.acknowledged, "acknowledged"),
    };
    let advice = match (duration_ns < limits::MIN_WINDOW_NS, messages < limits::MIN_MESSAGES) {
        (false, false) => return None,
        (true, _) => {
            "Measure for 5 s or more (`run.duration`, or a larger `run.messages`); 30 s and several trials are better."
        }
        (false, true) => {
            "Measure longer, until there are 1,000 messages or more: below that the upper percentiles are single messages."
        }
    };
    Some(against(
        TooShort,
        format!(
            "Only {} and {} {what} messages were measured.",
            duration_at_least(duration_ns as f64),
            count(messages)
        ),
        advice,
        &[("duration_ns", duration_ns as f64), (what, messages as f64)],
    ))
}

/// What an open loop's rate came to: `None` when it held, or in a closed loop.
///
/// Three things miss it: messages that were due and never sent, messages that left late, and fewer messages sent inside the
/// window than were due in it. The last leaves out what may be under way at the window's end without being late.
pub(super) fn rate_missed(evidence: &Evidence<'_>) -> Option<Finding> {
    let target = evidence.record.throughput.target_per_second?;
    let sent = evidence.record.throughput.sent_per_second;
    let unsent = evidence.record.counts.unsent;
    let due = evidence.record.counts.attempted.saturating_add(unsent);
    let unsent_share = if due > 0 { unsent as f64 / due as f64 } else { 0.0 };
    let delay_ns = evidence.record.latency.schedule_delay.as_ref().map_or(0, p99_of_all);
    let seconds = evidence.record.throughput.window_ns as f64 / 1e9;
    let not_late = target * limits::MAX_SCHEDULE_DELAY_P99_NS as f64 / 1e9;
    let short = sent * seconds + not_late < limits::MIN_RATE_SHARE * target * seconds;
    let mut found = Vec::new();
    if short {
        let share = if target > 0.0 { sent / target } else { 1.0 };
        found.push(format!(
            "the schedule asked for {} messages/s and {}/s were sent ({})",
            rate(target),
            rate(sent),
            percent(share)
        ));
    }
    if unsent_share > 1.0 - limits::MIN_RATE_SHARE {
        found.push(format!(
            "{} of {} messages that were due were never sent ({})",
            count(unsent),
            count(due),
            percent(unsent_share)
        ));
    }
    if delay_ns > limits::MAX_SCHEDULE_DELAY_P99_NS {
        found.push(format!("1 message in 100 left {} late or later", duration(delay_ns as f64)));
    }
    if found.is_empty() {
        return None;
    }
    Some(against(
        RateMissed,
        capital(&found.join("; ")) + ".",
        "Response times are correct for the messages that were sent, but grow with the length of the run: lower the rate, raise `producers.in_flight`, or remove what `limited_by` names.",
        &[
            ("target_per_second", target),
            ("sent_per_second", sent),
            ("unsent", unsent as f64),
            ("schedule_delay_p99_ns", delay_ns as f64),
        ],
    ))
}

/// Where no limit was found, `rate-missed` must not send its reader to one.
pub(super) fn without_a_limit(reasons: &mut [Reason], limited_by: &LimitedBy) {
    let missed = reasons.iter_mut().find(|reason| reason.kind == RateMissed);
    if let Some(missed) = missed.filter(|_| limited_by.limiter == Limiter::Unknown) {
        missed.advice = "Response times are correct for the messages that were sent, but grow with the length of the run. No limit was found: lower the rate, raise `producers.in_flight`, or give the load more producers; short stalls of the machine show in `client.pauses`, those of the broker in the series.".to_owned();
    }
}

/// The 99th percentile of what was recorded, also where too few independent values lie beyond it to state it as a figure: that
/// so many messages left late is a fact.
fn p99_of_all(latency: &Latency) -> u64 {
    let recorded = || latency.decode_histogram().map_or(0, |histogram| histogram.value_at_quantile(0.99));
    latency.p99_ns.unwrap_or_else(recorded)
}

/// Whether the slowest messages are those of the begin because nothing had been warmed up: connections, caches, code that is
/// compiled when it is first used. The first row of the series counts as the tail if its 99th percentile is the highest of all
/// rows, and not by chance.
fn cold_start(evidence: &Evidence<'_>) -> Option<Finding> {
    if evidence.shape.period_ns.is_some() || evidence.record.counts.warm_up.attempted > 0 {
        return None;
    }
    let begin = evidence.measured_rows().next()?;
    let first = begin.p99_ns?;
    let mut later: Vec<u64> = evidence.measured_rows().skip(1).filter_map(|row| row.p99_ns).collect();
    if later.len() + 1 < limits::MIN_BINS_FOR_STEADINESS {
        return None;
    }
    later.sort_unstable();
    let (median, highest) = (later[later.len() / 2], later[later.len() - 1]);
    if first <= highest || (first as f64) < limits::COLD_START_FACTOR * median as f64 {
        return None;
    }
    Some(note(
        ColdStart,
        format!(
            "Nothing was warmed up, and the slowest messages are those of the first {}: their p99 was {}, that of later rows of the series {} (median; at most {}).",
            duration(begin.length_ns as f64),
            duration(first as f64),
            duration(median as f64),
            duration(highest as f64)
        ),
        "Set `run.warm_up` to a few seconds, unless a cold start is what you measure.",
        &[("first_row_p99_ns", first as f64), ("later_rows_p99_ns", median as f64)],
    ))
}

/// The rate inside the window and the rate of all that was measured part where a few messages are answered long after the
/// load has ended.
fn rates_differ(evidence: &Evidence<'_>) -> Option<Finding> {
    let inside = evidence.record.throughput.messages_per_second;
    let whole = evidence.record.throughput.until_last_acknowledgement?;
    let larger = inside.max(whole.messages_per_second);
    let difference = (inside - whole.messages_per_second).abs();
    if larger == 0.0 || difference / larger <= limits::MAX_RATE_DIFFERENCE {
        return None;
    }
    let (of_warm_up, advice) = match evidence.record.throughput.warm_up_messages {
        // The answers to a backlog of the warm-up are more than the window's own.
        messages if inside > whole.messages_per_second && messages > 0 => (
            format!(" Of those inside the window, {} were due in the warm-up and answered late.", count(messages)),
            "The load was not steady when the window began: lower the rate, or warm up for longer, until the warm-up leaves no backlog.",
        ),
        _ => (
            String::new(),
            "The last answers came late, or much was in flight when a short load ended: see the series, and do not compare the two rates.",
        ),
    };
    Some(note(
        RatesDiffer,
        format!(
            "{} messages/s were acknowledged inside the window of {}; all of the measured messages took {}, which is {}/s.{of_warm_up}",
            rate(inside),
            duration(evidence.record.throughput.window_ns as f64),
            duration(whole.duration_ns as f64),
            rate(whole.messages_per_second)
        ),
        advice,
        &[
            ("messages_per_second", inside),
            ("messages_per_second_until_last_acknowledgement", whole.messages_per_second),
            ("duration_until_last_acknowledgement_ns", whole.duration_ns as f64),
            ("warm_up_messages", evidence.record.throughput.warm_up_messages as f64),
        ],
    ))
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/pace.rs"]
mod tests;
