//! `brokermark merge`: puts the records of a run's shares together. It reads them, and writes a run directory of its own.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Exit;
use super::run::exit_of;
use super::show::{View, summary};
use crate::distributed::{KeptShare, MergeError, Merged, ShareError, merge, read_text};
use crate::engine;
use crate::notices::notice;
use crate::record::{DirectoryError, HLOG_FILE, HlogLines, Record, RunDirectory, SCENARIO_FILE, SHARES_FILE};
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
    let shares = arguments.shares.iter().map(|path| KeptShare::read(path)).collect::<Result<Vec<_>, _>>()?;
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
