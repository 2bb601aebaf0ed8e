//! Runs the probes of a search, each as a trial of one run, until the search has its answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use super::SearchArguments;
use crate::cli::run::progress::Progress;
use crate::cli::run::recording::{Recording, Run};
use crate::cli::run::{identity, new_run_id, rest};
use crate::cli::show;
use crate::engine::{Interruption, run_scenario};
use crate::evaluate::{ProbeJudgement, assemble_failed, judge_probe};
use crate::notices::notice;
use crate::record::{
    DirectoryError, InputFile, ProbeRecord, ProbeResult, Record, RunDirectory, SEARCH_SCHEMA, SearchAnswer, SearchEnd,
    SearchRecord, Status, current_series, probe, read_series,
};
use crate::scenario::{Load, Plan, Schedule, Stop, Trial};
use crate::secrets::masked_command_line;
use crate::statistics::search::{Answer, Budget, End, Length, Probe, ProbeOutcome, Range, Search, Step};

/// How much longer the answer is probed than other rates.
const LONG: u32 = 3;

/// What preparing and draining take before any probe has shown it.
const FIRST_OVERHEAD: Duration = Duration::from_secs(1);

/// Connections and caches are warmed up for this part of a probe, where the scenario has no warm-up.
const WARM_UP_PART: u32 = 5;

/// After a probe that missed, the broker recovers for this part of a probe.
const RECOVERY_PART: u32 = 4;

/// The shortest wait for what an overloaded broker has not answered.
const SHORTEST_DRAIN: Duration = Duration::from_secs(5);

const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// A search that has ended.
pub(super) struct Searched {
    pub record: SearchRecord,
    /// The last probe of the rate that was confirmed.
    pub confirmation: Option<Record>,
    pub directory: PathBuf,
}

/// A search under way.
pub(super) struct Probing<'a> {
    arguments: &'a SearchArguments,
    plan: &'a Plan,
    range: Range,
    search: Search,
    directory: RunDirectory,
    run_id: String,
    command_line: Vec<String>,
    began: Instant,
    /// The most that a probe took besides its warm-up and its window.
    overhead: Duration,
    probes: Vec<ProbeRecord>,
    /// The last long probe that held.
    confirmation: Option<Record>,
}

impl<'a> Probing<'a> {
    /// Makes the run directory.
    pub(super) fn open(arguments: &'a SearchArguments, plan: &'a Plan, range: Range) -> Result<Self, DirectoryError> {
        let base = arguments.output.as_ref().unwrap_or(&plan.output.directory);
        probe(base)?;
        let name = format!("{}-search", plan.name);
        let directory = RunDirectory::create(base, &name, Timestamp::now(), &plan.text)?;
        directory.keep_inputs(&InputFile::read_all(&plan.payload_files)?)?;
        Ok(Probing {
            arguments,
            plan,
            range,
            search: Search::new(range),
            directory,
            run_id: new_run_id(&name),
            command_line: masked_command_line(),
            began: Instant::now(),
            overhead: FIRST_OVERHEAD,
            probes: Vec::new(),
            confirmation: None,
        })
    }

    /// Probes until the answer is known, time is up, or the user ends it. The record of the search is on disk then.
    pub(super) async fn run(mut self, interruption: &Interruption) -> Result<Searched, DirectoryError> {
        let answer = loop {
            let (rate, length) = match self.search.next(self.budget()) {
                Step::Probe { rate, length } => (rate, length),
                Step::End(answer) => break of_end(answer),
            };
            rest(self.recovery(), self.progress(length), interruption).await;
            if interruption.is_requested() {
                break self.ended_early(SearchEnd::Interrupted);
            }
            match self.probe(rate, length, interruption).await? {
                Status::Failed => break self.ended_early(SearchEnd::Failed),
                Status::Interrupted => break self.ended_early(SearchEnd::Interrupted),
                _ => {}
            }
        };
        let record = self.record(answer);
        self.directory.keep_search(&record)?;
        let directory = self.directory.path().to_owned();
        let confirmation = self.confirmation.filter(|_| record.answer.confirmed);
        Ok(Searched { record, confirmation, directory })
    }

