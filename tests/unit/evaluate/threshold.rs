use super::*;
use crate::measure::{ConditionKind, FailureClass, SubjectKind};
use crate::record::{Condition, ErrorCount, FaultCommand, GroupLatency, MergedShare, Share, sample};
use hdrhistogram::Histogram;

fn threshold(metric: Metric, comparison: Comparison, value: f64) -> Threshold {
    Threshold { text: "as written".to_owned(), group: None, metric, comparison, value }
}

fn outcome(metric: Metric, comparison: Comparison, value: f64, record: &Record) -> ThresholdOutcome {
    evaluate(&[threshold(metric, comparison, value)], record, 1).remove(0)
}

#[test]
fn each_comparison_at_its_boundary() {
    let record = sample::record();
    let failed = record.counts.failed as f64;
    let held = |comparison, limit| outcome(Metric::Failed, comparison, limit, &record).held;
    assert!(held(Comparison::Equal, failed) && !held(Comparison::Equal, failed + 1.0));
    assert!(held(Comparison::LessOrEqual, failed) && !held(Comparison::Less, failed));
    assert!(held(Comparison::GreaterOrEqual, failed) && !held(Comparison::Greater, failed));
    assert!(held(Comparison::Less, failed + 1.0) && held(Comparison::Greater, failed - 1.0));
}

#[test]
fn messages_that_the_scenario_aborts_have_not_failed() {
    let mut record = sample::record();
    let errors = |count, class| ErrorCount { class, count, first_message: String::new(), first_at_ns: 0 };
    record.errors = vec![errors(97, FailureClass::Aborted), errors(3, FailureClass::Timeout)];
    record.counts.failed = 100;
    assert_eq!(outcome(Metric::Failed, Comparison::Equal, 0.0, &record).measured, Some(3.0));
}

#[test]
fn condition_counts_for_as_long_as_it_lasted_in_the_window() {
    let mut record = sample::record();
    let metric = Metric::Condition(ConditionKind::Throttled);
    let lasted = |record: &Record| outcome(metric, Comparison::Less, 5e9, record).measured;
    record.conditions.clear();
    assert_eq!(lasted(&record), Some(0.0));
    let throttled = |in_window_ns| Condition {
        kind: ConditionKind::Throttled,
        subject: SubjectKind::Node,
        subjects_max: 1,
        subjects: None,
        names: Vec::new(),
        words: String::new(),
        begin_ns: 0,
        end_ns: None,
        lasted_ns: 9_000_000_000,
        in_window_ns,
    };
    let other = Condition { kind: ConditionKind::Denied, ..throttled(7) };
    record.conditions = vec![throttled(1_000_000_000), other, throttled(5_000_000_000)];
    assert_eq!(lasted(&record), Some(6e9));
}

#[test]
fn outages_and_faults_are_judged_by_the_longest() {
    let mut record = sample::record();
    let judged = |metric, record: &Record| {
        let outcome = outcome(metric, Comparison::Less, 5e9, record);
        (outcome.held, outcome.measured, outcome.explanation)
    };
    record.outages.clear();
    assert_eq!(judged(Metric::Outage, &record).1, Some(0.0));
    let outage = |gap_ns, recovered_ns: Option<u64>| Outage {
        begin_ns: 0,
        longest_gap_ns: gap_ns,
        in_window_ns: gap_ns,
        first_acknowledgement_ns: recovered_ns.map(|_| gap_ns),
        recovered_ns,
        expected_per_second: 1000.0,
        client_paused_ns: 0,
        caused_by_client: false,
    };
    record.outages = vec![outage(3_000_000_000, Some(4_000_000_000)), outage(2_000_000_000, Some(2_000_000_000))];
    assert_eq!(judged(Metric::Outage, &record).1, Some(3e9));
    assert_eq!(judged(Metric::Recovery, &record).1, Some(4e9));
    let run = FaultCommand { recovered_ns: Some(4_500_000_000), ..FaultCommand::default() };
    record.faults = vec![Fault { run, ..Fault::default() }];
    assert_eq!(judged(Metric::Recovery, &record).1, Some(4.5e9), "from when the command began");
    record.outages.push(outage(1, None));
    for metric in [Metric::Outage, Metric::Recovery] {
        let (held, measured, explanation) = judged(metric, &record);
        assert!(!held && measured.is_none() && explanation.contains("an outage"), "{explanation}");
    }
    record.outages.clear();
    record.faults[0].run.failure = Some("ended with exit status: 1".to_owned());
    assert!(judged(Metric::Outage, &record).2.contains("a fault failed"), "nothing was broken");
    record.faults.clear();
    record.counts.acknowledged = 0;
    assert_eq!(judged(Metric::Outage, &record).1, Some(0.0), "those of the warm-up count");
    record.counts.warm_up.acknowledged = 0;
    for metric in [Metric::Outage, Metric::Recovery] {
        let (held, measured, explanation) = judged(metric, &record);
        assert!(!held && measured.is_none() && explanation.contains("no message was acknowledged"), "{explanation}");
    }
}

