//! One invocation of `run`: its trials one after the other, each on disk before the next begins; and what tells one run, and one trial, from
//! all others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use super::metrics::SharedFigures;
use super::progress::{Progress, Style, Turn};
use super::recording::{Recording, Run};
use super::{Exit, RunArguments, ceiling, exit_of, failure, untrusted};
use crate::cli::exit::IsBrokenPipe;
use crate::cli::report;
use crate::cli::show::{View, show_run, summary};
use crate::engine::{EngineError, Interruption, TrialIdentity, run_scenario};
use crate::evaluate::{environment, is_enough, not_known};
use crate::notices::{self, notice};
use crate::present::trial::line;
use crate::record::export::open_metrics;
use crate::record::{
    CompletedTrial, DirectoryError, InputFile, Record, RunDirectory, Status, current_records, probe, read_records,
};
use crate::scenario::{NAMES_OF_RUNS, OutputFormat, Plan, Trial};
use crate::secrets::masked_command_line;

/// The begin of 2020 and ten years, in milliseconds.
const YEAR_2020_MS: u64 = 1_577_836_800_000;
const TEN_YEARS_MS: u64 = 315_576_000_000;

/// One invocation: where its records go and what they share.
pub(super) struct Session<'a> {
    pub(super) arguments: &'a RunArguments,
    pub(super) plan: &'a Plan,
    pub(super) directory: RunDirectory,
    /// Those that an earlier session kept; with `sweep.until`, also those of this one.
    complete: BTreeMap<CompletedTrial, Record>,
    pub(super) run_id: String,
    /// When the first load is to begin, in nanoseconds since 1970.
    start_unix_ns: Option<u64>,
    pub(super) command_line: Vec<String>,
    /// What `--metrics` tells.
    figures: Option<SharedFigures>,
    /// Of each trial of the plan.
    pub(super) turns: Vec<Turn>,
    /// Whether a trial got as far as its first message.
    has_begun: bool,
}

impl<'a> Session<'a> {
    /// `side`: 1 of what the first scenario is run against.
    pub(super) fn open(
        arguments: &'a RunArguments,
        plan: &'a Plan,
        side: usize,
        figures: Option<SharedFigures>,
    ) -> Result<Self, DirectoryError> {
        let files = InputFile::read_all(&plan.payload_files)?;
        let (directory, complete, run_id) = match &arguments.resume {
            Some(path) => {
                let resumed = RunDirectory::open_for_resume(path, &plan.text)?;
                match resumed.require_same_program(&environment([], None), &files) {
                    Err(error) if arguments.resume_anyway && error.is_another_run() => notice!("warning: {error}"),
                    checked => checked?,
                }
                for repair in &resumed.repairs {
                    notice!("{repair}");
                }
                (resumed.directory, resumed.complete, resumed.run_id.unwrap_or_else(|| new_run_id(&plan.name)))
            }
            None => {
                let base = arguments.output.as_ref().unwrap_or(&plan.output.directory);
                probe(base)?;
                let name = if side == 0 { plan.name.clone() } else { format!("{}-against", plan.name) };
                let directory = RunDirectory::create(base, &name, Timestamp::now(), &plan.text)?;
                let run_id = arguments.share.run_id(plan).unwrap_or_else(|| new_run_id(&name));
                (directory, BTreeMap::new(), run_id)
            }
        };
        directory.keep_inputs(&files)?;
        let (start_unix_ns, command_line) = (arguments.share.start_unix_ns(), masked_command_line());
        let order: Vec<(usize, usize)> = (0..plan.trials.len()).map(|position| (0, position)).collect();
        let turns = Turn::all(&[plan], &order, |_, _| false);
        let has_begun = arguments.resume.is_some();
        Ok(Session {
            arguments,
            plan,
            directory,
            complete,
            run_id,
            start_unix_ns,
            command_line,
            figures,
            turns,
            has_begun,
        })
    }

    /// How the trials ended that an earlier session kept.
    pub(super) fn kept_exits(&self) -> impl Iterator<Item = Exit> {
        self.plan.trials.iter().filter_map(|trial| {
            let record = self.complete.get(&(trial.point_index, trial.trial))?;
            Some(exit_of(record, &trial.scenario, self.arguments.strict))
        })
    }

