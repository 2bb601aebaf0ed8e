//! `brokermark compare`: says what changed between two runs, or two sets of runs. It only reads. `omb`: result files of OpenMessaging Benchmark.

mod omb;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::Exit;
use super::check_files::CheckFileArguments;
use super::show::View;
use super::show::page::Page;
use crate::evaluate::comparison::{self, Bounds, Comparison, ComparisonError, KeptTrial, Verdict};
use crate::notices::notice;
use crate::present::comparison::{self as present, Side};
use crate::record::{
    DirectoryError, Record, current_records, current_series, directory_of, read_records, read_series, run_name, runs_at,
};
use crate::report::checks::{Check, CheckOutcome, of_comparison};

#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The baseline: a run directory, a file of records, a directory of run directories, or the same of result files of OpenMessaging Benchmark
    #[arg(value_hint = ValueHint::AnyPath)]
    pub a: PathBuf,
    /// What is compared with it
    #[arg(value_hint = ValueHint::AnyPath)]
    pub b: PathBuf,
    #[command(flatten)]
    pub bounds: BoundArguments,
    /// Compare even if acknowledgements meant different things, or the loads were of different kinds
    #[arg(long)]
    pub unequal: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub check_files: CheckFileArguments,
}

/// What a change must exceed.
#[derive(Debug, Clone, Copy, Args)]
pub struct BoundArguments {
    /// A change for the worse beyond this share is a regression (exit code 3) [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = parse_tolerance)]
    tolerance: Option<f64>,
    /// Of runs that did not take turns: two runs of the same thing differ by about this share (their standard deviation) [default: 7%]
    #[arg(long, value_name = "SHARE", value_parser = parse_between_runs)]
    between_runs: Option<f64>,
}

impl BoundArguments {
    pub fn bounds(self) -> Bounds {
        let default = Bounds::default();
        Bounds {
            tolerance: self.tolerance.unwrap_or(default.tolerance),
            between_runs: self.between_runs.unwrap_or(default.between_runs),
        }
    }
}

/// Compares both sets and prints the result.
pub fn compare(arguments: &CompareArguments, out: &mut dyn Write) -> Exit {
    let compared = compare_runs(&arguments.a, &arguments.b, Options::from_arguments(arguments), out);
    arguments.check_files.write(&compared.checks, compared.exit)
}

/// How a comparison ended.
pub(super) struct Compared {
    pub exit: Exit,
    pub checks: Vec<Check>,
}

impl Compared {
    fn failed(error: impl Display) -> Self {
        let check = Check::new("B against A", "both can be compared", CheckOutcome::Failed, &error);
        Compared { checks: vec![check], exit: Exit::failure(error) }
    }
}

/// Compares what lies at two paths and prints the result.
pub(super) fn compare_runs(a: &Path, b: &Path, options: Options, out: &mut dyn Write) -> Compared {
    if let Some(compared) = omb::compare(a, b, options, out) {
        return compared;
    }
    match read_set(a).and_then(|a| Ok((a, read_set(b)?))) {
        Ok((a_trials, b_trials)) => judge((&run_name(a), &a_trials), (&run_name(b), &b_trials), options, out),
        Err(error) => Compared::failed(error),
    }
}

/// Compares a run with the earlier ones at a path, where the run itself may lie as well, and prints the result.
pub(super) fn compare_with_earlier(earlier: &Path, run: &Path, options: Options, out: &mut dyn Write) -> Compared {
    let is_itself =
        |one: &PathBuf| matches!((one.canonicalize(), run.canonicalize()), (Ok(one), Ok(run)) if one == run);
    let sets = || {
        let mut runs = runs_at(earlier)?;
        runs.retain(|one| !is_itself(one));
        Ok::<_, DirectoryError>((read_runs(&runs)?, read_set(run)?))
    };
    match sets() {
        Ok((a_trials, b_trials)) => judge((&run_name(earlier), &a_trials), (&run_name(run), &b_trials), options, out),
        Err(error) => Compared::failed(error),
    }
}

/// How to compare, and how to print it.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub bounds: Bounds,
    pub unequal: bool,
    pub json: bool,
    pub view: View,
}

impl Options {
    fn from_arguments(arguments: &CompareArguments) -> Self {
        let CompareArguments { bounds, unequal, json, .. } = *arguments;
        Options { bounds: bounds.bounds(), unequal, json, view: View::for_stdout() }
    }

