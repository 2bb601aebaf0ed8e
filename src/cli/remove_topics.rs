//! `brokermark remove-topics`: removes the topics that a run in shares has left.

use std::io::Write;

use clap::Args;

use super::Exit;
use super::load_threads;
use super::run::is_made_run_id;
use super::scenario_source::ScenarioSource;
use crate::engine::{TrialIdentity, remove_topics};
use crate::notices::notice;
use crate::scenario::Threads;

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
pub fn run(arguments: &RemoveTopicsArguments, out: &mut dyn Write) -> Exit {
    let plan = match arguments.source.load() {
        Ok(plan) => plan,
        Err(error) => {
            notice!("{error}");
            return Exit::Usage;
        }
    };
    let Some(trial) = plan.trials.first() else { return Exit::Usage };
    let runtime = match load_threads::start(Threads::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            notice!("error: the threads of the client cannot be started: {error}");
            return Exit::Failure;
        }
    };
    let identity = TrialIdentity::alone(arguments.run_id.clone(), 0);
    let removed = runtime.block_on(remove_topics(&trial.scenario, &identity, arguments.dry_run));
    runtime.shutdown_background();
    match removed {
        Ok(topics) if topics.is_empty() => {
            notice!("error: no topic of this run exists");
            Exit::Failure
        }
        Ok(topics) => {
            Exit::from_result(topics.iter().try_for_each(|topic| writeln!(out, "{topic}")).and_then(|()| out.flush()))
        }
        Err(error) => {
            notice!("error: {error}");
            Exit::Failure
        }
    }
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
