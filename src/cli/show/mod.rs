//! `brokermark show`: prints records as text. It only reads.
//!
//! One trial is shown in full, its verdict first; several as a table with a row for each, and a summary of each point.

mod charts;
pub(super) mod page;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

pub use page::{Charts, View};

use page::Page;

use crate::present::faults::faults_table;
use crate::present::{Align, Column, Tone, account, pipeline, search, setup, sweep, trial, verdict};
use crate::printable::printable;
use crate::record::export::{ExportError, Format};
use crate::record::{
    DirectoryError, HLOG_FILE, ReadRecords, Record, SearchRecord, SeriesRow, Status, current_records, current_series,
    directory_of, is_being_written, newest_run, read_checkpoint, read_records, read_search, read_series, run_ids,
};
use crate::scenario::DEFAULT_OUTPUT_DIRECTORY;

#[derive(Debug, Args)]
pub struct ShowArguments {
    /// Run directories, files of records, or directories of runs, of which the newest is shown [default: results]
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Show only this point of a sweep, as numbered in the table of its trials
    #[arg(long, value_name = "NUMBER")]
    pub point: Option<usize>,
    /// Show only this trial of each point
    #[arg(long, value_name = "NUMBER")]
    pub trial: Option<u32>,
    /// Print the records as they are, one JSON document a line
    #[arg(long)]
    pub json: bool,
    /// Print the records as a table, or in the format of another tool
    #[arg(long, conflicts_with = "json")]
    pub format: Option<Format>,
    /// Draw small charts of throughput and latency
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub charts: Charts,
    /// Tell all rates and bytes that are known
    #[arg(long)]
    pub details: bool,
}