#[test]
fn the_headline_s_quantile_is_the_record_s_own() {
    let record = sample::record();
    let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.99));
    let outcome = outcome(metric, Comparison::Less, 1e9, &record);
    assert_eq!(outcome.measured, Some(record.headline_latency().unwrap().p99_ns.unwrap() as f64));
    assert!(outcome.held);
}

#[test]
fn values_beyond_the_range_count_as_the_largest() {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
    for value in 1..=90 {
        histogram.record(value).unwrap();
    }
    let mut record = sample::record();
    record.counts.failed = 0;
    record.latency.response = Latency::from_histogram(&histogram, 10, None);
    let held = |quantile| {
        let metric = Metric::Latency(LatencyKind::Response, LatencyStatistic::Quantile(quantile));
        outcome(metric, Comparison::Less, 1e9, &record)
    };
    assert_eq!(held(0.5).measured, Some(50.0));
    assert_eq!(held(0.9).measured, Some(90.0));
    let unknown = held(0.91);
    assert_eq!((unknown.measured, unknown.held), (None, false));
    assert!(unknown.explanation.contains("beyond"), "{}", unknown.explanation);
    let maximum = Metric::Latency(LatencyKind::Response, LatencyStatistic::Max);
    assert!(!outcome(maximum, Comparison::Less, 1e12, &record).held);
}

#[test]
fn unacknowledged_message_is_slower_than_every_other() {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
    for value in 1..=1_500 {
        histogram.record(value).unwrap();
    }
    let mut record = sample::record();
    record.latency.response = Latency::from_histogram(&histogram, 0, None);
    let mut of = |failed, unresolved, statistic| {
        (record.counts.failed, record.counts.unresolved) = (failed, unresolved);
        outcome(Metric::Latency(LatencyKind::Response, statistic), Comparison::Less, 1e9, &record)
    };
    let median = LatencyStatistic::Quantile(0.5);
    assert_eq!(of(0, 0, median).measured, Some(750.0));
    assert_eq!(of(300, 200, median).measured, Some(1000.0), "the median of 2,000 messages");
    assert_eq!(of(1_500, 0, median).measured, Some(1500.0));
    let unknown = of(1_500, 1, median);
    assert_eq!((unknown.measured, unknown.held), (None, false));
    assert!(unknown.explanation.contains("50 % of the messages had no acknowledgement"), "{unknown:?}");
    for of_all in [LatencyStatistic::Mean, LatencyStatistic::Max, LatencyStatistic::Quantile(1.0)] {
        assert!(of(0, 0, of_all).held);
        assert!(!of(1, 0, of_all).held && !of(0, 1, of_all).held);
    }
}

#[test]
fn quantile_with_few_messages_beyond_it_is_unknown() {
    let mut record = sample::record();
    record.counts.failed = 0;
    let mut of = |independent, quantile| {
        record.latency.response.as_mut().unwrap().independent = independent;
        let metric = Metric::Latency(LatencyKind::Response, LatencyStatistic::Quantile(quantile));
        outcome(metric, Comparison::Less, 1e12, &record)
    };
    assert!(of(Some(10_000), 0.999).held);
    let unknown = of(Some(9_999), 0.999);
    assert_eq!((unknown.held, unknown.measured), (false, None));
    assert!(unknown.explanation.contains("p99.9 needs 10,000 independent messages"), "{unknown:?}");
    assert!(of(None, 0.9999).held, "of an older record, every message counts for one");
    assert!(!of(None, 0.99999).held);
}

#[test]
fn end_to_end_threshold_with_growing_lag_does_not_hold() {
    let mut record = sample::record();
    let end_to_end = record.latency.end_to_end.take().unwrap();
    let statistics = [0.5, 0.99, 1.0].map(LatencyStatistic::Quantile);
    let held = |record: &Record| {
        let all = statistics.into_iter().chain([LatencyStatistic::Mean, LatencyStatistic::Max]);
        let metrics = all.map(|statistic| Metric::Latency(LatencyKind::EndToEnd, statistic));
        metrics.filter(|metric| outcome(*metric, Comparison::Less, 1e15, record).held).count()
    };
    record.latency.end_to_end = Some(end_to_end.clone().with_growing_lag());
    assert_eq!(held(&record), 0);
    record.latency.end_to_end = Some(end_to_end);
    assert!(held(&record) > 0);
}

