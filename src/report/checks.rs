//! What a build server shows of a run or a comparison: a check for each threshold, for whether the trials can be trusted, and for each figure
//! and count that was compared. As JUnit XML, which build servers read as the results of tests, and as a summary in Markdown.
//!
//! JUnit XML has no standard. The elements and attributes here are those that Jenkins, GitLab and Maven's Surefire have in common.

use std::fmt::Write;

use super::svg::escape;
use crate::evaluate::comparison::{Comparison, CountComparison, FigureComparison, Outcome, PointComparison, Verdict};
use crate::present::comparison::{amount, both_sides, point_name};
use crate::present::verdict::cause;
use crate::present::{point, several};
use crate::record::{ReasonKind, Record, Status};

/// The name of all checks together.
const SUITES: &str = "brokermark";

/// Something that holds or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The run and the point that it belongs to.
    pub group: String,
    pub name: String,
    pub outcome: CheckOutcome,
    /// What was found, in a line.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    Passed,
    Failed,
    /// It cannot be told, or it is not required.
    NotKnown,
}

impl Check {
    pub fn new(group: &str, name: impl ToString, outcome: CheckOutcome, text: impl ToString) -> Self {
        Check { group: group.to_owned(), name: name.to_string(), outcome, text: text.to_string() }
    }
}

/// The checks of a run's records: whether its trials ended and can be trusted, and its thresholds. `must_be_valid`: whether a record that is not
/// valid fails the run. `failure`: why a completed trial counts as failed.
pub fn of_records(
    run: &str,
    records: &[&Record],
    must_be_valid: &dyn Fn(&Record) -> bool,
    failure: &dyn Fn(&Record) -> Option<String>,
) -> Vec<Check> {
    let same_point = |one: &&Record, other: &&Record| one.point_index == other.point_index;
    let mut records = records.to_vec();
    records.sort_by_key(|record| (record.point_index, record.trial));
    let of_point = |trials: &[&Record]| of_point(&group(run, &point(&trials[0].point)), trials, must_be_valid, failure);
    records.chunk_by(same_point).flat_map(of_point).collect()
}

/// The name of a run's point.
fn group(run: &str, point: &str) -> String {
    if point.is_empty() { run.to_owned() } else { format!("{run}: {point}") }
}

fn of_point(
    group: &str,
    trials: &[&Record],
    must_be_valid: &dyn Fn(&Record) -> bool,
    failure: &dyn Fn(&Record) -> Option<String>,
) -> Vec<Check> {
    let has_ended = |record: &Record| record.status == Status::Completed;
    let is_required = trials.iter().any(|record| must_be_valid(record));
    let otherwise = if is_required { CheckOutcome::Failed } else { CheckOutcome::NotKnown };
    let mut checks = vec![
        check(group, "completed", trials, CheckOutcome::Failed, |record| {
            if has_ended(record) { failure(record) } else { Some(end(record)) }
        }),
        check(group, "valid", trials, otherwise, |record| record.verdict.kinds_against()),
    ];
    for (index, threshold) in trials[0].thresholds.iter().enumerate() {
        let missed = |record: &Record| {
            let outcome = record.thresholds.get(index).filter(|outcome| !outcome.held)?;
            Some(outcome.explanation.clone())
        };
        let mut found = check(group, &threshold.text, trials, CheckOutcome::Failed, missed);
        if trials.len() == 1 {
            found.text.clone_from(&threshold.explanation);
        }
        checks.push(found);
    }
    checks
}

/// Why a trial did not run to its end: only one that failed has an error.
fn end(record: &Record) -> String {
    let ends = [ReasonKind::Interrupted, ReasonKind::Stalled, ReasonKind::Unfinished];
    let reason = record.verdict.reasons.iter().find(|reason| ends.contains(&reason.kind));
    reason.map_or(cause(record), |reason| reason.evidence.trim_end_matches('.')).to_owned()
}

/// Passes if `problem` finds none in any trial.
fn check(
    group: &str,
    name: &str,
    trials: &[&Record],
    otherwise: CheckOutcome,
    problem: impl Fn(&Record) -> Option<String>,
) -> Check {
    let one = |record: &&Record| Some(format!("trial {}: {}", record.trial, problem(record)?));
    let found: Vec<String> = trials.iter().filter_map(one).collect();
    let all = several(trials.len(), "trial");
    match found.is_empty() {
        true => Check::new(group, name, CheckOutcome::Passed, format!("in {all}")),
        false => {
            let held = trials.len() - found.len();
            Check::new(group, name, otherwise, format!("in {held} of {all}; {}", found.join("; ")))
        }
    }
}

/// The checks of a comparison: whether each point can be compared, and whether a figure or a count is worse.
pub fn of_comparison(comparison: &Comparison) -> Vec<Check> {
    comparison.points.iter().flat_map(|point| of_compared_point(comparison, point)).collect()
}