    fn window(&self, length: Length) -> Duration {
        match length {
            Length::Short => self.arguments.window(),
            Length::Long => LONG * self.arguments.window(),
        }
    }

    fn warm_up(&self) -> Duration {
        let (own, window) = (self.plan.trials[0].scenario.run.warm_up, self.window(Length::Short));
        if own.is_zero() { window / WARM_UP_PART } else { own.min(window) }
    }

    fn budget(&self) -> Budget {
        let left = self.arguments.within.saturating_sub(self.began.elapsed());
        let takes = |length| self.recovery() + self.warm_up() + self.window(length) + self.overhead;
        Budget { left, short: takes(Length::Short), long: takes(Length::Long) }
    }

    /// Before the next probe.
    fn recovery(&self) -> Duration {
        let Some(last) = self.probes.last() else { return Duration::ZERO };
        match last.outcome {
            ProbeResult::Held => self.plan.pause,
            ProbeResult::Missed | ProbeResult::LimitedByClient => {
                self.plan.pause.max(self.window(Length::Short) / RECOVERY_PART)
            }
        }
    }

    fn progress(&self, length: Length) -> Progress {
        let takes = self.warm_up() + self.window(length);
        let left = self.arguments.within.saturating_sub(self.began.elapsed()).saturating_sub(takes);
        let mut limits = self.plan.trials[0].scenario.run.clone();
        (limits.warm_up, limits.stop) = (self.warm_up(), self.stop(length));
        Progress::of(self.arguments.quiet, format!("probe {} ", self.probes.len() + 1), limits, left)
    }

    fn stop(&self, length: Length) -> Stop {
        Stop { duration: Some(self.window(length)), ..Stop::default() }
    }

    /// The trial that probes a rate.
    fn trial(&self, rate: f64, length: Length) -> Trial {
        let mut trial = self.plan.trials[0].clone();
        let before: Vec<&ProbeRecord> = self.probes.iter().filter(|probe| probe.rate_per_second == rate).collect();
        let points = self.probes.iter().map(|probe| probe.point_index + 1).max().unwrap_or(0);
        trial.point_index = before.first().map_or(points, |first| first.point_index);
        trial.trial = before.len() as u32 + 1;
        let text = format!("{rate}/s");
        trial.point = [("load.rate".to_owned(), toml::Value::String(text.clone()))].into();
        let drain = self.window(length).max(SHORTEST_DRAIN);
        let scenario = &mut trial.scenario;
        scenario.load = Load::Open(Schedule::Constant { rate });
        (scenario.run.warm_up, scenario.run.stop) = (self.warm_up(), self.stop(length));
        scenario.run.drain_deadline = scenario.run.drain_deadline.min(drain);
        scenario.run.catch_up_deadline = scenario.run.catch_up_deadline.min(drain);
        trial.document["load"]["rate"] = json!(text);
        let milliseconds = |duration: Duration| json!(format!("{}ms", duration.as_millis()));
        if let Some(run) = trial.document["run"].as_object_mut() {
            run.retain(|key, _| !["messages", "payload_bytes"].contains(&key.as_str()));
            run.insert("warm_up".to_owned(), milliseconds(scenario.run.warm_up));
            run.insert("duration".to_owned(), milliseconds(self.window(length)));
            run.insert("drain_deadline".to_owned(), milliseconds(scenario.run.drain_deadline));
            run.insert("catch_up_deadline".to_owned(), milliseconds(scenario.run.catch_up_deadline));
        }
        trial
    }

    /// Runs one probe, brings its record to disk, and tells the search.
    async fn probe(
        &mut self,
        rate: f64,
        length: Length,
        interruption: &Interruption,
    ) -> Result<Status, DirectoryError> {
        let began = Instant::now();
        let trial = self.trial(rate, length);
        let progress = self.progress(length);
        let identity = identity(&self.run_id, self.probes.len());
        let run = Run {
            id: &self.run_id,
            command_line: &self.command_line,
            checkpoint_every: CHECKPOINT_EVERY,
            ceiling: None,
        };
        let mut recording = Recording::new(&trial, run, &mut self.directory, progress, None);
        let result = run_scenario(&trial.scenario, &identity, interruption, &mut recording).await;
        if let Err(error) = &result {
            notice!("error: {error}");
            recording.keep(assemble_failed(&trial, run.id, run.command_line, error));
        }
        let Some((record, kept)) = recording.finish() else { return Ok(Status::Failed) };
        kept?;
        let measured = self.warm_up() + self.window(length);
        self.overhead = self.overhead.max(began.elapsed().saturating_sub(measured));
        if matches!(record.status, Status::Completed | Status::Stalled) {
            self.judge(&trial, record.clone(), length)?;
        }
        Ok(record.status)
    }

