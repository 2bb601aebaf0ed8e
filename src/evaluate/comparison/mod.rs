//! Compares two sets of records point by point. Pure: it reads records and returns what can be said.
//!
//! - `conditions`: how both sets' trials ran, and what differs between the sets beside their figures.
//! - `side`: one set's trials of a point, the figures that are compared, and a figure's centre.
//! - `counts`: what went wrong. `point`: the counts and figures of a point.

mod conditions;
mod counts;
mod point;
mod side;

use std::collections::BTreeMap;

use serde::Serialize;

pub use conditions::{Design, Difference};
pub use counts::{Count, CountComparison, CountKind};
pub use point::{FigureComparison, PointComparison};
pub use side::{Centre, FigureKind, Outcome, Side};

use crate::record::readable::percent;
use crate::record::{Record, SeriesRow};
use crate::statistics::holm;

/// The value of [`Comparison::schema`].
pub const SCHEMA: &str = "brokermark.comparison/1";

/// A trial as it was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptTrial {
    pub record: Record,
    /// Its seconds; empty where they were not kept.
    pub series: Vec<SeriesRow>,
}

/// What a change must exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// A change for the worse beyond this share is a regression; a change that is surely smaller is no regression.
    pub tolerance: f64,
    /// By this share, as a standard deviation, the figures of two runs of the same thing are taken to differ, where each side has too
    /// few runs to show it.
    pub between_runs: f64,
}

impl Default for Bounds {
    /// 5 %, and 7 %: shared machines of continuous integration vary by 5 to 10 % from run to run.
    fn default() -> Self {
        Bounds { tolerance: 0.05, between_runs: 0.07 }
    }
}

/// What two sets of records say about each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name and version of this format.
    pub schema: &'static str,
    pub verdict: Verdict,
    /// A change for the worse beyond this share is a regression; a change that is surely smaller is no regression.
    pub tolerance: f64,
    /// How the trials of both sides ran, which decides what is a unit of chance.
    pub design: Design,
    /// Of single runs: by which share, as a standard deviation, runs are taken to differ; `null` otherwise.
    pub between_runs: Option<f64>,
    /// Of single runs: the smallest change, as a share, that they can tell, however many trials they have; `null` otherwise.
    pub least_change: Option<f64>,
    /// What differs beside the figures.
    pub differences: Vec<Difference>,
    pub points: Vec<PointComparison>,
    /// Points of one set that the other does not have.
    pub unmatched_points: usize,
}

/// What a comparison says of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    NoRegressionFound,
    /// One side has a valid trial and the other has none, at some point.
    NotKnown,
    Regression,
}

impl Comparison {
    /// Figures that changed for the worse beyond the tolerance, and counts of which B has more.
    pub fn regressions(&self) -> usize {
        self.points.iter().map(PointComparison::regressions).sum()
    }

    /// How the trials ran, and what such a comparison can tell.
    pub fn design_in_words(&self) -> String {
        match (self.design, self.least_change.zip(self.between_runs)) {
            (Design::InTurn, _) => "trials in turn, compared in pairs".to_owned(),
            (Design::SeveralRuns, _) => "several runs a side, compared by run".to_owned(),
            (Design::SingleRuns, Some((least, between))) => format!(
                "single runs, taken to differ by {}: changes below {} are not told",
                percent(between),
                percent(least)
            ),
            (Design::SingleRuns, None) => "single runs".to_owned(),
        }
    }

    /// What forbids a comparison unless the user permits it.
    pub fn refusals(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.refused)
    }
}

/// Why two sets cannot be compared at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    #[error("{side} has no completed trial: compare runs that have ended")]
    NoTrial { side: &'static str },
    #[error("the sets have no point in common: compare runs of the same sweep, or of one point each")]
    NoCommonPoint,
}

