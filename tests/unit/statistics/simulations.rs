//! The promises of the statistics, on simulated trials with a known truth. All are seeded, so they cannot fail by chance.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use super::*;

const SIMULATIONS: u64 = 500;

/// Normal deviates of one simulation.
struct Noise(Xoshiro256PlusPlus);

impl Noise {
    fn next(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Figures of trials around `centre`, each off by about `share`.
    fn trials(&mut self, number: usize, centre: f64, share: f64) -> Vec<f64> {
        (0..number).map(|_| centre * (share * self.next()).exp()).collect()
    }

    /// A first-order autoregression around 100, begun in its steady state.
    fn autoregression(&mut self, number: usize, correlation: f64) -> Vec<f64> {
        let innovation = (1.0 - correlation * correlation).sqrt();
        let mut state = self.next();
        (0..number)
            .map(|_| {
                state = correlation * state + innovation * self.next();
                100.0 + 5.0 * state
            })
            .collect()
    }
}

/// The share of the simulations for which `holds`.
fn share(seed: u64, mut holds: impl FnMut(&mut Noise) -> bool) -> f64 {
    let simulations = (0..SIMULATIONS).filter(|index| {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000_000 + index);
        holds(&mut Noise(random))
    });
    simulations.count() as f64 / SIMULATIONS as f64
}

fn covers(interval: Interval, truth: f64) -> bool {
    interval.low <= truth && truth <= interval.high
}

#[track_caller]
fn assert_nominal(coverage: f64) {
    assert!((0.93..=0.97).contains(&coverage), "{coverage}");
}

#[test]
fn intervals_between_trials_cover_the_truth() {
    for (seed, trials) in [(1, 3), (2, 5), (3, 10)] {
        assert_nominal(share(seed, |noise| covers(centre(&noise.trials(trials, 100.0, 0.05)).unwrap(), 100.0)));
    }
}

#[test]
fn intervals_of_ratios_cover_the_truth() {
    assert_nominal(share(4, |noise| {
        let (a, b) = (noise.trials(10, 100.0, 0.05), noise.trials(10, 90.0, 0.05));
        covers(compare(&a, &b, Design::Independent).unwrap().interval.unwrap(), 0.9)
    }));
}

#[test]
fn intervals_of_pairs_cover_the_truth_while_the_machine_drifts() {
    // It slows by 10 % over the run. The sides take turns, and the first of each pair alternates.
    assert_nominal(share(5, |noise| {
        let mut sides = [Vec::new(), Vec::new()];
        for pair in 0..10 {
            for place in 0..2 {
                let side = (pair + place) % 2;
                let drift = 1.0 - 0.1 * f64::from(2 * pair + place) / 20.0;
                sides[side as usize].push(drift * noise.trials(1, [100.0, 90.0][side as usize], 0.02)[0]);
            }
        }
        covers(compare(&sides[0], &sides[1], Design::Paired).unwrap().interval.unwrap(), 0.9)
    }));
}

#[test]
fn trial_intervals_cover_the_truth_of_correlated_seconds() {
    for (seed, seconds, correlation) in [(6, 60, 0.0), (7, 60, 0.5), (8, 300, 0.8)] {
        let mut effective = 0.0;
        assert_nominal(share(seed, |noise| {
            let found = series_mean(&noise.autoregression(seconds, correlation)).unwrap();
            effective += found.effective_size / SIMULATIONS as f64;
            covers(found.interval, 100.0)
        }));
        let expected = seconds as f64 * (1.0 - correlation) / (1.0 + correlation);
        assert!((0.7..1.4).contains(&(effective / expected)), "{effective} {expected}");
    }
}

#[test]
fn quantile_intervals_cover_the_truth_of_correlated_batches() {
    // Ten messages of each batch have the latency of the batch. The 90th percentile of a normal deviate is 1.2816.
    assert_nominal(share(9, |noise| {
        let batches = 400;
        let mut latencies: Vec<f64> = (0..batches).flat_map(|_| [noise.next(); 10]).collect();
        latencies.sort_by(f64::total_cmp);
        let ranks = quantile_ranks(0.9, f64::from(batches)).unwrap();
        let at = |share: f64| latencies[(share * latencies.len() as f64) as usize];
        at(ranks.low) <= 1.2816 && 1.2816 <= at(ranks.high)
    }));
}