fn of_compared_point(comparison: &Comparison, point: &PointComparison) -> Vec<Check> {
    let group = group("B against A", &point_name(point));
    let mut checks = Vec::new();
    if comparison.is_untrusted(point) && (point.is_one_sided() || comparison.verdict == Verdict::NotKnown) {
        let side = match (point.trials_of_a.valid, point.trials_of_b.valid) {
            (0, 0) => "either side",
            (0, _) => "A",
            _ => "B",
        };
        let text = format!("no trial of {side} is valid");
        checks.push(Check::new(&group, "both sides are valid", CheckOutcome::Failed, text));
    }
    checks.extend(point.counts.iter().filter(|count| count.is_telling()).map(|count| of_count(&group, count)));
    let figures = point.figures.iter().map(|figure| of_figure(&group, figure, comparison.tolerance));
    // The figures of a side without a valid trial tell nothing.
    let unknown = |check: Check| Check { outcome: CheckOutcome::NotKnown, ..check };
    checks.extend(figures.map(|check| if point.is_one_sided() { unknown(check) } else { check }));
    let missing = point.missing_figures.iter();
    checks.extend(missing.map(|missing| Check::new(&group, &missing.figure, CheckOutcome::NotKnown, &missing.reason)));
    checks
}

fn of_count(group: &str, count: &CountComparison) -> Check {
    let text = format!("{}: {}", both_sides(count), count.conclusion());
    Check::new(group, count.count, outcome(count.regression, count.outcome), text)
}

fn of_figure(group: &str, figure: &FigureComparison, tolerance: f64) -> Check {
    let interval = match (figure.ratio_low, figure.ratio_high) {
        (Some(low), Some(high)) => format!(" ({low:.3} to {high:.3})"),
        _ => String::new(),
    };
    let text = format!(
        "{} in A, {} in B, B / A {:.3}{interval}: {}",
        amount(figure, figure.a.median),
        amount(figure, figure.b.median),
        figure.ratio,
        figure.conclusion(tolerance)
    );
    Check::new(group, &figure.figure, outcome(figure.regression, figure.outcome), text)
}

fn outcome(is_regression: bool, outcome: Outcome) -> CheckOutcome {
    match outcome {
        _ if is_regression => CheckOutcome::Failed,
        Outcome::CannotTell => CheckOutcome::NotKnown,
        Outcome::Better | Outcome::Worse | Outcome::NoDifferent => CheckOutcome::Passed,
    }
}

fn number(checks: &[Check], outcome: CheckOutcome) -> usize {
    checks.iter().filter(|check| check.outcome == outcome).count()
}

/// A test suite for each run's point. What is not known is `skipped`.
pub fn junit(checks: &[Check]) -> String {
    let numbers = |checks: &[Check]| {
        let (failed, skipped) = (number(checks, CheckOutcome::Failed), number(checks, CheckOutcome::NotKnown));
        format!("tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\"", checks.len())
    };
    let mut xml =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{SUITES}\" {}>\n", numbers(checks));
    for checks in checks.chunk_by(|one, other| one.group == other.group) {
        let group = escape(&checks[0].group);
        let _ = writeln!(xml, "  <testsuite name=\"{group}\" {}>", numbers(checks));
        for check in checks {
            let text = escape(&check.text);
            let result = match check.outcome {
                CheckOutcome::Passed => format!("<system-out>{text}</system-out>"),
                CheckOutcome::Failed => format!("<failure message=\"{text}\"/>"),
                CheckOutcome::NotKnown => format!("<skipped message=\"{text}\"/>"),
            };
            let name = escape(&check.name);
            let _ = writeln!(xml, "    <testcase classname=\"{group}\" name=\"{name}\">{result}</testcase>");
        }
        xml.push_str("  </testsuite>\n");
    }
    xml + "</testsuites>\n"
}

/// A heading with the numbers, and a table whose failed checks come first.
pub fn markdown(checks: &[Check]) -> String {
    let (failed, unknown) = (number(checks, CheckOutcome::Failed), number(checks, CheckOutcome::NotKnown));
    let passed = checks.len() - failed - unknown;
    let mut text = format!(
        "### {SUITES}: {failed} failed, {passed} passed, {unknown} not known\n\n| | | | found |\n|---|---|---|---|\n"
    );
    let mut sorted: Vec<&Check> = checks.iter().collect();
    sorted.sort_by_key(|check| check.outcome != CheckOutcome::Failed);
    for check in sorted {
        let mark = match check.outcome {
            CheckOutcome::Passed => "✓",
            CheckOutcome::Failed => "**✗**",
            CheckOutcome::NotKnown => "?",
        };
        let [group, name, found] = [&check.group, &check.name, &check.text].map(|cell| in_cell(cell));
        let _ = writeln!(text, "| {mark} | {group} | {name} | {found} |");
    }
    text
}

/// Text that neither ends a cell nor becomes an element.
fn in_cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
#[path = "../../tests/unit/report/checks.rs"]
mod tests;
