//! The options of `brokermark run`, with those that say whose run it is: `--share` and `--start-at` for one of several processes that run a
//! scenario together, and the time at which they begin; `--against` for two scenarios in one run, whose trials take turns.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint};
use jiff::Timestamp;

use crate::cli::check_files::CheckFileArguments;
use crate::cli::compare::parse_tolerance;
use crate::cli::scenario_source::ScenarioSource;
use crate::scenario::{OutputFormat, Plan, ScenarioError, Setting, Share, Trial, units};
use crate::secrets::mask_override;

/// The longest name of a run: names of topics and groups begin with it.
const MAX_RUN_ID: usize = 100;

#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
    /// Print the scenario as TOML, with everything that options set, and run nothing
    #[arg(long)]
    pub print_scenario: bool,
    /// Create the run directory below this one [default: the scenario's `output.directory`, `results`]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with = "resume")]
    pub output: Option<PathBuf>,
    /// Continue the run in this directory: run the trials that have no completed record
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub resume: Option<PathBuf>,
    /// Continue even with another build of brokermark, or with changed payload files
    #[arg(long, requires = "resume")]
    pub resume_anyway: bool,
    /// Full-screen view of the current trial: rates, percentiles, topics, and the last seconds
    #[arg(long, conflicts_with = "quiet")]
    pub tui: bool,
    /// Serve Prometheus metrics of the current trial on ADDRESS, as in localhost:9464 or :9464, and keep them in `metrics.txt`
    #[arg(long, value_name = "ADDRESS", value_parser = parse_own_address)]
    pub metrics: Option<SocketAddr>,
    /// End with exit code 3 also if a record is not valid, whether or not the scenario has thresholds
    #[arg(long)]
    pub strict: bool,
    /// First measure what the client itself carries, as `brokermark ceiling` does
    #[arg(long)]
    pub ceiling: bool,
    /// Write a page with charts into the run directory when the run has ended: report.html
    #[arg(long)]
    pub report: bool,
    /// Print no progress and no result, only errors
    #[arg(long, short)]
    pub quiet: bool,
    /// Print each record as a line of JSON on standard output
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub check_files: CheckFileArguments,
    #[command(flatten)]
    pub share: ShareArguments,
    #[command(flatten)]
    pub against: AgainstArguments,
    /// How often a checkpoint is written
    #[arg(long, value_name = "DURATION", hide = true, default_value = "1m", value_parser = units::parse_duration)]
    pub checkpoint_every: Duration,
}

#[derive(Debug, Args)]
pub struct ShareArguments {
    /// Run one share of the scenario, as in 2/3: its part of producers, consumers, rate and messages
    #[arg(long, value_name = "I/N", requires = "start_at")]
    #[arg(conflicts_with_all = ["resume", "against", "against_overrides"])]
    pub share: Option<Share>,
    /// Begin the load at this time: 2026-03-01T12:00:00Z, seconds since 1970, or +30s from now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub start_at: Option<StartAt>,
    /// With --share: a name of the run, the same for all shares [default: made from the scenario's name]
    #[arg(long, value_name = "NAME", requires = "share", value_parser = parse_run_id)]
    pub run_id: Option<String>,
}

/// A time as it is written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// In nanoseconds since 1970.
    UnixNs(u64),
    FromNow(Duration),
}

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let advice = "write a time as in 2026-03-01T12:00:00Z, seconds since 1970, or +30s for 30 s from now";
        if let Some(duration) = text.strip_prefix('+') {
            return units::parse_duration(duration).map(StartAt::FromNow).map_err(|error| format!("{error}: {advice}"));
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains('-') {
            let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let unix_ns = seconds.and_then(|seconds| u64::try_from(seconds.as_nanos()).ok());
            return unix_ns.map(StartAt::UnixNs).ok_or_else(|| advice.to_owned());
        }
        let time: Timestamp = text.parse().map_err(|error| format!("{error}: {advice}"))?;
        u64::try_from(time.as_nanosecond()).map(StartAt::UnixNs).map_err(|_| format!("this is before 1970: {advice}"))
    }
}