#[test]
fn percentile_made_by_one_event_is_judged_and_named() {
    let mut record = sample::record();
    record.counts.failed = 0;
    let p99_9_ns = record.latency.response.as_ref().unwrap().p99_9_ns.unwrap();
    let mut of = |tenths: u64, limit: f64| {
        let slowest = |count| {
            let mut one = crate::measure::Distribution::new();
            one.record_n(p99_9_ns, count);
            one.histogram().clone()
        };
        let slowest = crate::record::SlowestMessages::new(&slowest(tenths), &slowest(tenths));
        record.latency.response.as_mut().unwrap().slowest = Some(slowest);
        let metric = Metric::Latency(LatencyKind::Response, LatencyStatistic::Quantile(0.999));
        outcome(metric, Comparison::Less, limit, &record)
    };
    let (missed, held) = (of(1, p99_9_ns as f64 / 2.0), of(1, p99_9_ns as f64 * 2.0));
    assert!(!missed.held && missed.explanation.contains("by few events"), "{missed:?}");
    assert!(held.held && held.explanation.contains("1 tenths of a second"), "{held:?}");
    assert!(!of(10, 1e12).explanation.contains("few events"));
}

#[test]
fn a_threshold_on_an_unknown_figure_is_missed_with_the_reason() {
    let mut record = Record { verification: None, ..sample::record() };
    let lost = outcome(Metric::Lost, Comparison::Equal, 0.0, &record);
    assert_eq!((lost.measured, lost.held), (None, false));
    assert!(lost.explanation.contains("consumers.verify"), "{}", lost.explanation);
    record.status = Status::Failed;
    assert!(!outcome(Metric::Failed, Comparison::Equal, record.counts.failed as f64, &record).held);
}

#[test]
fn an_order_that_was_not_checked_proves_no_order() {
    let mut record = sample::record();
    record.verification = Some(Verification { order_unchecked: 1, ..Default::default() });
    assert!(!outcome(Metric::Reordered, Comparison::Equal, 0.0, &record).held);
    assert!(outcome(Metric::Lost, Comparison::Equal, 0.0, &record).held);
    assert!(outcome(Metric::Unread, Comparison::Equal, 0.0, &record).held);
}

#[test]
fn a_saturated_verifier_proves_no_absence() {
    let mut record = sample::record();
    record.verification = Some(Verification { saturated: true, ..Default::default() });
    assert!(!outcome(Metric::Duplicated, Comparison::Equal, 0.0, &record).held);
}

#[test]
fn a_missing_share_leaves_unknown_what_was_lost() {
    let mut record = sample::record();
    record.verification = Some(Verification::default());
    let held = |record: &Record| {
        [Metric::Lost, Metric::Unread].map(|metric| outcome(metric, Comparison::Equal, 0.0, record).held)
    };
    record.shares = vec![merged(1), merged(2)];
    assert_eq!(held(&record), [true; 2]);
    record.shares.pop();
    assert_eq!(held(&record), [false; 2]);
}

/// One of two shares.
fn merged(number: usize) -> MergedShare {
    let share = Share {
        number,
        count: 2,
        first_producer: 0,
        producers: 1,
        consumers: 1,
        window_begin_unix_ns: 0,
        first_sent_unix_ns: None,
        first_due_unix_ns: None,
        clock_shift_ns: None,
        clock_error_ns: None,
        boot_id: None,
        before_intended: 0,
        most_before_intended_ns: 0,
    };
    MergedShare {
        share,
        start: None,
        hostname: None,
        window_ns: 1,
        messages_per_second: 1.0,
        cores_used: 1.0,
        valid: true,
        clock: None,
    }
}

#[test]
fn one_process_that_times_its_own_messages_times_all_of_a_group() {
    let mut record = Record { verification: None, ..sample::record() };
    record.scenario["consumers"]["timing"] = "own".into();
    let end_to_end = record.latency.end_to_end.clone();
    (record.counts.attempted, record.counts.unsent) = (end_to_end.as_ref().unwrap().count, 0);
    record.latency.end_to_end_by_group = vec![GroupLatency { group: "a".to_owned(), end_to_end }];
    let metric = Metric::Latency(LatencyKind::EndToEnd, LatencyStatistic::Quantile(0.9));
    let p90 = Threshold { group: Some("a".to_owned()), ..threshold(metric, Comparison::Less, 1e12) };
    let judged = |record: &Record| evaluate(std::slice::from_ref(&p90), record, 2).remove(0);
    assert!(judged(&record).held, "{:?}", judged(&record));
    record.shares = vec![merged(1), merged(2)];
    let unknown = judged(&record);
    assert!(!unknown.held && unknown.explanation.contains("were not counted"), "{unknown:?}");
}
