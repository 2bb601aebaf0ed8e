//! Probes that hold, and probes that miss for each reason.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::measure::FailureClass;
use crate::record::{ErrorCount, LimitedBy, Reason, sample};
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
    judge_probe(&record, &series, &[])
}

fn outcome(spoil: impl FnOnce(&mut Record)) -> ProbeOutcome {
    judged(|_| 100, spoil).outcome
}

fn against(record: &mut Record, kind: ReasonKind) {
    let reason = Reason { kind, evidence: "So it was.".to_owned(), advice: String::new(), figures: Default::default() };
    record.verdict.reasons.push(reason);
}

#[test]
fn a_probe_holds_unless_something_speaks_against_it() {
    assert_eq!(outcome(|_| {}), ProbeOutcome::Held);
    assert_eq!(outcome(|record| against(record, ReasonKind::DebugBuild)), ProbeOutcome::Held);
    // All messages may have been sent, but late.
    let late = judged(|_| 100, |record| against(record, ReasonKind::RateMissed));
    assert_eq!((late.outcome, late.reason.as_str()), (ProbeOutcome::Missed, "So it was"));
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
fn percentile_of_900_moments_is_judged_by_its_value() {
    let mut record = sample::record();
    record.counts.failed = 0;
    record.verdict.reasons.clear();
    record.throughput.consumed_per_second = None;
    let (text, explanation) = ("p99 < x".to_owned(), "not known".to_owned());
    record.thresholds = vec![ThresholdOutcome { text: text.clone(), measured: None, held: false, explanation }];
    let latency = record.latency.response.as_mut().unwrap();
    let (p99_ns, max_ns) = (latency.p99_ns.unwrap() as f64, latency.max_ns as f64);
    let mut judged = |moments: u64, limit_ns: f64| {
        record.latency.response.as_mut().unwrap().independent = Some(moments);
        let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.99));
        let required =
            Threshold { text: text.clone(), group: None, metric, comparison: Comparison::Less, value: limit_ns };
        judge_probe(&record, &[], &[required])
    };
    let between_ns = (p99_ns + max_ns) / 2.0;
    assert_eq!(judged(900, between_ns).outcome, ProbeOutcome::Held, "its slowest message was slower");
    assert_ne!(judged(100, between_ns).outcome, ProbeOutcome::Held, "one of a hundred lies beyond");
    let missed = judged(900, p99_ns * 0.9);
    assert!(missed.outcome != ProbeOutcome::Held && missed.reason.contains("p99 < x: about "), "{missed:?}");
}

#[test]
fn growth_by_chance_is_as_rare_in_one_of_16_groups() {
    assert!((corrected_errors(3.0, 1, 6.0) - 3.0).abs() < 1e-6);
    // Lags without a trend, of a normal deviate that is the mean of twelve evenly spread ones.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(41);
    let mut normal = || (0..12).map(|_| random.random::<f64>() - 0.5).sum::<f64>();
    let mut lag = || (0..10).map(|_| 100.0 + normal()).collect::<Vec<f64>>();
    let mut accused = |groups: usize| {
        (0..2_000).filter(|_| (0..groups).any(|_| growth(&lag(), groups).is_some())).count() as f64 / 2_000.0
    };
    let (of_one, of_sixteen) = (accused(1), accused(16));
    assert!(of_sixteen < 3.0 * of_one.max(0.003), "{of_one} {of_sixteen}");
    let grows: Vec<f64> = (0..10).map(|second| f64::from(second) * 5.0).collect();
    assert!(growth(&grows, 16).is_some(), "a trend is seen all the same");
}

#[test]
fn percentile_of_few_messages_holds_by_the_slowest() {
    let with = |limit_ms: f64| {
        let (mut record, text) = (sample::record(), "p99.99999 < x".to_owned());
        record.counts.failed = 0;
        record.verdict.reasons.clear();
        record.throughput.consumed_per_second = None;
        let explanation = "not known".to_owned();
        record.thresholds = vec![ThresholdOutcome { text: text.clone(), measured: None, held: false, explanation }];
        let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.999_999_9));
        let threshold = Threshold { text, group: None, metric, comparison: Comparison::Less, value: limit_ms * 1e6 };
        judge_probe(&record, &[], &[threshold]).outcome
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
fn a_rate_holds_whose_transactions_are_aborted_on_purpose() {
    let with_a_fifth = |class| {
        outcome(move |record| {
            record.throughput.messages_per_second = 0.8 * record.throughput.target_per_second.unwrap();
            record.counts.failed = record.counts.attempted / 5;
            let (count, first_message) = (record.counts.failed, "as the scenario asks for".to_owned());
            record.errors = vec![ErrorCount { class, count, first_message, first_at_ns: 0 }];
        })
    };
    assert_eq!(with_a_fifth(FailureClass::Aborted), ProbeOutcome::Held);
    assert_eq!(with_a_fifth(FailureClass::Refused), ProbeOutcome::Missed);
}

