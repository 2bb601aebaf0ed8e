//! The figures of a point, compared.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::FigureKind;
use super::side::{Centre, Side};
use crate::record::readable::percent;
use crate::statistics::{self, Conclusion, Design};

/// What may be said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Better,
    Worse,
    NoDifferent,
    CannotTell,
}

/// A point of both sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointComparison {
    /// The swept values of A's point.
    pub point: BTreeMap<String, serde_json::Value>,
    /// Completed trials of each side, and how many of them are valid. With valid ones, only they count.
    pub trials_of_a: usize,
    pub valid_of_a: usize,
    pub trials_of_b: usize,
    pub valid_of_b: usize,
    pub figures: Vec<FigureComparison>,
}

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureComparison {
    pub figure: FigureKind,
    pub a: Centre,
    pub b: Centre,
    /// B divided by A: the Hodges–Lehmann estimate.
    pub ratio: f64,
    /// Its 95 % interval; `null` with too few trials for one.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// By permutation: how often chance makes so large a difference.
    pub p: f64,
    /// The same, adjusted for all points that were compared (Holm).
    pub adjusted_p: f64,
    /// Within this share lies the middle half of A's own trials around their median.
    pub band: f64,
    pub outcome: Outcome,
    /// So many more trials a side would probably tell; `null` where it can be told, or a thousand would not.
    pub more_trials: Option<usize>,
    /// Worse by more than the tolerance.
    pub regression: bool,
    #[serde(skip)]
    compared: statistics::Comparison,
}

/// Compares the figures that all trials of both sides have.
pub(super) fn compare(a: &Side<'_>, b: &Side<'_>, design: Design) -> PointComparison {
    PointComparison {
        point: a.first().point.clone(),
        trials_of_a: a.completed.len(),
        valid_of_a: a.valid,
        trials_of_b: b.completed.len(),
        valid_of_b: b.valid,
        figures: FigureKind::ALL.into_iter().filter_map(|kind| figure(kind, a, b, design)).collect(),
    }
}

fn figure(kind: FigureKind, a: &Side<'_>, b: &Side<'_>, design: Design) -> Option<FigureComparison> {
    let compared = statistics::compare(&a.figures(kind)?, &b.figures(kind)?, design)?;
    Some(FigureComparison {
        figure: kind,
        a: a.centre(kind)?,
        b: b.centre(kind)?,
        ratio: compared.ratio,
        ratio_low: compared.interval.map(|interval| interval.low),
        ratio_high: compared.interval.map(|interval| interval.high),
        p: compared.p,
        adjusted_p: compared.p,
        band: compared.band,
        outcome: Outcome::CannotTell,
        more_trials: None,
        regression: false,
        compared,
    })
}

impl FigureComparison {
    /// Draws the conclusion from the p that was adjusted for `points` points.
    pub(super) fn conclude(&mut self, adjusted_p: f64, points: usize, tolerance: f64) {
        self.adjusted_p = adjusted_p;
        let conclusion = statistics::conclude(&self.compared, adjusted_p, points, tolerance);
        (self.outcome, self.more_trials) = match conclusion {
            Conclusion::Changed if (self.ratio > 1.0) == self.figure.larger_is_better() => (Outcome::Better, None),
            Conclusion::Changed => (Outcome::Worse, None),
            Conclusion::NoDifferent => (Outcome::NoDifferent, None),
            Conclusion::CannotTell { more_trials } => (Outcome::CannotTell, more_trials),
        };
        // As ratios, so that a tolerance of 5 % bears a rate of 1 / 1.05 as it bears a latency of 1.05.
        self.regression = self.outcome == Outcome::Worse && self.ratio.ln().abs() > tolerance.ln_1p();
    }

    /// The outcome in words.
    pub fn conclusion(&self, tolerance: f64) -> String {
        let change = percent((self.ratio - 1.0).abs());
        let direction = if self.ratio > 1.0 { "higher" } else { "lower" };
        match (self.outcome, self.more_trials) {
            (Outcome::Better, _) => format!("changed: better, {change} {direction}"),
            (Outcome::Worse, _) if self.regression => format!("changed: worse, {change} {direction}"),
            (Outcome::Worse, _) => format!("changed: worse, {change} {direction}, within {}", percent(tolerance)),
            (Outcome::NoDifferent, _) => format!("no different within {}", percent(tolerance)),
            (Outcome::CannotTell, Some(1)) => "cannot tell: 1 more trial a side would".to_owned(),
            (Outcome::CannotTell, Some(more)) => format!("cannot tell: {more} more trials a side would"),
            (Outcome::CannotTell, None) => "cannot tell: not even a thousand trials a side would".to_owned(),
        }
    }
}
