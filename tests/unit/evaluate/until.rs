use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::record::sample;
use crate::scenario::Metric;

const MIN: u32 = 6;
const MAX: usize = 30;

fn until(share: f64) -> Until {
    Until { text: "messages_per_second ± 5 %".to_owned(), metric: Metric::MessagesPerSecond, share, least_trials: MIN }
}

fn records(rates: &[f64]) -> Vec<Record> {
    let mut record = sample::record();
    record.verdict.valid = true;
    let of = |rate: &f64| {
        let mut record = record.clone();
        record.throughput.messages_per_second = *rate;
        record
    };
    rates.iter().map(of).collect()
}

fn enough(rates: &[f64], share: f64) -> bool {
    is_enough(&until(share), &records(rates).iter().collect::<Vec<_>>())
}

#[test]
fn trials_that_agree_are_enough_from_the_sixth_on() {
    assert!(!enough(&[100.0, 101.0, 99.0, 100.0, 101.0], 0.05));
    assert!(enough(&[100.0, 101.0, 99.0, 100.0, 101.0, 99.0], 0.05));
    assert!(!enough(&[100.0, 120.0, 80.0, 100.0, 120.0, 80.0], 0.05));
    assert!(!enough(&[100.0, 101.0, 99.0, 100.0, 101.0, 99.0], 0.005));
    assert!(enough(&[100.0; 6], 0.05));
}

#[test]
fn trials_that_change_are_not_enough_and_say_so() {
    let rising: Vec<f64> = (0..8).map(|trial| 100.0 + f64::from(trial)).collect();
    assert!(!enough(&rising, 0.5));
    let records = records(&rising);
    let reason = not_known(&until(0.5), &records.iter().collect::<Vec<_>>()).unwrap();
    assert!(reason.contains("the result changed during the run"), "{reason}");
    let wide = self::records(&[100.0, 120.0, 80.0, 110.0, 105.0, 85.0]);
    let reason = not_known(&until(0.05), &wide.iter().collect::<Vec<_>>()).unwrap();
    assert!(reason.contains("was not reached with 6 trials"), "{reason}");
}

#[test]
fn trials_that_are_not_valid_do_not_count_beside_valid_ones() {
    let valid = &records(&[100.0])[0];
    let mut invalid = valid.clone();
    invalid.verdict.valid = false;
    let five = [valid; 5];
    assert!(!is_enough(&until(0.05), &[&five[..], &[&invalid]].concat()));
    assert!(is_enough(&until(0.05), &[&invalid; 6]));
}

/// How the simulated runs of trials ended, as shares: of those that ended because their interval was narrow, how many contain the
/// truth; how many these are; of all, how many had changed when their trials were used up.
struct Ended {
    cover: f64,
    known: f64,
    changed: f64,
}

/// `sd` between trials, whose neighbours correlate by `memory`, while the result grows by `drift` over all 30 trials. The truth is that
/// of the time of the trials.
fn simulated(seed: u64, runs: u64, sd: f64, memory: f64, drift: f64) -> Ended {
    let figures = |normal: &mut dyn FnMut() -> f64| {
        let mut state = normal();
        let figure = |trial| {
            let figure = 100.0 * (sd * state + drift * trial as f64 / MAX as f64).exp();
            state = memory * state + (1.0 - memory * memory).sqrt() * normal();
            figure
        };
        (0..MAX).map(figure).collect()
    };
    let truth = |trials: &[f64]| 100.0 * (drift * (trials.len() - 1) as f64 / 2.0 / MAX as f64).exp();
    ended(seed, runs, figures, |figures: &Vec<f64>| figures.clone(), truth)
}