/// A probe with ten groups, of which the last one received this share of each second's messages.
fn with_a_slow_group(share: f64, knows_lag: bool) -> ProbeJudgement {
    let (mut record, mut series) = (sample::record(), sample::series());
    record.counts.failed = 0;
    record.thresholds.clear();
    record.verdict.reasons.clear();
    let mut behind = 0.0;
    for row in series.iter_mut().filter(|row| row.phase == Phase::Measure && row.full) {
        behind += (1.0 - share) * row.acknowledged as f64;
        let group = |group: u32| {
            let (share, lag) = if group == 9 { (share, behind as i64) } else { (1.0, 40) };
            let consumed = (share * row.acknowledged as f64) as u64;
            GroupRow { group, consumed, consumer_lag: knows_lag.then_some(lag), ..row.groups[0] }
        };
        row.groups = (0..10).map(group).collect();
    }
    judge_probe(&record, &series, &[])
}

#[test]
fn one_slow_group_of_ten_is_a_miss_by_its_own_lag() {
    for (share, knows_lag, outcome) in [
        (0.999, true, ProbeOutcome::Held),
        (0.995, true, ProbeOutcome::Missed),
        (0.985, false, ProbeOutcome::Held),
        (0.97, false, ProbeOutcome::Missed),
    ] {
        let found = with_a_slow_group(share, knows_lag);
        assert_eq!(found.outcome, outcome, "{share}: {}", found.reason);
        assert_eq!(found.reason.contains("group 9"), outcome == ProbeOutcome::Missed, "{}", found.reason);
    }
}

#[test]
fn a_full_window_is_the_client_s_limit_unless_answers_are_slow() {
    let with = |limit_ms: f64| {
        let (mut record, text) = (sample::record(), "p99 < x".to_owned());
        record.counts.failed = 0;
        record.verdict.reasons.clear();
        record.verdict.limited_by = LimitedBy { limiter: Limiter::Window, evidence: "It was full.".to_owned() };
        let explanation = "2 s measured".to_owned();
        record.thresholds =
            vec![ThresholdOutcome { text: text.clone(), measured: Some(2e9), held: false, explanation }];
        let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.99));
        let threshold = Threshold { text, group: None, metric, comparison: Comparison::Less, value: limit_ms * 1e6 };
        judge_probe(&record, &sample::series(), &[threshold]).outcome
    };
    let service_ms = sample::record().latency.service.unwrap().p99_ns.unwrap() as f64 / 1e6;
    assert_eq!(with(service_ms * 1.1), ProbeOutcome::Limited);
    assert_eq!(with(service_ms * 0.9), ProbeOutcome::Missed);
}

/// A probe whose window was full, with a requirement on the headline or another figure that it missed.
fn with_a_full_window(metric: Metric, limit: f64, in_flight: impl Fn(u64) -> u64) -> ProbeOutcome {
    let (mut record, mut series, text) = (sample::record(), sample::series(), "as required".to_owned());
    record.counts.failed = 0;
    record.verdict.reasons.clear();
    record.verdict.limited_by = LimitedBy { limiter: Limiter::Window, evidence: "It was full.".to_owned() };
    let explanation = "more measured".to_owned();
    record.thresholds = vec![ThresholdOutcome { text: text.clone(), measured: Some(2e9), held: false, explanation }];
    series.iter_mut().for_each(|row| row.in_flight = in_flight(row.second));
    let threshold = Threshold { text, group: None, metric, comparison: Comparison::Less, value: limit };
    judge_probe(&record, &series, &[threshold]).outcome
}

