//! `brokermark search`: finds the highest rate that holds, by probes that are trials of one run.

mod probing;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use self::probing::{Probing, Searched};
use super::Exit;
use super::launcher;
use super::load_threads;
use super::run::{interrupt, untrusted};
use super::scenario_source::ProbedSource;
use super::show::{self, View};
use crate::notices::notice;
use crate::record::{SearchEnd, SearchRecord};
use crate::scenario::{Load, Plan, Schedule, Setting, WhenInvalid, units};
use crate::statistics::search::Range;

/// The rates that are probed unless the user says otherwise.
const LEAST: f64 = 100.0;
const MOST: f64 = 10e6;

/// The first rate, unless the scenario has one.
const FIRST: f64 = 10e3;

/// How much of the search a probe takes by default, and within which bounds.
const PROBES_OF_A_SEARCH: u32 = 60;
const SHORTEST_PROBE: Duration = Duration::from_secs(5);
const LONGEST_PROBE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub struct SearchArguments {
    #[command(flatten)]
    pub source: ProbedSource,
    /// What must hold, as in "p99 < 20ms, lost = 0" [default: the scenario's thresholds]
    #[arg(long = "for", value_name = "REQUIREMENTS")]
    pub requirements: Option<String>,
    /// The rates that may be probed, as in 1k/s..2M/s [default: 100/s..10M/s]
    #[arg(long, value_name = "RATE..RATE", value_parser = parse_between)]
    pub between: Option<Between>,
    /// End within this time
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = units::parse_duration)]
    pub within: Duration,
    /// Measure each probe for so long; the answer is confirmed for three times as long [default: a sixtieth of --within, from 5s to 30s]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub probe: Option<Duration>,
    /// Create the run directory below this one [default: the scenario's `output.directory`, `results`]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Print no progress, only the answer
    #[arg(long, short)]
    pub quiet: bool,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table of the probes, and the answer
    Text,
    /// A line of JSON, as in `search.json`
    Json,
}

/// The lowest and the highest rate, in messages per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Between {
    least: f64,
    most: f64,
}

fn parse_between(text: &str) -> Result<Between, String> {
    let advice = "write two rates, as in 1k/s..2M/s";
    let (least, most) = text.split_once("..").ok_or(format!("\"{text}\" is not a range: {advice}"))?;
    let rate = |text: &str| match units::parse_rate(text).map_err(|error| error.to_string())? {
        units::Rate::MessagesPerSecond(rate) if rate >= 1.0 => Ok(rate),
        _ => Err(format!("\"{text}\" is not a rate of 1/s or more, in messages: {advice}")),
    };
    let between = Between { least: rate(least)?, most: rate(most)? };
    if between.least < between.most { Ok(between) } else { Err(format!("\"{text}\" is empty: {advice}")) }
}

impl SearchArguments {
    /// How long a probe is measured.
    fn window(&self) -> Duration {
        let share = (self.within / PROBES_OF_A_SEARCH).clamp(SHORTEST_PROBE, LONGEST_PROBE);
        // In whole milliseconds: it becomes part of the scenario.
        Duration::from_millis(self.probe.unwrap_or(share).as_millis().max(1) as u64)
    }

