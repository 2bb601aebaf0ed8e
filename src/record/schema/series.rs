//! One second of a trial: a line of `series.jsonl`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened during one second, or a part of one in a short trial, by when it happened.
///
/// Unlike the record, whose counts go by intended time, a row counts events in the second in which they occurred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SeriesRow {
    /// The trial's point, as in its record.
    pub point_index: usize,
    /// The trial's repetition, as in its record.
    pub trial: u32,
    /// Full seconds between the trial's begin and the begin of this one.
    pub second: u64,
    /// How long the row lasted, in nanoseconds; 0 in rows of an earlier build, which lasted a second where `full` is true.
    #[serde(default)]
    pub length_ns: u64,
    /// Messages that the schedule had due in it, before chance in a Poisson process; left out in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// The phase the second began in.
    pub phase: Phase,
    /// Whether it lies in one phase and lasted as long as was intended: a second, or a tenth of a shorter window.
    pub full: bool,
    /// Messages handed to the client.
    pub attempted: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages failed.
    pub failed: u64,
    /// Payload of the acknowledged messages, in bytes.
    pub payload_bytes: u64,
    /// Messages that arrived at a group for the first time, by all consumers, warm-up included; all messages received where
    /// nothing is verified. `null` without consumers.
    pub consumed: Option<u64>,
    /// What each group of consumers received; of over 16 groups, the 16 that are the furthest behind. Left out without consumers, and in
    /// rows of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRow>,
    /// Messages that the pipeline was done with: written to every sink, unparsable, or abandoned; left out without a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<u64>,
    /// Messages that the pipeline was behind at the end of the second: in its partitions, and not done; left out without a
    /// pipeline or where the lag is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_lag: Option<u64>,
    /// Messages without outcome at the end of the second.
    pub in_flight: u64,
    /// Median of the headline latency of messages acknowledged in this second, in nanoseconds; `null` when there were none.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the same, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Most messages seen in the client library's queues; `null` when the library does not report it.
    pub queue_messages: Option<u64>,
    /// Cores busy with this process.
    pub cpu_cores: f64,
    /// Resident memory of this process at the end of the second, in bytes; left out where the system does not tell, and in rows of
    /// older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Cores busy with the broker's processes, as `broker.watch` names them; left out where they are not known. Of an endpoint with
    /// metrics: between the last two times that it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_cpu_cores: Option<f64>,
    /// Resident memory of the broker's processes, in bytes; left out where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_memory_bytes: Option<u64>,
}

impl SeriesRow {
    /// How long the row lasted, in seconds.
    pub fn seconds(&self) -> f64 {
        if self.length_ns == 0 { 1.0 } else { self.length_ns as f64 / 1e9 }
    }

    /// Messages acknowledged, per second.
    pub fn acknowledged_per_second(&self) -> f64 {
        self.acknowledged as f64 / self.seconds()
    }

    /// The row as a line of `series.jsonl`, with its line end.
    pub fn to_line(&self) -> String {
        super::line(self)
    }
}

/// What one group of consumers received in a row, whether messages are verified or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupRow {
    /// The group's number, from 0.
    pub group: u32,
    /// Messages of this trial that arrived at the group for the first time, warm-up included; repetitions are among them where nothing is
    /// verified.
    pub consumed: u64,
    /// Messages that had been acknowledged and had not arrived at the group at the end of the row. In a share, only its own producers and
    /// consumers count, so it may be negative, and only the sum over all shares says how far the group is behind. `null` where it is not
    /// known: the broker withholds messages on request, other programs read in the same group, or other programs send.
    pub consumer_lag: Option<i64>,
    /// Median of the end-to-end latency of measured messages that arrived in the row, in nanoseconds, within 1.6 %; `null` when there were
    /// none, with over 256 consumers, and where several shares received some.
    pub end_to_end_p50_ns: Option<u64>,
    /// 99th percentile of the same.
    pub end_to_end_p99_ns: Option<u64>,
}

/// What a trial is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The same load, not measured.
    WarmUp,
    /// The load that the record is about.
    Measure,
    /// No more load; outcomes and consumers are waited for.
    Drain,
}
