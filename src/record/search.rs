//! The record of a search for the highest rate that holds: `search.json` in its run directory. Its probes are trials of that run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::readable;

/// The value of [`SearchRecord::schema`].
pub const SEARCH_SCHEMA: &str = "brokermark.search/1";

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
    /// The user ended it.
    Interrupted,
    /// A probe could not run.
    Failed,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    pub end: SearchEnd,
    /// The highest rate that held; `null`: none did.
    pub rate_per_second: Option<f64>,
    /// Whether it held in a longer probe.
    pub confirmed: bool,
    /// The rate at which half of all probes would hold, and its 95 % interval; `null` unless one held and one missed.
    pub capacity_per_second: Option<f64>,
    pub capacity_low: Option<f64>,
    pub capacity_high: Option<f64>,
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
        let held = match (found.rate_per_second, found.confirmed) {
            (Some(rate), true) => format!("{} messages/s held, and held for longer as well", readable::rate(rate)),
            (Some(rate), false) => {
                format!(
                    "{} messages/s held in a short probe, and was not confirmed by a long one",
                    readable::rate(rate)
                )
            }
            (None, _) => "no rate held".to_owned(),
        };
        match found.end {
            SearchEnd::Found => format!("{held}."),
            SearchEnd::NothingHeld => format!(
                "Nothing held, not even {} messages/s: search below it with --between, or ask for less.",
                readable::rate(self.least_per_second)
            ),
            SearchEnd::NothingMissed => format!(
                "{held}: that is the highest rate of the range, so the limit lies above it. Search above it with --between."
            ),
            SearchEnd::LimitedByClient if found.rate_per_second.is_none() => {
                "No rate held, and the load generator or its machine was the limit: run the load from a quiet machine of its own."
                    .to_owned()
            }
            SearchEnd::LimitedByClient => format!(
                "{held}. Above it the load generator or its machine was the limit, so the broker's is not known: run the load \
                 from a machine of its own, batch more, or use more connections."
            ),
            SearchEnd::OutOfTime => {
                format!("Time was up after {}: {held}. Search for longer with --within.", readable::duration(self.within_ns as f64))
            }
            SearchEnd::Interrupted => format!("Interrupted: {held}."),
            SearchEnd::Failed => format!("A probe could not run: {held}."),
        }
    }
}

/// As in the record.
impl fmt::Display for ProbeResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}
