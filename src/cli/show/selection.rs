//! Which runs and which of their trials are shown.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::{Charts, ShowError};
use crate::record::export::Format;
use crate::record::{
    HLOG_FILE, ReadRecords, Record, SearchRecord, SeriesRow, is_being_written, newest_run, read_checkpoint,
    read_records, read_search, read_series, run_ids,
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
}

/// A run as it was read.
pub(super) struct Shown {
    pub(super) path: PathBuf,
    pub(super) read: ReadRecords,
    pub(super) series: Vec<SeriesRow>,
    /// The answer of a search, whose probes are the records.
    pub(super) search: Option<SearchRecord>,
    /// The last checkpoint of a trial without a record, which is among the records too.
    pub(super) unfinished: Option<Unfinished>,
}

/// What is known of a trial that has no record.
pub(super) struct Unfinished {
    pub(super) point_index: usize,
    pub(super) trial: u32,
    pub(super) is_running: bool,
}

impl ShowArguments {
    /// The runs that are wanted, with the records that are wanted of them.
    pub(super) fn read(&self) -> Result<Vec<Shown>, ShowError> {
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

/// The directory of a run, which may have been named by its file of records.
fn directory_of(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) }
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
    pub(super) fn hlog(&self) -> Vec<u8> {
        std::fs::read(directory_of(&self.path).join(HLOG_FILE)).unwrap_or_default()
    }

    /// A file that somebody put together from several runs is shown run by run. Rows of a series do not say which run they are
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
