//! What two lists of trials say about each other; and several tests at once: the more of them, the sooner one succeeds by chance.

use super::trials::{self, normal_quantile, normal_share};
use super::{CONFIDENCE, Interval, difference, mean};

/// A change is one only if chance makes it less often than this.
const LEVEL: f64 = 0.05;

/// More trials than this are not advised: the difference is too small to be worth them.
const MAX_TRIALS: usize = 1_000;

/// How the trials of both sides ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Design {
    /// Each value by itself: those of one side have only chance in common.
    Independent,
    /// In turn: the trials of the same index are neighbours in time.
    Paired,
    /// The trials of a side share a run, and runs differ by more than their trials do. `spread`: the standard deviation of the
    /// logarithm of the ratio of two equal sides that comes from their runs, however many trials they have.
    Separate { spread: f64 },
}

impl Design {
    /// How far the logarithm of a ratio is uncertain to each side with infinitely many trials.
    fn floor(self) -> f64 {
        match self {
            Design::Independent | Design::Paired => 0.0,
            Design::Separate { spread } => spread * normal_quantile((1.0 + CONFIDENCE) / 2.0),
        }
    }
}

/// The smallest change, as a share, that the separate runs of two sides can tell: with fewer trials it is larger. `spread` as in
/// [`Design::Separate`].
pub fn least_change(spread: f64) -> f64 {
    Design::Separate { spread }.floor().exp_m1()
}

/// The ratio of two sides' figures, B to A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    pub design: Design,
    /// Trials of the smaller side.
    pub trials: usize,
    /// The median of the ratios of the sides.
    pub ratio: f64,
    /// The interval of the ratio; `None` with too few trials for one.
    pub interval: Option<Interval>,
    /// How often chance makes so large a difference.
    pub p: f64,
    /// The middle half of A's own trials lies within this share of their median.
    pub band: f64,
}

impl Comparison {
    /// Whether what differs between runs is part of the interval.
    pub fn knows_runs(&self) -> bool {
        matches!(self.design, Design::Separate { .. })
    }
}

/// What may be said of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The whole interval lies beyond the band of repeated trials, and chance is ruled out.
    Changed,
    /// The whole interval lies within the tolerance.
    NoDifferent,
    /// Neither. So many more trials a side would probably tell; `None`: not even a thousand would.
    CannotTell { more_trials: Option<usize> },
}

/// Compares positive figures; `None` without a figure on one side, or where one is not positive.
pub fn compare(a: &[f64], b: &[f64], design: Design) -> Option<Comparison> {
    let logarithms = |figures: &[f64]| -> Option<Vec<f64>> {
        figures.iter().map(|figure| (*figure > 0.0 && figure.is_finite()).then(|| figure.ln())).collect()
    };
    let (a, b) = (logarithms(a)?, logarithms(b)?);
    let quartiles = trials::quartiles(&a)?;
    let band = (quartiles.upper - quartiles.median).max(quartiles.median - quartiles.lower).exp() - 1.0;
    let trials = a.len().min(b.len());
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
    let (interval, p, centre) = match design {
        Design::Paired => {
            (difference::shift_of_pairs(&differences), difference::chance_of_pairs(&differences), mean(&differences))
        }
        Design::Independent | Design::Separate { .. } => {
            (difference::shift_of_independent(&a, &b), difference::chance_of_independent(&a, &b), mean(&b) - mean(&a))
        }
    };
    let (interval, p) = match interval {
        Some(interval) => between_runs(interval, p, design),
        None => (None, p),
    };
    let interval = interval.map(Interval::exp);
    let ratio = interval.map_or(centre.exp(), |interval| interval.estimate);
    (trials > 0).then_some(Comparison { design, trials, ratio, interval, p, band })
}

/// Adds what differs between runs to an interval of the logarithm of a ratio that knows only trials, and to its p. The variances of
/// both add up; runs are taken to be normal, as their number is too small to show it. The p is then that of the widened interval, where
/// that is larger.
fn between_runs(interval: Interval, p: f64, design: Design) -> (Option<Interval>, f64) {
    let floor = design.floor();
    if floor == 0.0 {
        return (Some(interval), p);
    }
    let Interval { estimate, low, high } = interval;
    let widened = Interval {
        estimate,
        low: estimate - (estimate - low).hypot(floor),
        high: estimate + (high - estimate).hypot(floor),
    };
    let error = (widened.high - widened.low) / 2.0 / normal_quantile((1.0 + CONFIDENCE) / 2.0);
    let by_runs = 2.0 * normal_share(-estimate.abs() / error);
    (Some(widened), p.max(by_runs))
}

/// What may be said of a comparison whose p, adjusted for all `points` that were compared, is `adjusted_p`.
pub fn conclude(comparison: &Comparison, adjusted_p: f64, points: usize, tolerance: f64) -> Conclusion {
    let (least, floor) = (least_trials(comparison.design, points), comparison.design.floor());
    // As distances of logarithms, so that a half and the double are equally far.
    let (band, tolerance, distance) = (comparison.band.ln_1p(), tolerance.ln_1p(), comparison.ratio.ln().abs());
    // The interval must become as narrow as this to lie beyond the band, or within the tolerance.
    let narrow = (distance - band).max(tolerance - distance);
    let Some(interval) = comparison.interval else {
        let more_trials = (floor == 0.0 || narrow > floor).then(|| least.saturating_sub(comparison.trials).max(1));
        return Conclusion::CannotTell { more_trials };
    };
    let (low, high) = (interval.low.ln(), interval.high.ln());
    if adjusted_p < LEVEL && (low > band || high < -band) {
        return Conclusion::Changed;
    }
    if low > -tolerance && high < tolerance {
        return Conclusion::NoDifferent;
    }
    // What trials add to it narrows with the root of their number; what runs add does not.
    let of_trials = ((high - low) / 2.0).powi(2) - floor.powi(2);
    let needed = (comparison.trials as f64 * of_trials / (narrow.powi(2) - floor.powi(2))).ceil();
    let more_trials = (narrow > floor && needed <= MAX_TRIALS as f64)
        .then(|| (needed as usize).max(least).saturating_sub(comparison.trials).max(1));
    Conclusion::CannotTell { more_trials }
}

/// Fewest trials a side with which a change of one point among `points` can be told from chance at all.
fn least_trials(design: Design, points: usize) -> usize {
    let smallest_p = |trials: usize| match design {
        Design::Paired => 2.0 * 0.5f64.powi(trials as i32),
        Design::Independent | Design::Separate { .. } => 2.0 / difference::combinations(2 * trials, trials),
    };
    (2..MAX_TRIALS).find(|trials| smallest_p(*trials) * (points.max(1) as f64) < LEVEL).unwrap_or(MAX_TRIALS)
}

/// The p-values adjusted so that a wrong rejection among all of them is as rare as their level says (Holm, *A Simple
/// Sequentially Rejective Multiple Test Procedure*, Scandinavian Journal of Statistics 6, 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
#[path = "../../tests/unit/statistics/comparison.rs"]
mod tests;
