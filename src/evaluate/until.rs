//! Whether a point has been repeated often enough.

use super::threshold::measured;
use super::verdict::trend::Trend;
use crate::record::Record;
use crate::record::readable::{count, percent};
use crate::scenario::Until;
use crate::statistics::{Interval, centre_after_looks, likeness_of_neighbours};

/// A trend of the trials is one from this score on, in standard deviations: chance makes so large a one in 1 of 20 cases.
const TREND: f64 = 1.96;

/// Neighbouring trials are alike from this score on, in standard deviations: chance makes them so alike in 1 of 20 cases.
const ALIKE: f64 = 1.645;

/// What trials say of a point's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    /// The interval is narrow enough.
    Known,
    /// It reaches by this share of the estimate to a side.
    Wide(f64),
    /// The trials are not alike in time: the interval of their mean says nothing of later ones.
    Changed,
    /// There are too few trials.
    TooFew,
}

/// Whether no further trial of the point is needed.
pub fn is_enough(until: &Until, trials: &[&Record]) -> bool {
    figures(until, trials).is_ok_and(|figures| standing(&figures, until.share, until.least_trials) == Standing::Known)
}

/// Why a point whose trials are over is not known as it was to be; `None` where it is.
pub fn not_known(until: &Until, trials: &[&Record]) -> Option<String> {
    let found = match figures(until, trials) {
        Ok(figures) => figures,
        Err(reason) => return Some(format!("`{}` cannot be told: {reason}", until.text)),
    };
    let number = count(found.len() as u64);
    match standing(&found, until.share, until.least_trials) {
        Standing::Known => None,
        Standing::TooFew => Some(format!("`{}` was not reached: {number} trials count", until.text)),
        Standing::Wide(half) => {
            Some(format!("`{}` was not reached with {number} trials: ± {}", until.text, percent(half)))
        }
        Standing::Changed => Some(format!(
            "`{}` cannot be told: the result changed during the run, beyond what chance does to {number} trials. \
             Their mean is that of this time only: use longer trials, or find out what changed",
            until.text
        )),
    }
}

/// The metric of the valid trials; without any, of all completed ones. Or why one of them lacks it.
fn figures(until: &Until, trials: &[&Record]) -> Result<Vec<f64>, String> {
    let valid: Vec<&Record> = trials.iter().copied().filter(|record| record.verdict.valid).collect();
    let counted = if valid.is_empty() { trials.to_vec() } else { valid };
    counted.iter().map(|record| measured(until.metric, record, 0)).collect()
}

/// `figures` are in the order of the trials.
fn standing(figures: &[f64], share: f64, least_trials: u32) -> Standing {
    let interval = centre_after_looks(figures).filter(|_| figures.len() >= least_trials as usize);
    let Some(Interval { estimate, low, high }) = interval else { return Standing::TooFew };
    let half = (high - estimate).max(estimate - low) / estimate;
    if has_changed(figures) {
        Standing::Changed
    } else if half <= share {
        Standing::Known
    } else {
        Standing::Wide(half)
    }
}

/// Whether the figures have a trend, or follow each other more closely than chance makes them.
fn has_changed(figures: &[f64]) -> bool {
    let trend = Trend::new(&[figures.to_vec()]);
    trend.is_some_and(|trend| trend.score.abs() >= TREND) || likeness_of_neighbours(figures) >= ALIKE
}

#[cfg(test)]
#[path = "../../tests/unit/evaluate/until.rs"]
mod tests;
