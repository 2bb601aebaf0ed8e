//! What a report is made from: a run directory, or a file of records.

use std::fs;
use std::path::{Path, PathBuf};

use crate::evaluate::comparison::KeptTrial;
use crate::record::{
    DirectoryError, Record, SCENARIO_FILE, SearchRecord, current_records, current_series, read_checkpoint,
    read_records, read_search, read_series, runs_at,
};

/// A run, or several runs of the same scenario that count as one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// The name of its directory.
    pub name: String,
    pub trials: Vec<KeptTrial>,
    /// Where the latencies of each trial's seconds may lie.
    pub directories: Vec<PathBuf>,
    /// The scenario as it was run.
    pub scenario: Option<String>,
    /// What it found, where it was a search.
    pub search: Option<SearchRecord>,
}

impl Run {
    pub fn records(&self) -> Vec<&Record> {
        self.trials.iter().map(|trial| &trial.record).collect()
    }
}

/// A run cannot be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{} has no record yet: wait for the first trial to end, or for its first checkpoint after a minute", path.display())]
    Empty { path: PathBuf },
}

/// Reads the run at `path`, or all runs below it.
///
/// # Errors
/// When no run is there, one cannot be read, or no run has a record.
pub fn read(path: &Path) -> Result<Run, ReadError> {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let mut run = Run { name, ..Run::default() };
    let all = runs_at(path)?;
    if let [only] = all.as_slice() {
        run.search = if only.is_dir() { read_search(only)? } else { None };
    }
    for one in all {
        let directory = if one.is_dir() { one.clone() } else { one.parent().unwrap_or(Path::new(".")).to_owned() };
        let read = read_records(&one)?;
        read.tell_passed_over(&one);
        let mut records = read.records;
        if one.is_dir() {
            records.extend(read_checkpoint(&one, &records)?);
        }
        let series = read_series(&directory)?;
        for record in current_records(&records) {
            let series = current_series(&series, record.point_index, record.trial);
            run.trials.push(KeptTrial { record: record.clone(), series });
            run.directories.push(directory.clone());
        }
        if run.scenario.is_none() {
            run.scenario = fs::read_to_string(directory.join(SCENARIO_FILE)).ok();
        }
    }
    if run.trials.is_empty() { Err(ReadError::Empty { path: path.to_owned() }) } else { Ok(run) }
}