impl StartAt {
    /// In nanoseconds since 1970.
    fn unix_ns(self) -> u64 {
        match self {
            StartAt::UnixNs(unix_ns) => unix_ns,
            StartAt::FromNow(duration) => {
                let at = SystemTime::now() + duration;
                at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
            }
        }
    }
}

impl ShareArguments {
    /// When the load is to begin, in nanoseconds since 1970.
    pub fn start_unix_ns(&self) -> Option<u64> {
        self.start_at.map(StartAt::unix_ns)
    }

    /// The name that all shares of the run have in common: they know the same scenario and the same time.
    pub fn run_id(&self, plan: &Plan) -> Option<String> {
        let (_, start_ns) = (self.share?, self.start_unix_ns()?);
        let short = || plan.name.chars().take(60).collect::<String>();
        let name = self.run_id.clone().unwrap_or_else(|| format!("brokermark-{}", short()));
        Some(format!("{name}-{:x}", start_ns / 1_000_000))
    }

    /// The plan of this share.
    ///
    /// # Errors
    /// When the scenario cannot be run in shares.
    pub fn divide(&self, mut plan: Plan) -> Result<Plan, String> {
        let Some(share) = self.share else { return Ok(plan) };
        if let Some(StartAt::FromNow(_)) = self.start_at {
            return Err("every share would count from its own now: give all of them the same time, as in \
                        `--start-at $(($(date +%s) + 60))`, worked out once"
                .to_owned());
        }
        let [trial] = plan.trials.as_mut_slice() else {
            return Err(format!(
                "the scenario has {} trials, which would drift apart: run each of them in shares of its own, without [sweep]",
                plan.trials.len()
            ));
        };
        divide(trial, share)?;
        Ok(plan)
    }

    /// What to do when this share has ended.
    pub fn next_steps(&self, plan: &Plan, run_id: &str) -> Option<String> {
        let share = self.share?;
        let topology = &plan.trials.first()?.scenario.topology;
        let kept = match topology.is_named_by_run() && !topology.keep {
            true => format!(
                "\n  brokermark remove-topics SCENARIO --run-id {run_id}   # after that: other shares may still use the topics"
            ),
            false => String::new(),
        };
        Some(format!(
            "next:\n  brokermark merge DIRECTORY… --output MERGED   # when all {} shares have ended{kept}",
            share.count
        ))
    }
}

/// Leaves a trial one share of its scenario.
///
/// # Errors
/// When the scenario cannot be run in shares.
pub(super) fn divide(trial: &mut Trial, share: Share) -> Result<(), String> {
    trial.scenario = trial.scenario.part(share)?;
    // Latencies of single seconds can be put together only where their histograms are kept.
    let formats = &mut trial.scenario.output.formats;
    if !formats.contains(&OutputFormat::Hlog) {
        formats.push(OutputFormat::Hlog);
    }
    Ok(())
}

/// `HOST:PORT`, or `:PORT` for all addresses of this machine.
fn parse_own_address(text: &str) -> Result<SocketAddr, String> {
    let written = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let found = written.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| "write HOST:PORT, as in localhost:9464, or :9464 for all addresses of this machine".to_owned())
}

fn parse_run_id(text: &str) -> Result<String, String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    match !text.is_empty() && text.len() <= MAX_RUN_ID && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(format!("write 1 to {MAX_RUN_ID} letters, digits, dots, hyphens and underscores")),
    }
}

#[derive(Debug, Args)]
pub struct AgainstArguments {
    /// Run this scenario in turn with the first one (A B, B A, …), and compare both at the end
    #[arg(long, value_name = "SCENARIO", value_hint = ValueHint::FilePath, conflicts_with = "resume")]
    pub against: Option<String>,
    /// Run in turn with the same scenario in which this key is overridden
    #[arg(long = "against-set", value_name = "KEY=VALUE", conflicts_with = "resume")]
    pub against_overrides: Vec<String>,
    /// Compare this run at the end with an earlier one: a run directory, or a directory of run directories
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with_all = ["against", "against_overrides", "share"])]
    pub baseline: Option<PathBuf>,
    /// With --against, --against-set or --baseline: a change for the worse beyond this share is a regression (exit code 3) [default: 5%]
    #[arg(long, value_name = "SHARE", conflicts_with = "resume", value_parser = parse_tolerance)]
    pub tolerance: Option<f64>,
}

