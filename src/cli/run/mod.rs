//! `brokermark run`: runs the trials of a plan in order, or of two plans in turn. Each trial is on disk before the next begins.

mod arguments;
pub(super) mod ceiling;
mod ending;
mod identity;
mod in_turn;
pub(super) mod interrupt;
mod metrics;
pub(super) mod progress;
#[cfg(feature = "mpi")]
mod ranks;
pub(super) mod recording;
mod screen;
mod share;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

pub use self::arguments::RunArguments;
pub(super) use self::ending::{exit_of, untrusted};
use self::ending::{nothing_written, sink_without_rows, worse};
pub(super) use self::identity::{identity, is_made_run_id, new_run_id};

use self::interrupt::SignalThread;
use self::metrics::SharedFigures;
use self::progress::{Progress, Style};
use self::recording::{Recording, Run};
use super::Exit;
use super::compare::{Options, compare_runs};
use super::launcher::launched;
use super::load_threads::LoadThreads;
use super::report;
use super::show::{View, summary};
use crate::engine::{Interruption, run_scenario};
use crate::evaluate::{assemble_failed, environment, is_enough, not_known};
use crate::notices::{self, notice};
use crate::record::export::open_metrics;
use crate::record::{
    CompletedTrial, DirectoryError, InputFile, Record, RunDirectory, Status, current_records, probe, read_records,
};
use crate::scenario::{OutputFormat, Plan, Trial};
use crate::secrets::masked_command_line;

/// Runs the scenario, or two in turn.
pub fn run(arguments: &RunArguments, out: &mut dyn Write) -> Exit {
    #[cfg(feature = "mpi")]
    if ranks::are_launched(arguments)
        && let Some(exit) = ranks::run(arguments, out)
    {
        return exit;
    }
    let is_whole = arguments.share.share.is_none() && !arguments.print_scenario;
    if let Some(launched) = launched().filter(|_| is_whole) {
        notice!("error: {}", launched.refusal_to_run());
        return Exit::Usage;
    }
    let plans = match plans(arguments) {
        Ok(plans) => plans,
        Err(reason) => {
            notice!("{reason}");
            return Exit::Usage;
        }
    };
    if arguments.print_scenario {
        return Exit::from_result(plans.iter().try_for_each(|plan| out.write_all(plan.text.as_bytes())));
    }
    if let Some(reason) = refusal_alone(arguments, &plans) {
        notice!("error: {reason}");
        return Exit::Usage;
    }
    let figures = match displays(arguments) {
        Ok(figures) => figures,
        Err(exit) => return exit,
    };
    let opened: Result<Vec<Session<'_>>, DirectoryError> =
        plans.iter().enumerate().map(|(side, plan)| Session::open(arguments, plan, side, figures.clone())).collect();
    let sessions = match opened {
        Ok(sessions) => sessions,
        Err(error) => {
            notice!("error: {error}");
            return if error.is_another_run() { Exit::Usage } else { Exit::Failure };
        }
    };
    let mut threads = LoadThreads::default();
    if arguments.ceiling
        && let Err(error) = measure_ceilings(&sessions, arguments.quiet, &mut threads)
    {
        notice!("error: {error}");
        return Exit::Failure;
    }
    let directories: Vec<PathBuf> = sessions.iter().map(|session| session.directory.path().to_owned()).collect();
    let Ended { mut exit, against } = run_all(sessions, arguments.quiet, &mut threads, out);
    drop(threads);
    if arguments.report {
        exit = worse(exit, report::write_page(&directories, arguments.against.tolerance));
    }
    match directories.as_slice() {
        [a, b] if worse(exit, against) != Exit::Interrupted => {
            let compared = compare_runs(a, b, Options::for_run(arguments.against.tolerance, arguments.json), out);
            worse(exit, ending::of_comparison(compared, against))
        }
        _ => worse(exit, against),
    }
}

/// How all trials ended: those of the run, or of side A; and those of side B.
struct Ended {
    exit: Exit,
    against: Exit,
}

impl Ended {
    /// What ended both sides at once.
    fn at_once(exit: Exit) -> Self {
        Ended { exit, against: Exit::Success }
    }

