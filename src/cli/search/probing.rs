//! Runs the probes of a search, each as a trial of one run, until the search has its answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use super::shape::{self, Shape};
use super::{Planned, SearchArguments};
use crate::cli::run::progress::Progress;
use crate::cli::run::recording::{Recording, Run};
use crate::cli::run::{identity, new_run_id, rest};
use crate::engine::{Interruption, kinds, run_scenario};
use crate::evaluate::{ProbeJudgement, judge_probe};
use crate::notices::notice;
use crate::present::search::progress_line;
use crate::record::{
    DirectoryError, InputFile, ProbeRecord, ProbeResult, Record, RunDirectory, SEARCH_SCHEMA, SearchAnswer, SearchEnd,
    SearchRecord, Status, current_series, probe, read_series,
};
use crate::scenario::{Contradiction, Load, Plan, Scenario, Schedule, Stop, Trial};
use crate::secrets::masked_command_line;
use crate::statistics::search::{Answer, Budget, End, Length, Probe, ProbeOutcome, Range, Search, Step};

/// How much longer the answer is probed than other rates.
pub(super) const LONG: u32 = 3;

/// What preparing and draining take before any probe has shown it.
pub(super) const FIRST_OVERHEAD: Duration = Duration::from_secs(1);

/// Connections and caches are warmed up for this part of a probe, where the scenario has no warm-up.
const WARM_UP_PART: u32 = 5;

/// After a probe that missed, the broker recovers for this part of a probe.
const RECOVERY_PART: u32 = 4;

/// The shortest wait for what an overloaded broker has not answered.
const MIN_DRAIN: Duration = Duration::from_secs(5);

const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// The size of a payload of which nothing is known before the first probe, in bytes.
const USUAL_PAYLOAD_BYTES: f64 = 1024.0;

/// The warm-up of a probe that is measured for so long.
pub(super) fn warm_up(scenario: &Scenario, window: Duration) -> Duration {
    let own = scenario.run.warm_up;
    if own.is_zero() { window / WARM_UP_PART } else { own.min(window) }
}

/// The scenario of a probe.
pub(super) fn probe_scenario(scenario: &Scenario, schedule: Schedule, warm_up: Duration, window: Duration) -> Scenario {
    let drain = window.max(MIN_DRAIN);
    let mut probe = scenario.clone();
    probe.load = Load::Open(schedule);
    (probe.run.warm_up, probe.run.stop) = (warm_up, stop(window));
    probe.run.drain_deadline = probe.run.drain_deadline.min(drain);
    probe.run.catch_up_deadline = probe.run.catch_up_deadline.min(drain);
    // Messages that the broker delivers after a delay need the scenario's own deadlines, which are long enough for it.
    if contradiction(&probe) != contradiction(scenario) {
        probe.run.drain_deadline = scenario.run.drain_deadline;
        probe.run.catch_up_deadline = scenario.run.catch_up_deadline;
    }
    probe
}

fn contradiction(scenario: &Scenario) -> Option<Contradiction> {
    let settings = scenario.topology.config.iter().cloned().collect();
    kinds().broker(&scenario.broker.kind).and_then(|kind| (kind.contradicts)(scenario, &settings))
}

fn stop(window: Duration) -> Stop {
    Stop { duration: Some(window), ..Stop::default() }
}

/// A search that has ended.
pub(super) struct Searched {
    pub record: SearchRecord,
    /// The last probe of the rate that was confirmed.
    pub confirmation: Option<Record>,
    pub directory: PathBuf,
    /// Whether the record of the search is on disk.
    pub kept: Result<(), DirectoryError>,
}

/// A search under way.
pub(super) struct Probing<'a> {
    arguments: &'a SearchArguments,
    plan: &'a Plan,
    range: Range,
    shape: &'a Shape,
    /// How long a short probe is measured.
    window: Duration,
    search: Search,
    directory: RunDirectory,
    run_id: String,
    command_line: Vec<String>,
    began: Instant,
    /// The most that a probe took besides its warm-up and its window.
    overhead: Duration,
    /// What one message takes on the broker's disks, in bytes.
    bytes_per_message: f64,
    messages_sent: u64,
    probes: Vec<ProbeRecord>,
    /// Long probes that held, each with its rate.
    confirmations: Vec<(f64, Record)>,
}

