//! The section on a pipeline: consumers that parse what they receive and write it to databases.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ErrorCount, Latency};
use crate::record::readable::settings;

/// A pipeline's figures, over all its instances in this process. Warm-up is in all counts and rates, but in no latency.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Pipeline {
    /// Members of the group in this process.
    pub instances: usize,
    /// Messages received, repeated deliveries included.
    pub consumed: u64,
    /// Time from the first message received to the last, in nanoseconds: the divisor of `consumed_per_second`.
    pub consuming_ns: u64,
    /// Messages received per second.
    pub consumed_per_second: f64,
    /// Time from the first message received to the end of the last attempt to write rows, in nanoseconds; without sinks, to the last
    /// message received.
    pub working_ns: u64,
    /// Batches that were filled.
    pub batches: u64,
    /// CPU time of this process, while the pipeline worked, per message received, in nanoseconds. It has the producers'
    /// in it where they send at the same time; `null` when nothing was received.
    pub cpu_ns_per_message: Option<f64>,
    /// Latency from intended to received, of messages whose intended time is known: from the trace header of this trial, else from the
    /// scenario's timestamp field.
    pub receipt: Option<Latency>,
    /// Messages that could not be read, by what is wrong with them. They are not written and count as done.
    pub unparsable: Vec<UnparsableCount>,
    /// Stages in which time went, in the order of the way of a message.
    pub stages: Vec<StageTime>,
    /// Limit of the pipeline.
    pub bottleneck: Bottleneck,
    /// Whether the consumers kept up with the producers; `null` when they did not work at the same time.
    pub consumer_kept_up: Option<KeptUp>,
    /// Messages that the instances' partitions held and that were not done at the end; `null` when it is unknown.
    pub consumer_lag_at_end: Option<u64>,
    /// Errors when progress was committed, by class.
    pub commit_errors: Vec<ErrorCount>,
    /// Databases, in the order of the scenario.
    pub sinks: Vec<SinkRecord>,
    /// Account of produced, consumed and written messages.
    pub reconciliation: Reconciliation,
    /// Figures that the benchmark this pipeline is modelled on would have printed of this run: to be compared *as published*.
    pub as_published: PublishedFigures,
}

/// Messages of one kind of unparsable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct UnparsableCount {
    /// `not-json`, `not-an-object`, `field-missing` (one that a sink needs) or `field-nested` (it is a list or an object).
    pub class: String,
    /// Number of messages.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// Place of the first of them.
    pub first: String,
}

/// The time spent in one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StageTime {
    /// `fetch` (waiting for messages and taking them), `parse`, `blocked` (batches that no writer could take: nothing is
    /// taken meanwhile), `wait` (a closed batch, for its writer), then each sink by name, and `commit`.
    pub stage: String,
    /// Sum over instances and writers, in nanoseconds.
    pub total_ns: u64,
    /// Share of the time of all instances that this took; for sinks, of all writers; for `wait`, of the time of batches
    /// between their closing and their last sink's answer.
    pub share: f64,
    /// Latency of single batches, or for `commit` of single calls; `null` for `blocked`, and where there was none.
    pub per_batch: Option<Latency>,
}

/// What limited the pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Bottleneck {
    /// A stage by its name; `fetch` means that there was no more to receive, from the broker or its producers; `null`: the
    /// evidence does not show it.
    pub stage: Option<String>,
    /// A sentence with the figures that point to it.
    pub evidence: String,
}

/// Consumers against producers, while these sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct KeptUp {
    /// Whether, when the load ended, 99 % or more of what had been acknowledged was done, or all but what came in the last
    /// 250 ms, at the load's mean rate.
    pub held: bool,
    /// Messages acknowledged when the load ended, warm-up included.
    pub acknowledged: u64,
    /// Messages that the pipeline was done with then.
    pub finished: u64,
    /// Share that `finished` is of `acknowledged`.
    pub share: f64,
}

