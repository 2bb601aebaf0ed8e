//! `brokermark run`: runs the trials of a plan in order, or of two plans in turn; and how a run ends: the exit code of its records, and the
//! reasons to print.

mod arguments;
pub(super) mod ceiling;
pub(super) mod interrupt;
mod metrics;
pub(super) mod progress;
#[cfg(feature = "mpi")]
mod ranks;
pub(super) mod recording;
mod screen;
mod session;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use self::arguments::RunArguments;
use self::interrupt::SignalThread;
use self::metrics::SharedFigures;
use self::progress::{Progress, Turn};
use self::session::Session;
pub(super) use self::session::{identity, is_made_run_id, new_run_id};
use super::Exit;
use super::compare::{Options, compare_runs, compare_with_earlier, read_set};
use super::launcher::launched;
use super::load_threads::LoadThreads;
use super::open_files;
use super::report;
use crate::engine::Interruption;
use crate::notices::notice;
use crate::record::{DirectoryError, Record, SinkRecord, Status, current_records, read_records, run_name};
use crate::report::checks::{self, Check, CheckOutcome};
use crate::scenario::{Fault, Plan, ProducerMode, Scenario, WhenInvalid};

/// Runs the scenario, or two in turn.
pub fn run(arguments: &RunArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    #[cfg(feature = "mpi")]
    if ranks::are_launched(arguments)
        && let Some(exit) = ranks::run(arguments, out)
    {
        return Ok(exit);
    }
    let is_whole = arguments.share.share.is_none() && !arguments.print_scenario;
    if let Some(launched) = launched().filter(|_| is_whole) {
        return Err(Exit::usage(format!("error: {}", launched.refusal_to_run())));
    }
    let plans = plans(arguments).map_err(Exit::usage)?;
    if arguments.print_scenario {
        return Ok(Exit::from_result(plans.iter().try_for_each(|plan| out.write_all(with_warning(plan).as_bytes()))));
    }
    refuse_alone(arguments, &plans)?;
    if let Some(baseline) = &arguments.against.baseline {
        read_set(baseline).map_err(|error| Exit::usage(format!("error: `--baseline`: {error}")))?;
    }
    let mut documents = plans.iter().flat_map(|plan| &plan.trials).map(|trial| &trial.document);
    if let Some(note) = documents.find_map(unchosen_content).filter(|_| !arguments.quiet) {
        notice!("note: {note}");
    }
    if let Some(note) = plans.iter().find_map(open_files::too_few).filter(|_| !arguments.quiet) {
        notice!("note: {note}");
    }
    let figures = displays(arguments)?;
    let opened: Result<Vec<Session<'_>>, DirectoryError> =
        plans.iter().enumerate().map(|(side, plan)| Session::open(arguments, plan, side, figures.clone())).collect();
    let sessions = opened.map_err(|error| {
        if error.is_another_run() { Exit::usage(format!("error: {error}")) } else { Exit::failure(error) }
    })?;
    let mut threads = LoadThreads::default();
    if arguments.ceiling {
        measure_ceilings(&sessions, arguments.quiet, &mut threads).map_err(Exit::failure)?;
    }
    let directories: Vec<PathBuf> = sessions.iter().map(|session| session.directory.path().to_owned()).collect();
    let Ended { mut exit, against } = run_all(sessions, arguments.quiet, &mut threads, out)?;
    drop(threads);
    if !directories.iter().all(|directory| directory.exists()) {
        return write_checks(arguments, &plans, &directories, Vec::new(), worse(exit, against));
    }
    if arguments.report {
        exit = worse(exit, report::write_page(&directories, arguments.against.tolerance));
    }
    let options = |unequal| Options::for_run(arguments.against.tolerance, unequal, arguments.json);
    let compared = match directories.as_slice() {
        _ if worse(exit, against) == Exit::Interrupted => None,
        [a, b] => Some(compare_runs(a, b, options(true), out)),
        [run] => {
            let baseline = arguments.against.baseline.as_ref();
            baseline.map(|baseline| compare_with_earlier(baseline, run, options(false), out))
        }
        _ => None,
    };
    let (compared, checks) = compared.map_or((Exit::Success, Vec::new()), |compared| (compared.exit, compared.checks));
    write_checks(arguments, &plans, &directories, checks, worse(exit, comparison_exit(compared, against)))
}