impl<'a> Probing<'a> {
    /// Makes the run directory.
    pub(super) fn open(arguments: &'a SearchArguments, planned: &'a Planned) -> Result<Self, DirectoryError> {
        let Planned { plan, range, shape, window } = planned;
        let base = arguments.output.as_ref().unwrap_or(&plan.output.directory);
        probe(base)?;
        let name = format!("{}-search", plan.name);
        let directory = RunDirectory::create(base, &name, Timestamp::now(), &plan.text)?;
        directory.keep_inputs(&InputFile::read_all(&plan.payload_files)?)?;
        let scenario = &plan.trials[0].scenario;
        Ok(Probing {
            arguments,
            plan,
            range: *range,
            shape,
            window: *window,
            search: Search::new(*range),
            directory,
            run_id: new_run_id(&name),
            command_line: masked_command_line(),
            began: Instant::now(),
            overhead: FIRST_OVERHEAD,
            bytes_per_message: scenario
                .stored_bytes(scenario.payload.content.mean_bytes().unwrap_or(USUAL_PAYLOAD_BYTES)),
            messages_sent: 0,
            probes: Vec::new(),
            confirmations: Vec::new(),
        })
    }

    /// Probes until the answer is known, time is up, or the user ends it. Where the disk does not take a probe, what those before it have found
    /// is the answer.
    pub(super) async fn run(mut self, interruption: &Interruption) -> Searched {
        let answer = loop {
            let (rate, length) = match self.search.next(self.budget()) {
                Step::Probe { rate, length } => (rate, length),
                Step::End(answer) => break search_answer(answer),
            };
            rest(self.recovery(), self.progress(length), interruption).await;
            if interruption.is_requested() {
                break self.ended_early(SearchEnd::Interrupted);
            }
            match self.probe(rate, length, interruption).await {
                Ok(Status::Failed) => break self.ended_early(SearchEnd::Failed),
                Ok(Status::Interrupted) => break self.ended_early(SearchEnd::Interrupted),
                Ok(_) => {}
                Err(error) => {
                    notice!("error: {error}");
                    break self.ended_early(SearchEnd::Failed);
                }
            }
        };
        let record = self.record(answer);
        let kept = self.directory.keep_search(&record);
        let directory = self.directory.path().to_owned();
        let confirmation = self.confirmation(record.answer.rate_per_second).cloned();
        Searched { record, confirmation, directory, kept }
    }

    fn window(&self, length: Length) -> Duration {
        match length {
            Length::Short => self.window,
            Length::Long => LONG * self.window,
        }
    }

    fn warm_up(&self) -> Duration {
        warm_up(&self.plan.trials[0].scenario, self.window)
    }

    fn budget(&self) -> Budget {
        let left = self.arguments.within.saturating_sub(self.began.elapsed());
        let takes = |length| self.recovery() + self.warm_up() + self.window(length) + self.overhead;
        let written = self.messages_sent as f64 * self.bytes_per_message;
        let messages = match self.plan.trials[0].scenario.is_stored() {
            true => (self.arguments.write_limit as f64 - written).max(0.0) / self.bytes_per_message,
            false => f64::INFINITY,
        };
        Budget { left, short: takes(Length::Short), long: takes(Length::Long), messages }
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
        (limits.warm_up, limits.stop) = (self.warm_up(), stop(self.window(length)));
        Progress::named(self.arguments.quiet, format!("probe {} ", self.probes.len() + 1), limits, left)
    }

