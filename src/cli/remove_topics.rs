//! `brokermark remove-topics`: removes the topics that a run in shares has left.

use std::io::Write;

use clap::Args;

use super::Exit;
use super::load_threads;
use super::scenario_source::ScenarioSource;
use crate::engine::{TrialIdentity, remove_topics};
use crate::notices::notice;
use crate::scenario::Threads;

#[derive(Debug, Args)]
pub struct RemoveTopicsArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
    /// The run, as its shares printed it and as their records have it (`run_id`)
    #[arg(long, value_name = "NAME")]
    pub run_id: String,
}

/// Removes the topics and prints their names.
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
    let removed = runtime.block_on(remove_topics(&trial.scenario, &identity));
    runtime.shutdown_background();
    match removed {
        Ok(topics) => {
            Exit::from_result(topics.iter().try_for_each(|topic| writeln!(out, "{topic}")).and_then(|()| out.flush()))
        }
        Err(error) => {
            notice!("error: {error}");
            Exit::Failure
        }
    }
}