#[test]
fn a_window_that_fills_is_not_the_client_s_limit() {
    let with = |in_flight: fn(u64) -> u64| with_a_full_window(Metric::Failed, 1.0, in_flight);
    assert_eq!(with(|_| 10_000), ProbeOutcome::Limited, "full at once");
    assert_eq!(with(|second| 1_000 * (second + 1)), ProbeOutcome::Missed, "fills while it is measured");
    assert_eq!(with(|second| (4_000 * (second + 1)).min(10_000)), ProbeOutcome::Missed, "fills in the warm-up");
    assert_eq!(with(|second| [10_000, 4_000][second as usize % 2]), ProbeOutcome::Limited, "varies");
}

#[test]
fn a_full_window_does_not_explain_a_slow_end_to_end_latency() {
    let service_ns = sample::record().latency.service.unwrap().p99_ns.unwrap() as f64;
    let metric = Metric::Latency(LatencyKind::EndToEnd, LatencyStatistic::Quantile(0.99));
    let with = |limit_ns: f64| with_a_full_window(metric, limit_ns, |_| 10_000);
    assert_eq!(with(service_ns * 1.1), ProbeOutcome::Limited);
    assert_eq!(with(service_ns * 0.9), ProbeOutcome::Missed);
}

#[test]
fn a_service_time_of_too_few_values_does_not_blame_the_window() {
    let slowest_ns = sample::record().latency.service.unwrap().max_ns as f64;
    let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.999_999_9));
    let with = |limit_ns: f64| with_a_full_window(metric, limit_ns, |_| 10_000);
    assert_eq!(with(slowest_ns + 1.0), ProbeOutcome::Limited);
    assert_eq!(with(slowest_ns - 1.0), ProbeOutcome::Missed);
}

#[test]
fn a_tail_that_the_client_s_pauses_made_limits_a_probe() {
    let with = |quantile: f64, paused: u64, in_flight: fn(u64) -> u64| {
        let (mut record, mut series, text) = (sample::record(), sample::series(), "as required".to_owned());
        record.counts.failed = 0;
        record.verdict.reasons.clear();
        record.verdict.limited_by = LimitedBy { limiter: Limiter::Schedule, evidence: String::new() };
        against(&mut record, ReasonKind::OwnDelay);
        record.verdict.reasons[0].figures = [("reported_p99_ns".to_owned(), 3e6)].into();
        let tail = Tail { percentile: 99.9, tenths: 4, seconds: 3, client_paused_tenths: Some(paused) };
        record.latency.response.as_mut().unwrap().tails = vec![tail];
        let explanation = "more measured".to_owned();
        record.thresholds =
            vec![ThresholdOutcome { text: text.clone(), measured: Some(2e9), held: false, explanation }];
        series.iter_mut().for_each(|row| row.in_flight = in_flight(row.second));
        let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(quantile));
        let threshold = Threshold { text, group: None, metric, comparison: Comparison::Less, value: 1e6 };
        judge_probe(&record, &series, &[threshold]).outcome
    };
    assert_eq!(with(0.999, 3, |_| 60), ProbeOutcome::Limited);
    assert_eq!(with(0.999, 2, |_| 60), ProbeOutcome::Missed, "not most of it");
    assert_eq!(with(0.99, 3, |_| 60), ProbeOutcome::Missed, "a percentile that the pauses did not make");
    assert_eq!(with(0.999, 3, |second| 1_000 * (second + 1)), ProbeOutcome::Missed, "a backlog grew");
}

#[test]
fn own_delay_limits_a_probe_only_where_it_is_much_of_it() {
    let of = |figure: &'static str, delay_ms: f64, reported_ms: f64| {
        outcome(move |record| {
            against(record, ReasonKind::RateMissed);
            against(record, ReasonKind::OwnDelay);
            let figures = [(figure, delay_ms * 1e6), ("reported_p99_ns", reported_ms * 1e6)];
            let figures = figures.map(|(name, value)| (name.to_owned(), value));
            record.verdict.reasons[1].figures = figures.into();
        })
    };
    for figure in ["wake_up_delay_p99_ns", "timer_lateness_p99_ns", "pause_p99_ns"] {
        assert_eq!(of(figure, 12.0, 20.0), ProbeOutcome::Limited, "{figure}");
        assert_eq!(of(figure, 12.0, 3_000.0), ProbeOutcome::Missed, "{figure}");
    }
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
