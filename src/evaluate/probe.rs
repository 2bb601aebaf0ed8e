//! Whether a probe of a search held: its thresholds, its rate, and that no backlog grew.
//!
//! A backlog that grows slowly leaves the latencies of a short probe below any limit, so thresholds alone do not see it.

use super::threshold::{estimate, holds, holds_by_estimate};
use super::verdict::limits::MAX_OWN_DELAY_SHARE;
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{GroupRow, Limiter, Phase, ReasonKind, Record, SeriesRow, Status, Tail, ThresholdOutcome};
use crate::scenario::{LatencyKind, LatencyStatistic, Metric, Threshold};
use crate::statistics::search::ProbeOutcome;
use crate::statistics::{corrected_errors, mean};

/// By which share of the rate a backlog may grow: what is left is far below what a search tells apart.
const MAX_GROWTH: f64 = 0.003;

/// Which share of the rate must have been acknowledged within the window, at whose ends as many messages are under way.
const MIN_ACKNOWLEDGED: f64 = 0.99;

/// Which share of what was acknowledged each group must have received within the window: its ends cut a little off. Where a group's lag
/// is known, its growth is the finer sign.
const MIN_CONSUMED: f64 = 0.98;

/// Fewest seconds in each half of the window from which a growth is seen.
const MIN_ROWS: usize = 2;

/// Reasons against a record that mean that its rate was not held.
const NOT_HELD: [ReasonKind; 7] = [
    ReasonKind::RateMissed,
    ReasonKind::MissingMessages,
    ReasonKind::Unread,
    ReasonKind::Removed,
    ReasonKind::FellBehind,
    ReasonKind::Stalled,
    ReasonKind::Unfinished,
];

/// What became of a probe, and why it did not hold: empty where it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeJudgement {
    pub outcome: ProbeOutcome,
    pub reason: String,
}

/// Judges a trial that has run.
pub fn judge_probe(record: &Record, series: &[SeriesRow], requirements: &[Threshold]) -> ProbeJudgement {
    let filled_slowly = filled_slowly(series);
    let series: Vec<&SeriesRow> = series.iter().filter(|row| row.phase == Phase::Measure && row.full).collect();
    let behind: Vec<String> = backlog(record, &series).into_iter().chain(groups_behind(record, &series)).collect();
    let is_behind = filled_slowly || !behind.is_empty();
    let missed: Vec<String> = missed_thresholds(record, requirements)
        .map(|outcome| format!("{}: {}", outcome.text, explanation(record, requirements, outcome)))
        .chain(rate_not_held(record))
        .chain(not_acknowledged(record))
        .chain(behind)
        .collect();
    if missed.is_empty() {
        return ProbeJudgement { outcome: ProbeOutcome::Held, reason: String::new() };
    }
    let client = client_limit(record, requirements, is_behind);
    let withheld = evidence_of(record, ReasonKind::TimeWithheld);
    let (outcome, other) = match (client, withheld) {
        (Some(client), _) => (ProbeOutcome::Limited, Some(client)),
        (None, Some(withheld)) => (ProbeOutcome::Withheld, Some(withheld)),
        (None, None) => (ProbeOutcome::Missed, None),
    };
    ProbeJudgement { outcome, reason: other.into_iter().chain(missed).collect::<Vec<_>>().join("; ") }
}

/// A percentile that too few messages make to be stated is judged by what they tell of it. To take it for missed would be wrong of most
/// probes: a client that collects messages for 5 ms has 200 independent ones in a second, at any rate.
fn missed_thresholds<'a>(
    record: &'a Record,
    requirements: &'a [Threshold],
) -> impl Iterator<Item = &'a ThresholdOutcome> {
    let holds = move |outcome: &ThresholdOutcome| {
        outcome.measured.is_none()
            && required(requirements, outcome).is_some_and(|required| holds_by_estimate(required, record))
    };
    record.thresholds.iter().filter(move |outcome| !outcome.held && !holds(outcome))
}

fn required<'a>(requirements: &'a [Threshold], outcome: &ThresholdOutcome) -> Option<&'a Threshold> {
    requirements.iter().find(|requirement| requirement.text == outcome.text)
}

/// Why a threshold was missed.
fn explanation(record: &Record, requirements: &[Threshold], outcome: &ThresholdOutcome) -> String {
    let required = required(requirements, outcome).filter(|_| outcome.measured.is_none());
    match required.and_then(|required| estimate(required, record)) {
        Some(value_ns) => format!("about {}, of too few messages to state it", duration(value_ns)),
        None => outcome.explanation.clone(),
    }
}

fn rate_not_held(record: &Record) -> Option<String> {
    if record.status == Status::Stalled {
        return Some("nothing moved any more".to_owned());
    }
    let reason = record.verdict.reasons.iter().find(|reason| NOT_HELD.contains(&reason.kind))?;
    Some(clause(&reason.evidence))
}