    /// The scenario at the first rate that is probed, and the rates that may be.
    ///
    /// # Errors
    /// For everything that is not right.
    pub fn plan(&self) -> Result<(Plan, Range), String> {
        let Between { least, most } = self.between.unwrap_or(Between { least: LEAST, most: MOST });
        let duration = format!("run.duration=\"{}ms\"", self.window().as_millis());
        let duration = Setting::typed_as("--probe", duration);
        // What is wrong with the scenario is said below.
        let own = self.source.load(std::slice::from_ref(&duration)).ok();
        let first = match own.iter().flat_map(|plan| &plan.trials).map(|trial| &trial.scenario.load).next() {
            Some(Load::Open(Schedule::Constant { rate })) => *rate,
            _ => FIRST,
        };
        let range = Range { least, most, first };
        let rate = format!("load.rate=\"{}/s\"", range.first.clamp(least, most));
        let mut settings = vec![Setting::typed_as("--between", rate), duration];
        if let Some(requirements) = &self.requirements {
            let each: Vec<String> = requirements.split(',').map(|one| format!("{:?}", one.trim())).collect();
            let require = format!("thresholds.require=[{}]", each.join(", "));
            settings.push(Setting::typed_as(&format!("--for {requirements:?}"), require));
        }
        let plan = self.source.load(&settings).map_err(|error| error.to_string())?;
        let trials = &plan.trials;
        if trials.iter().any(|trial| trial.point_index > 0) {
            return Err("error: a search needs a scenario of one point: remove `sweep.over`".to_owned());
        }
        match trials.first() {
            Some(trial) if trial.scenario.thresholds.is_empty() => {
                Err("error: what must hold? Add --for \"p99 < 20ms\", or [thresholds] to the scenario".to_owned())
            }
            Some(trial) => match trial.scenario.check_alone() {
                Ok(()) => Ok((plan, range)),
                Err(reason) => Err(format!("error: {reason}")),
            },
            None => Err("error: the scenario has no trial".to_owned()),
        }
    }
}

/// Searches, and prints the answer.
pub fn search(arguments: &SearchArguments, out: &mut dyn Write) -> Exit {
    if let Some(exit) = launcher::refused("search") {
        return exit;
    }
    let (plan, range) = match arguments.plan() {
        Ok(planned) => planned,
        Err(reason) => {
            notice!("{reason}");
            return Exit::Usage;
        }
    };
    let threads = plan.trials.first().map(|trial| trial.scenario.threads).unwrap_or_default();
    let runtime = match load_threads::start(threads) {
        Ok(runtime) => runtime,
        Err(error) => {
            notice!("error: the threads of the load cannot be started: {error}");
            return Exit::Failure;
        }
    };
    let searched = runtime.block_on(async {
        let interruption = interrupt::watch().map_err(|error| format!("cannot listen for signals: {error}"))?;
        let probing = Probing::open(arguments, &plan, range).map_err(|error| error.to_string())?;
        probing.run(&interruption).await.map_err(|error| error.to_string())
    });
    runtime.shutdown_background();
    match searched {
        Ok(searched) => conclude(arguments, &plan, &searched, out),
        Err(error) => {
            notice!("error: {error}");
            Exit::Failure
        }
    }
}

fn conclude(arguments: &SearchArguments, plan: &Plan, searched: &Searched, out: &mut dyn Write) -> Exit {
    let record = &searched.record;
    let printed = match arguments.format {
        Format::Text => show::search::page(record, View::of_stdout()),
        Format::Json => record.to_line(),
    };
    let printed = Exit::from_result(out.write_all(printed.as_bytes()).and_then(|()| out.flush()));
    notice!("records: {}", searched.directory.display());
    if printed != Exit::Success {
        return printed;
    }
    let ignores = plan.trials.first().is_some_and(|trial| trial.scenario.when_invalid == WhenInvalid::Ignore);
    match (exit_of(record), &searched.confirmation) {
        (Exit::Success, Some(confirmation))
            if !ignores && !confirmation.verdict.valid && !confirmation.environment.embedded =>
        {
            notice!("error: {}", untrusted(confirmation));
            Exit::ThresholdMissed
        }
        (exit, _) => exit,
    }
}

/// 0 where a rate was confirmed that the broker holds; 3 where none was.
fn exit_of(record: &SearchRecord) -> Exit {
    match record.answer.end {
        SearchEnd::Found | SearchEnd::NothingMissed => Exit::Success,
        SearchEnd::NothingHeld | SearchEnd::LimitedByClient | SearchEnd::OutOfTime => Exit::ThresholdMissed,
        SearchEnd::Interrupted => Exit::Interrupted,
        SearchEnd::Failed => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_people_write() {
        assert_eq!(parse_between("1k/s..2M/s"), Ok(Between { least: 1e3, most: 2e6 }));
        for text in ["1k/s", "1k..2k", "2k/s..1k/s", "0/s..1k/s", "1MiB/s..2MiB/s"] {
            assert!(parse_between(text).is_err(), "{text}");
        }
    }
}