    fn judge(&mut self, trial: &Trial, record: Record, length: Length) -> Result<(), DirectoryError> {
        let series = current_series(&read_series(self.directory.path())?, record.point_index, record.trial);
        let groups = trial.scenario.consumers.as_ref().map_or(0, |consumers| consumers.groups.len());
        let ProbeJudgement { outcome, reason } = judge_probe(&record, &series, &trial.scenario.thresholds, groups);
        let rate = record.throughput.target_per_second.unwrap_or_default();
        let probed = ProbeRecord {
            point_index: trial.point_index,
            trial: trial.trial,
            rate_per_second: match trial.scenario.load {
                Load::Open(Schedule::Constant { rate }) => rate,
                _ => rate,
            },
            window_ns: self.window(length).as_nanos() as u64,
            outcome: result_of(outcome),
            reason,
            messages_per_second: record.throughput.messages_per_second,
            p99_ns: record.latency.response.as_ref().and_then(|response| response.p99_ns),
            doubts: doubts(&record),
        };
        self.search.record(Probe { rate: probed.rate_per_second, length, outcome });
        if !self.arguments.quiet {
            notice!("{}", show::search::progress_line(self.probes.len() + 1, &probed));
        }
        self.probes.push(probed);
        if length == Length::Long && outcome == ProbeOutcome::Held {
            self.confirmation = Some(record);
        }
        Ok(())
    }

    /// What is known when a search ends before its time.
    fn ended_early(&self, end: SearchEnd) -> SearchAnswer {
        SearchAnswer { end, ..of_end(self.search.answer(End::OutOfTime)) }
    }

    fn record(&self, mut answer: SearchAnswer) -> SearchRecord {
        answer.doubts = self.confirmation.as_ref().map(doubts).unwrap_or_default();
        SearchRecord {
            schema: SEARCH_SCHEMA.to_owned(),
            scenario_name: self.plan.name.clone(),
            requirements: self.plan.trials[0].scenario.thresholds.iter().map(|one| one.text.clone()).collect(),
            least_per_second: self.range.least,
            most_per_second: self.range.most,
            within_ns: self.arguments.within.as_nanos() as u64,
            took_ns: self.began.elapsed().as_nanos() as u64,
            probes: self.probes.clone(),
            answer,
        }
    }
}

fn doubts(record: &Record) -> Vec<String> {
    record.verdict.reasons.iter().map(|reason| reason.kind.to_string()).collect()
}

fn result_of(outcome: ProbeOutcome) -> ProbeResult {
    match outcome {
        ProbeOutcome::Held => ProbeResult::Held,
        ProbeOutcome::Missed => ProbeResult::Missed,
        ProbeOutcome::Limited | ProbeOutcome::Withheld => ProbeResult::LimitedByClient,
    }
}

fn of_end(answer: Answer) -> SearchAnswer {
    let Answer { end, rate, confirmed, capacity } = answer;
    SearchAnswer {
        end: match end {
            End::Found => SearchEnd::Found,
            End::NothingHeld => SearchEnd::NothingHeld,
            End::NothingMissed => SearchEnd::NothingMissed,
            End::Limited => SearchEnd::LimitedByClient,
            End::OutOfTime => SearchEnd::OutOfTime,
        },
        rate_per_second: rate,
        confirmed,
        capacity_per_second: capacity.map(|capacity| capacity.estimate),
        capacity_low: capacity.map(|capacity| capacity.low),
        capacity_high: capacity.map(|capacity| capacity.high),
        doubts: Vec::new(),
    }
}