/// A window that is too short to show a growing backlog shows this all the same.
fn not_acknowledged(record: &Record) -> Option<String> {
    let (acknowledged, target) = (record.throughput.messages_per_second, record.target_without_aborted()?);
    (acknowledged < MIN_ACKNOWLEDGED * target)
        .then(|| format!("{} of {} messages/s were acknowledged", rate(acknowledged), rate(target)))
}

/// Messages without an answer, or behind the pipeline, that become more and more.
fn backlog(record: &Record, rows: &[&SeriesRow]) -> Option<String> {
    let in_flight: Vec<f64> = rows.iter().map(|row| row.in_flight as f64).collect();
    let behind: Option<Vec<f64>> = rows.iter().map(|row| row.consumer_lag.map(|lag| lag as f64)).collect();
    [Some(in_flight), behind]
        .into_iter()
        .flatten()
        .find_map(|backlog| Some(format!("the backlog grew by {}", growth_of_rate(record, rows, &backlog, 1)?)))
}

/// The growth of one of so many backlogs in words, if it is more than a search tells apart.
fn growth_of_rate(record: &Record, rows: &[&SeriesRow], backlog: &[f64], backlogs: usize) -> Option<String> {
    let seconds = rows.iter().map(|row| row.seconds()).sum::<f64>();
    let target = record.throughput.target_per_second?;
    let grows = growth(backlog, backlogs)? / (seconds / 2.0);
    (grows > MAX_GROWTH * target)
        .then(|| format!("{} messages/s, {} of the rate", count(grows.round() as u64), percent(grows / target)))
}

/// By how much the second half lies above the first, if that is more than chance makes of any of so many backlogs.
fn growth(backlog: &[f64], backlogs: usize) -> Option<f64> {
    let (first, second) = backlog.split_at(backlog.len() / 2);
    if first.len() < MIN_ROWS {
        return None;
    }
    // What neighbours differ by contains no trend.
    let steps: Vec<f64> = backlog.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let trend = mean(&steps);
    let noise = (steps.iter().map(|step| (step - trend).powi(2)).sum::<f64>() / (2.0 * steps.len() as f64)).sqrt();
    let difference = mean(second) - mean(first);
    // The variance of what neighbours differ by has so many degrees of freedom (von Neumann, 1941).
    let rows = backlog.len() as f64;
    let degrees = 2.0 * (rows - 1.0).powi(2) / (3.0 * rows - 4.0);
    let error = noise * (1.0 / first.len() as f64 + 1.0 / second.len() as f64).sqrt();
    (difference > corrected_errors(3.0, backlogs, degrees) * error).then_some(difference)
}

/// A group of consumers that received less than was acknowledged, or that falls behind more and more.
fn groups_behind(record: &Record, rows: &[&SeriesRow]) -> Option<String> {
    let acknowledged: u64 = rows.iter().map(|row| row.acknowledged).sum();
    let least = MIN_CONSUMED * acknowledged as f64;
    let seconds = rows.iter().map(|row| row.seconds()).sum::<f64>();
    let groups = &rows.last()?.groups;
    let name = |group: u32| {
        if rows.iter().all(|row| row.groups.len() == 1) {
            "consumers".to_owned()
        } else {
            format!("consumer group {group}")
        }
    };
    let behind = |group: u32| {
        let of_group: Vec<Option<&GroupRow>> =
            rows.iter().map(|row| row.groups.iter().find(|found| found.group == group)).collect();
        // Of many groups, those that are not among the furthest behind are left out of a row.
        if let Some(whole) = of_group.iter().copied().collect::<Option<Vec<&GroupRow>>>() {
            let consumed: u64 = whole.iter().map(|row| row.consumed).sum();
            if (consumed as f64) < least {
                let (received, owed) = (rate(consumed as f64 / seconds), rate(acknowledged as f64 / seconds));
                return Some(format!("{} received {received} of {owed} messages/s", name(group)));
            }
        }
        let lag: Option<Vec<f64>> = of_group.iter().zip(rows).map(|(found, row)| lag(*found, row)).collect();
        let grows = growth_of_rate(record, rows, &lag?, groups.len())?;
        Some(format!("the lag of {} grew by {grows}", name(group)))
    };
    groups.iter().find_map(|found| behind(found.group))
}

/// How far a group was behind at the end of a row: no further than any that is listed, if it is not.
fn lag(found: Option<&GroupRow>, row: &SeriesRow) -> Option<f64> {
    let lag = match found {
        Some(found) => found.consumer_lag,
        None => row.groups.iter().filter_map(|listed| listed.consumer_lag).min(),
    };
    lag.map(|messages| messages as f64)
}