    /// The trial that probes a rate.
    fn trial(&self, rate: f64, length: Length) -> Trial {
        let mut trial = self.plan.trials[0].clone();
        let before: Vec<&ProbeRecord> = self.probes.iter().filter(|probe| probe.rate_per_second == rate).collect();
        let points = self.probes.iter().map(|probe| probe.point_index + 1).max().unwrap_or(0);
        trial.point_index = before.first().map_or(points, |first| first.point_index);
        trial.trial = before.len() as u32 + 1;
        let schedule = self.shape.schedule(rate, self.probes.len());
        trial.point = shape::point(&schedule);
        shape::write(&schedule, &mut trial.document["load"]);
        trial.scenario = probe_scenario(&trial.scenario, schedule, self.warm_up(), self.window(length));
        let scenario = &trial.scenario;
        let milliseconds = |duration: Duration| json!(format!("{}ms", duration.as_millis()));
        if let Some(run) = trial.document["run"].as_object_mut() {
            run.retain(|key, _| !["messages", "payload_bytes"].contains(&key.as_str()));
            run.insert("warm_up".to_owned(), milliseconds(scenario.run.warm_up));
            run.insert("duration".to_owned(), milliseconds(self.window(length)));
            run.insert("drain_deadline".to_owned(), milliseconds(scenario.run.drain_deadline));
            run.insert("catch_up_deadline".to_owned(), milliseconds(scenario.run.catch_up_deadline));
        }
        let Trial { document, defaults, .. } = &mut trial;
        let is_written = |key: &str| document.pointer(&format!("/{}", key.replace('.', "/"))).is_some();
        defaults.retain(|key, _| !key.starts_with("load.") && !is_written(key));
        if !is_written("load.model") {
            defaults.insert("load.model".to_owned(), json!("open"));
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
        }
        let Some((record, kept)) = recording.finish(result.as_ref().err()) else { return Ok(Status::Failed) };
        kept?;
        let measured = self.warm_up() + self.window(length);
        self.overhead = self.overhead.max(began.elapsed().saturating_sub(measured));
        if matches!(record.status, Status::Completed | Status::Stalled) {
            self.messages_sent += record.counts.attempted + record.counts.warm_up.attempted;
            self.judge(&trial, record.clone(), rate, length)?;
        }
        Ok(record.status)
    }

    fn judge(&mut self, trial: &Trial, record: Record, rate: f64, length: Length) -> Result<(), DirectoryError> {
        let series = current_series(&read_series(self.directory.path())?, record.point_index, record.trial);
        let ProbeJudgement { outcome, reason } = judge_probe(&record, &series, &trial.scenario.thresholds);
        let throughput = &record.throughput;
        if throughput.messages_per_second > 0.0 {
            let bytes = throughput.payload_bytes_per_second / throughput.messages_per_second;
            self.bytes_per_message = trial.scenario.stored_bytes(bytes);
        }
        let probed = ProbeRecord {
            point_index: trial.point_index,
            trial: trial.trial,
            rate_per_second: rate,
            window_ns: self.window(length).as_nanos() as u64,
            outcome: result_of(outcome),
            reason,
            messages_per_second: record.throughput.messages_per_second,
            p99_ns: record.latency.response.as_ref().and_then(|response| response.p99_ns),
            doubts: doubts(&record),
        };
        let (at, carried) = (self.began.elapsed(), probed.messages_per_second);
        self.search.record(Probe { rate, length, outcome, at, carried, busy: busy(&record) });
        if !self.arguments.quiet {
            notice!("{}", progress_line(self.probes.len() + 1, &probed));
        }
        self.probes.push(probed);
        if length == Length::Long && outcome == ProbeOutcome::Held {
            self.confirmations.push((rate, record));
        }
        Ok(())
    }

    /// What is known when a search ends before its time.
    fn ended_early(&self, end: SearchEnd) -> SearchAnswer {
        SearchAnswer { end, ..search_answer(self.search.answer(End::OutOfTime)) }
    }

    /// The last long probe that held this rate.
    fn confirmation(&self, rate: Option<f64>) -> Option<&Record> {
        let mut of_rate = self.confirmations.iter().rev().filter(|(held, _)| Some(*held) == rate);
        of_rate.next().map(|(_, record)| record)
    }