impl AgainstArguments {
    pub fn is_wanted(&self) -> bool {
        self.against.is_some() || !self.against_overrides.is_empty()
    }
}

impl RunArguments {
    /// The scenario that takes turns: its own file or that of the first, with the settings of both and those of its own.
    ///
    /// # Errors
    /// For everything in it that is not right.
    pub fn other_plan(&self) -> Result<Plan, ScenarioError> {
        let AgainstArguments { against, against_overrides, .. } = &self.against;
        let of_option =
            |one: &String| Setting { typed: format!("--against-set {}", mask_override(one)), assignment: one.clone() };
        let settings: Vec<Setting> = against_overrides.iter().map(of_option).collect();
        self.source.with(against.as_deref(), &settings).load()
    }
}

/// Why two plans cannot take turns.
pub fn disagreement(one: &Plan, other: &Plan) -> Option<String> {
    if one.until.is_some() || other.until.is_some() {
        return Some(
            "`sweep.until` ends each side after another number of trials: set `sweep.trials` instead".to_owned(),
        );
    }
    (!places(one).eq(places(other))).then(|| {
        format!(
            "the scenarios have {} and {} trials: give both the same [sweep] with the same number of points and trials",
            one.trials.len(),
            other.trials.len()
        )
    })
}

/// The order of the trials, each as its side (0 or 1) and its position in the plan: A B, B A, A B, … of each point. Each pair meets
/// the machine in one state, and what drifts evenly is the same for both sides over four trials of a point.
pub fn order(plan: &Plan) -> Vec<(usize, usize)> {
    let places: Vec<(usize, u32)> = places(plan).collect();
    alternating(&places)
}

fn alternating(places: &[(usize, u32)]) -> Vec<(usize, usize)> {
    let pair = |(position, (point_index, trial)): (usize, &(usize, u32))| {
        let first = (point_index + *trial as usize + 1) % 2;
        [(first, position), (1 - first, position)]
    };
    places.iter().enumerate().flat_map(pair).collect()
}

/// Points and trials in the order of the plan.
fn places(plan: &Plan) -> impl Iterator<Item = (usize, u32)> {
    plan.trials.iter().map(|trial| (trial.point_index, trial.trial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_three_ways() {
        let at = |text: &str| text.parse::<StartAt>();
        assert_eq!(at("2026-03-01T12:00:00.25Z"), Ok(StartAt::UnixNs(1_772_366_400_250_000_000)));
        assert_eq!(at("2026-03-01T13:00:00+01:00"), Ok(StartAt::UnixNs(1_772_366_400_000_000_000)));
        assert_eq!(at("1772366400"), Ok(StartAt::UnixNs(1_772_366_400_000_000_000)));
        assert_eq!(at("+1m30s").or(at("+90s")), Ok(StartAt::FromNow(Duration::from_secs(90))));
        for wrong in ["", "soon", "12:00", "+", "+x", "-5", "1969-01-01T00:00:00Z", "1e300"] {
            assert!(at(wrong).unwrap_err().contains("seconds since 1970"), "{wrong}");
        }
    }

    #[test]
    fn metrics_are_served_at_names_and_ports() {
        let found = |text: &str| parse_own_address(text).map(|address| address.to_string());
        assert_eq!(found(":9464").as_deref(), Ok("0.0.0.0:9464"));
        assert_eq!(found("[::1]:9464").as_deref(), Ok("[::1]:9464"));
        assert!(parse_own_address("localhost:9464").unwrap().ip().is_loopback());
        for wrong in ["9464", "localhost", ":70000", ""] {
            assert!(found(wrong).unwrap_err().contains(":9464"), "{wrong}");
        }
    }

    #[test]
    fn the_side_that_begins_alternates_at_each_point() {
        assert_eq!(alternating(&[(0, 1), (0, 2), (0, 3)]), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
        let interleaved = alternating(&[(0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(interleaved, [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (0, 2), (0, 3), (1, 3)]);
    }
}
