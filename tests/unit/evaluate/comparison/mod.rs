use super::*;
use crate::record::{Durability, DurabilityLevel, GroupLatency, Latency, Reason, ReasonKind, Status, sample};

/// Trials at these rates, `minutes` apart from the first one on.
fn trials(rates: &[f64], first_minute: i64, apart: i64) -> Vec<KeptTrial> {
    let mut found = Vec::new();
    for (index, rate) in rates.iter().enumerate() {
        let mut record = sample::record();
        record.verdict.valid = true;
        record.trial = index as u32 + 1;
        record.throughput.messages_per_second = *rate;
        let begun = jiff::SignedDuration::from_mins(first_minute + apart * index as i64);
        record.started_at = record.started_at.checked_add(begun).unwrap();
        found.push(KeptTrial { record, series: sample::series() });
    }
    found
}

/// Without what differs between runs.
const TRIALS_ALONE: Bounds = Bounds { tolerance: 0.05, between_runs: 0.0 };

const RATES: [f64; 6] = [1000.0, 1004.0, 997.0, 1001.0, 1003.0, 998.0];

fn slower(share: f64) -> Vec<f64> {
    RATES.iter().map(|rate| rate * share).collect()
}

fn rate_of(comparison: &Comparison) -> &FigureComparison {
    &comparison.points[0].figures[0]
}

#[test]
fn a_slowdown_is_a_regression_beyond_the_tolerance_only() {
    let a = trials(&RATES, 0, 1);
    let compared = |share: f64, tolerance| {
        compare(&a, &trials(&slower(share), 60, 1), Bounds { tolerance, ..TRIALS_ALONE }).unwrap()
    };
    let worse = compared(0.9, 0.05);
    assert_eq!((rate_of(&worse).outcome, worse.verdict == Verdict::Regression), (Outcome::Worse, true));
    let tolerated = compared(0.9, 0.2);
    assert_eq!((rate_of(&tolerated).outcome, tolerated.verdict == Verdict::Regression), (Outcome::Worse, false));
    let same = compared(1.0, 0.05);
    assert_eq!((rate_of(&same).outcome, same.verdict == Verdict::Regression), (Outcome::NoDifferent, false));
    let better = compared(1.1, 0.05);
    assert_eq!((rate_of(&better).outcome, better.verdict == Verdict::Regression), (Outcome::Better, false));
}

#[test]
fn trials_that_ran_in_turn_are_paired() {
    let in_turn = compare(&trials(&RATES, 0, 2), &trials(&slower(0.9), 1, 2), TRIALS_ALONE).unwrap();
    let after = compare(&trials(&RATES, 0, 1), &trials(&slower(0.9), 60, 1), TRIALS_ALONE).unwrap();
    assert_eq!((in_turn.design, after.design), (Design::InTurn, Design::SingleRuns));
    assert_eq!(rate_of(&in_turn).outcome, Outcome::Worse);
}

#[test]
fn invalid_trial_removes_its_pair_only() {
    // The machine slows down for both from pair to pair, so only pairs show the 2 %.
    let slowing: Vec<f64> = (0..8).map(|pair| 1000.0 * (1.0 - 0.1 * f64::from(pair))).collect();
    let slower: Vec<f64> = slowing.iter().map(|rate| rate * 0.98).collect();
    let (mut a, mut b) = (trials(&slowing, 0, 2), trials(&slower, 1, 2));
    a[2].record.verdict.valid = false;
    b[5].record.verdict.valid = false;
    let compared = compare(&a, &b, TRIALS_ALONE).unwrap();
    assert_eq!(compared.design, Design::InTurn);
    assert_eq!((compared.points[0].trials_of_a.valid, compared.points[0].trials_of_b.valid), (7, 7));
    let rate = rate_of(&compared);
    assert_eq!((rate.a.trials, rate.b.trials), (6, 6));
    assert!((rate.ratio - 0.98).abs() < 1e-9 && rate.ratio_low.unwrap() > 0.97, "{rate:?}");
    // Without a pair of valid trials, the valid ones of each side are all there is.
    for (index, (of_a, of_b)) in a.iter_mut().zip(&mut b).enumerate() {
        (of_a.record.verdict.valid, of_b.record.verdict.valid) = (index % 2 == 0, index % 2 == 1);
    }
    assert_eq!(compare(&a, &b, TRIALS_ALONE).unwrap().design, Design::SingleRuns);
}

