//! Where a series begins to be steady.

use super::trials::variance;
use super::{mean, series_mean};

/// Fewest values of a series that is judged.
const MIN_VALUES: usize = 20;

/// Values of a batch, as the name of the rule says, in a series of ten batches or more. Single values otherwise.
const BATCH: usize = 5;

/// The earliest truncation whose error is at most this many times the smallest: near its minimum the rule is decided by chance.
const NEARLY_SMALLEST: f64 = 1.5;

/// How many standard errors the begin must lie away from the rest: chance reaches that once in several hundred series.
const MIN_SCORE: f64 = 3.0;

/// How many of the first values do not belong to the steady state: 0 where the series is steady from its begin. `None`: it has
/// too few values, or its halves still differ after that.
///
/// MSER-5 (White, Cobb and Spratt, *A Comparison of Five Steady-State Truncation Heuristics for Simulation*, Winter Simulation
/// Conference 2000): the truncation that makes the standard error of the remaining mean smallest. The rule truncates
/// something of most series that are steady, so what it truncates must also differ from the rest by more than chance.
pub fn steady_from(values: &[f64]) -> Option<usize> {
    if values.len() < MIN_VALUES {
        return None;
    }
    let batch = if values.len() >= 10 * BATCH { BATCH } else { 1 };
    let batches: Vec<f64> = values.chunks_exact(batch).map(mean).collect();
    let half = batches.len() / 2;
    let errors: Vec<f64> = (0..=half).map(|from| variance(&batches[from..]) / (batches.len() - from) as f64).collect();
    let smallest = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let best = errors.iter().position(|error| *error <= smallest * NEARLY_SMALLEST)?;
    let cut = if differs(&values[..best * batch], &values[best * batch..]) { best * batch } else { 0 };
    let rest = &values[cut..];
    let (first, second) = rest.split_at(rest.len() / 2);
    (!differs(first, second)).then_some(cut)
}

fn differs(begin: &[f64], rest: &[f64]) -> bool {
    let Some(known) = series_mean(rest).filter(|_| !begin.is_empty()) else { return false };
    let worth = known.effective_size / rest.len() as f64;
    // Both are means of few values of the same spread, each worth less by the correlation of its neighbours.
    let error = (variance(rest) / worth * (1.0 / begin.len() as f64 + 1.0 / rest.len() as f64)).sqrt();
    (mean(begin) - known.interval.estimate).abs() > MIN_SCORE * error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waver(index: usize) -> f64 {
        (index * 7 % 11) as f64 - 5.0
    }

    #[test]
    fn a_slow_begin_is_found() {
        let with = |slow: usize, length: usize| -> Vec<f64> {
            (0..length).map(|index| waver(index) + if index < slow { 60.0 } else { 100.0 }).collect()
        };
        assert_eq!(steady_from(&with(0, 60)), Some(0));
        assert_eq!(steady_from(&with(10, 60)), Some(10));
        assert_eq!(steady_from(&with(4, 30)), Some(4));
        assert_eq!(steady_from(&with(1, 30)), Some(1));
        assert_eq!(steady_from(&with(0, 19)), None);
    }

    #[test]
    fn what_never_becomes_steady_is_not_called_so() {
        let rising: Vec<f64> = (0..60).map(|index| waver(index) + 10.0 * index as f64).collect();
        assert_eq!(steady_from(&rising), None);
    }
}
