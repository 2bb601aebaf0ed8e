//! `--share` and `--start-at`: one of several processes that run a scenario together, and the time at which they begin.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use jiff::Timestamp;

use crate::scenario::{OutputFormat, Plan, Share, units};

/// The longest name of a run: names of topics and groups begin with it.
const MAX_RUN_ID: usize = 100;

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
        trial.scenario = trial.scenario.part(share)?;
        // Latencies of single seconds can be put together only where their histograms are kept.
        let formats = &mut trial.scenario.output.formats;
        if !formats.contains(&OutputFormat::Hlog) {
            formats.push(OutputFormat::Hlog);
        }
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

fn parse_run_id(text: &str) -> Result<String, String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    match !text.is_empty() && text.len() <= MAX_RUN_ID && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(format!("write 1 to {MAX_RUN_ID} letters, digits, dots, hyphens and underscores")),
    }
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
}