    fn add(&mut self, side: usize, exit: Exit) {
        let sum = if side == 0 { &mut self.exit } else { &mut self.against };
        *sum = worse(*sum, exit);
    }
}

/// Checks that there is a terminal for the screen, and begins to serve metrics, where they are asked for.
fn displays(arguments: &RunArguments) -> Result<Option<SharedFigures>, Exit> {
    if arguments.tui && !std::io::stderr().is_terminal() {
        notice!("error: `--tui` draws on standard error, which is not a terminal: leave it out");
        return Err(Exit::Usage);
    }
    arguments.metrics.map(metrics::serve).transpose().map_err(|error| {
        notice!("error: `--metrics`: the address cannot be listened at: {error}");
        Exit::Failure
    })
}

/// Why this process cannot run the whole scenario, where it is to do so.
fn refusal_alone(arguments: &RunArguments, plans: &[Plan]) -> Option<String> {
    let trials = || plans.iter().flat_map(|plan| &plan.trials);
    let checked =
        arguments.share.share.is_none().then(|| trials().find_map(|trial| trial.scenario.check_alone().err()));
    checked.flatten()
}

/// The plan, or those of both sides.
fn plans(arguments: &RunArguments) -> Result<Vec<Plan>, String> {
    let plan = arguments.source.load_with_notes(arguments.quiet).map_err(|error| error.to_string())?;
    if !arguments.against.is_wanted() {
        return match arguments.against.tolerance {
            None => Ok(vec![arguments.share.divide(plan).map_err(|reason| format!("error: {reason}"))?]),
            Some(_) => Err("error: --tolerance judges a comparison: add --against or --against-set".to_owned()),
        };
    }
    let other = arguments.other_plan().map_err(|error| error.to_string())?;
    match in_turn::disagreement(&plan, &other) {
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
fn run_all(mut sessions: Vec<Session<'_>>, quiet: bool, threads: &mut LoadThreads, out: &mut dyn Write) -> Ended {
    let signals = match SignalThread::start() {
        Ok(signals) => signals,
        Err(error) => {
            notice!("error: cannot listen for signals: {error}");
            return Ended::at_once(Exit::Failure);
        }
    };
    let interruption = &signals.interruption;
    let trials = sessions[0].plan.trials.len();
    let order = match sessions.len() {
        1 => (0..trials).map(|position| (0, position)).collect(),
        _ => in_turn::order(sessions[0].plan),
    };
    // Records of earlier sessions count for the exit code as well.
    let mut ended = Ended::at_once(Exit::Success);
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
        let runtime = match threads.of(session.plan.trials[position].scenario.threads) {
            Ok(runtime) => runtime,
            Err(error) => {
                notice!("error: the threads of the load cannot be started: {error}");
                return Ended::at_once(Exit::Failure);
            }
        };
        match runtime.block_on(session.trial(position, interruption, out)) {
            Ok(exit) => ended.add(side, exit),
            Err(error) => {
                notice!("error: {error}");
                return Ended::at_once(Exit::Failure);
            }
        }
    }
    for session in &sessions {
        session.keep_metrics();
        if !quiet {
            session.conclude(out);
        }
    }
    ended
}

/// One invocation: where its records go and what they share.
struct Session<'a> {
    arguments: &'a RunArguments,
    plan: &'a Plan,
    directory: RunDirectory,
    /// Those that an earlier session kept; with `sweep.until`, also those of this one.
    complete: BTreeMap<CompletedTrial, Record>,
    run_id: String,
    /// When the first load is to begin, in nanoseconds since 1970.
    start_unix_ns: Option<u64>,
    command_line: Vec<String>,
    /// What `--metrics` tells.
    figures: Option<SharedFigures>,
}