#[test]
fn unequal_durability_is_refused_and_other_differences_are_said() {
    let a = trials(&RATES, 0, 1);
    let mut b = trials(&RATES, 60, 1);
    for trial in &mut b {
        trial.record.durability = Durability { level: DurabilityLevel::Disk, copies: Some(3), ..Durability::default() };
        trial.record.scenario["producers"]["batch"] = 17.into();
        trial.record.environment.kernel = Some("another".to_owned());
        trial.record.client.scheduling_policy = Some("fifo".to_owned());
        trial.record.scenario["name"] = "another".into();
    }
    let compared = compare(&a, &b, TRIALS_ALONE).unwrap();
    let found: Vec<(&str, bool)> =
        compared.differences.iter().map(|difference| (difference.what.as_str(), difference.refused)).collect();
    assert_eq!(
        found,
        [
            ("what an acknowledgement meant", true),
            ("producers.batch", false),
            ("scheduling policy", false),
            ("machine", false)
        ]
    );
    assert_eq!(compared.refusals().next().unwrap().b, "disk, 3 copies");
}

#[test]
fn runs_of_another_scenario_among_those_of_a_side_are_said() {
    let mixed = changed(&trials(&RATES, 0, 1), |index, record| {
        if index >= 3 {
            record.run_id = "another".to_owned();
            record.scenario["producers"]["batch"] = 17.into();
        }
    });
    let compared = compare(&mixed, &trials(&RATES, 60, 1), TRIALS_ALONE).unwrap();
    let batch = compared.differences.iter().find(|difference| difference.what == "producers.batch").unwrap();
    assert!(batch.a.starts_with("17; ") && batch.a.ends_with(&batch.b), "{batch:?}");
}

#[test]
fn points_match_by_values_and_p_is_adjusted() {
    let with = |rates: &[f64], minute: i64, producers: &[u64]| -> Vec<KeptTrial> {
        let of = |(index, producers): (usize, &u64)| {
            let mut found = trials(rates, minute, 1);
            for trial in &mut found {
                trial.record.point_index = index;
                trial.record.point.insert("producers.count".to_owned(), (*producers).into());
            }
            found
        };
        producers.iter().enumerate().flat_map(of).collect()
    };
    let compared = compare(&with(&RATES, 0, &[1, 2, 4]), &with(&slower(0.9), 60, &[4, 2, 8]), TRIALS_ALONE).unwrap();
    let points: Vec<String> = compared.points.iter().map(|point| point.point["producers.count"].to_string()).collect();
    assert_eq!((points, compared.unmatched_points), (vec!["2".to_owned(), "4".to_owned()], 2));
    let figure = rate_of(&compared);
    assert_eq!(figure.adjusted_p, figure.p * 2.0);
    let error = compare(&with(&RATES, 0, &[1, 2]), &with(&RATES, 60, &[3, 4]), TRIALS_ALONE).unwrap_err();
    assert_eq!(error, ComparisonError::NoCommonPoint);
}

#[test]
fn single_trials_cannot_tell_but_have_an_interval_of_their_own() {
    let series = |mut trials: Vec<KeptTrial>| {
        trials[0].series =
            (0..30).map(|second| SeriesRow { second, ..sample::series()[4 + second as usize % 7].clone() }).collect();
        trials
    };
    let compared = compare(&series(trials(&[1000.0], 0, 1)), &series(trials(&[900.0], 60, 1)), TRIALS_ALONE).unwrap();
    let figure = rate_of(&compared);
    assert_fields!(figure, { outcome: Outcome::CannotTell, ratio_low: None, more_trials: Some(3) });
    assert!(figure.a.low.is_some() && figure.a.effective_seconds.is_some(), "{figure:?}");
    let p99 = compared.points[0].figures.iter().find(|figure| figure.figure == FigureKind::ResponseP99).unwrap();
    assert!(p99.a.low.unwrap() <= p99.a.median && p99.a.median <= p99.a.high.unwrap(), "{p99:?}");
    // Rows of earlier builds have no length.
    let mut earlier = series(trials(&[1000.0], 0, 1));
    earlier[0].series.iter_mut().for_each(|row| row.length_ns = 0);
    let with_earlier = compare(&earlier, &series(trials(&[900.0], 60, 1)), TRIALS_ALONE).unwrap();
    assert_eq!(rate_of(&with_earlier).a, figure.a);
}