/// Compares A and B. A trial that was stopped from outside does not count.
///
/// # Errors
/// When A has no completed trial or no trial of B has ended, or the sets have no point in common.
pub fn compare(a: &[KeptTrial], b: &[KeptTrial], bounds: Bounds) -> Result<Comparison, ComparisonError> {
    let (by_point_a, by_point_b) = (by_point(a), by_point(b));
    if by_point_a.values().all(|side| side.completed.is_empty()) {
        return Err(ComparisonError::NoTrial { side: "A" });
    }
    if by_point_b.is_empty() {
        return Err(ComparisonError::NoTrial { side: "B" });
    }
    let mut matched = matched(by_point_a, by_point_b);
    if matched.pairs.is_empty() {
        return Err(ComparisonError::NoCommonPoint);
    }
    let design = conditions::design(&mut matched.pairs);
    let differences = conditions::differences(&matched.pairs);
    let mut points: Vec<PointComparison> =
        matched.pairs.iter().map(|(a, b)| point::compare(a, b, design, bounds)).collect();
    adjust(&mut points, bounds.tolerance);
    let least_change = design.least_change(bounds);
    let mut comparison = Comparison {
        schema: SCHEMA,
        verdict: Verdict::NoRegressionFound,
        tolerance: bounds.tolerance,
        design,
        between_runs: least_change.map(|_| bounds.between_runs),
        least_change,
        differences,
        points,
        unmatched_points: matched.unmatched,
    };
    comparison.verdict = match comparison.regressions() {
        0 if comparison.points.iter().any(PointComparison::is_one_sided) => Verdict::NotKnown,
        0 => Verdict::NoRegressionFound,
        _ => Verdict::Regression,
    };
    Ok(comparison)
}

/// A figure or a count is tested at several points, so its p-values are adjusted for as many.
fn adjust(points: &mut [PointComparison], tolerance: f64) {
    for kind in FigureKind::ALL {
        let mut figures: Vec<&mut FigureComparison> =
            points.iter_mut().flat_map(|point| &mut point.figures).filter(|figure| figure.figure == kind).collect();
        let tested = figures.len();
        let adjusted = holm(&figures.iter().map(|figure| figure.p).collect::<Vec<_>>());
        for (figure, p) in figures.iter_mut().zip(adjusted) {
            figure.conclude(p, tested, tolerance);
        }
    }
    for kind in CountKind::ALL {
        let mut counts: Vec<&mut CountComparison> =
            points.iter_mut().flat_map(|point| &mut point.counts).filter(|count| count.count == kind).collect();
        let adjusted = holm(&counts.iter().map(|count| count.p).collect::<Vec<_>>());
        counts.iter_mut().zip(adjusted).for_each(|(count, p)| count.conclude(p));
    }
}

/// Both sets' trials of a point.
type Pair<'a> = (Side<'a>, Side<'a>);

struct Matched<'a> {
    pairs: Vec<Pair<'a>>,
    unmatched: usize,
}

/// Points of equal swept values; where both sets have a single one, these two.
fn matched<'a>(mut a: BTreeMap<PointKey, Side<'a>>, mut b: BTreeMap<PointKey, Side<'a>>) -> Matched<'a> {
    if a.len() == 1 && b.len() == 1 {
        let pairs = a.into_values().zip(b.into_values()).collect();
        return Matched { pairs, unmatched: 0 };
    }
    let common: Vec<PointKey> = a.keys().filter(|key| b.contains_key(*key)).cloned().collect();
    let mut pairs: Vec<Pair<'a>> = common.iter().filter_map(|key| Some((a.remove(key)?, b.remove(key)?))).collect();
    pairs.sort_by_key(|(a, _)| a.first().point_index);
    Matched { pairs, unmatched: a.len() + b.len() }
}

/// The swept values as JSON.
type PointKey = String;

fn by_point(trials: &[KeptTrial]) -> BTreeMap<PointKey, Side<'_>> {
    let mut points: BTreeMap<PointKey, Vec<&KeptTrial>> = BTreeMap::new();
    for trial in trials {
        let values = serde_json::to_string(&trial.record.point).unwrap_or_default();
        points.entry(values).or_default().push(trial);
    }
    points.into_iter().filter_map(|(values, trials)| Some((values, Side::new(trials)?))).collect()
}

#[cfg(test)]
mod tests;
