//! The figures and counts of a point, compared.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Bounds;
use super::conditions::Design;
use super::counts::{self, CountComparison};
use super::side::{Centre, FigureKind, Outcome, Side, SideTrials};
use crate::record::readable::percent;
use crate::statistics::{self, Conclusion};

/// A point of both sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointComparison {
    /// The swept values of A's point.
    pub point: BTreeMap<String, serde_json::Value>,
    pub trials_of_a: SideTrials,
    pub trials_of_b: SideTrials,
    /// What went wrong, of all trials that ended.
    pub counts: Vec<CountComparison>,
    pub figures: Vec<FigureComparison>,
    /// Figures that cannot be compared although a trial was to have them, and why.
    pub missing_figures: Vec<MissingFigure>,
}

impl PointComparison {
    /// Figures that changed for the worse beyond the tolerance, and counts of which B has more.
    pub fn regressions(&self) -> usize {
        self.figures.iter().filter(|figure| figure.regression).count()
            + self.counts.iter().filter(|count| count.regression).count()
    }

    /// Whether only one side has a valid trial: then the figures of the other are not to be trusted.
    pub fn is_one_sided(&self) -> bool {
        (self.trials_of_a.valid == 0) != (self.trials_of_b.valid == 0)
    }
}

/// A figure that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingFigure {
    pub figure: FigureKind,
    /// Which side lacks it, in how many trials, and why.
    pub reason: String,
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
    /// How often chance makes so large a difference, by permutation.
    pub p: f64,
    /// The same, adjusted for all points that were compared (Holm).
    pub adjusted_p: f64,
    /// Within this share lies the middle half of A's own trials around their median.
    pub band: f64,
    pub outcome: Outcome,
    /// So many more trials a side would probably tell, or runs where the runs are the unit; `null` where it can be told, or a thousand
    /// would not.
    pub more_trials: Option<usize>,
    #[serde(skip)]
    more_runs: bool,
    /// Worse by more than the tolerance.
    pub regression: bool,
    #[serde(skip)]
    compared: statistics::Comparison,
}

/// Compares the counts of both sides, and the figures that all their trials have.
pub(super) fn compare(a: &Side<'_>, b: &Side<'_>, design: Design, bounds: Bounds) -> PointComparison {
    let (mut figures, mut missing_figures) = (Vec::new(), Vec::new());
    let is_wanted = |kind: &FigureKind| a.ended().chain(b.ended()).any(|record| kind.is_wanted_of(record));
    for kind in FigureKind::ALL.into_iter().filter(is_wanted) {
        match figure(kind, a, b, design, bounds) {
            Ok(compared) => figures.push(compared),
            Err(reason) => missing_figures.push(MissingFigure { figure: kind, reason }),
        }
    }
    PointComparison {
        point: a.first().point.clone(),
        trials_of_a: a.account(),
        trials_of_b: b.account(),
        counts: counts::compare(a, b, design),
        figures,
        missing_figures,
    }
}

fn figure(
    kind: FigureKind,
    a: &Side<'_>,
    b: &Side<'_>,
    design: Design,
    bounds: Bounds,
) -> Result<FigureComparison, String> {
    let of_side = |name: &str, side: &Side<'_>| side.figures(kind).map_err(|reason| format!("of {name}: {reason}"));
    let (of_a, of_b) = (of_side("A", a)?, of_side("B", b)?);
    let no_ratio = || "one side's figure is 0, so it has no ratio".to_owned();
    let compared = design.compare((a, &of_a), (b, &of_b), bounds).ok_or_else(no_ratio)?;
    Ok(FigureComparison {
        figure: kind,
        a: a.centre(kind, &of_a).ok_or_else(no_ratio)?,
        b: b.centre(kind, &of_b).ok_or_else(no_ratio)?,
        ratio: compared.ratio,
        ratio_low: compared.interval.map(|interval| interval.low),
        ratio_high: compared.interval.map(|interval| interval.high),
        p: compared.p,
        adjusted_p: compared.p,
        band: compared.band,
        outcome: Outcome::CannotTell,
        more_trials: None,
        more_runs: design == Design::SeveralRuns,
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
            (Outcome::CannotTell, Some(more)) => {
                let unit = if self.more_runs { "run" } else { "trial" };
                format!("cannot tell: {more} more {unit}{} a side would", if more == 1 { "" } else { "s" })
            }
            (Outcome::CannotTell, None) if self.compared.knows_runs() => {
                "cannot tell: runs may differ by as much".to_owned()
            }
            (Outcome::CannotTell, None) => "cannot tell: not even a thousand trials a side would".to_owned(),
        }
    }
}