    fn record(&self, mut answer: SearchAnswer) -> SearchRecord {
        answer.doubts = self.confirmation(answer.rate_per_second).map(doubts).unwrap_or_default();
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

/// How busy the busiest part of the machine was that is known: its cores, those of the client, one of its threads or tasks, or the broker's cores.
fn busy(record: &Record) -> f64 {
    let share = |used: f64, available: f64| used / available.max(f64::MIN_POSITIVE);
    let client = &record.client;
    let broker = record.broker_usage.as_ref().and_then(|usage| usage.cores_used.zip(usage.cores_of_machine));
    let shares = [
        record.host_load.as_ref().map(|load| load.system_cpu_busy + load.steal),
        Some(share(client.cores_used - client.cores_polling(), client.cores_available)),
        client.busiest_thread_cores,
        client.busiest_task_cores,
        broker.map(|(used, cores)| share(used, cores as f64)),
    ];
    shares.into_iter().flatten().fold(0.0, f64::max)
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

fn search_answer(answer: Answer) -> SearchAnswer {
    let Answer { end, rate, unconfirmed, capacity, change } = answer;
    SearchAnswer {
        end: match end {
            End::Found => SearchEnd::Found,
            End::NothingHeld => SearchEnd::NothingHeld,
            End::NothingMissed => SearchEnd::NothingMissed,
            End::Limited => SearchEnd::LimitedByClient,
            End::OutOfTime => SearchEnd::OutOfTime,
            End::OutOfMessages => SearchEnd::WriteLimit,
        },
        rate_per_second: rate,
        unconfirmed_per_second: unconfirmed,
        capacity_per_second: capacity.map(|capacity| capacity.estimate),
        capacity_low: capacity.map(|capacity| capacity.low),
        capacity_high: capacity.map(|capacity| capacity.high),
        early_capacity_per_second: change.map(|change| change.early),
        late_capacity_per_second: change.map(|change| change.late),
        doubts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokio::sync::watch;

    use super::*;
    use crate::cli::search::conclude;
    use crate::cli::{Arguments, Exit, Verb};

    /// A search on the null broker that so many signals have ended before it began, in whose run directory a file cannot be written; its exit
    /// code, and what it prints.
    async fn searched(signals: u32, unwritable: &str) -> (Searched, Exit, String) {
        let results = tempfile::tempdir().unwrap();
        let output = results.path().to_str().unwrap();
        let words = ["brokermark", "search", "null://", "--require", "failed = 0", "--probe", "5ms", "--quiet"];
        let words = words.into_iter().chain(["--format", "json", "--output", output]);
        let Verb::Search(arguments) = Arguments::try_parse_from(words).unwrap().verb else { panic!("no search") };
        let planned = arguments.plan().unwrap();
        let probing = Probing::open(&arguments, &planned).unwrap();
        std::fs::create_dir(probing.directory.path().join(unwritable)).unwrap();
        let searched = probing.run(&Interruption::new(watch::channel(signals).1)).await;
        let mut out = Vec::new();
        let exit = conclude(&arguments, &planned.plan, &searched, &mut out);
        (searched, exit, String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn an_answer_that_the_disk_does_not_take_is_printed() {
        let (searched, exit, printed) = searched(1, "search.json").await;
        assert_eq!(searched.record.answer.end, SearchEnd::Interrupted);
        assert!(searched.kept.is_err());
        assert_eq!((printed, exit), (searched.record.to_line(), Exit::Failure));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_probe_that_the_disk_does_not_take_ends_the_search_with_what_is_known() {
        let (searched, exit, printed) = searched(0, "checkpoint.json").await;
        assert_eq!(searched.record.answer.end, SearchEnd::Failed);
        assert!(searched.kept.is_ok(), "{:?}", searched.kept);
        assert_eq!((printed, exit), (searched.record.to_line(), Exit::Failure));
    }

    #[test]
    #[cfg(feature = "nsq")]
    fn a_probe_waits_for_messages_that_are_delivered_late() {
        let drain_of = |defer: &str| {
            let text = format!(
                "broker = {{ kind = \"nsq\", address = \"h:1\", nsq = {{ defer = \"{defer}\" }} }}\nload.rate = \"1k/s\"\n\
                 consumers = {{}}\nrun = {{ messages = 1, drain_deadline = \"12s\" }}"
            );
            let directory = std::path::Path::new("");
            let plan = crate::scenario::parse_for(kinds(), &text, "a.toml", &[], directory).unwrap();
            let scenario = &plan.trials[0].scenario;
            let Load::Open(schedule) = &scenario.load else { panic!("{:?}", scenario.load) };
            let second = Duration::from_secs(1);
            probe_scenario(scenario, schedule.clone(), second, second).run.drain_deadline
        };
        assert_eq!(drain_of("1s"), MIN_DRAIN);
        assert_eq!(drain_of("8s"), Duration::from_secs(12));
    }
}
