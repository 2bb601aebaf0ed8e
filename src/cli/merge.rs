//! `brokermark merge`: puts the records of a run's shares together. It reads them, and writes a run directory of its own. Rank 0 of MPI
//! reads what a rank kept in the same way.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};

use super::Exit;
use super::run::exit_of;
use super::show::{View, summary};
use crate::distributed::{KeptShare, MergeError, Merged, merge};
use crate::engine;
use crate::measure::MessageSets;
use crate::notices::notice;
use crate::record::{
    DirectoryError, HLOG_FILE, HlogLines, Record, RunDirectory, SCENARIO_FILE, SHARES_FILE, current_records,
    current_series, read_messages, read_records, read_series,
};
use crate::scenario::Scenario;

#[derive(Debug, Args)]
pub struct MergeArguments {
    /// The run directory of each share
    #[arg(required = true, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub shares: Vec<PathBuf>,
    /// Make this run directory for the merged record
    #[arg(long, short, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Print the record as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The shares cannot be put together.
#[derive(Debug, thiserror::Error)]
enum CannotMerge {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Share(#[from] ShareError),
}

/// Merges the shares and prints the result.
pub fn run(arguments: &MergeArguments, out: &mut dyn Write) -> Exit {
    match merged(arguments) {
        Ok((record, scenario)) => {
            let text = if arguments.json { record.to_line() } else { summary(&record, View::for_stdout()) };
            let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            notice!("records: {}", arguments.output.display());
            match Exit::from_result(printed) {
                Exit::Success => exit_of(&record, &scenario, false),
                exit => exit,
            }
        }
        Err(error) => {
            notice!("error: {error}");
            Exit::Failure
        }
    }
}

fn merged(arguments: &MergeArguments) -> Result<(Record, Scenario), CannotMerge> {
    let shares = arguments.shares.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let records: String = shares.iter().map(|share| share.record.to_line()).collect();
    let scenario = read_text(&arguments.shares[0].join(SCENARIO_FILE))?;
    let Merged { record, series, interval_log, scenario: judged_by } = merge(shares, Vec::new(), engine::kinds())?;
    let mut directory = RunDirectory::create_at(&arguments.output, &scenario)?;
    directory.keep(SHARES_FILE, records.as_bytes())?;
    directory.keep(HLOG_FILE, interval_log.as_bytes())?;
    for row in &series {
        directory.journal().second(row, HlogLines::default());
    }
    directory.append_record(&record)?;
    Ok((record, judged_by))
}

/// A directory is not that of a share.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{path} has {records} records: a share has one")]
    NotOne { path: String, records: usize },
}

/// What one process kept of its share.
///
/// # Errors
/// When the directory cannot be read, or has more than one record.
pub fn read(path: &Path) -> Result<KeptShare, ShareError> {
    let read = read_records(path)?;
    let current = current_records(&read.records);
    let [record] = current.as_slice() else {
        return Err(ShareError::NotOne { path: path.display().to_string(), records: current.len() });
    };
    Ok(with_record(path, (*record).clone(), read_messages(path)?.map(Arc::new))?)
}

/// This record of a share and the numbers of its messages, with what else is in its directory.
///
/// # Errors
/// When the directory cannot be read.
pub fn with_record(
    path: &Path,
    record: Record,
    messages: Option<Arc<MessageSets>>,
) -> Result<KeptShare, DirectoryError> {
    let series = read_series(path)?;
    Ok(KeptShare {
        origin: path.display().to_string(),
        series: current_series(&series, record.point_index, record.trial),
        interval_log: read_text(&path.join(HLOG_FILE))?,
        messages,
        record,
        clock: None,
    })
}

/// A file of a share's directory: nothing where there is no such file.
///
/// # Errors
/// When there is one and it cannot be read.
fn read_text(path: &Path) -> Result<String, DirectoryError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(DirectoryError::Io { action: "read", path: path.to_owned(), source }),
    }
}