#[test]
fn only_completed_and_preferably_valid_trials_count() {
    let mut a = trials(&RATES, 0, 1);
    a[0].record.verdict.valid = false;
    a[1].record.status = Status::Interrupted;
    let compared = compare(&a, &trials(&RATES, 60, 1), TRIALS_ALONE).unwrap();
    let of_a = compared.points[0].trials_of_a;
    assert_eq!(of_a.trials, 5);
    assert_eq!(of_a.completed, 5);
    assert_eq!(of_a.valid, 4);
    assert_eq!(of_a.interrupted, 1);
    assert_eq!(rate_of(&compared).a.trials, 4);
    a.iter_mut().for_each(|trial| trial.record.status = Status::Failed);
    assert_eq!(compare(&a, &a, TRIALS_ALONE).unwrap_err(), ComparisonError::NoTrial { side: "A" });
}

fn changed(trials: &[KeptTrial], change: impl Fn(usize, &mut Record)) -> Vec<KeptTrial> {
    let mut changed = trials.to_vec();
    changed.iter_mut().enumerate().for_each(|(index, trial)| change(index, &mut trial.record));
    changed
}

/// Trials in which nothing failed.
fn sound(first_minute: i64) -> Vec<KeptTrial> {
    changed(&trials(&RATES, first_minute, 1), |_, record| fail(record, 0))
}

fn fail(record: &mut Record, failed: u64) {
    record.counts.failed = failed;
    record.counts.acknowledged = record.counts.attempted - failed;
}

fn against(record: &mut Record, kinds: &[ReasonKind]) {
    let of = |kind: &ReasonKind| Reason {
        kind: *kind,
        evidence: String::new(),
        advice: String::new(),
        figures: Default::default(),
    };
    record.verdict.valid = false;
    record.verdict.reasons = kinds.iter().map(of).collect();
}

/// What became of a count of B against trials without any, and the verdict.
fn counted(kind: CountKind, b: &[KeptTrial]) -> (Outcome, Verdict) {
    let compared = compare(&sound(0), b, Bounds::default()).unwrap();
    let found = compared.points[0].counts.iter().find(|count| count.count == kind).unwrap();
    (found.outcome, compared.verdict)
}

#[test]
fn single_runs_tell_only_what_runs_do_not_differ_by() {
    let of = |share: f64| {
        let b = changed(&trials(&slower(share), 600, 1), |_, record| fail(record, 0));
        compare(&sound(0), &b, Bounds::default()).unwrap()
    };
    let tenth = of(0.9);
    assert_eq!((rate_of(&tenth).outcome, tenth.verdict), (Outcome::CannotTell, Verdict::NoRegressionFound));
    assert_eq!(rate_of(&tenth).conclusion(0.05), "cannot tell: runs may differ by as much");
    assert!((tenth.least_change.unwrap() - 0.206).abs() < 0.001, "{:?}", tenth.least_change);
    assert_eq!(of(0.7).verdict, Verdict::Regression);
}

#[test]
fn with_several_runs_a_side_the_run_is_the_unit() {
    let runs = |name: &str, centres: &[f64], hour: i64| -> Vec<KeptTrial> {
        let of = |(index, centre): (usize, &f64)| {
            let of_run = trials(&slower(centre / 1000.0), 60 * (hour + index as i64), 1);
            changed(&of_run, |_, record| record.run_id = format!("{name}-{index}"))
        };
        centres.iter().enumerate().flat_map(of).collect()
    };
    let a = runs("a", &[1000.0, 1100.0, 950.0, 1050.0], 0);
    let alike = compare(&a, &runs("b", &[980.0, 1080.0, 930.0, 990.0], 20), Bounds::default()).unwrap();
    assert_eq!((alike.design, rate_of(&alike).outcome), (Design::SeveralRuns, Outcome::CannotTell));
    assert_eq!((alike.points[0].trials_of_a.runs, rate_of(&alike).p > 0.2), (4, true));
    let slower = compare(&a, &runs("b", &[800.0, 810.0, 830.0, 790.0], 20), Bounds::default()).unwrap();
    assert_eq!((rate_of(&slower).outcome, slower.verdict), (Outcome::Worse, Verdict::Regression));
    // With fewer, runs that differ by more than is taken for granted widen the interval.
    let few = compare(&a[..12], &runs("b", &[800.0], 20), Bounds::default()).unwrap();
    assert_eq!((few.design, rate_of(&few).outcome), (Design::SingleRuns, Outcome::CannotTell));
}

