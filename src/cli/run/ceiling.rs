//! `brokermark ceiling`: how much the load generator itself carries in a scenario's shape, measured on the null broker.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use jiff::Timestamp;

use super::interrupt::{self, SignalThread};
use super::progress::Progress;
use super::recording::{Recording, Run};
use super::{identity, new_run_id};
use crate::cli::load_threads::LoadThreads;
use crate::cli::scenario_source::{ReplacedKeys, ScenarioSource};
use crate::cli::{Exit, launcher};
use crate::engine::{Interruption, run_scenario};
use crate::evaluate::{ceiling_machine, ceiling_shape, ceiling_trial, environment};
use crate::notices::notice;
use crate::record::readable::{self, bytes, duration, rate};
use crate::record::{CEILING_SCHEMA, Ceiling, Record, RunDirectory, Status, probe};
use crate::scenario::{Plan, RunLimits, Stop, Trial, units};
use crate::secrets::masked_command_line;

/// How long a ceiling is measured by default.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

const WARM_UP: Duration = Duration::from_secs(1);
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// The keys that a ceiling does not go by.
pub const REPLACED_KEYS: ReplacedKeys = ReplacedKeys {
    command: "ceiling",
    reason: "measures the load generator alone: without the broker and without a rate, once for each shape",
    keys: &[
        "topology.replication",
        "topology.name",
        "topology.existing",
        "topology.config",
        "run.warm_up",
        "run.messages",
        "run.payload_bytes",
        "run.scheduling_policy",
        "pipeline",
        "idle_connections",
        "faults",
        "sweep.trials",
        "sweep.trials_at_most",
        "sweep.until",
        "sweep.order",
        "sweep.seed",
        "sweep.pause",
        "thresholds",
        "distribution",
    ],
};

#[derive(Debug, Args)]
pub struct CeilingArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
    /// Measurement time, after a second of warm-up
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = units::parse_duration)]
    pub measure: Duration,
    /// Keep ceilings and runs below this directory [default: the scenario's `output.directory`, `results`]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Print no progress, only the ceiling
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON, a line for each shape
    #[arg(long)]
    pub json: bool,
}

/// Measures the ceiling of each shape of the scenario, keeps and prints it.
pub fn ceiling(arguments: &CeilingArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    launcher::refuse("ceiling")?;
    let plan = arguments.source.load_with_notes(arguments.quiet).map_err(Exit::usage)?;
    let checked = plan.trials.iter().try_for_each(|trial| trial.scenario.check_producers(1));
    checked.map_err(|reason| Exit::usage(format!("error: {reason}")))?;
    if let Some(note) = REPLACED_KEYS.note(&plan.text).filter(|_| !arguments.quiet) {
        notice!("{note}");
    }
    let base = arguments.output.clone().unwrap_or_else(|| plan.output.directory.clone());
    let signals = SignalThread::start(interrupt::deadline(Some(&plan))).map_err(Exit::failure)?;
    let threads = &mut LoadThreads::default();
    let ceilings = measure(&plan, &base, arguments.measure, arguments.quiet, &signals.interruption, threads);
    let json = |ceiling: &Ceiling| serde_json::to_string(ceiling).unwrap_or_default() + "\n";
    let line = |ceiling: &Ceiling| if arguments.json { json(ceiling) } else { text(ceiling) };
    Ok(Exit::print(&ceilings.map_err(Exit::failure)?.iter().map(line).collect::<String>(), out))
}

/// Measures and keeps the ceiling of each shape of the plan.
///
/// # Errors
/// When a trial could not run to its end, or its result cannot be kept.
pub(super) fn measure(
    plan: &Plan,
    base: &Path,
    window: Duration,
    quiet: bool,
    interruption: &Interruption,
    threads: &mut LoadThreads,
) -> Result<Vec<Ceiling>, String> {
    let name = format!("{}-ceiling", plan.name);
    probe(base).map_err(|error| error.to_string())?;
    let mut directory =
        RunDirectory::create(base, &name, Timestamp::now(), &plan.text).map_err(|error| error.to_string())?;
    let run_id = new_run_id(&name);
    let mut shapes = Vec::new();
    let mut ceilings = Vec::new();
    for trial in &plan.trials {
        let shape = ceiling_shape(trial);
        if shapes.contains(&shape) {
            continue;
        }
        let limits = RunLimits {
            warm_up: WARM_UP,
            stop: Stop { duration: Some(window), ..Stop::default() },
            ..trial.scenario.run.clone()
        };
        let trial = ceiling_trial(trial, limits);
        let runtime = threads.get(trial.scenario.threads)?;
        let record = runtime.block_on(carried(&trial, &run_id, shapes.len(), &mut directory, quiet, interruption))?;
        let ceiling = ceiling_from_record(&record, shape.clone());
        ceiling.keep(base).map_err(|error| error.to_string())?;
        ceilings.push(ceiling);
        shapes.push(shape);
    }
    Ok(ceilings)
}

/// Runs the trial, and brings its record to disk.
async fn carried(
    trial: &Trial,
    run_id: &str,
    position: usize,
    directory: &mut RunDirectory,
    quiet: bool,
    interruption: &Interruption,
) -> Result<Record, String> {
    let command_line = masked_command_line();
    let run = Run { id: run_id, command_line: &command_line, checkpoint_every: CHECKPOINT_EVERY, ceiling: None };
    let progress = Progress::named(quiet, "ceiling ".to_owned(), trial.scenario.run.clone(), Duration::ZERO);
    let mut recording = Recording::new(trial, run, directory, progress, None);
    let result = run_scenario(&trial.scenario, &identity(run_id, position), interruption, &mut recording).await;
    let kept = recording.finish(None);
    result.map_err(|error| format!("the null broker cannot carry this scenario's shape: {error}"))?;
    let (record, kept) = kept.ok_or("the ceiling was not measured to its end")?;
    kept.map_err(|error| error.to_string())?;
    match record.status {
        Status::Completed => Ok(record),
        _ => Err("the ceiling was not measured to its end: run `brokermark ceiling` again".to_owned()),
    }
}

fn ceiling_from_record(record: &Record, shape: serde_json::Value) -> Ceiling {
    Ceiling {
        schema: CEILING_SCHEMA.to_owned(),
        shape,
        machine: ceiling_machine(&record.environment),
        measured_at: record.started_at,
        messages_per_second: record.throughput.messages_per_second,
        payload_bytes_per_second: record.throughput.payload_bytes_per_second,
        cores_used: record.client.cores_used,
        cores_available: record.client.cores_available,
        cpu_ns_per_message: record.client.cpu_ns_per_message,
    }
}

fn text(ceiling: &Ceiling) -> String {
    format!(
        "ceiling of the client: {} messages/s ({}/s), with {:.2} of {} cores and {} of CPU for each message\n",
        rate(ceiling.messages_per_second),
        bytes(ceiling.payload_bytes_per_second),
        ceiling.cores_used,
        readable::cores(ceiling.cores_available),
        ceiling.cpu_ns_per_message.map_or("–".to_owned(), duration)
    )
}

/// The ceiling that is known of a trial's shape on this machine, in messages per second.
pub(super) fn known(base: &Path, trial: &Trial) -> Option<f64> {
    let machine = ceiling_machine(&environment([], None));
    let found = Ceiling::find(base, &ceiling_shape(trial), &machine).ok().flatten();
    found.map(|ceiling| ceiling.messages_per_second).filter(|rate| *rate > 0.0)
}
