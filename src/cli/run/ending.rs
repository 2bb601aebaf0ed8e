//! How a run ends: the exit code of its records, and the reasons to print.

use std::io::Write;

use super::{Exit, Session};
use crate::cli::report;
use crate::cli::show::{View, show_run};
use crate::engine::EngineError;
use crate::notices::notice;
use crate::record::{Record, SinkRecord, Status};
use crate::scenario::{ProducerMode, Scenario, WhenInvalid};

/// Prints why a trial failed, and what looks for the cause.
pub fn tell(error: &EngineError) {
    notice!("error: {error}");
    if matches!(error, EngineError::Broker { .. }) {
        notice!("   = `brokermark doctor` with the same scenario looks for the cause");
    }
}

/// The exit code that a record asks for. With `strict`, one that is not valid fails.
pub fn exit_of(record: &Record, scenario: &Scenario, strict: bool) -> Exit {
    let nothing_arrived = record.counts.attempted > 0 && record.counts.acknowledged == 0;
    let nothing_written = sink_without_rows(record, scenario).is_some();
    match record.status {
        Status::Interrupted => Exit::Interrupted,
        // A checkpoint does not end a trial.
        Status::Failed | Status::Stalled | Status::Running => Exit::Failure,
        Status::Completed if nothing_arrived || nothing_written || !record.counts.balances() => Exit::Failure,
        Status::Completed if record.missed_a_threshold() => Exit::ThresholdMissed,
        Status::Completed if strict && !record.verdict.valid => Exit::ThresholdMissed,
        Status::Completed if scenario.when_invalid == WhenInvalid::Fail && cannot_be_trusted(record) => {
            Exit::ThresholdMissed
        }
        Status::Completed => Exit::Success,
    }
}

/// A sink of the pipeline that has none of the rows. A member of a shared group that received nothing had nothing to write: the
/// other members may have received all of it.
pub fn sink_without_rows<'a>(record: &'a Record, scenario: &Scenario) -> Option<&'a SinkRecord> {
    let (pipeline, config) = (record.pipeline.as_ref()?, scenario.pipeline.as_ref()?);
    let may_be_idle = config.group.is_some() && config.producer_mode == ProducerMode::None && pipeline.consumed == 0;
    let mut sinks = pipeline.sinks.iter().filter(|_| !may_be_idle);
    sinks.find(|sink| sink.written + sink.duplicates == 0)
}

/// Why a pipeline that wrote nothing has failed.
pub fn nothing_written(sink: &SinkRecord) -> String {
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
pub fn untrusted(record: &Record) -> String {
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
pub fn worse(one: Exit, other: Exit) -> Exit {
    let rank = |exit| match exit {
        Exit::Success => 0,
        Exit::ThresholdMissed => 1,
        Exit::Usage | Exit::Failure => 2,
        Exit::Interrupted => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// What a comparison makes of how B's trials ended: trials of B that failed are part of the regression that it found.
pub fn of_comparison(compared: Exit, against: Exit) -> Exit {
    match (compared, against) {
        (Exit::ThresholdMissed, Exit::Failure) => Exit::ThresholdMissed,
        _ => worse(compared, against),
    }
}

impl Session<'_> {
    /// Prints what concerns the whole run: the table of its trials, where its records are, and what to do next.
    pub(super) fn conclude(&self, out: &mut dyn Write) {
        let plan = self.plan;
        let directory = self.directory.path();
        if plan.trials.len() > 1 && !self.arguments.json {
            let _ = writeln!(out);
            if let Err(error) = show_run(directory, View::of_stdout(), out) {
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
            let _ = report::of_run(&[directory.to_owned()], None);
        }
        notice!("{}", next_steps(&tried.kind));
    }
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