#[test]
fn a_message_that_is_lost_is_a_regression_where_none_was() {
    let lost = |number: u64| {
        move |index: usize, record: &mut Record| {
            record.verification.as_mut().unwrap().lost = if index == 0 { number } else { 0 };
        }
    };
    let b = changed(&sound(60), lost(1));
    assert_eq!(counted(CountKind::Lost, &b), (Outcome::Worse, Verdict::Regression));
    let both = compare(&b, &changed(&sound(600), lost(2)), Bounds::default()).unwrap();
    assert_eq!(both.verdict, Verdict::NoRegressionFound, "a similar share");
    let better = compare(&b, &sound(600), Bounds::default()).unwrap();
    assert_eq!(better.verdict, Verdict::NoRegressionFound);
    let unverified = changed(&sound(60), |_, record| record.verification = None);
    let compared = compare(&sound(0), &unverified, Bounds::default()).unwrap();
    let found = compared.points[0].counts.iter().find(|count| count.count == CountKind::Lost).unwrap();
    assert!(found.conclusion().contains("of B: nothing was verified"), "{found:?}");
}

#[test]
fn failures_count_if_many_or_in_many_trials() {
    let failed = |number: u64, trials: usize| {
        changed(&sound(60), |index, record| fail(record, if index < trials { number } else { 0 }))
    };
    let kind = CountKind::NotAcknowledged;
    assert_eq!(counted(kind, &failed(10_000, 6)), (Outcome::Worse, Verdict::Regression), "2 % in each trial");
    assert_eq!(counted(kind, &failed(500_000, 6)).1, Verdict::Regression, "nothing was acknowledged");
    assert_eq!(counted(kind, &failed(20_000, 1)).1, Verdict::Regression, "4 % in one trial of six");
    assert_eq!(counted(kind, &failed(10_000, 6)[..1]).1, Verdict::Regression, "a single trial");
    let once = (Outcome::CannotTell, Verdict::NoRegressionFound);
    assert_eq!(counted(kind, &failed(50, 1)), once, "chance may make 1 of 10,000 in one trial of six");
    assert_eq!(counted(kind, &failed(1, 6)), once, "trials of one run are no independent units");
    let in_turn = compare(
        &sound(0),
        &changed(&failed(1, 6), |index, record| {
            record.started_at = sound(0)[index].record.started_at + jiff::SignedDuration::from_secs(20);
        }),
        Bounds::default(),
    )
    .unwrap();
    assert_eq!((in_turn.design, in_turn.verdict), (Design::InTurn, Verdict::Regression), "in every trial, in turn");
    // What A has as well is no regression.
    let both = compare(&failed(1_000, 6), &failed(1_500, 6), Bounds::default()).unwrap();
    assert_eq!(both.verdict, Verdict::NoRegressionFound);
}

#[test]
fn more_duplicates_than_messages_are_not_similar_to_none() {
    let duplicated = |number: u64, minute: i64| {
        changed(&sound(minute), |_, record| record.verification.as_mut().unwrap().duplicated = number)
    };
    let b = duplicated(1_500_000, 60);
    assert_eq!(counted(CountKind::Duplicated, &b), (Outcome::Worse, Verdict::Regression), "2.5 for each message");
    let both = compare(&duplicated(1_000_000, 0), &b, Bounds::default()).unwrap();
    assert_eq!(both.verdict, Verdict::NoRegressionFound, "a similar share");
}