#[test]
fn equal_sides_are_seldom_changed_and_a_slowdown_is_found() {
    let changed = |noise: &mut Noise, factor: f64| {
        let (a, b) = (noise.trials(10, 100.0, 0.02), noise.trials(10, 100.0 * factor, 0.02));
        let found = compare(&a, &b, Design::Independent).unwrap();
        conclude(&found, found.p, 1, 0.05) == Conclusion::Changed
    };
    let (equal, slower) = (share(10, |noise| changed(noise, 1.0)), share(11, |noise| changed(noise, 0.95)));
    assert!(equal <= 0.05 && slower >= 0.9, "{equal} {slower}");
}

/// How often a figure of B is a regression, of runs that differ by `between` and whose trials differ by `within`.
fn regressions(seed: u64, (within, between): (f64, f64), slowdown: f64, tolerance: f64, design: Design) -> f64 {
    share(seed, |noise| {
        let mut side = |centre: f64| {
            let run = noise.trials(1, centre, between)[0];
            noise.trials(10, run, within)
        };
        let (a, b) = (side(100.0), side(100.0 / slowdown));
        let found = compare(&a, &b, design).unwrap();
        let is_changed = conclude(&found, found.p, 1, tolerance) == Conclusion::Changed;
        is_changed && -found.ratio.ln() > tolerance.ln_1p()
    })
}

#[test]
fn equal_single_runs_are_seldom_a_regression() {
    let separate = Design::Separate { spread: 1.07f64.ln() * 2f64.sqrt() };
    // By their trials alone, 27 % of them are.
    assert!(regressions(14, (0.015, 0.05), 1.0, 0.05, Design::Independent) > 0.2);
    for (seed, noise, tolerance) in [(14, (0.015, 0.05), 0.05), (15, (0.015, 0.05), 0.1), (16, (0.02, 0.07), 0.1)] {
        let found = regressions(seed, noise, 1.0, tolerance, separate);
        assert!(found < 0.05, "{noise:?}, tolerance {tolerance}: {found}");
    }
    assert!(regressions(17, (0.015, 0.05), 1.3, 0.1, separate) > 0.8);
}

#[test]
fn equal_sides_of_several_runs_are_seldom_a_regression() {
    for (seed, runs, between) in [(18, 5, 0.05), (19, 5, 0.1), (20, 3, 0.1), (21, 2, 0.15)] {
        let found = share(seed, |noise| {
            let mut side = || -> Vec<Vec<f64>> {
                let centres = noise.trials(runs, 100.0, between);
                let logarithms = |trials: Vec<f64>| trials.iter().map(|figure| figure.ln()).collect();
                centres.into_iter().map(|centre| logarithms(noise.trials(3, centre, 0.02))).collect()
            };
            let sides = [side(), side()];
            let figures = |runs: &[Vec<f64>]| runs.concat().iter().map(|figure| figure.exp()).collect::<Vec<_>>();
            let found = if runs >= 4 {
                compare(&run_centres(&sides[0]), &run_centres(&sides[1]), Design::Independent)
            } else {
                let spread = spread_of_runs(&sides, 1.07f64.ln());
                compare(&figures(&sides[0]), &figures(&sides[1]), Design::Separate { spread })
            };
            let found = found.unwrap();
            conclude(&found, found.p, 1, 0.1) == Conclusion::Changed && -found.ratio.ln() > 1.1f64.ln()
        });
        assert!(found < 0.05, "{runs} runs that differ by {between}: {found}");
    }
}

#[test]
fn steady_series_are_seldom_truncated_and_a_warm_up_is_found() {
    let truncated = |noise: &mut Noise, warm_up: usize| {
        let mut seconds = noise.autoregression(60, 0.3);
        seconds[..warm_up].iter_mut().for_each(|second| *second *= 0.7);
        steady_from(&seconds).unwrap_or(usize::MAX)
    };
    let steady = share(12, |noise| truncated(noise, 0) == 0);
    let found = share(13, |noise| (10..=30).contains(&truncated(noise, 10)));
    assert!(steady >= 0.97 && found >= 0.95, "{steady} {found}");
}
