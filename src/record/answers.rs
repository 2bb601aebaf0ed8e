//! What is kept beside the records of trials. The answer of a search for the highest rate that holds is `search.json` in its run directory; its
//! probes are trials of that run. A ceiling is what the load generator itself carries in a load's shape, measured without a broker: a line for
//! each, beside the runs.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::directory::{Appender, DirectoryError, read_if_there};
use super::schema::line;

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
    /// As many bytes were written as may be, before the capacity was known within a narrow interval.
    WriteLimit,
    /// The user ended it.
    Interrupted,
    /// A probe could not run, or its record could not be written.
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
    /// The capacity by the early ones of the probes near it, and by the late ones, where they contradict each other: it changed during
    /// the search. Otherwise `null`.
    pub early_capacity_per_second: Option<f64>,
    pub late_capacity_per_second: Option<f64>,
    /// What speaks against trusting the probe that confirmed it, by kind.
    pub doubts: Vec<String>,
}

impl SearchRecord {
    /// As a line of JSON with its end.
    pub fn to_line(&self) -> String {
        line(self)
    }
}

/// The value of [`Ceiling::schema`].
pub const CEILING_SCHEMA: &str = "brokermark.ceiling/1";

/// Below the directory that run directories are made in.
pub const CEILINGS_FILE: &str = "ceilings.jsonl";

/// A ceiling, for one shape of the load on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Name and version of this format, `brokermark.ceiling/1`.
    pub schema: String,
    /// The parts of the scenario on which it depends.
    pub shape: serde_json::Value,
    /// Machine and build.
    pub machine: String,
    #[serde(with = "jiff::fmt::serde::timestamp::second::required")]
    pub measured_at: jiff::Timestamp,
    pub messages_per_second: f64,
    pub payload_bytes_per_second: f64,
    pub cores_used: f64,
    pub cores_available: f64,
    pub cpu_ns_per_message: Option<f64>,
}

impl Ceiling {
    /// Appends it to the file below `base`.
    ///
    /// # Errors
    /// When it cannot be brought to disk.
    pub fn keep(&self, base: &Path) -> Result<(), DirectoryError> {
        fs::create_dir_all(base).map_err(|error| DirectoryError::io("make", base, error))?;
        Appender::open(base.join(CEILINGS_FILE))?.append(line(self).as_bytes())
    }

    /// The last one below `base` of this shape, machine and build. What cannot be read is not known.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn find(base: &Path, shape: &serde_json::Value, machine: &str) -> Result<Option<Ceiling>, DirectoryError> {
        let text = read_if_there(&base.join(CEILINGS_FILE))?.unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').rev();
        let mut kept = lines.filter_map(|line| serde_json::from_slice::<Ceiling>(line).ok());
        Ok(kept.find(|kept| kept.schema == CEILING_SCHEMA && kept.shape == *shape && kept.machine == machine))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_ceiling_of_a_shape_and_machine_is_found() {
        let base = tempfile::tempdir().unwrap();
        let (shape, other) = (json!({ "producers": { "count": 4 } }), json!({ "producers": { "count": 8 } }));
        assert_eq!(Ceiling::find(base.path(), &shape, "here").unwrap(), None);
        let ceiling = |shape: &serde_json::Value, machine: &str, rate| Ceiling {
            schema: CEILING_SCHEMA.to_owned(),
            shape: shape.clone(),
            machine: machine.to_owned(),
            measured_at: jiff::Timestamp::UNIX_EPOCH,
            messages_per_second: rate,
            payload_bytes_per_second: 100.0 * rate,
            cores_used: 1.5,
            cores_available: 2.0,
            cpu_ns_per_message: Some(250.0),
        };
        for (shape, machine, rate) in
            [(&shape, "here", 1e6), (&shape, "here", 2e6), (&shape, "there", 3e6), (&other, "here", 4e6)]
        {
            ceiling(shape, machine, rate).keep(base.path()).unwrap();
        }
        assert_eq!(Ceiling::find(base.path(), &shape, "here").unwrap(), Some(ceiling(&shape, "here", 2e6)));
    }
}
