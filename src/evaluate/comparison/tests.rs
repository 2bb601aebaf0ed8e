use super::*;
use crate::record::{Durability, DurabilityLevel, Status, sample};

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
    let compared = |share: f64, tolerance| compare(&a, &trials(&slower(share), 60, 1), tolerance).unwrap();
    let worse = compared(0.9, 0.05);
    assert_eq!((rate_of(&worse).outcome, worse.has_regression()), (Outcome::Worse, true));
    let tolerated = compared(0.9, 0.2);
    assert_eq!((rate_of(&tolerated).outcome, tolerated.has_regression()), (Outcome::Worse, false));
    let same = compared(1.0, 0.05);
    assert_eq!((rate_of(&same).outcome, same.has_regression()), (Outcome::NoDifferent, false));
    let better = compared(1.1, 0.05);
    assert_eq!((rate_of(&better).outcome, better.has_regression()), (Outcome::Better, false));
}

#[test]
fn trials_that_ran_in_turn_are_paired() {
    let in_turn = compare(&trials(&RATES, 0, 2), &trials(&slower(0.9), 1, 2), 0.05).unwrap();
    let after = compare(&trials(&RATES, 0, 1), &trials(&slower(0.9), 60, 1), 0.05).unwrap();
    assert!(in_turn.paired && !after.paired);
    assert_eq!(rate_of(&in_turn).outcome, Outcome::Worse);
}

#[test]
fn a_trial_that_is_not_valid_takes_its_neighbour_out_and_leaves_the_other_pairs() {
    // The machine slows down for both from pair to pair, so only pairs show the 2 %.
    let slowing: Vec<f64> = (0..8).map(|pair| 1000.0 * (1.0 - 0.1 * f64::from(pair))).collect();
    let slower: Vec<f64> = slowing.iter().map(|rate| rate * 0.98).collect();
    let (mut a, mut b) = (trials(&slowing, 0, 2), trials(&slower, 1, 2));
    a[2].record.verdict.valid = false;
    b[5].record.verdict.valid = false;
    let compared = compare(&a, &b, 0.05).unwrap();
    assert!(compared.paired);
    assert_eq!((compared.points[0].valid_of_a, compared.points[0].valid_of_b), (7, 7));
    let rate = rate_of(&compared);
    assert_eq!((rate.a.trials, rate.b.trials), (6, 6));
    assert!((rate.ratio - 0.98).abs() < 1e-9 && rate.ratio_low.unwrap() > 0.97, "{rate:?}");
    // Without a pair of valid trials, the valid ones of each side are all there is.
    for (index, (of_a, of_b)) in a.iter_mut().zip(&mut b).enumerate() {
        (of_a.record.verdict.valid, of_b.record.verdict.valid) = (index % 2 == 0, index % 2 == 1);
    }
    assert!(!compare(&a, &b, 0.05).unwrap().paired);
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
    let compared = compare(&a, &b, 0.05).unwrap();
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
fn points_are_matched_by_their_values_and_p_is_adjusted_for_them() {
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
    let compared = compare(&with(&RATES, 0, &[1, 2, 4]), &with(&slower(0.9), 60, &[4, 2, 8]), 0.05).unwrap();
    let points: Vec<String> = compared.points.iter().map(|point| point.point["producers.count"].to_string()).collect();
    assert_eq!((points, compared.unmatched_points), (vec!["2".to_owned(), "4".to_owned()], 2));
    let figure = rate_of(&compared);
    assert_eq!(figure.adjusted_p, figure.p * 2.0);
    let error = compare(&with(&RATES, 0, &[1, 2]), &with(&RATES, 60, &[3, 4]), 0.05).unwrap_err();
    assert_eq!(error, ComparisonError::NoCommonPoint);
}

#[test]
fn single_trials_cannot_tell_but_have_an_interval_of_their_own() {
    let series = |mut trials: Vec<KeptTrial>| {
        trials[0].series =
            (0..30).map(|second| SeriesRow { second, ..sample::series()[4 + second as usize % 7].clone() }).collect();
        trials
    };
    let compared = compare(&series(trials(&[1000.0], 0, 1)), &series(trials(&[900.0], 60, 1)), 0.05).unwrap();
    let figure = rate_of(&compared);
    assert_eq!((figure.outcome, figure.ratio_low, figure.more_trials), (Outcome::CannotTell, None, Some(3)));
    assert!(figure.a.low.is_some() && figure.a.effective_seconds.is_some(), "{figure:?}");
    let p99 = compared.points[0].figures.iter().find(|figure| figure.figure == FigureKind::ResponseP99).unwrap();
    assert!(p99.a.low.unwrap() <= p99.a.median && p99.a.median <= p99.a.high.unwrap(), "{p99:?}");
}

#[test]
fn only_completed_and_preferably_valid_trials_count() {
    let mut a = trials(&RATES, 0, 1);
    a[0].record.verdict.valid = false;
    a[1].record.status = Status::Interrupted;
    let compared = compare(&a, &trials(&RATES, 60, 1), 0.05).unwrap();
    assert_eq!((compared.points[0].trials_of_a, compared.points[0].valid_of_a), (5, 4));
    assert_eq!(rate_of(&compared).a.trials, 4);
    a.iter_mut().for_each(|trial| trial.record.status = Status::Failed);
    assert_eq!(compare(&a, &a, 0.05).unwrap_err(), ComparisonError::NoTrial { side: "A" });
}