#[test]
fn trials_that_fail_or_stall_count() {
    let ended = |status: Status, number: usize| {
        changed(&sound(60), |index, record| {
            if index < number {
                record.status = status;
                against(record, &[ReasonKind::Stalled]);
            }
        })
    };
    let kind = CountKind::UnsoundTrials;
    assert_eq!(counted(kind, &ended(Status::Stalled, 3)), (Outcome::Worse, Verdict::Regression));
    assert_eq!(counted(kind, &ended(Status::Failed, 1)).1, Verdict::NoRegressionFound, "one of six");
    let b = ended(Status::Failed, 6);
    assert_eq!(counted(kind, &b).1, Verdict::Regression);
    let all = compare(&sound(0), &b, Bounds::default()).unwrap();
    assert!(all.points[0].figures.is_empty() && all.differences.is_empty(), "{all:?}");
    assert_eq!(all.points[0].missing_figures[0].reason, "of B: no trial was completed");
    assert_eq!(compare(&b, &sound(0), Bounds::default()).unwrap_err(), ComparisonError::NoTrial { side: "A" });
    let stopped = ended(Status::Interrupted, 6);
    assert_eq!(compare(&sound(0), &stopped, Bounds::default()).unwrap_err(), ComparisonError::NoTrial { side: "B" });
}

#[test]
fn invalid_trials_count_unless_the_machine_explains_them() {
    let invalid = |kinds: &[ReasonKind], number: usize| {
        changed(&sound(60), |index, record| {
            if index < number {
                against(record, kinds)
            }
        })
    };
    let kind = CountKind::UnsteadyTrials;
    assert_eq!(counted(kind, &invalid(&[ReasonKind::NotSteady], 3)), (Outcome::Worse, Verdict::Regression));
    let by_chance = (Outcome::CannotTell, Verdict::NoRegressionFound);
    assert_eq!(counted(kind, &invalid(&[ReasonKind::NotSteady], 2)), by_chance);
    let withheld = [ReasonKind::TimeWithheld, ReasonKind::NotSteady];
    assert_eq!(counted(kind, &invalid(&withheld, 3)), (Outcome::NoDifferent, Verdict::NoRegressionFound));
    assert_eq!(counted(kind, &invalid(&withheld, 6)).1, Verdict::NotKnown, "no trial of B is valid");
    let slow = changed(&trials(&slower(0.7), 600, 1), |_, record| {
        fail(record, 0);
        against(record, &withheld);
    });
    let slow = compare(&sound(0), &slow, Bounds::default()).unwrap();
    assert_eq!((rate_of(&slow).outcome, slow.regressions(), slow.verdict), (Outcome::Worse, 0, Verdict::NotKnown));
    let unsteady = changed(&sound(60), |_, record| against(record, &[ReasonKind::NotSteady]));
    let failed = changed(&sound(0), |_, record| against(record, &[ReasonKind::Losses]));
    let better = compare(&failed, &unsteady, Bounds::default()).unwrap();
    assert_eq!(better.regressions(), 0, "of an unsound trial it is not asked whether it was steady");
    let lossy = [ReasonKind::TimeWithheld, ReasonKind::Losses];
    assert_eq!(counted(CountKind::UnsoundTrials, &invalid(&lossy, 2)), (Outcome::Worse, Verdict::Regression));
}

#[test]
fn a_comparison_without_a_valid_trial_on_both_sides_is_not_known() {
    let unsteady = |trials: &[KeptTrial]| changed(trials, |_, record| against(record, &[ReasonKind::TimeWithheld]));
    let a = unsteady(&sound(0));
    let alike = compare(&a, &unsteady(&sound(60)), Bounds::default()).unwrap();
    assert_eq!((alike.regressions(), alike.verdict), (0, Verdict::NotKnown));
    let embedded = |trials: &[KeptTrial]| changed(trials, |_, record| record.environment.embedded = true);
    let demonstrated = compare(&embedded(&a), &embedded(&a), Bounds::default()).unwrap();
    assert_eq!(demonstrated.verdict, Verdict::NoRegressionFound, "such trials are hardly ever valid");
    // Of a sweep, a point that neither side can carry hides nothing of the others.
    let at_two_points = |trials: &[KeptTrial]| {
        changed(trials, |index, record| {
            record.point.insert("producers.count".to_owned(), (index % 2).into());
            if index % 2 == 1 {
                against(record, &[ReasonKind::TimeWithheld]);
            }
        })
    };
    let swept = compare(&at_two_points(&sound(0)), &at_two_points(&sound(60)), Bounds::default()).unwrap();
    assert_eq!((swept.points.len(), swept.verdict), (2, Verdict::NoRegressionFound));
}

