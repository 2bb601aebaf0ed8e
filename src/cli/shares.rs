//! After a run in shares: `brokermark merge` puts the records of its shares together, and `brokermark remove-topics` removes the topics that it
//! has left.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Exit;
use super::load_threads;
use super::run::{exit_of, is_made_run_id};
use super::scenario_source::ScenarioSource;
use super::show::{View, summary};
use crate::distributed::{self, KeptShare, MergeError, Merged, ShareError, read_text};
use crate::engine::{self, TrialIdentity};
use crate::notices::notice;
use crate::record::{DirectoryError, Record, RunDirectory, SCENARIO_FILE};
use crate::scenario::{Scenario, Threads};

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
pub fn merge(arguments: &MergeArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    let (record, scenario) = merged(arguments).map_err(Exit::failure)?;
    let text = if arguments.json { record.to_line() } else { summary(&record, View::for_stdout()) };
    let printed = Exit::print(&text, out);
    notice!("records: {}", arguments.output.display());
    Ok(if printed == Exit::Success { exit_of(&record, &scenario, false) } else { printed })
}

fn merged(arguments: &MergeArguments) -> Result<(Record, Scenario), CannotMerge> {
    let shares = arguments.shares.iter().map(|path| KeptShare::read(path)).collect::<Result<Vec<_>, _>>()?;
    let records: String = shares.iter().map(|share| share.record.to_line()).collect();
    let scenario = read_text(&arguments.shares[0].join(SCENARIO_FILE))?;
    let Merged { record, series, interval_log, scenario: judged_by } =
        distributed::merge(shares, Vec::new(), engine::kinds())?;
    let mut directory = RunDirectory::create_at(&arguments.output, &scenario)?;
    directory.append_merged(&record, &series, &interval_log, &records)?;
    Ok((record, judged_by))
}

#[derive(Debug, Args)]
pub struct RemoveTopicsArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
    /// The run, as its shares printed it and as their records have it (`run_id`)
    #[arg(long, value_name = "ID", value_parser = parse_made_run_id)]
    pub run_id: String,
    /// Only print the names of the topics that would be removed
    #[arg(long)]
    pub dry_run: bool,
}

/// Removes those of the run's topics that exist, and prints their names. It never creates one. Without any, the id is likely wrong.
pub fn remove_topics(arguments: &RemoveTopicsArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    let plan = arguments.source.load().map_err(Exit::usage)?;
    let trial = plan.trials.first().ok_or(Exit::Usage)?;
    let runtime = load_threads::start(Threads::default()).map_err(Exit::failure)?;
    let identity = TrialIdentity::alone(arguments.run_id.clone(), 0);
    let removed = runtime.block_on(engine::remove_topics(&trial.scenario, &identity, arguments.dry_run));
    runtime.shutdown_background();
    let topics: Vec<String> = removed.map_err(Exit::failure)?;
    if topics.is_empty() {
        return Err(Exit::failure("no topic of this run exists"));
    }
    Ok(Exit::print(&(topics.join("\n") + "\n"), out))
}

/// An id that `run` has made: a topic of others is not named after one.
fn parse_made_run_id(text: &str) -> Result<String, String> {
    if is_made_run_id(text) {
        return Ok(text.to_owned());
    }
    Err("this is not the id of a run: write it as its shares printed it and their records have it, as in \
         brokermark-orders-19ca8fb2a00"
        .to_owned())
}