    /// For a run: with `unequal` for both of its sides, because what differs between them is the user's wish.
    pub(super) fn for_run(tolerance: Option<f64>, unequal: bool, json: bool) -> Self {
        Options { bounds: bounds_of_run(tolerance), unequal, json, view: View::for_stdout() }
    }
}

/// The bounds of both sides of one run, whose trials take turns.
pub(super) fn bounds_of_run(tolerance: Option<f64>) -> Bounds {
    BoundArguments { tolerance, between_runs: None }.bounds()
}

/// A set of trials with its name.
type Named<'a> = (&'a str, &'a [KeptTrial]);

/// Compares two sets that were read, and prints the result.
fn judge(a: Named<'_>, b: Named<'_>, options: Options, out: &mut dyn Write) -> Compared {
    tell(comparison::compare(a.1, b.1, options.bounds), a, b, options, out)
}

/// Prints a comparison of both sets.
fn tell(
    compared: Result<Comparison, ComparisonError>,
    a: Named<'_>,
    b: Named<'_>,
    options: Options,
    out: &mut dyn Write,
) -> Compared {
    let comparison = match compared {
        Ok(comparison) => comparison,
        Err(error) => return Compared::failed(error),
    };
    if !options.unequal && comparison.refusals().next().is_some() {
        for refusal in comparison.refusals() {
            notice!("error: {} differs: {} in A, {} in B", refusal.what, refusal.a, refusal.b);
        }
        return Compared::failed(
            "such figures cannot be compared; `brokermark compare A B --unequal` compares them nevertheless",
        );
    }
    let text = if options.json { as_json(&comparison) } else { text(a, b, &comparison, options.view) };
    let exit = match Exit::print(&text, out) {
        Exit::Success if comparison.verdict != Verdict::NoRegressionFound => Exit::ThresholdMissed,
        exit => exit,
    };
    Compared { exit, checks: of_comparison(&comparison) }
}

fn text(a: Named<'_>, b: Named<'_>, comparison: &Comparison, view: View) -> String {
    fn side<'a>((name, trials): Named<'a>) -> Side<'a> {
        Side { name, records: trials.iter().map(|trial| &trial.record).collect::<Vec<&Record>>() }
    }
    Page::write(view, |page| {
        page.summary(&present::summary(&side(a), &side(b), comparison));
        page.findings(&present::differences(comparison));
        for point in &comparison.points {
            page.blank();
            page.paragraph(0, &present::point_heading(point));
            page.findings(&present::counts(point));
            page.table(&present::figures_table(point, comparison.tolerance));
            page.facts(&present::missing(point));
        }
        page.blank();
        present::legend(comparison).iter().for_each(|text| page.paragraph(0, text));
    })
}

/// One line. Serialising fails only for maps whose keys are not strings; comparisons have no such maps.
fn as_json(comparison: &Comparison) -> String {
    format!("{}\n", serde_json::to_string(comparison).unwrap_or_default())
}

/// The trials of a run directory or file of records, or of all runs below a directory.
pub(super) fn read_set(path: &Path) -> Result<Vec<KeptTrial>, DirectoryError> {
    read_runs(&runs_at(path)?)
}

fn read_runs(runs: &[PathBuf]) -> Result<Vec<KeptTrial>, DirectoryError> {
    let mut trials = Vec::new();
    for run in runs {
        trials.extend(read_run(run)?);
    }
    Ok(trials)
}

fn read_run(path: &Path) -> Result<Vec<KeptTrial>, DirectoryError> {
    let read = read_records(path)?;
    read.tell_passed_over(path);
    let series = read_series(directory_of(path))?;
    let kept = current_records(&read.records).into_iter().map(|record| KeptTrial {
        series: current_series(&series, record.point_index, record.trial),
        record: record.clone(),
    });
    Ok(kept.collect())
}

/// `5%` or `0.05`.
pub(super) fn parse_tolerance(text: &str) -> Result<f64, String> {
    let share = share(text).filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "write a share above 0 % and below 100 %, as in `5%`".to_owned())
}

/// The same, or 0.
fn parse_between_runs(text: &str) -> Result<f64, String> {
    let share = share(text).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "write a share from 0 % to below 100 %, as in `7%`".to_owned())
}

fn share(text: &str) -> Option<f64> {
    match text.trim().strip_suffix('%') {
        Some(per_cent) => per_cent.trim().parse::<f64>().ok().map(|value| value / 100.0),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/cli/compare/mod.rs"]
mod tests;