#[test]
fn consumers_that_fall_behind_in_b_alone_are_a_regression() {
    let behind = |number: usize| {
        changed(&sound(60), |index, record| {
            let latency = record.latency.end_to_end.take();
            record.latency.end_to_end =
                latency.map(|latency| if index < number { latency.with_growing_lag() } else { latency });
        })
    };
    let kind = CountKind::TrialsWithGrowingLag;
    assert_eq!(counted(kind, &behind(0)), (Outcome::NoDifferent, Verdict::NoRegressionFound));
    assert_eq!(counted(kind, &behind(1)), (Outcome::CannotTell, Verdict::NoRegressionFound));
    assert_eq!(counted(kind, &behind(6)), (Outcome::Worse, Verdict::Regression));
}

#[test]
fn percentiles_are_of_all_messages_that_were_wanted() {
    let b = changed(&sound(60), |_, record| fail(record, 3_000));
    let compared = compare(&sound(0), &b, Bounds::default()).unwrap();
    let figure = |kind: FigureKind| compared.points[0].figures.iter().find(|figure| figure.figure == kind);
    assert!(figure(FigureKind::ResponseP99).unwrap().ratio > 1.0, "of 0.6 % no answer came: {compared:?}");
    let missing = &compared.points[0].missing_figures;
    let found = missing.iter().find(|missing| missing.figure == FigureKind::ResponseP999).unwrap();
    assert_eq!(found.reason, "of B: in 6 of 6 trials, 0.6 % of the messages had no acknowledgement");
    let without = changed(&sound(60), |_, record| record.latency.end_to_end = None);
    let compared = compare(&sound(0), &without, Bounds::default()).unwrap();
    assert_eq!(compared.points[0].missing_figures[0].figure, FigureKind::EndToEndP99);
}

#[test]
fn each_of_several_groups_of_consumers_is_compared_by_itself() {
    let with_groups = |slower: u64| {
        let mut side = trials(&RATES, slower as i64 * 60, 1);
        for (index, trial) in side.iter_mut().enumerate() {
            let of_group = |group: &str, ms: u64| {
                let mut histogram = hdrhistogram::Histogram::new_with_max(600_000_000_000, 3).unwrap();
                let messages = trial.record.counts.attempted + trial.record.counts.unsent;
                histogram.record_n((ms * 100 + index as u64) * 10_000, messages).unwrap();
                GroupLatency {
                    group: group.to_owned(),
                    end_to_end: Latency::from_histogram(&histogram, 0, Some(messages)),
                }
            };
            trial.record.latency.end_to_end_by_group = vec![of_group("quick", 5), of_group("slow", 50 * slower)];
        }
        side
    };
    let compared = compare(&with_groups(1), &with_groups(2), TRIALS_ALONE).unwrap();
    let figures = &compared.points[0].figures;
    let of = |name: &str| figures.iter().find(|found| found.figure.to_string() == name).map(|found| found.outcome);
    assert_eq!(of("end-to-end p99, quick"), Some(Outcome::NoDifferent), "{:?}", compared.points[0]);
    assert_eq!(of("end-to-end p99, slow"), Some(Outcome::Worse));
    assert_eq!(of("end-to-end p99"), None, "the groups are never mixed");
    // The sample has one group, whose name is its number.
    let mut of_one = trials(&RATES, 0, 1);
    let why = |of_one: &[KeptTrial], name: &str| {
        let compared = compare(of_one, &with_groups(2), TRIALS_ALONE).unwrap();
        let missing = compared.points[0].missing_figures.iter().find(|missing| missing.figure.to_string() == name);
        missing.map(|missing| missing.reason.clone()).unwrap_or_default()
    };
    assert_eq!(why(&of_one, "end-to-end p99, slow"), "of A: in 6 of 6 trials, there is no such group of consumers");
    assert_eq!(why(&of_one, "end-to-end p99"), "of B: in 6 of 6 trials, each group of consumers has its own");
    of_one.iter_mut().for_each(|trial| trial.record.scenario["consumers"]["groups"] = 2.into());
    assert!(why(&of_one, "end-to-end p99, slow").ends_with("the groups of consumers were not kept apart"));
}
