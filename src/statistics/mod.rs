//! Statistics of repeated trials: pure functions of slices of numbers, which import nothing of the project.
//!
//! The unit is the trial. Figures of one point are ratios by nature, so they are compared by their logarithms: a difference of
//! logarithms is the logarithm of a ratio.
//!
//! - `order`: median and quartiles. `trials`: an interval of the centre between trials. `runs`: what differs between runs.
//! - `blocks`: an interval of a mean within a trial, whose seconds are correlated. `ranks`: the same of a quantile.
//! - `shift`: the Hodges–Lehmann estimate of a difference with its interval. `permutation`: how easily chance makes it.
//! - `holm`: several p-values at once. `comparison`: from two lists of trials to what can be said of them.
//! - `steady`: where a series begins to be steady. `search`: the highest rate that holds, by probes.

mod blocks;
mod comparison;
mod holm;
mod order;
mod permutation;
mod ranks;
mod runs;
pub mod search;
mod shift;
#[cfg(test)]
#[path = "../../tests/unit/statistics/simulations.rs"]
mod simulations;
mod steady;
mod trials;

pub use blocks::series_mean;
pub use comparison::{Comparison, Conclusion, Design, compare, conclude, least_change};
pub use holm::holm;
pub use order::{Quartiles, median, quartiles};
pub use permutation::independent as permutation_p;
pub use ranks::quantile_ranks;
pub use runs::{run_centres, spread_of_runs};
pub use steady::steady_from;
pub use trials::{centre, centre_after_looks, corrected_errors, likeness_of_neighbours};

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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