impl<'a> Session<'a> {
    /// `side`: 1 of what the first scenario is run against.
    fn open(
        arguments: &'a RunArguments,
        plan: &'a Plan,
        side: usize,
        figures: Option<SharedFigures>,
    ) -> Result<Self, DirectoryError> {
        let command_line = masked_command_line();
        let files = InputFile::read_all(&plan.payload_files)?;
        if let Some(path) = &arguments.resume {
            let resumed = RunDirectory::open_for_resume(path, &plan.text)?;
            match resumed.require_same_program(&environment([], None), &files) {
                Err(error) if arguments.resume_anyway && error.is_another_run() => notice!("warning: {error}"),
                checked => checked?,
            }
            resumed.directory.keep_inputs(&files)?;
            for repair in &resumed.repairs {
                notice!("{repair}");
            }
            let run_id = resumed.run_id.unwrap_or_else(|| new_run_id(&plan.name));
            return Ok(Session {
                arguments,
                plan,
                directory: resumed.directory,
                complete: resumed.complete,
                run_id,
                start_unix_ns: arguments.share.start_unix_ns(),
                command_line,
                figures,
            });
        }
        let base = arguments.output.as_ref().unwrap_or(&plan.output.directory);
        probe(base)?;
        let name = if side == 0 { plan.name.clone() } else { format!("{}-against", plan.name) };
        let directory = RunDirectory::create(base, &name, Timestamp::now(), &plan.text)?;
        directory.keep_inputs(&files)?;
        let run_id = arguments.share.run_id(plan).unwrap_or_else(|| new_run_id(&name));
        let start_unix_ns = arguments.share.start_unix_ns();
        Ok(Session {
            arguments,
            plan,
            directory,
            complete: BTreeMap::new(),
            run_id,
            start_unix_ns,
            command_line,
            figures,
        })
    }

    /// How the trials ended that an earlier session kept.
    fn kept_exits(&self) -> impl Iterator<Item = Exit> {
        self.plan.trials.iter().filter_map(|trial| {
            let record = self.complete.get(&(trial.point_index, trial.trial))?;
            Some(exit_of(record, &trial.scenario, self.arguments.strict))
        })
    }

    /// Whether the trial has no record yet, and its point needs it.
    fn is_to_run(&self, position: usize) -> bool {
        let trial = &self.plan.trials[position];
        if self.complete.contains_key(&(trial.point_index, trial.trial)) {
            return false;
        }
        let Some(until) = &self.plan.until else { return true };
        !is_enough(until, &self.complete_of(trial.point_index))
    }

    /// The completed trials of a point, in their order.
    fn complete_of(&self, point_index: usize) -> Vec<&Record> {
        self.complete.range((point_index, 0)..=(point_index, u32::MAX)).map(|(_, record)| record).collect()
    }

    /// Why points are not known as `sweep.until` wants them.
    fn not_known(&self) -> Vec<String> {
        let Some(until) = &self.plan.until else { return Vec::new() };
        let points: BTreeSet<usize> = self.plan.trials.iter().map(|trial| trial.point_index).collect();
        let several = points.len() > 1;
        let told = points.into_iter().filter_map(|point| {
            let reason = not_known(until, &self.complete_of(point))?;
            Some(if several { format!("point {point}: {reason}") } else { reason })
        });
        told.collect()
    }

    /// What the client carries of this shape, where `brokermark ceiling` has measured it below the same directory.
    fn ceiling(&self, trial: &Trial) -> Option<f64> {
        self.directory.path().parent().and_then(|base| ceiling::known(base, trial))
    }

