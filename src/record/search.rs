//! The record of a search for the highest rate that holds: `search.json` in its run directory. Its probes are trials of that run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::readable;

/// The value of [`SearchRecord::schema`].
pub const SEARCH_SCHEMA: &str = "brokermark.search/1";

/// One probe of so many that the client limited is more than an accident.
const MANY: usize = 4;

/// A search, its probes and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Name and version of this format, `brokermark.search/1`.
    pub schema: String,
    pub scenario_name: String,
    /// What had to hold, as thresholds are written.
    pub requirements: Vec<String>,
    /// The rates that could be probed, in messages per second.
    pub least_per_second: f64,
    pub most_per_second: f64,
    /// How long the search could take, and how long it took, in nanoseconds.
    pub within_ns: u64,
    pub took_ns: u64,
    /// In the order in which they ran.
    pub probes: Vec<ProbeRecord>,
    pub answer: SearchAnswer,
}

/// A probe: a trial at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// The trial's place in the run.
    pub point_index: usize,
    pub trial: u32,
    pub rate_per_second: f64,
    /// How long was measured, in nanoseconds.
    pub window_ns: u64,
    pub outcome: ProbeResult,
    /// Why it did not hold; empty where it held.
    pub reason: String,
    pub messages_per_second: f64,
    /// The 99th percentile of the response time, in nanoseconds; `null` where too few messages were measured for it.
    pub p99_ns: Option<u64>,
    /// What speaks against trusting the trial's figures, by kind.
    pub doubts: Vec<String>,
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeResult {
    /// Every requirement held, the rate was kept, and no backlog grew.
    Held,
    Missed,
    /// It missed, and the load generator or its machine was the limit.
    LimitedByClient,
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEnd {
    /// The capacity is known within a narrow interval, and a longer probe held.
    Found,
    /// Not even the lowest rate held.
    NothingHeld,
    /// The highest rate held, in a longer probe as well.
    NothingMissed,
    /// What missed was limited by the load generator or its machine.
    LimitedByClient,
    /// Time was up before the capacity was known within a narrow interval.
    OutOfTime,
    /// As many bytes were written as may be, before the capacity was known within a narrow interval.
    WriteLimit,
    /// The user ended it.
    Interrupted,
    /// A probe could not run.
    Failed,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    pub end: SearchEnd,
    /// The highest confirmed rate: a long probe held it, and fewer long probes missed at it or below it than held at it or above it;
    /// `null`: no rate was confirmed.
    pub rate_per_second: Option<f64>,
    /// The highest rate that held in short probes only; `null` where a rate was confirmed, or none held.
    pub unconfirmed_per_second: Option<f64>,
    /// The rate at which half of all probes would hold, and its 95 % interval; `null` unless one held and one missed, and where a long
    /// probe missed below it and none held there.
    pub capacity_per_second: Option<f64>,
    pub capacity_low: Option<f64>,
    pub capacity_high: Option<f64>,
    /// The capacity by the first half of the probes near it, and by the second, where they contradict each other: it changed during
    /// the search. Otherwise `null`.
    pub early_capacity_per_second: Option<f64>,
    pub late_capacity_per_second: Option<f64>,
    /// What speaks against trusting the probe that confirmed it, by kind.
    pub doubts: Vec<String>,
}

impl SearchRecord {
    /// As a line of JSON with its end. Such a document can always be serialised.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// The answer in words, and what to do next.
    pub fn conclusion(&self) -> String {
        let found = &self.answer;
        let rate = readable::rate;
        let held = match (found.rate_per_second, found.unconfirmed_per_second) {
            (Some(confirmed), _) => format!("{} messages/s held, and held for longer as well", rate(confirmed)),
            (None, Some(short)) => {
                format!("no rate was confirmed: {} messages/s held in short probes, and in no long one", rate(short))
            }
            (None, None) => "no rate was confirmed: not one held".to_owned(),
        };
        let words = match found.end {
            SearchEnd::Found => format!("{held}."),
            SearchEnd::NothingHeld => format!(
                "No rate was confirmed: not even {} messages/s held. Search below it with --between, or require less.",
                rate(self.least_per_second)
            ),
            SearchEnd::NothingMissed => format!(
                "{held}: that is the highest rate of the range, so the limit lies above it. Search above it with --between."
            ),
            SearchEnd::LimitedByClient => {
                format!("{held}. {}", self.limited_by_client())
            }
            SearchEnd::OutOfTime => {
                let up = format!("Time was up after {}: {held}.", readable::duration(self.within_ns as f64));
                format!("{up} {}", self.limited_often().unwrap_or("Search for longer with --within.".to_owned()))
            }
            SearchEnd::WriteLimit => {
                let advice =
                    "Raise --write-limit, search below the rates that missed with --between, or shorten --probe.";
                format!("No more may be written: {held}. {}", self.limited_often().unwrap_or(advice.to_owned()))
            }
            SearchEnd::Interrupted => format!("Interrupted: {held}."),
            SearchEnd::Failed => format!("A probe could not run: {held}."),
        };
        readable::capital(&words)
    }

    /// That late probes contradict early ones.
    pub fn change(&self) -> Option<String> {
        let (early, late) = self.answer.early_capacity_per_second.zip(self.answer.late_capacity_per_second)?;
        Some(format!(
            "The capacity changed during the search: about {} messages/s in its first half, {} in its second. Find out what changed, and \
             search again.",
            readable::rate(early),
            readable::rate(late)
        ))
    }

    fn limited_probes(&self) -> usize {
        self.probes.iter().filter(|probe| probe.outcome == ProbeResult::LimitedByClient).count()
    }

    fn limited_by_client(&self) -> String {
        format!(
            "The load generator or its machine was the limit in {} of {} probes, so the broker's limit is not known: run the load from a \
             machine of its own, batch more, use more connections, or raise `producers.in_flight` where the window was full.",
            self.limited_probes(),
            self.probes.len()
        )
    }

    /// Where longer would not help.
    fn limited_often(&self) -> Option<String> {
        (self.limited_probes() * MANY >= self.probes.len().max(1)).then(|| self.limited_by_client())
    }
}

/// As in the record.
impl fmt::Display for ProbeResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}
