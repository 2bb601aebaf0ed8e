//! `brokermark search`: finds the highest rate that holds, by probes that are trials of one run.

mod probing;
mod shape;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use self::probing::{FIRST_OVERHEAD, LONG, Probing, Searched, warm_up};
use self::shape::Shape;
use super::Exit;
use super::launcher;
use super::load_threads;
use super::run::{interrupt, untrusted};
use super::scenario_source::{ProbedSource, ReplacedKeys};
use super::show::{self, View};
use crate::notices::notice;
use crate::record::readable::{bytes, duration};
use crate::record::{SearchEnd, SearchRecord};
use crate::scenario::{Load, Plan, ProducerMode, Scenario, Setting, WhenInvalid, units};
use crate::statistics::search::Range;

/// The rates that are probed unless the user says otherwise.
const MIN: f64 = 100.0;
const MAX: f64 = 10e6;

/// The first rate, unless the scenario has one.
const FIRST: f64 = 10e3;

/// What is written to a broker at most by default.
const WRITE_LIMIT: &str = "100GiB";

/// How much of the search a probe takes by default, and within which bounds.
const PROBES_OF_A_SEARCH: u32 = 60;
const MIN_PROBE: Duration = Duration::from_secs(5);
const MAX_PROBE: Duration = Duration::from_secs(30);

/// The keys that a search does not go by.
pub(super) const REPLACED_KEYS: ReplacedKeys = ReplacedKeys {
    command: "search",
    reason: "decides how long a probe lasts and how often it is repeated",
    keys: &[
        "run.messages",
        "run.payload_bytes",
        "sweep.trials",
        "sweep.trials_at_most",
        "sweep.until",
        "sweep.order",
        "sweep.combine",
        "sweep.seed",
    ],
};

#[derive(Debug, Args)]
pub struct SearchArguments {
    #[command(flatten)]
    pub source: ProbedSource,
    /// What `run` calls how long it lasts.
    #[arg(long = "for", hide = true, value_name = "DURATION", value_parser = not_for)]
    pub not_for: Option<String>,
    /// The rates that may be probed, as in 1k/s..2M/s [default: 100/s..10M/s]
    #[arg(long, value_name = "RATE..RATE", value_parser = parse_between)]
    pub between: Option<Between>,
    /// End within this time
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = units::parse_duration)]
    pub within: Duration,
    /// Measure each probe for so long; the answer is confirmed for three times as long [default: a sixtieth of --within, from 5s to 30s]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub probe: Option<Duration>,
    /// Write at most so many bytes to the broker: payloads, times the replicas of each
    #[arg(long, value_name = "SIZE", default_value = WRITE_LIMIT, value_parser = units::parse_size)]
    pub write_limit: u64,
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