/// The scenario, below the commands that it runs, which are to be read first.
fn with_warning(plan: &Plan) -> String {
    let faults: BTreeSet<String> =
        plan.trials.iter().flat_map(|trial| &trial.scenario.faults).map(Fault::to_string).collect();
    if faults.is_empty() {
        return plan.text.clone();
    }
    let commands: String = faults.iter().map(|fault| format!("#   {fault}\n")).collect();
    format!("# `brokermark run` runs these commands on this machine:\n{commands}{}", plan.text)
}

/// Writes the checks of each side's records, and those of the comparison, for a build server that wants them.
fn write_checks(
    arguments: &RunArguments,
    plans: &[Plan],
    directories: &[PathBuf],
    compared: Vec<Check>,
    exit: Exit,
) -> Result<Exit, Exit> {
    if !arguments.check_files.are_wanted() {
        return Ok(exit);
    }
    let mut all = Vec::new();
    for (plan, directory) in plans.iter().zip(directories) {
        let name = run_name(directory);
        if !directory.exists() {
            let text = "nothing was measured, and the run left no directory";
            all.push(Check::new(&name, "completed", CheckOutcome::Failed, text));
            continue;
        }
        let records = read_records(directory).map_err(Exit::failure)?.records;
        let fails = plan.trials.iter().any(|trial| trial.scenario.when_invalid == WhenInvalid::Fail);
        let must_be_valid = |record: &Record| arguments.strict || (fails && cannot_be_trusted(record));
        let failed = |record: &Record| {
            let place = (record.point_index, record.trial);
            let trial = plan.trials.iter().find(|trial| (trial.point_index, trial.trial) == place)?;
            failure(record, &trial.scenario)
        };
        all.extend(checks::of_records(&name, &current_records(&records), &must_be_valid, &failed));
    }
    all.extend(compared);
    Ok(arguments.check_files.write(&all, exit))
}

/// How all trials ended: those of the run, or of side A; and those of side B.
struct Ended {
    exit: Exit,
    against: Exit,
}

impl Ended {
    fn add(&mut self, side: usize, exit: Exit) {
        let sum = if side == 0 { &mut self.exit } else { &mut self.against };
        *sum = worse(*sum, exit);
    }
}

/// Where a trial compresses messages whose content was not chosen: how much they compress is an accident then.
fn unchosen_content(document: &Value) -> Option<&'static str> {
    let payload = &document["payload"];
    match payload["kind"].as_str().unwrap_or("zeros") {
        _ if !compresses(&document["broker"]) => None,
        "random" if payload["compressibility"].is_null() => Some(
            "`random` payloads do not compress. How compressible are yours? Set `payload.compressibility`, or `payload.file`",
        ),
        "zeros" => Some(
            "payloads of zeros compress to nearly nothing. How compressible are yours? Set `payload.kind = \"random\"` with `payload.compressibility`, or `payload.file`",
        ),
        _ => None,
    }
}

/// Whether a key of a broker's table asks for a compression; its prefix does not matter.
fn compresses(broker: &Value) -> bool {
    let Some(table) = broker.as_object() else { return false };
    table.iter().any(|(key, value)| match value.as_str() {
        Some(codec) => key.starts_with("compression") && codec != "none",
        None => compresses(value),
    })
}

/// Checks that there is a terminal for the screen, and begins to serve metrics, where they are asked for.
fn displays(arguments: &RunArguments) -> Result<Option<SharedFigures>, Exit> {
    if arguments.tui && !std::io::stderr().is_terminal() {
        let reason = "error: `--tui` draws on standard error, which is not a terminal: leave it out";
        return Err(Exit::usage(reason));
    }
    let failed = |error| Exit::failure(format!("`--metrics`: the address cannot be listened at: {error}"));
    arguments.metrics.map(metrics::serve).transpose().map_err(failed)
}

/// Refuses plans that this process cannot run as a whole, where it is to do so.
fn refuse_alone(arguments: &RunArguments, plans: &[Plan]) -> Result<(), Exit> {
    let mut trials = plans.iter().flat_map(|plan| &plan.trials).filter(|_| arguments.share.share.is_none());
    let checked = trials.try_for_each(|trial| trial.scenario.check_alone());
    checked.map_err(|reason| Exit::usage(format!("error: {reason}")))
}