/// What one sink came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SinkRecord {
    /// Kind, with a number where there are several of it: `redis`, `redis-2`.
    pub name: String,
    /// Rows that the database acknowledged.
    pub written: u64,
    /// Rows per second, from the first message received to the last row acknowledged, or, where rows were not written, to the
    /// end of the last attempt.
    pub written_per_second: f64,
    /// Rows that the database had already: messages that were read again, or a batch whose first answer was lost.
    pub duplicates: u64,
    /// Rows that the database will never take.
    pub refused: u64,
    /// Refused rows by class.
    pub refused_by_class: Vec<ErrorCount>,
    /// Rows that were written, found or refused after their partitions had been revoked, or before it and not committed. The group
    /// reads their messages again, so each of them has a second outcome. A database without ids of its own has them twice.
    #[serde(default)]
    pub repeated: u64,
    /// Rows without outcome at the end: their messages are not committed.
    pub not_written: u64,
    /// Errors of whole batches, by class; each was tried again.
    pub errors: Vec<ErrorCount>,
    /// Number of times that a batch was tried again.
    pub retries: u64,
    /// Latency from intended to acknowledged by the database.
    pub latency: Option<Latency>,
    /// Count of the database itself.
    pub row_count: RowCount,
    /// The settings that decide what an acknowledgement of the database meant, as they were read; empty where it does not
    /// tell them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub durability: BTreeMap<String, String>,
    /// A sample that was read when the last row was written; `null` where the database counts its rows, or the value of no key
    /// is known.
    #[serde(default)]
    pub read_back: Option<ReadBack>,
}

impl SinkRecord {
    /// What an acknowledgement of the database meant: "redis: appendonly = yes".
    pub fn durability(&self) -> String {
        let settings = settings(&self.durability);
        format!("{}: {}", self.name, if settings.is_empty() { "unknown" } else { &settings })
    }
}

/// A sample of keys that were read when the last row was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReadBack {
    /// Keys that were read.
    pub keys: u64,
    /// Keys, among them, that held the value that this process wrote to them last.
    pub found: u64,
}

/// A database's own count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RowCount {
    /// Thing that is counted; empty when the database was never there to be asked, and when it cannot count the rows of a run, as Redis
    /// where rows overwrite each other.
    pub of: String,
    /// Count before the first row; `null` when the database was not there to be asked.
    pub before: Option<u64>,
    /// Count after the last row; `null` likewise.
    pub after: Option<u64>,
    /// Difference of both; `null` when it is not known, or the database was restarted in between.
    pub delta: Option<u64>,
    /// Reason why a count is missing.
    pub error: Option<String>,
}

/// Produced = consumed = written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reconciliation {
    /// Messages of this trial that were acknowledged, warm-up included; `null` without producers.
    pub produced: Option<u64>,
    /// Messages received.
    pub consumed: u64,
    /// Messages among them that this trial has not sent, or that were damaged; without the abandoned ones.
    #[serde(default)]
    pub foreign: u64,
    /// Unparsable messages among them.
    pub unparsable: u64,
    /// Messages that were taken and abandoned before they were written: the group reads them again.
    pub abandoned: u64,
    /// Whether nothing is lost or doubled as far as this process can tell: all that was produced was consumed once, every
    /// sink has written each parsable one of them (or found it there, when an answer had been lost), and its database
    /// counts each once, or holds the last value of every key of the sample, where it can be compared; `null` when others may have
    /// sent or received as well.
    pub balanced: Option<bool>,
}

/// Throughput as messages / time since the process began; latency as receipt − producer's timestamp (no write is in it), of
/// the last 1000 messages of each instance only.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PublishedFigures {
    /// Sum over instances of messages / (begin of the trial to their last message), per second.
    pub messages_per_second: f64,
    /// Mean over instances of the mean, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Mean over instances of the 99th percentile, in nanoseconds: a mean of percentiles is not a percentile.
    pub mean_of_p99s_ns: Option<f64>,
}