/// Records cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("no directory `results` here, where runs are kept by default: name a run, or the directory of your runs")]
    NoRuns,
    #[error("{} has no {wanted}: its points are 0 to {last_point}, their trials 1 to {last_trial}", path.display())]
    NoSuchTrial { path: PathBuf, wanted: String, last_point: usize, last_trial: u32 },
    #[error(transparent)]
    Read(#[from] DirectoryError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// Prints the records that the arguments ask for: as text, in the format of another tool, or as they are, one a line.
///
/// # Errors
/// When the records cannot be read, a record lacks a figure that the format needs, or `out` cannot be written.
pub fn show(arguments: &ShowArguments, view: View, out: &mut dyn Write) -> Result<(), ShowError> {
    let runs = arguments.read()?;
    let records = || runs.iter().flat_map(|run| &run.read.records);
    if arguments.json {
        return print(&records().map(Record::to_line).collect::<String>(), out);
    }
    if let Some(format) = arguments.format {
        return print(&printable(&exported(&runs, format)?), out);
    }
    // Without an argument the user did not say which run it is.
    let is_named = runs.len() > 1 || arguments.paths.iter().all(|path| runs.iter().all(|run| run.path != *path));
    let view = View { details: arguments.details, ..view.with_charts(arguments.charts) };
    let texts: Vec<String> = runs.iter().map(|run| text(run, is_named, view)).collect();
    print(&texts.join("\n"), out)
}

/// Prints what a run directory holds.
///
/// # Errors
/// As [`show`].
pub fn show_run(directory: &Path, view: View, out: &mut dyn Write) -> Result<(), ShowError> {
    let arguments = ShowArguments {
        paths: vec![directory.to_owned()],
        point: None,
        trial: None,
        json: false,
        format: None,
        charts: Charts::Auto,
        details: false,
    };
    show(&arguments, view, out)
}

/// A run as it was read.
struct Shown {
    path: PathBuf,
    read: ReadRecords,
    series: Vec<SeriesRow>,
    /// The answer of a search, whose probes are the records.
    search: Option<SearchRecord>,
    /// The last checkpoint of a trial without a record, which is among the records too.
    unfinished: Option<Unfinished>,
}

/// What is known of a trial that has no record.
struct Unfinished {
    point_index: usize,
    trial: u32,
    is_running: bool,
}

impl ShowArguments {
    /// The runs that are wanted, with the records that are wanted of them.
    fn read(&self) -> Result<Vec<Shown>, ShowError> {
        let newest = [PathBuf::from(DEFAULT_OUTPUT_DIRECTORY)];
        let paths = if self.paths.is_empty() { &newest[..] } else { &self.paths };
        if self.paths.is_empty() && !newest[0].exists() {
            return Err(ShowError::NoRuns);
        }
        let mut runs = Vec::new();
        for path in paths {
            let mut run = Shown::read(&newest_run(path)?)?;
            self.select(&mut run)?;
            runs.extend(run.by_run_id());
        }
        Ok(runs)
    }

    fn select(&self, run: &mut Shown) -> Result<(), ShowError> {
        if self.point.is_none() && self.trial.is_none() {
            return Ok(());
        }
        let is_wanted = |point_index, trial| {
            self.point.is_none_or(|wanted| wanted == point_index) && self.trial.is_none_or(|wanted| wanted == trial)
        };
        let known = run.read.records.clone();
        run.read.records.retain(|record| is_wanted(record.point_index, record.trial));
        run.unfinished.take_if(|unfinished| !is_wanted(unfinished.point_index, unfinished.trial));
        if run.read.records.is_empty() {
            return Err(self.nothing_of(&run.path, &known));
        }
        Ok(())
    }

    fn nothing_of(&self, path: &Path, known: &[Record]) -> ShowError {
        let wanted = match (self.point, self.trial) {
            (Some(point), Some(trial)) => format!("trial {trial} of point {point}"),
            (Some(point), None) => format!("point {point}"),
            (None, trial) => format!("trial {}", trial.unwrap_or_default()),
        };
        let last_point = known.iter().map(|record| record.point_index).max().unwrap_or(0);
        let last_trial = known.iter().map(|record| record.trial).max().unwrap_or(0);
        ShowError::NoSuchTrial { path: path.to_owned(), wanted, last_point, last_trial }
    }
}

impl Shown {
    fn read(path: &Path) -> Result<Self, ShowError> {
        let mut read = read_records(path)?;
        read.tell_passed_over(path);
        let checkpoint = if path.is_dir() { read_checkpoint(path, &read.records)? } else { None };
        let unfinished = checkpoint.as_ref().map(|checkpoint| Unfinished {
            point_index: checkpoint.point_index,
            trial: checkpoint.trial,
            is_running: is_being_written(path),
        });
        read.records.extend(checkpoint);
        let directory = directory_of(path);
        let series = read_series(directory)?;
        let search = read_search(directory)?;
        Ok(Shown { path: path.to_owned(), read, series, search, unfinished })
    }

    /// The interval log of the run; empty where it kept none.
    fn hlog(&self) -> Vec<u8> {
        std::fs::read(directory_of(&self.path).join(HLOG_FILE)).unwrap_or_default()
    }

    /// A file that a user put together from several runs is shown run by run. Rows of a series do not say which run they are
    /// of, so it is shown without.
    fn by_run_id(mut self) -> Vec<Self> {
        let ids: Vec<String> = run_ids(&self.read.records).into_iter().map(str::to_owned).collect();
        if ids.len() < 2 {
            return vec![self];
        }
        let records = std::mem::take(&mut self.read.records);
        let of = |id: &String| records.iter().filter(|record| record.run_id == *id).cloned().collect();
        let run = |id| Shown {
            path: self.path.clone(),
            read: ReadRecords { records: of(id), ..ReadRecords::default() },
            series: Vec::new(),
            search: None,
            unfinished: None,
        };
        let mut runs: Vec<Shown> = ids.iter().map(run).collect();
        if let Some(last) = runs.last_mut() {
            (last.read.cut_off, last.unfinished) = (self.read.cut_off, self.unfinished);
        }
        runs
    }
}

/// One run, under its path where the user did not name it or named several.
fn text(run: &Shown, is_named: bool, view: View) -> String {
    let heading = Page::write(view, |page| {
        if is_named {
            page.led(&format!("── {} ──", run.path.display()), Tone::Faint, "");
        }
    });
    let mut text = heading + &render(&run.read.records, &run.series, view);
    text.push_str(&Page::write(view, |page| {
        if let Some(unfinished) = &run.unfinished {
            page.blank();
            page.led("✗ ", Tone::Bad, &describe(unfinished));
        }
    }));
    if let Some(search) = &run.search {
        text.push('\n');
        text.push_str(&search_text(search, &run.read.records, view));
    }
    text.push_str(&Page::write(view, |page| {
        if run.read.cut_off {
            page.paragraph(
                0,
                "The last record was cut off by a crash and is not shown; `brokermark run --resume` repeats its trial.",
            );
        }
    }));
    text
}

/// The last record of each trial in the format of another tool.
fn exported(runs: &[Shown], format: Format) -> Result<String, ShowError> {
    let standing = |runs: &[Shown]| -> Vec<Record> {
        let all: Vec<Record> = runs.iter().flat_map(|run| &run.read.records).cloned().collect();
        current_records(&all).into_iter().cloned().collect()
    };
    let of_run = |run: &Shown| format.text(&standing(std::slice::from_ref(run)), &run.series, &run.hlog());
    match format {
        // Its lines also tell what happened in each second of the run.
        Format::Omb => Ok(runs.iter().map(of_run).collect::<Result<String, _>>()?),
        _ => Ok(format.text(&standing(runs), &[], &[])?),
    }
}

/// What a checkpoint means.
fn describe(unfinished: &Unfinished) -> String {
    let trial = format!("Trial {} of point {}", unfinished.trial, unfinished.point_index);
    if unfinished.is_running {
        format!("{trial} still runs: this is its last checkpoint, up to a minute old.")
    } else {
        format!(
            "{trial} was killed before its end: this is its last checkpoint, and the series may go on for up to a minute \
             after it. `brokermark run --resume` repeats the trial."
        )
    }
}

pub(super) fn print(text: &str, out: &mut dyn Write) -> Result<(), ShowError> {
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

/// What is printed when a trial of `run` has ended: the verdict and the figures, without where and how.
pub fn summary(record: &Record, view: View) -> String {
    Page::write(view, |page| figures(page, record))
}

/// A search with its probes and its answer.
pub fn search_text(found: &SearchRecord, records: &[Record], view: View) -> String {
    Page::write(view, |page| {
        page.summary(&search::summary(found, &records.iter().collect::<Vec<_>>()));
        page.blank();
        if let Some(probes) = search::probes_table(found) {
            page.table(&probes);
            page.blank();
        }
        page.facts(&search::facts(found));
    })
}

fn render(records: &[Record], series: &[SeriesRow], view: View) -> String {
    let standing = current_records(records);
    Page::write(view, |page| match standing.as_slice() {
        [] => page.paragraph(0, &nothing_but(series)),
        [record] => whole(page, record, &current_series(series, record.point_index, record.trial)),
        several => trials(page, several, series),
    })
}

/// One trial in full, with throughput and latency over time.
fn whole(page: &mut Page, record: &Record, series: &[SeriesRow]) {
    figures(page, record);
    charts::each_second(page, record, series);
    charts::percentile_curve(page, record);
    page.blank();
    page.facts(&setup::trial_setup(record));
}

/// The verdict of a trial; and its figures, unless it failed before its first message.
fn figures(page: &mut Page, record: &Record) {
    page.summary(&trial::summary(record));
    page.findings(&verdict::findings(&[record]));
    if record.status == Status::Failed && record.counts.attempted == 0 {
        return;
    }
    page.blank();
    page.facts(&account::load(record, page.has_details()));
    page.blank();
    match trial::latency_table(record) {
        Some(latencies) => page.table(&latencies),
        None => page.labelled("latency", "none recorded"),
    }
    trial::latency_words(record).into_iter().for_each(|words| page.faint(words));
    for table in [trial::parts_table(record), faults_table(record)].into_iter().flatten() {
        page.blank();
        page.table(&table);
    }
    page.blank();
    page.facts(&account::outcome(record));
    if let Some(pipeline) = &record.pipeline {
        page.blank();
        page.facts(&pipeline::facts(pipeline));
    }
    let thresholds = verdict::thresholds(&[record]);
    if thresholds.rows() > 0 {
        page.blank();
        page.table(&thresholds);
    }
}

/// Several trials: a row for each, then each point's median and spread over its trials.
fn trials(page: &mut Page, records: &[&Record], series: &[SeriesRow]) {
    page.summary(&sweep::summary(records));
    page.blank();
    let mut trials = sweep::trials_table(records);
    let courses: Vec<String> = records.iter().map(|record| charts::acknowledged(record, series)).collect();
    if page.has_charts() && courses.iter().any(|course| !course.is_empty()) {
        trials.columns.push(Column::new("each second", Align::Left, 3, courses));
    }
    page.table(&trials);
    let points = sweep::points_table(records, usize::MAX);
    if points.rows() < records.len() {
        page.blank();
        page.table(&points);
    }
    let findings = sweep::findings(records);
    if !findings.is_empty() {
        page.blank();
        page.findings(&findings);
    }
    if records.iter().any(|record| record.missed_a_threshold()) {
        page.blank();
        page.table(&verdict::thresholds(records));
    }
}

/// The text for a run in which no trial has finished.
fn nothing_but(series: &[SeriesRow]) -> String {
    let seconds = match series.len() {
        0 => String::new(),
        rows => {
            let rows = crate::present::several(rows, "row");
            format!(" Of one that has begun, the series has {rows}, about one a second.")
        }
    };
    format!("No trial has finished yet, so no record exists.{seconds}")
}

#[cfg(test)]
#[path = "../../../tests/unit/cli/show/search.rs"]
mod search_tests;
#[cfg(test)]
#[path = "../../../tests/unit/cli/show/mod.rs"]
mod tests;
