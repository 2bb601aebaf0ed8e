//! Compares two sets of records point by point. Pure: it reads records and returns what can be said.
//!
//! - `conditions`: what differs between the sets beside their figures. `side`: one set's trials of a point, and a figure's centre.
//! - `design`: whether both sets' trials ran in turn. `point`: the figures of a point.

mod conditions;
mod design;
mod figure;
mod point;
mod side;

use std::collections::BTreeMap;

use serde::Serialize;

pub use conditions::Difference;
pub use figure::FigureKind;
pub use point::{FigureComparison, Outcome, PointComparison};
pub use side::{Centre, Side};

use crate::record::{Record, SeriesRow};
use crate::statistics::{Design, holm};

/// The value of [`Comparison::schema`].
pub const SCHEMA: &str = "brokermark.comparison/1";

/// A trial as it was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptTrial {
    pub record: Record,
    /// Its seconds; empty where they were not kept.
    pub series: Vec<SeriesRow>,
}

/// What two sets of records say about each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name and version of this format.
    pub schema: &'static str,
    /// A change for the worse beyond this share is a regression; a change that is surely smaller is no regression.
    pub tolerance: f64,
    /// Whether the trials of both sets ran in turn, so that they were compared in pairs.
    pub paired: bool,
    /// What differs beside the figures.
    pub differences: Vec<Difference>,
    pub points: Vec<PointComparison>,
    /// Points of one set that the other does not have.
    pub unmatched_points: usize,
}

impl Comparison {
    /// Whether any figure changed for the worse beyond the tolerance.
    pub fn has_regression(&self) -> bool {
        self.points.iter().flat_map(|point| &point.figures).any(|figure| figure.regression)
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

/// Compares A and B. A record that was not completed does not count.
///
/// # Errors
/// When one set has no completed trial, or the sets have no point in common.
pub fn compare(a: &[KeptTrial], b: &[KeptTrial], tolerance: f64) -> Result<Comparison, ComparisonError> {
    let (by_point_a, by_point_b) = (by_point(a), by_point(b));
    for (points, side) in [(&by_point_a, "A"), (&by_point_b, "B")] {
        if points.is_empty() {
            return Err(ComparisonError::NoTrial { side });
        }
    }
    let mut matched = matched(by_point_a, by_point_b);
    if matched.pairs.is_empty() {
        return Err(ComparisonError::NoCommonPoint);
    }
    let design = design::of(&mut matched.pairs);
    let differences = conditions::differences(&matched.pairs);
    let mut points: Vec<PointComparison> = matched.pairs.iter().map(|(a, b)| point::compare(a, b, design)).collect();
    adjust(&mut points, tolerance);
    Ok(Comparison {
        schema: SCHEMA,
        tolerance,
        paired: design == Design::Paired,
        differences,
        points,
        unmatched_points: matched.unmatched,
    })
}

/// A figure is tested at several points, so its p-values are adjusted for as many.
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
    for trial in trials.iter().filter(|trial| side::is_complete(trial)) {
        let values = serde_json::to_string(&trial.record.point).unwrap_or_default();
        points.entry(values).or_default().push(trial);
    }
    points.into_iter().map(|(values, trials)| (values, Side::of(trials))).collect()
}

#[cfg(test)]
mod tests;
