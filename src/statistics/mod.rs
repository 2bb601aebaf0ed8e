//! Statistics of repeated trials: pure functions of slices of numbers, which import nothing of the project.
//!
//! The unit is the trial. Figures of one point are ratios by nature, so they are compared by their logarithms: a difference of
//! logarithms is the logarithm of a ratio.
//!
//! - `trials`: median and quartiles, an interval of the centre between trials, and what differs between runs.
//! - `within_trial`: intervals of a mean and of a quantile within a trial, and where its series begins to be steady.
//! - `difference`: the Hodges–Lehmann estimate of a difference with its interval, and how easily chance makes it.
//! - `comparison`: from two lists of trials to what can be said of them, and several p-values at once.
//! - `search`: the highest rate that holds, by probes.

mod comparison;
mod difference;
pub mod search;
#[cfg(test)]
#[path = "../../tests/unit/statistics/simulations.rs"]
mod simulations;
mod trials;
mod within_trial;

pub use comparison::{Comparison, Conclusion, Design, compare, conclude, holm, least_change};
pub use difference::chance_of_independent as permutation_p;
pub use trials::{
    Quartiles, centre, centre_after_looks, corrected_errors, likeness_of_neighbours, median, quartiles, run_centres,
    spread_of_runs,
};
pub use within_trial::{quantile_ranks, series_mean, steady_from};

/// The confidence of every interval: 95 of 100 such intervals hold the true value.
pub const CONFIDENCE: f64 = 0.95;

/// An estimate with the interval that holds the true value with a probability of [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The interval of `e` to the power of the value.
    fn exp(self) -> Interval {
        Interval { estimate: self.estimate.exp(), low: self.low.exp(), high: self.high.exp() }
    }
}

/// Not a number where there are no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The lowest and the highest; without values, the lowest is infinite and the highest less than all.
pub fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}
