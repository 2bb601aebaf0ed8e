//! Whether a probe of a search held: its thresholds, its rate, and that no backlog grew.
//!
//! A backlog that grows slowly leaves the latencies of a short probe below any limit, so thresholds alone do not see it.

use super::threshold::holds_for_every_message;
use crate::record::readable::{count, percent, rate};
use crate::record::{Limiter, Phase, ReasonKind, Record, SeriesRow, Status, ThresholdOutcome};
use crate::scenario::Threshold;
use crate::statistics::search::ProbeOutcome;

/// By which share of the rate a backlog may grow: what is left is far below what a search tells apart.
const LARGEST_GROWTH: f64 = 0.003;

/// Which share of the rate must have been acknowledged within the window, at whose ends as many messages are under way.
const LEAST_ACKNOWLEDGED: f64 = 0.99;

/// Which share of what was acknowledged consumers must have received within the window: its ends cut a little off.
const LEAST_CONSUMED: f64 = 0.98;

/// Fewest seconds in each half of the window from which a growth is seen.
const LEAST_ROWS: usize = 2;

/// Reasons against a record that mean that its rate was not held.
const NOT_HELD: [ReasonKind; 6] = [
    ReasonKind::RateMissed,
    ReasonKind::MissingMessages,
    ReasonKind::Unread,
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

/// Judges a trial that has run. `groups` is how many groups of consumers were owed each message.
pub fn judge_probe(record: &Record, series: &[SeriesRow], requirements: &[Threshold], groups: usize) -> ProbeJudgement {
    let missed: Vec<String> = thresholds(record, requirements)
        .chain(rate_not_held(record))
        .chain(not_acknowledged(record))
        .chain(backlog(record, series))
        .chain(consumers_behind(record, groups))
        .collect();
    if missed.is_empty() {
        return ProbeJudgement { outcome: ProbeOutcome::Held, reason: String::new() };
    }
    let (client, withheld) = (client_limit(record), evidence_of(record, ReasonKind::TimeWithheld));
    let (outcome, other) = match (client, withheld) {
        (Some(client), _) => (ProbeOutcome::Limited, Some(client)),
        (None, Some(withheld)) => (ProbeOutcome::Withheld, Some(withheld)),
        (None, None) => (ProbeOutcome::Missed, None),
    };
    ProbeJudgement { outcome, reason: other.into_iter().chain(missed).collect::<Vec<_>>().join("; ") }
}

/// A percentile that rests on too few messages holds where even the slowest of them was quick enough.
fn thresholds(record: &Record, requirements: &[Threshold]) -> impl Iterator<Item = String> {
    let all_hold = |outcome: &ThresholdOutcome| {
        let mut requirements = requirements.iter().filter(|requirement| requirement.text == outcome.text);
        outcome.measured.is_none() && requirements.any(|requirement| holds_for_every_message(requirement, record))
    };
    let missed = record.thresholds.iter().filter(move |outcome| !outcome.held && !all_hold(outcome));
    missed.map(|outcome| format!("{}: {}", outcome.text, outcome.explanation))
}

fn rate_not_held(record: &Record) -> Option<String> {
    if record.status == Status::Stalled {
        return Some("nothing moved any more".to_owned());
    }
    let reason = record.verdict.reasons.iter().find(|reason| NOT_HELD.contains(&reason.kind))?;
    Some(match reason.kind {
        ReasonKind::RateMissed => {
            let target = record.throughput.target_per_second.unwrap_or_default();
            format!("{} of {} messages/s were sent in time", rate(record.throughput.sent_per_second), rate(target))
        }
        _ => clause(&reason.evidence),
    })
}

/// A window that is too short to show a growing backlog shows this all the same.
fn not_acknowledged(record: &Record) -> Option<String> {
    let (acknowledged, target) = (record.throughput.messages_per_second, record.throughput.target_per_second?);
    (acknowledged < LEAST_ACKNOWLEDGED * target)
        .then(|| format!("{} of {} messages/s were acknowledged", rate(acknowledged), rate(target)))
}

/// Messages without an answer, or behind the pipeline, that become more and more.
fn backlog(record: &Record, series: &[SeriesRow]) -> Option<String> {
    let rows: Vec<&SeriesRow> = series.iter().filter(|row| row.phase == Phase::Measure && row.full).collect();
    let in_flight: Vec<f64> = rows.iter().map(|row| row.in_flight as f64).collect();
    let behind: Option<Vec<f64>> = rows.iter().map(|row| row.consumer_lag.map(|lag| lag as f64)).collect();
    let seconds = rows.iter().map(|row| row.seconds()).sum::<f64>();
    let target = record.throughput.target_per_second?;
    [Some(in_flight), behind].into_iter().flatten().find_map(|backlog| {
        let grows = growth(&backlog)? / (seconds / 2.0);
        (grows > LARGEST_GROWTH * target).then(|| {
            format!(
                "the backlog grew by {} messages/s, {} of the rate",
                count(grows.round() as u64),
                percent(grows / target)
            )
        })
    })
}

/// By how much the second half lies above the first, if that is more than chance makes.
fn growth(backlog: &[f64]) -> Option<f64> {
    let (first, second) = backlog.split_at(backlog.len() / 2);
    if first.len() < LEAST_ROWS {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    // What neighbours differ by contains no trend.
    let steps: Vec<f64> = backlog.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let trend = mean(&steps);
    let noise = (steps.iter().map(|step| (step - trend).powi(2)).sum::<f64>() / (2.0 * steps.len() as f64)).sqrt();
    let difference = mean(second) - mean(first);
    (difference > 3.0 * noise * (1.0 / first.len() as f64 + 1.0 / second.len() as f64).sqrt()).then_some(difference)
}

fn consumers_behind(record: &Record, groups: usize) -> Option<String> {
    let consumed = record.throughput.consumed_per_second?;
    let owed = record.throughput.messages_per_second * groups as f64;
    (consumed < LEAST_CONSUMED * owed)
        .then(|| format!("consumers received {} of {} messages/s", rate(consumed), rate(owed)))
}

/// How the load generator or its machine was the limit.
fn client_limit(record: &Record) -> Option<String> {
    let limited_by = &record.verdict.limited_by;
    let is_limit = matches!(limited_by.limiter, Limiter::Client | Limiter::Machine);
    evidence_of(record, ReasonKind::ClientBound).or_else(|| is_limit.then(|| clause(&limited_by.evidence)))
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
mod tests {
    use super::*;
    use crate::record::{LimitedBy, Reason, sample};
    use crate::scenario::{Comparison, LatencyKind, LatencyStatistic, Metric};

    /// A probe at 50,000/s with so many messages in flight at the end of each second.
    fn judged(in_flight: impl Fn(usize) -> u64, spoil: impl FnOnce(&mut Record)) -> ProbeJudgement {
        let (mut record, mut series) = (sample::record(), sample::series());
        record.counts.failed = 0;
        record.thresholds.clear();
        record.verdict.reasons.clear();
        record.verdict.limited_by = LimitedBy { limiter: Limiter::Schedule, evidence: String::new() };
        record.throughput.consumed_per_second = None;
        let mut measured = series.iter_mut().filter(|row| row.phase == Phase::Measure && row.full).collect::<Vec<_>>();
        measured.iter_mut().enumerate().for_each(|(second, row)| row.in_flight = in_flight(second));
        spoil(&mut record);
        judge_probe(&record, &series, &[], 1)
    }

    fn outcome(spoil: impl FnOnce(&mut Record)) -> ProbeOutcome {
        judged(|_| 100, spoil).outcome
    }

    fn against(record: &mut Record, kind: ReasonKind) {
        let reason =
            Reason { kind, evidence: "So it was.".to_owned(), advice: String::new(), figures: Default::default() };
        record.verdict.reasons.push(reason);
    }

    #[test]
    fn a_probe_holds_unless_something_speaks_against_it() {
        assert_eq!(outcome(|_| {}), ProbeOutcome::Held);
        assert_eq!(outcome(|record| against(record, ReasonKind::DebugBuild)), ProbeOutcome::Held);
        assert_eq!(outcome(|record| against(record, ReasonKind::RateMissed)), ProbeOutcome::Missed);
        assert_eq!(outcome(|record| record.status = Status::Stalled), ProbeOutcome::Missed);
        let missed = |record: &mut Record| {
            let text = "p99 < 1ms".to_owned();
            let explanation = "2 ms measured".to_owned();
            record.thresholds.push(ThresholdOutcome { text, measured: Some(2e6), held: false, explanation });
        };
        let found = judged(|_| 100, missed);
        assert_eq!((found.outcome, found.reason.as_str()), (ProbeOutcome::Missed, "p99 < 1ms: 2 ms measured"));
    }

    #[test]
    fn a_percentile_of_too_few_messages_holds_where_the_slowest_was_quick_enough() {
        let with = |limit_ms: f64| {
            let (mut record, text) = (sample::record(), "p99.99999 < x".to_owned());
            record.counts.failed = 0;
            record.verdict.reasons.clear();
            record.throughput.consumed_per_second = None;
            let explanation = "not known".to_owned();
            record.thresholds = vec![ThresholdOutcome { text: text.clone(), measured: None, held: false, explanation }];
            let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.999_999_9));
            let threshold = Threshold { text, metric, comparison: Comparison::Less, value: limit_ms * 1e6 };
            judge_probe(&record, &[], &[threshold], 1).outcome
        };
        let slowest_ms = sample::record().latency.response.unwrap().max_ns as f64 / 1e6;
        assert_ne!(with(slowest_ms + 1.0), with(slowest_ms - 1.0));
    }

    #[test]
    fn a_backlog_that_grows_is_a_miss_and_one_that_varies_is_none() {
        let growing = judged(|second| 100 + 500 * second as u64, |_| {});
        assert_eq!(growing.outcome, ProbeOutcome::Missed);
        assert!(growing.reason.contains("the backlog grew by 500 messages/s, 1.0 % of the rate"), "{}", growing.reason);
        let slowly = judged(|second| 100 + 50 * second as u64, |_| {});
        assert_eq!(slowly.outcome, ProbeOutcome::Held, "0.1 % of the rate");
        let varying = judged(|second| [100, 4000, 50, 3000][second % 4], |_| {});
        assert_eq!(varying.outcome, ProbeOutcome::Held, "{}", varying.reason);
    }

    #[test]
    fn a_rate_that_is_asked_for_and_not_acknowledged_is_a_miss() {
        let with = |share: f64| {
            outcome(move |record| {
                record.throughput.messages_per_second = share * record.throughput.target_per_second.unwrap()
            })
        };
        assert_eq!((with(0.995), with(0.985)), (ProbeOutcome::Held, ProbeOutcome::Missed));
    }

    #[test]
    fn consumers_that_receive_less_than_is_acknowledged_are_a_miss() {
        let with = |share: f64| {
            outcome(move |record| {
                record.throughput.consumed_per_second = Some(share * record.throughput.messages_per_second);
            })
        };
        assert_eq!((with(0.99), with(0.97)), (ProbeOutcome::Held, ProbeOutcome::Missed));
    }

    #[test]
    fn a_miss_of_the_client_is_told_apart() {
        let limited = |limiter| {
            outcome(move |record| {
                against(record, ReasonKind::RateMissed);
                record.verdict.limited_by.limiter = limiter;
            })
        };
        assert_eq!(limited(Limiter::Client), ProbeOutcome::Limited);
        assert_eq!(limited(Limiter::Machine), ProbeOutcome::Limited);
        assert_eq!(limited(Limiter::Broker), ProbeOutcome::Missed);
        assert_eq!(outcome(|record| record.verdict.limited_by.limiter = Limiter::Machine), ProbeOutcome::Held);
        let withheld = |limiter| {
            outcome(move |record| {
                against(record, ReasonKind::RateMissed);
                against(record, ReasonKind::TimeWithheld);
                record.verdict.limited_by.limiter = limiter;
            })
        };
        assert_eq!(withheld(Limiter::Machine), ProbeOutcome::Limited);
        assert_eq!(withheld(Limiter::Broker), ProbeOutcome::Withheld);
        assert_eq!(outcome(|record| against(record, ReasonKind::TimeWithheld)), ProbeOutcome::Held);
    }
}