/// Trials of 30 s on a machine whose speed wanders by `wander` with a memory of so many seconds (AR(1)); each varies by `sd` beside.
/// The truth is the mean speed of the time of the trials.
fn wandering(seed: u64, runs: u64, sd: f64, wander: f64, memory_seconds: f64) -> Ended {
    let memory = (-30.0 / memory_seconds).exp();
    let trials = |normal: &mut dyn FnMut() -> f64| {
        let mut state = normal();
        let trial = |_| {
            let speed = wander * state;
            state = memory * state + (1.0 - memory * memory).sqrt() * normal();
            (speed, 100.0 * (speed + sd * normal()).exp())
        };
        (0..MAX).map(trial).collect()
    };
    let figures = |trials: &Vec<(f64, f64)>| trials.iter().map(|(_, figure)| *figure).collect();
    let truth = |trials: &[(f64, f64)]| {
        100.0 * (trials.iter().map(|(speed, _)| speed).sum::<f64>() / trials.len() as f64).exp()
    };
    ended(seed, runs, trials, figures, truth)
}

/// Runs of trials that `trials` draws: `figures` is what each trial measured, `truth` what a run of these trials should have found.
fn ended<T>(
    seed: u64,
    runs: u64,
    mut trials: impl FnMut(&mut dyn FnMut() -> f64) -> Vec<T>,
    figures: impl Fn(&Vec<T>) -> Vec<f64>,
    truth: impl Fn(&[T]) -> f64,
) -> Ended {
    let (mut cover, mut known, mut changed) = (0, 0, 0);
    for run in 0..runs {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000_000 + run);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let trials = trials(&mut normal);
        let figures = figures(&trials);
        let looks = (MIN as usize..=MAX).map(|trials| &figures[..trials]);
        let mut ended = looks.map(|figures| (figures, standing(figures, 0.05, MIN)));
        let last = ended.find(|(figures, standing)| *standing == Standing::Known || figures.len() == MAX);
        let (figures, standing) = last.unwrap();
        changed += u64::from(standing == Standing::Changed);
        if standing == Standing::Known {
            let interval = centre_after_looks(figures).unwrap();
            let truth = truth(&trials[..figures.len()]);
            known += 1;
            cover += u64::from(interval.low <= truth && truth <= interval.high);
        }
    }
    let share = |number: u64, of: u64| number as f64 / of.max(1) as f64;
    Ended { cover: share(cover, known), known: share(known, runs), changed: share(changed, runs) }
}

#[test]
fn runs_that_end_early_cover_the_truth() {
    for (seed, sd) in [(1, 0.02), (2, 0.05), (3, 0.08), (4, 0.10)] {
        let ended = simulated(seed, 2_000, sd, 0.0, 0.0);
        assert!((0.93..=0.97).contains(&ended.cover), "sd {sd}: {}", ended.cover);
        assert!(ended.known > 0.9, "sd {sd}: {} ended early", ended.known);
    }
}

#[test]
fn a_drift_of_a_tenth_is_covered_or_told() {
    for (seed, sd) in [(5, 0.02), (6, 0.05), (7, 0.08)] {
        let ended = simulated(seed, 500, sd, 0.0, 0.1);
        assert!(ended.cover >= 0.93, "sd {sd}: {}", ended.cover);
    }
    // Beside which the trials hardly vary, it is told each time.
    assert!(simulated(8, 500, 0.002, 0.0, 0.1).changed > 0.9);
}

#[test]
fn the_speed_of_its_own_time_is_covered_while_it_wanders() {
    for (seed, memory_seconds) in [(20, 60.0), (21, 300.0)] {
        for (sd, wander) in [(0.02, 0.03), (0.05, 0.03)] {
            let ended = wandering(seed, 500, sd, wander, memory_seconds);
            assert!(ended.cover >= 0.93, "memory {memory_seconds} s, sd {sd}: {}", ended.cover);
            assert!(ended.known > 0.5, "memory {memory_seconds} s, sd {sd}: {} ended early", ended.known);
        }
    }
}

#[test]
fn a_memory_beyond_the_trials_is_often_told() {
    // A few trials within one memory look alike, so no interval of theirs can contain the long-run mean.
    for (seed, sd, memory, least_cover) in [(9, 0.05, 0.3, 0.85), (10, 0.10, 0.3, 0.78), (11, 0.05, 0.6, 0.62)] {
        let ended = simulated(seed, 500, sd, memory, 0.0);
        assert!(ended.cover > least_cover, "memory {memory}, sd {sd}: {}", ended.cover);
    }
    let long = simulated(12, 500, 0.10, 0.6, 0.0);
    assert!(long.changed > 0.4, "{}", long.changed);
}
