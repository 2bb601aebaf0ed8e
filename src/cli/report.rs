//! `brokermark report`: writes a page, or its charts, from the records of one run or of several that are compared. It only reads.

mod png;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::Exit;
use super::compare::{BoundArguments, bounds_of_run};
use crate::evaluate::comparison::Bounds;
use crate::notices::notice;
use crate::report::{Choice, ReadError, Report, ReportError, Run, read};

/// The page's name in a run directory.
pub const REPORT_FILE: &str = "report.html";

#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A run directory or a file of records; or several, which are compared with the first
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub runs: Vec<PathBuf>,
    /// Write the page to this file, or with `-` to standard output [default: report.html in the run directory; of several runs, in the current one]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Only this point of a sweep, by its index from 0
    #[arg(long, value_name = "INDEX")]
    pub point: Option<usize>,
    /// Only this repetition of the point, from 1
    #[arg(long, value_name = "NUMBER")]
    pub trial: Option<u32>,
    /// Write each chart as an SVG file into this directory, instead of the page
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with = "output")]
    pub svg: Option<PathBuf>,
    /// Write each chart as a PNG file into this directory, instead of the page: an installed Chromium or Chrome draws them
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with = "output")]
    pub png: Option<PathBuf>,
    #[command(flatten)]
    pub bounds: BoundArguments,
}

/// A report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CannotReport {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Draw(#[from] png::CannotDraw),
    #[error("cannot print: {0}")]
    Print(io::Error),
}

impl super::exit::IsBrokenPipe for CannotReport {
    fn is_broken_pipe(&self) -> bool {
        matches!(self, CannotReport::Print(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Writes what is asked for.
pub fn report(arguments: &ReportArguments, out: &mut dyn Write) -> Exit {
    Exit::from_result(written(arguments, out))
}

fn written(arguments: &ReportArguments, out: &mut dyn Write) -> Result<(), CannotReport> {
    let choice = Choice { point: arguments.point, trial: arguments.trial };
    let report = made(&arguments.runs, choice, arguments.bounds.bounds())?;
    if arguments.svg.is_some() || arguments.png.is_some() {
        return charts(&report, arguments);
    }
    let file = arguments.output.clone().unwrap_or_else(|| default_file(&arguments.runs));
    if file == Path::new("-") {
        return out.write_all(report.html().as_bytes()).and_then(|()| out.flush()).map_err(CannotReport::Print);
    }
    write(&file, &report.html())
}

/// Reads the runs: one alone, or the others against the first.
fn made(paths: &[PathBuf], choice: Choice, bounds: Bounds) -> Result<Report, CannotReport> {
    let runs: Vec<Run> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    Ok(match runs.as_slice() {
        [run] => Report::from_run(run, choice)?,
        [first, others @ ..] => Report::from_comparison(first, others, bounds)?,
        [] => return Err(ReportError::NoSuchTrial.into()),
    })
}

fn default_file(runs: &[PathBuf]) -> PathBuf {
    match runs {
        [run] if run.is_dir() => run.join(REPORT_FILE),
        _ => PathBuf::from(REPORT_FILE),
    }
}

fn charts(report: &Report, arguments: &ReportArguments) -> Result<(), CannotReport> {
    let charts = report.charts();
    if let Some(directory) = &arguments.svg {
        make(directory)?;
        charts.iter().try_for_each(|chart| write(&directory.join(format!("{}.svg", chart.name)), &chart.svg))?;
    }
    if let Some(directory) = &arguments.png {
        make(directory)?;
        png::draw(&charts, directory)?.iter().for_each(|file| notice!("report: {}", file.display()));
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), CannotReport> {
    fs::create_dir_all(directory).map_err(|source| CannotReport::Write { path: directory.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), CannotReport> {
    fs::write(path, text).map_err(|source| CannotReport::Write { path: path.to_owned(), source })?;
    notice!("report: {}", path.display());
    Ok(())
}

/// For `run --report`: writes the page of a run, or of two that ran in turn, into the first one's directory.
pub fn write_page(directories: &[PathBuf], tolerance: Option<f64>) -> Exit {
    let page = made(directories, Choice::default(), bounds_of_run(tolerance));
    Exit::from_result(page.and_then(|report| match directories {
        [] => Ok(()),
        [first, ..] => write(&first.join(REPORT_FILE), &report.html()),
    }))
}