/// The plan, or those of both sides.
fn plans(arguments: &RunArguments) -> Result<Vec<Plan>, String> {
    let plan = arguments.source.load_with_notes(arguments.quiet).map_err(|error| error.to_string())?;
    if !arguments.against.is_wanted() {
        return match arguments.against.tolerance {
            Some(_) if arguments.against.baseline.is_none() => {
                Err("error: --tolerance judges a comparison: add --against, --against-set or --baseline".to_owned())
            }
            _ => Ok(vec![arguments.share.divide(plan).map_err(|reason| format!("error: {reason}"))?]),
        };
    }
    let other = arguments.other_plan().map_err(|error| error.to_string())?;
    match arguments::disagreement(&plan, &other) {
        Some(reason) => Err(format!("error: {reason}")),
        None => Ok(vec![plan, other]),
    }
}

/// Measures the ceiling of each plan, which is found again when its trials run.
fn measure_ceilings(sessions: &[Session<'_>], quiet: bool, threads: &mut LoadThreads) -> Result<(), String> {
    // The run's own signals are not listened for yet: one ends the program.
    let interruption = Interruption::none();
    for session in sessions {
        let base = session.directory.path().parent().unwrap_or(Path::new("."));
        ceiling::measure(session.plan, base, ceiling::WINDOW, quiet, &interruption, threads)?;
    }
    Ok(())
}

/// Runs all trials: of a single plan in its order, of two in turn.
///
/// # Errors
/// With what ended both sides at once.
fn run_all(
    mut sessions: Vec<Session<'_>>,
    quiet: bool,
    threads: &mut LoadThreads,
    out: &mut dyn Write,
) -> Result<Ended, Exit> {
    let signals = SignalThread::start(interrupt::deadline(Some(sessions[0].plan))).map_err(Exit::failure)?;
    let interruption = &signals.interruption;
    let trials = sessions[0].plan.trials.len();
    let order = match sessions.len() {
        1 => (0..trials).map(|position| (0, position)).collect(),
        _ => arguments::order(sessions[0].plan),
    };
    let plans: Vec<&Plan> = sessions.iter().map(|session| session.plan).collect();
    let turns = Turn::all(&plans, &order, |side, position| !sessions[side].is_to_run(position));
    for ((side, position), turn) in order.iter().zip(turns) {
        sessions[*side].turns[*position] = turn;
    }
    // Records of earlier sessions count for the exit code as well.
    let mut ended = Ended { exit: Exit::Success, against: Exit::Success };
    for (side, session) in sessions.iter().enumerate() {
        session.kept_exits().for_each(|exit| ended.add(side, exit));
    }
    let mut pause = Duration::ZERO;
    for (side, position) in order {
        let session = &mut sessions[side];
        if !session.is_to_run(position) {
            continue;
        }
        if !pause.is_zero() {
            signals.block_on(rest(pause, session.progress(position), interruption));
        }
        pause = session.plan.pause;
        if interruption.is_requested() {
            ended.add(0, Exit::Interrupted);
            break;
        }
        let runtime = threads.get(session.plan.trials[position].scenario.threads).map_err(Exit::failure)?;
        let exit = runtime.block_on(session.trial(position, interruption, out)).map_err(Exit::failure)?;
        ended.add(side, exit);
    }
    for session in &sessions {
        if session.discard() {
            continue;
        }
        session.keep_metrics();
        if !quiet {
            session.conclude(out);
        }
    }
    Ok(ended)
}

/// Waits before a trial, unless a signal comes.
pub(super) async fn rest(pause: Duration, mut progress: Progress, interruption: &Interruption) {
    let (ends, signal) = (Instant::now() + pause, interruption.phase());
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() || signal.is_over() {
            break;
        }
        progress.pausing(left);
        tokio::select! {
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => {}
            () = signal.over() => {}
        }
    }
    progress.finish();
}

/// The exit code that a record asks for. With `strict`, one that is not valid fails.
pub(super) fn exit_of(record: &Record, scenario: &Scenario, strict: bool) -> Exit {
    match record.status {
        Status::Interrupted => Exit::Interrupted,
        // A checkpoint does not end a trial.
        Status::Failed | Status::Stalled | Status::Running => Exit::Failure,
        Status::Completed if failure(record, scenario).is_some() => Exit::Failure,
        Status::Completed if record.missed_a_threshold() => Exit::ThresholdMissed,
        Status::Completed if strict && !record.verdict.valid => Exit::ThresholdMissed,
        Status::Completed if scenario.when_invalid == WhenInvalid::Fail && cannot_be_trusted(record) => {
            Exit::ThresholdMissed
        }
        Status::Completed => Exit::Success,
    }
}

