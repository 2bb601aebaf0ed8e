//! Trials of several runs: those of one run share its day, its topics and its broker's start, so they differ by less than runs do.

use super::trials::{normal_quantile, student};
use super::{CONFIDENCE, mean};

/// The figure of each run from the logarithms of its trials: their geometric mean.
pub fn run_centres(runs: &[Vec<f64>]) -> Vec<f64> {
    runs.iter().map(|trials| mean(trials).exp()).collect()
}

/// The standard deviation of the logarithm of a ratio of two sides that comes from their runs, given the logarithms of each run's trials.
///
/// `least`: the standard deviation of the logarithm of a run's figure that is taken for granted. If the runs of a side differ by more
/// than that, what they differ by counts instead: the pooled standard deviation of their centres, as much larger as Student's quantile
/// is than the normal one, because it is known from few runs.
pub fn spread_of_runs(sides: &[Vec<Vec<f64>>; 2], least: f64) -> f64 {
    let (mut squares, mut degrees) = (0.0, 0.0);
    for runs in sides {
        let centres: Vec<f64> = runs.iter().map(|trials| mean(trials)).collect();
        let middle = mean(&centres);
        squares += centres.iter().map(|centre| (centre - middle).powi(2)).sum::<f64>();
        degrees += centres.len() as f64 - 1.0;
    }
    let normal = normal_quantile((1.0 + CONFIDENCE) / 2.0);
    let seen = if degrees > 0.0 { (squares / degrees).sqrt() * student(degrees) / normal } else { 0.0 };
    let of_runs: f64 = sides.iter().map(|runs| 1.0 / runs.len() as f64).sum();
    seen.max(least) * of_runs.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_runs_differ_by_what_is_taken_for_granted() {
        let one = || vec![vec![0.1, 0.2, 0.3]];
        assert!((spread_of_runs(&[one(), one()], 0.07) - 0.07 * 2f64.sqrt()).abs() < 1e-12);
        let two = vec![vec![0.1], vec![0.12]];
        assert!((spread_of_runs(&[two, one()], 0.2) - 0.2 * 1.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn runs_that_differ_by_more_say_so() {
        // Their standard deviation is 0.2828 with one degree of freedom, whose quantile is 12.706.
        let two = vec![vec![0.0, 0.2], vec![0.4, 0.6]];
        let found = spread_of_runs(&[two, vec![vec![0.0]]], 0.07);
        assert!((found - 0.08f64.sqrt() * 12.7062 / 1.95996 * 1.5f64.sqrt()).abs() < 1e-3, "{found}");
        assert_eq!(run_centres(&[vec![0.0, 0.0], vec![1.0, 3.0]]), [1.0, 2f64.exp()]);
    }
}