    /// Whether the trial has no record yet, and its point needs it.
    pub(super) fn is_to_run(&self, position: usize) -> bool {
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

    pub(super) fn progress(&self, position: usize) -> Progress {
        let style = match (self.arguments.quiet, self.arguments.tui) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Screen,
            (false, false) => Style::Line,
        };
        Progress::new(style, self.plan, position, &self.turns[position])
    }

    /// Keeps the figures for Prometheus where they are asked for.
    pub(super) fn keep_metrics(&self) {
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
    pub(super) async fn trial(
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
        let kept = recording.finish(result.as_ref().err());
        if let Err(error) = &result {
            notice!("error: {error}");
            if matches!(error, EngineError::Broker { .. }) {
                notice!("   = `brokermark doctor` with the same scenario looks for the cause");
            }
        }
        // A trial that did not fail has ended.
        let Some((record, kept)) = kept else { return Ok(Exit::Failure) };
        if let Some(error) = result.as_ref().ok().and_then(|outcome| outcome.close_error.as_ref()) {
            notice!("warning: after the trial, {error}");
        }
        self.ended(record, kept, position, out)
    }

    /// Shows the record of a trial that has ended, and whether it is on disk; how the trial ended.
    pub(super) fn ended(
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
        self.has_begun |= record.status != Status::Failed || record.counts.attempted > 0;
        if let Some(warning) = self.other_broker(&record) {
            notice!("warning: {warning}");
        }
        if !self.arguments.quiet && record.status != Status::Failed {
            self.show(&record, &self.turns[position], out);
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
        if exit == Exit::Failure
            && let Some(reason) = failure(record, &trial.scenario)
        {
            notice!("error: {reason}");
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

    /// Prints the result: on standard output, unless that has the records themselves. Of trials that take turns, a line each.
    fn show(&self, record: &Record, turn: &Turn, out: &mut dyn Write) {
        let text = |view| match turn.side {
            "" => summary(record, view),
            side => format!("{side}{}\n", line(record)),
        };
        if self.arguments.json {
            notices::print(format_args!("{}", text(View::for_stderr())));
        } else {
            // A reader that has gone does not end the run.
            let _ = write!(out, "{}", text(View::for_stdout())).and_then(|()| out.flush());
        }
    }

    /// Says so where a trial that was kept met another broker, or used another client, than `record`'s did.
    fn other_broker(&self, record: &Record) -> Option<String> {
        let met = |record: &Record| {
            let environment = &record.environment;
            environment.broker.iter().chain(&environment.client_library).cloned().collect::<Vec<_>>().join(", ")
        };
        // A sweep over `broker.client` compares them.
        let alike = |kept: &&Record| kept.broker_asked_for() == record.broker_asked_for();
        let (now, mut kept) = (met(record), self.complete.values().filter(alike).map(met));
        let connected = record.environment.client_library.is_some();
        let other = kept.find(|kept| *kept != now).filter(|_| connected)?;
        Some(format!("this trial ran on {now}, and trials that the run kept on {other}: they cannot be compared"))
    }

    /// Of a share, the same for all shares.
    fn identity(&mut self, position: usize) -> TrialIdentity {
        // The trials after the first one begin when those before them have ended.
        let load_start_unix_ns = self.start_unix_ns.take();
        match self.arguments.share.share {
            None => TrialIdentity { load_start_unix_ns, ..identity(&self.run_id, position) },
            Some(_) => {
                let run_id = self.run_id.clone();
                let tag = crc32fast::hash(run_id.as_bytes());
                TrialIdentity { load_start_unix_ns, ..TrialIdentity::alone(run_id, tag) }
            }
        }
    }

    /// Removes the directory of a run that measured nothing, such as one that met no broker; whether it did.
    pub(super) fn discard(&self) -> bool {
        !self.has_begun && std::fs::remove_dir_all(self.directory.path()).is_ok()
    }

    /// Prints what concerns the whole run: the table of its trials, where its records are, and what to do next.
    pub(super) fn conclude(&self, out: &mut dyn Write) {
        let plan = self.plan;
        let directory = self.directory.path();
        if plan.trials.len() > 1 && !self.arguments.json && !self.arguments.against.is_wanted() {
            let _ = writeln!(out);
            if let Err(error) = show_run(directory, View::for_stdout(), out)
                && !error.is_broken_pipe()
            {
                notice!("warning: the table of the trials cannot be shown: {error}");
            }
        }
        for reason in self.not_known() {
            notice!("warning: {reason}");
        }
        notice!("records: {}", directory.display());
        if let Some(next) = self.arguments.share.next_steps(plan, &self.run_id) {
            notice!("{next}");
            return;
        }
        let mut brokers = plan.trials.iter().map(|trial| &trial.scenario.broker);
        let Some(tried) = brokers.find(|broker| broker.is_embedded() || broker.kind == "null") else { return };
        if tried.is_embedded() && !self.arguments.report {
            // The run itself has succeeded.
            let _ = report::write_page(&[directory.to_owned()], None);
        }
        notice!("{}", next_steps(&tried.kind));
    }
}

/// Unique to the run, and short enough for the names of topics.
pub fn new_run_id(name: &str) -> String {
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    format!("{NAMES_OF_RUNS}{}-{unix_ms:x}-{:x}", name.chars().take(60).collect::<String>(), std::process::id())
}

/// Unique to the trial; a resumed run's trials get new ones, so that they never meet what an earlier attempt left.
pub fn identity(run_id: &str, position: usize) -> TrialIdentity {
    let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let run_id = format!("{run_id}-{position}-{:x}", unix_ns as u32);
    let tag = crc32fast::hash(run_id.as_bytes());
    TrialIdentity::alone(run_id, tag)
}

/// Whether an id is one that a run, a share or a trial has made for itself: a name, then the time in milliseconds since 1970 in hexadecimal
/// digits, and of a trial the process, the trial's number and a time besides. The time must be plausible: a date in digits is not.
pub fn is_made_run_id(text: &str) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    is_made_run_id_at(text, now.as_millis() as u64)
}

/// The same, `now_ms` after the begin of 1970.
fn is_made_run_id_at(text: &str, now_ms: u64) -> bool {
    let plausible = YEAR_2020_MS..=now_ms.saturating_add(TEN_YEARS_MS);
    let is_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let is_number = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_time = |part: &str| {
        part.len() == 11 && is_number(&part) && u64::from_str_radix(part, 16).is_ok_and(|ms| plausible.contains(&ms))
    };
    let parts: Vec<&str> = text.split('-').collect();
    let of_share = matches!(parts.as_slice(), [_, .., time] if is_time(time));
    let of_run = matches!(parts.as_slice(), [_, .., time, process] if is_time(time) && is_number(process));
    let of_trial = matches!(parts.as_slice(), [_, .., time, process, position, ns]
        if is_time(time) && [process, position, ns].into_iter().all(is_number));
    text.chars().all(is_name) && (of_share || of_run || of_trial)
}

/// What a user who tried brokermark out without a broker may want to do now.
fn next_steps(tried: &str) -> String {
    let kind = if tried == "null" { "kafka" } else { tried };
    let steps = [
        (format!("brokermark doctor {kind}://HOST"), "whether a broker of your own is ready to be measured"),
        (format!("brokermark run {kind}://HOST --rate 10k/s --size 1KiB --for 30s --verify"), "one measurement of it"),
        (format!("brokermark new {kind} > my.toml"), "a scenario to edit"),
    ];
    let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let lines = steps.iter().map(|(command, purpose)| format!("\n  {command:width$}  # {purpose}"));
    format!("next:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_runs_make_are_told_from_other_names() {
        let run = new_run_id("orders");
        let trial = identity(&run, 3).run_id;
        for made in [run.as_str(), trial.as_str(), "brokermark-orders-19ca8fb2a00", "mine-19ca8fb2a00"] {
            assert!(is_made_run_id(made), "{made}");
        }
        for other in
            ["demo", "neverwas", "brokermark-null-1", "orders-2026", "orders-09ca8fb2a00", "a b-19ca8fb2a00", ""]
        {
            assert!(!is_made_run_id(other), "{other}");
        }
    }

    #[test]
    fn an_id_holds_a_time_that_a_run_may_have_begun_at() {
        // November 2026.
        let now_ms = 1_795_000_000_000;
        let is_made = |ms: u64| is_made_run_id_at(&format!("orders-{ms:x}"), now_ms);
        let latest_ms = now_ms + TEN_YEARS_MS;
        assert_eq!([YEAR_2020_MS, now_ms, latest_ms].map(is_made), [true; 3]);
        assert_eq!([YEAR_2020_MS - 1, latest_ms + 1].map(is_made), [false; 2]);
        assert!(!is_made_run_id_at("backup-20261125001", now_ms), "a date and a number");
    }
}