/// Why a completed trial counts as failed.
fn failure(record: &Record, scenario: &Scenario) -> Option<String> {
    let counts = &record.counts;
    if counts.attempted > 0 && counts.acknowledged == 0 {
        let first = record.errors.first().map_or_else(String::new, |error| format!(": {}", error.first_message));
        return Some(format!("the broker acknowledged no message{first}"));
    }
    if !counts.balances() {
        return Some("the counts of its messages do not add up: it is a bug of brokermark".to_owned());
    }
    sink_without_rows(record, scenario).map(nothing_written)
}

/// A sink of the pipeline that has none of the rows. A member of a shared group that received nothing had nothing to write: the
/// other members may have received all of it.
fn sink_without_rows<'a>(record: &'a Record, scenario: &Scenario) -> Option<&'a SinkRecord> {
    let (pipeline, config) = (record.pipeline.as_ref()?, scenario.pipeline.as_ref()?);
    let may_be_idle = config.group.is_some() && config.producer_mode == ProducerMode::None && pipeline.consumed == 0;
    let mut sinks = pipeline.sinks.iter().filter(|_| !may_be_idle);
    sinks.find(|sink| sink.written + sink.duplicates == 0)
}

/// Why a pipeline that wrote nothing has failed.
fn nothing_written(sink: &SinkRecord) -> String {
    let mut errors = sink.errors.iter().chain(&sink.refused_by_class);
    let reason = errors.next().map(|error| error.first_message.as_str());
    let reason = reason.unwrap_or("the pipeline received no message that could be written");
    format!("the pipeline wrote nothing to {}: {reason}", sink.name)
}

/// Whether thresholds were set, and the figures that they were judged by cannot be trusted. An embedded broker is exempt: it is
/// there to try a scenario out, and no record of it is ever valid.
fn cannot_be_trusted(record: &Record) -> bool {
    !record.thresholds.is_empty() && !record.verdict.valid && !record.environment.embedded
}

/// Why a record that is not valid holds no threshold.
pub(super) fn untrusted(record: &Record) -> String {
    let reasons = &record.verdict.reasons;
    let kinds: Vec<String> = reasons.iter().map(|reason| reason.kind.to_string()).collect();
    let evidence = reasons.first().map_or("", |reason| &reason.evidence);
    let advice = match record.thresholds.is_empty() {
        true => "",
        false => " Its thresholds prove nothing; set `thresholds.when_invalid = \"ignore\"` to go by them alone.",
    };
    format!("trial {} is not valid ({}). {evidence}{advice}", record.trial, kinds.join(", "))
}

/// Of several trials' ends the one that a script most needs to know.
fn worse(one: Exit, other: Exit) -> Exit {
    let rank = |exit| match exit {
        Exit::Success => 0,
        Exit::ThresholdMissed => 1,
        Exit::Usage | Exit::Failure => 2,
        Exit::Interrupted => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// What a comparison makes of how B's trials ended: trials of B that failed are part of the regression that it found.
fn comparison_exit(compared: Exit, against: Exit) -> Exit {
    match (compared, against) {
        (Exit::ThresholdMissed, Exit::Failure) => Exit::ThresholdMissed,
        _ => worse(compared, against),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_content_of_what_is_compressed_is_to_be_chosen() {
        let note = |codec: &str, payload: Value| {
            unchosen_content(&json!({ "broker": { "kafka": { "compression": codec } }, "payload": payload }))
        };
        assert!(note("lz4", json!({})).unwrap().contains("zeros"));
        assert!(note("lz4", json!({ "kind": "random" })).unwrap().contains("do not compress"));
        assert_eq!(note("lz4", json!({ "kind": "random", "compressibility": 0.5 })), None);
        assert_eq!(note("lz4", json!({ "kind": "lines", "file": "x" })), None);
        assert_eq!(note("none", json!({})), None);
        let property = json!({ "broker": { "properties": { "compression.type": "zstd" } }, "payload": {} });
        assert!(unchosen_content(&property).is_some());
    }
}