/// Whether the window became full in the course of seconds, those before the measurement included: answers fell behind. A window that is too small for
/// the rate is full at once.
fn filled_slowly(series: &[SeriesRow]) -> bool {
    let mut rows = series.iter();
    let Some(first) = rows.find(|row| row.full && matches!(row.phase, Phase::WarmUp | Phase::Measure)) else {
        return false;
    };
    let mut measured = series.iter().filter(|row| row.full && row.phase == Phase::Measure).peekable();
    measured.peek().is_some() && measured.all(|row| row.in_flight > 2 * first.in_flight)
}

/// How the load generator or its machine was the limit. `is_behind`: answers or consumers fell further and further behind.
fn client_limit(record: &Record, requirements: &[Threshold], is_behind: bool) -> Option<String> {
    let limited_by = &record.verdict.limited_by;
    let is_limit = match limited_by.limiter {
        Limiter::Client | Limiter::Machine => true,
        // A broker that carries no more fills any window, and answers that were slower than required were no better without it.
        Limiter::Window => {
            !is_behind && !record.thresholds.iter().any(|outcome| is_missed_by_service(record, requirements, outcome))
        }
        _ => false,
    };
    evidence_of(record, ReasonKind::ClientBound)
        .or_else(|| is_limit.then(|| clause(&limited_by.evidence)))
        .or_else(|| own_delay(record))
        .or_else(|| own_tail(record, requirements).filter(|_| !is_behind))
}

/// Whether the time from sending to the answer alone missed a latency that was required. Where too few values tell, it did unless the
/// slowest was quick enough.
fn is_missed_by_service(record: &Record, requirements: &[Threshold], outcome: &ThresholdOutcome) -> bool {
    required(requirements, outcome).filter(|_| !outcome.held).is_some_and(|required| match required.metric {
        Metric::Latency(LatencyKind::Headline | LatencyKind::Response | LatencyKind::EndToEnd, statistic) => {
            let metric = Metric::Latency(LatencyKind::Service, statistic);
            let service = Threshold { group: None, metric, ..required.clone() };
            !holds(&service, record).unwrap_or_else(|| holds_by_estimate(&service, record))
        }
        _ => false,
    })
}

/// The load generator's own delay, where it is much of the latency.
fn own_delay(record: &Record) -> Option<String> {
    let reason = record.verdict.reasons.iter().find(|reason| reason.kind == ReasonKind::OwnDelay)?;
    let figure = |name: &str| reason.figures.get(name).copied().unwrap_or(0.0);
    let delays = ["wake_up_delay_p99_ns", "timer_lateness_p99_ns", "pause_p99_ns"];
    let delay_ns = delays.into_iter().map(figure).fold(0.0, f64::max);
    (delay_ns > MAX_OWN_DELAY_SHARE * figure("reported_p99_ns")).then(|| clause(&reason.evidence))
}

/// The load generator's pauses, where only percentiles above p99 were missed, and each because it stood still.
fn own_tail(record: &Record, requirements: &[Threshold]) -> Option<String> {
    let mut missed = missed_thresholds(record, requirements).peekable();
    missed.peek()?;
    if !missed.all(|outcome| is_the_clients(record, requirements, outcome)) {
        return None;
    }
    // Of a p99.99, it is a note.
    let verdict = &record.verdict;
    let own = verdict.reasons.iter().chain(&verdict.notes).find(|reason| reason.kind == ReasonKind::OwnDelay)?;
    Some(clause(&own.evidence))
}

/// Whether a missed threshold is on the tail beyond p99, and the load generator made most of that tail.
fn is_the_clients(record: &Record, requirements: &[Threshold], outcome: &ThresholdOutcome) -> bool {
    let Some(required) = required(requirements, outcome) else { return false };
    let Metric::Latency(LatencyKind::Headline | LatencyKind::Response, statistic) = required.metric else {
        return false;
    };
    let percentile = match statistic {
        LatencyStatistic::Quantile(quantile) => quantile * 100.0,
        LatencyStatistic::Max => 100.0,
        LatencyStatistic::Mean => return false,
    };
    // Of those that the record has, the highest that the required one lies in.
    let tails = record.headline_latency().into_iter().flat_map(|latency| &latency.tails);
    let within = tails.filter(|tail| tail.percentile > 99.0 + 1e-6 && tail.percentile <= percentile + 1e-6);
    within.max_by(|one, other| one.percentile.total_cmp(&other.percentile)).is_some_and(Tail::is_the_clients)
}

fn evidence_of(record: &Record, kind: ReasonKind) -> Option<String> {
    let reason = record.verdict.reasons.iter().find(|reason| reason.kind == kind)?;
    Some(clause(&reason.evidence))
}

/// A sentence as a part of one.
fn clause(sentence: &str) -> String {
    sentence.trim_end_matches('.').to_owned()
}

#[cfg(test)]
#[path = "../../tests/unit/evaluate/probe.rs"]
mod tests;