    fn progress(&self, position: usize) -> Progress {
        let style = match (self.arguments.quiet, self.arguments.tui) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Screen,
            (false, false) => Style::Line,
        };
        Progress::new(style, self.plan, position)
    }

    /// Keeps the figures for Prometheus where they are asked for.
    fn keep_metrics(&self) {
        if self.figures.is_none() && !self.plan.output.formats.contains(&OutputFormat::OpenMetrics) {
            return;
        }
        let kept = read_records(self.directory.path())
            .and_then(|read| self.directory.keep_metrics(&open_metrics::text(&current_records(&read.records))));
        if let Err(error) = kept {
            notice!("warning: the figures for Prometheus are not kept: {error}");
        }
    }

    /// Runs one trial and brings its record to disk.
    async fn trial(
        &mut self,
        position: usize,
        interruption: &Interruption,
        out: &mut dyn Write,
    ) -> Result<Exit, DirectoryError> {
        let (plan, progress) = (self.plan, self.progress(position));
        let trial = &plan.trials[position];
        let identity = self.identity(position);
        let run = Run {
            id: &self.run_id,
            command_line: &self.command_line,
            checkpoint_every: self.arguments.checkpoint_every,
            ceiling: self.ceiling(trial),
        };
        let mut recording = Recording::new(trial, run, &mut self.directory, progress, self.figures.clone());
        let result = run_scenario(&trial.scenario, &identity, interruption, &mut recording).await;
        if let Err(error) = &result {
            recording.keep(assemble_failed(trial, run.id, run.command_line, error));
        }
        let kept = recording.finish();
        if let Err(error) = &result {
            ending::tell(error);
        }
        // A trial that did not fail has ended.
        let Some((record, kept)) = kept else { return Ok(Exit::Failure) };
        if let Some(error) = result.as_ref().ok().and_then(|outcome| outcome.close_error.as_ref()) {
            notice!("warning: after the trial, {error}");
        }
        self.ended(record, kept, position, out)
    }
}

impl Session<'_> {
    /// Shows the record of a trial that has ended, and whether it is on disk; how the trial ended.
    fn ended(
        &mut self,
        record: Record,
        kept: Result<(), DirectoryError>,
        position: usize,
        out: &mut dyn Write,
    ) -> Result<Exit, DirectoryError> {
        let trial = &self.plan.trials[position];
        if kept.is_err() || self.arguments.json {
            // Where the disk does not take it, the record must not be lost.
            let _ = out.write_all(record.to_line().as_bytes()).and_then(|()| out.flush());
        }
        kept?;
        if let Some(warning) = self.other_broker(&record) {
            notice!("warning: {warning}");
        }
        if !self.arguments.quiet && record.status != Status::Failed {
            self.show(&record, out);
        }
        let exit = exit_of(&record, &trial.scenario, self.arguments.strict);
        self.tell_what_failed(&record, trial, exit);
        if self.plan.until.is_some() && record.status == Status::Completed {
            self.complete.insert((trial.point_index, trial.trial), record);
        }
        Ok(exit)
    }

    /// Says on standard error why a trial that ended does not end the run with success.
    fn tell_what_failed(&self, record: &Record, trial: &Trial, exit: Exit) {
        if let Some(sink) = sink_without_rows(record, &trial.scenario) {
            notice!("error: {}", nothing_written(sink));
        }
        if exit == Exit::ThresholdMissed && !record.missed_a_threshold() {
            notice!("error: {}", untrusted(record));
        } else if self.arguments.quiet {
            for missed in record.thresholds.iter().filter(|outcome| !outcome.held) {
                let point = if record.point.is_empty() { "" } else { &format!(" of point {}", record.point_index) };
                notice!("error: trial {}{point}: {} did not hold: {}", record.trial, missed.text, missed.explanation);
            }
        }
    }

    /// Prints the result: on standard output, unless that has the records themselves.
    fn show(&self, record: &Record, out: &mut dyn Write) {
        if self.arguments.json {
            notices::print(format_args!("{}", summary(record, View::for_stderr())));
        } else {
            // A reader that has gone does not end the run.
            let _ = write!(out, "{}", summary(record, View::for_stdout())).and_then(|()| out.flush());
        }
    }

    /// Says so where a trial that was kept met another broker, or used another client, than `record`'s did.
    fn other_broker(&self, record: &Record) -> Option<String> {
        let met = |record: &Record| {
            let environment = &record.environment;
            environment.broker.iter().chain(&environment.client_library).cloned().collect::<Vec<_>>().join(", ")
        };
        // A sweep over `broker.client` compares them.
        let alike = |kept: &&Record| kept.client_asked_for() == record.client_asked_for();
        let (now, mut kept) = (met(record), self.complete.values().filter(alike).map(met));
        let connected = record.environment.client_library.is_some();
        let other = kept.find(|kept| *kept != now).filter(|_| connected)?;
        Some(format!("this trial ran on {now}, and trials that the run kept on {other}: they cannot be compared"))
    }
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
