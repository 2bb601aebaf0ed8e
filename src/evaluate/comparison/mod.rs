//! Compares two sets of records point by point. Pure: it reads records and returns what can be said.
//!
//! - `settings`: how both sets' trials ran, and what differs between the sets beside their figures.
//! - `side`: one set's trials of a point, the figures that are compared, and a figure's centre.
//! - `counts`: what went wrong.
//! - `omb`: the same of result files of OpenMessaging Benchmark.

mod counts;
mod omb;
mod settings;
mod side;

use std::collections::BTreeMap;

use serde::Serialize;

pub use counts::{Count, CountComparison, CountKind};
pub use omb::{OmbResult, compare_omb};
pub use settings::{Design, Difference};
use side::SideTrials;
pub use side::{Centre, FigureKind, Outcome, Side};

use crate::record::readable::percent;
use crate::record::{Record, SeriesRow};
use crate::statistics::{self, Conclusion, holm};

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
    /// A change for the worse beyond this share is a regression; a change that is surely smaller is not a regression.
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
    /// A change for the worse beyond this share is a regression; a change that is surely smaller is not a regression.
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
    /// What is not known of either side, where they are files of another tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<&'static str>,
}

/// What a comparison says of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    NoRegressionFound,
    /// At some point, only one side has a valid trial; or, with a real broker, both sides have one at no point.
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

    /// Whether a side has no valid trial at this point. Files of another tool do not tell.
    pub fn is_untrusted(&self, point: &PointComparison) -> bool {
        self.unknown.is_none() && (point.trials_of_a.valid == 0 || point.trials_of_b.valid == 0)
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
    let design = settings::design(&mut matched.pairs);
    let differences = settings::differences(&matched.pairs);
    let points = matched.pairs.iter().map(|(a, b)| compare_point(a, b, design, bounds)).collect();
    // Trials of a broker within this process are hardly ever valid. People run them to learn the tool.
    let is_without_real_broker = |record: &Record| record.environment.embedded || record.is_without_broker();
    let is_demonstration = a.iter().chain(b).all(|trial| is_without_real_broker(&trial.record));
    let compared = Comparison { unmatched_points: matched.unmatched, ..begun(design, bounds, differences, points) };
    Ok(concluded(compared, is_demonstration))
}

/// A comparison without a conclusion yet.
fn begun(design: Design, bounds: Bounds, differences: Vec<Difference>, points: Vec<PointComparison>) -> Comparison {
    let least_change = design.least_change(bounds);
    Comparison {
        schema: SCHEMA,
        verdict: Verdict::NoRegressionFound,
        tolerance: bounds.tolerance,
        design,
        between_runs: least_change.map(|_| bounds.between_runs),
        least_change,
        differences,
        points,
        unmatched_points: 0,
        unknown: None,
    }
}

fn concluded(mut comparison: Comparison, is_demonstration: bool) -> Comparison {
    adjust(&mut comparison.points, comparison.tolerance);
    let mut untrusted = comparison.points.iter().filter(|point| comparison.is_untrusted(point));
    let all_untrusted = untrusted.clone().count() == comparison.points.len();
    let is_hidden = untrusted.any(PointComparison::is_one_sided) || (all_untrusted && !is_demonstration);
    comparison.verdict = match comparison.regressions() {
        0 if is_hidden => Verdict::NotKnown,
        0 => Verdict::NoRegressionFound,
        _ => Verdict::Regression,
    };
    comparison
}

/// A figure or a count is tested at several points, so its p-values are adjusted for as many.
fn adjust(points: &mut [PointComparison], tolerance: f64) {
    let mut kinds: Vec<FigureKind> = Vec::new();
    for figure in points.iter().flat_map(|point| &point.figures) {
        if !kinds.contains(&figure.figure) {
            kinds.push(figure.figure.clone());
        }
    }
    for kind in kinds {
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
        self.worse_figures().count() + self.counts.iter().filter(|count| count.regression).count()
    }

    /// Figures that changed for the worse beyond the tolerance; none where only one side has a valid trial.
    pub fn worse_figures(&self) -> impl Iterator<Item = &FigureComparison> {
        let is_known = !self.is_one_sided();
        self.figures.iter().filter(move |figure| is_known && figure.regression)
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
fn compare_point(a: &Side<'_>, b: &Side<'_>, design: Design, bounds: Bounds) -> PointComparison {
    let (mut figures, mut missing_figures) = (Vec::new(), Vec::new());
    for kind in FigureKind::wanted_of(a.ended().chain(b.ended()).collect::<Vec<_>>().into_iter()) {
        match figure(&kind, a, b, design, bounds) {
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
    kind: &FigureKind,
    a: &Side<'_>,
    b: &Side<'_>,
    design: Design,
    bounds: Bounds,
) -> Result<FigureComparison, String> {
    let of_side = |name: &str, side: &Side<'_>| side.figures(kind).map_err(|reason| format!("of {name}: {reason}"));
    let (of_a, of_b) = (of_side("A", a)?, of_side("B", b)?);
    let no_ratio = || "one side's figure is 0, so it has no ratio".to_owned();
    let compared = design.compare((a, &of_a), (b, &of_b), bounds).ok_or_else(no_ratio)?;
    let centre_of = |side: &Side<'_>, figures| side.centre(kind, figures).ok_or_else(no_ratio);
    Ok(FigureComparison::new(kind.clone(), (centre_of(a, &of_a)?, centre_of(b, &of_b)?), compared, design))
}

impl FigureComparison {
    /// Without a conclusion yet.
    fn new(kind: FigureKind, (a, b): (Centre, Centre), compared: statistics::Comparison, design: Design) -> Self {
        FigureComparison {
            figure: kind,
            a,
            b,
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
        }
    }

    /// Draws the conclusion from the p that was adjusted for `points` points.
    fn conclude(&mut self, adjusted_p: f64, points: usize, tolerance: f64) {
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
                format!("cannot tell: {more} more {unit}{} a side would suffice", if more == 1 { "" } else { "s" })
            }
            (Outcome::CannotTell, None) if self.compared.knows_runs() => {
                "cannot tell: runs may differ by as much".to_owned()
            }
            (Outcome::CannotTell, None) => "cannot tell: not even a thousand trials a side would suffice".to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/comparison/mod.rs"]
mod tests;