fn not_for(_: &str) -> Result<String, String> {
    Err("a search lasts as long as --within says, and what must hold is --require \"p99 < 20ms\"".to_owned())
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

/// What a search is about to do.
pub struct Planned {
    plan: Plan,
    range: Range,
    shape: Shape,
    /// How long a probe is measured.
    window: Duration,
}

#[cfg(test)]
impl Planned {
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn range(&self) -> Range {
        self.range
    }

    /// A probe of this scenario at the first rate.
    pub(super) fn probe(&self, scenario: &Scenario) -> Scenario {
        let schedule = self.shape.schedule(self.range.first, 0);
        probing::probe_scenario(scenario, schedule, warm_up(scenario, self.window), self.window)
    }
}

impl SearchArguments {
    /// How long a probe is measured: whole periods of the load.
    fn window(&self, period: Option<Duration>) -> Result<Duration, String> {
        let share = (self.within / PROBES_OF_A_SEARCH).clamp(MIN_PROBE, MAX_PROBE);
        // In whole milliseconds: it becomes part of the scenario.
        let window = Duration::from_millis(self.probe.unwrap_or(share).as_millis().max(1) as u64);
        let Some(period) = period else { return Ok(window) };
        let periods = window.as_nanos().div_ceil(period.as_nanos().max(1)) as u32;
        match (self.probe, window == period * periods) {
            (Some(_), false) => Err(format!(
                "error: a probe must have an even number of bursts; a probe of {} does not: write --probe {}ms",
                duration(window.as_nanos() as f64),
                (period * periods).as_millis()
            )),
            _ => Ok(period * periods),
        }
    }

    /// The scenario at the first rate that is probed, the rates that may be, and the probes.
    ///
    /// # Errors
    /// For everything that is not right.
    pub fn plan(&self) -> Result<Planned, String> {
        let Between { least, most } = self.between.unwrap_or(Between { least: MIN, most: MAX });
        let lasting =
            |window: Duration| Setting::typed_as("--probe", format!("run.duration=\"{}ms\"", window.as_millis()));
        // What is wrong with the scenario is said below; faults may lie beyond the end of a probe.
        self.source.load(&[]).as_ref().map_or(Ok(()), refuse_faults)?;
        let own = self.source.load(&[lasting(self.window(None)?)]).ok();
        // A sweep over the rate itself would be gone below, where the rate is set.
        own.as_ref().map_or(Ok(()), refuse_points)?;
        let load = own.iter().flat_map(|plan| &plan.trials).map(|trial| &trial.scenario.load).next();
        let shape = Shape::new(load.unwrap_or(&Load::Closed)).map_err(|reason| format!("error: {reason}"))?;
        let window = self.window(shape.period())?;
        let range = Range { least, most, first: shape.own_rate().unwrap_or(FIRST) };
        let mut settings = vec![lasting(window)];
        if shape.is_constant() {
            let rate = format!("load.rate=\"{}/s\"", range.first.clamp(least, most));
            settings.push(Setting::typed_as("--between", rate));
        }
        let plan = self.source.load(&settings).map_err(|error| error.to_string())?;
        refuse_points(&plan)?;
        refuse_faults(&plan)?;
        match plan.trials.first() {
            Some(trial) if trial.scenario.thresholds.is_empty() => {
                Err("error: what must hold? Add --require \"p99 < 20ms\", or [thresholds] to the scenario".to_owned())
            }
            Some(trial) => {
                trial.scenario.check_alone().map_err(|reason| format!("error: {reason}"))?;
                refuse_without_producers(&trial.scenario)?;
                self.refuse_too_short(window, warm_up(&trial.scenario, window))?;
                Ok(Planned { plan, range, shape, window })
            }
            None => Err("error: the scenario has no trial".to_owned()),
        }
    }

    /// A search in which a rate can be probed and confirmed, at least.
    fn refuse_too_short(&self, window: Duration, warm_up: Duration) -> Result<(), String> {
        let least = (warm_up + FIRST_OVERHEAD) * 2 + window * (1 + LONG);
        if self.within >= least {
            return Ok(());
        }
        Err(format!(
            "error: --within {} is too short: one probe of {} and a longer one to confirm it take {} with their warm-up. Search for \
             longer, or shorten --probe or --warm-up",
            duration(self.within.as_nanos() as f64),
            duration(window.as_nanos() as f64),
            duration(least.as_nanos() as f64)
        ))
    }

    /// What is said before a search.
    fn announcement(&self, planned: &Planned) -> String {
        let nanoseconds = |duration: Duration| duration.as_nanos() as f64;
        let scenario = &planned.plan.trials[0].scenario;
        let writes = if scenario.is_stored() {
            format!(" It writes at most {} to the broker (--write-limit).", bytes(self.write_limit as f64))
        } else {
            String::new()
        };
        format!(
            "search: {}, in probes of {} and longer ones of {} that confirm, within {}.{writes}",
            planned.shape.words(),
            duration(nanoseconds(planned.window)),
            duration(nanoseconds(planned.window * LONG)),
            duration(nanoseconds(self.within))
        )
    }
}

/// Searches, and prints the answer.
pub fn search(arguments: &SearchArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    launcher::refuse("search")?;
    let planned = arguments.plan().map_err(Exit::usage)?;
    if !arguments.quiet {
        notice!("{}", arguments.announcement(&planned));
        for note in arguments.source.notes().into_iter().chain(REPLACED_KEYS.note(&planned.plan.text)) {
            notice!("{note}");
        }
    }
    let threads = planned.plan.trials.first().map(|trial| trial.scenario.threads).unwrap_or_default();
    let runtime = load_threads::start(threads).map_err(Exit::failure)?;
    let searched = runtime.block_on(async {
        let interruption = interrupt::watch(interrupt::deadline(Some(&planned.plan)))?;
        let probing = Probing::open(arguments, &planned).map_err(|error| error.to_string())?;
        Ok::<_, String>(probing.run(&interruption).await)
    });
    runtime.shutdown_background();
    Ok(conclude(arguments, &planned.plan, &searched.map_err(Exit::failure)?, out))
}

fn conclude(arguments: &SearchArguments, plan: &Plan, searched: &Searched, out: &mut dyn Write) -> Exit {
    let record = &searched.record;
    let printed = match arguments.format {
        Format::Text => show::search_text(record, searched.confirmation.as_slice(), View::for_stdout()),
        Format::Json => record.to_line(),
    };
    let printed = Exit::print(&printed, out);
    notice!("records: {}", searched.directory.display());
    if let Err(error) = &searched.kept {
        return Exit::failure(error);
    }
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

fn refuse_points(plan: &Plan) -> Result<(), String> {
    match plan.trials.iter().any(|trial| trial.point_index > 0) {
        true => Err("error: a search needs a scenario of one point: remove `sweep.over`".to_owned()),
        false => Ok(()),
    }
}

/// A rate that holds through a fault in one probe and without one in the next is not an answer.
fn refuse_faults(plan: &Plan) -> Result<(), String> {
    match plan.trials.iter().any(|trial| !trial.scenario.faults.is_empty()) {
        true => Err("error: a search has no faults: remove [[faults]], and measure them at the rate that it finds with `brokermark run`".to_owned()),
        false => Ok(()),
    }
}

fn refuse_without_producers(scenario: &Scenario) -> Result<(), String> {
    match scenario.pipeline.as_ref().map(|pipeline| pipeline.producer_mode) {
        Some(ProducerMode::None) => {
            let advice = "set `pipeline.producer_mode = \"concurrent\"`, or measure it with `brokermark run`";
            Err(format!(
                "error: a search sends messages at one rate after another, and this pipeline has no producers: {advice}"
            ))
        }
        _ => Ok(()),
    }
}

/// 0 where a rate was confirmed that the broker holds; 3 where none was.
fn exit_of(record: &SearchRecord) -> Exit {
    match record.answer.end {
        SearchEnd::Interrupted => Exit::Interrupted,
        SearchEnd::Failed => Exit::Failure,
        _ if record.answer.rate_per_second.is_some() => Exit::Success,
        _ => Exit::ThresholdMissed,
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
