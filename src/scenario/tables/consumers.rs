//! `[consumers]` and `[pipeline]`: what is done with the messages that are received.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::first_seed;
use super::{ByteSize, Count, DurationText, Properties, Rate};
use crate::scenario::{CommitPolicy, Parse, ProducerMode, SinksRun, StartFrom, Timing};

const MAX_CONSUMERS: u64 = 100_000;
const MAX_GROUPS: u64 = 1_000;

/// Beyond it a batch would be one of the host's memory.
const MAX_BATCH: u64 = 1_000_000;
const MAX_WRITERS: u64 = 10_000;
const MAX_INSTANCES: u64 = 10_000;

/// `[consumers]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ConsumersTable {
    /// Groups, of which each receives every message. Default: 1, or as many as there are tables `[[consumers.group]]`.
    #[schemars(range(min = 1, max = MAX_CONSUMERS))]
    pub groups: Option<Count>,
    /// Consumers of each group, on each topic. Default: 1.
    #[schemars(range(min = 1, max = MAX_CONSUMERS))]
    pub members: Option<Count>,
    /// Where consumers begin.
    pub from: StartFrom,
    /// Whether the time from when a message was due to when it was received is recorded.
    pub end_to_end: bool,
    /// Messages whose end-to-end latency is recorded.
    pub timing: Timing,
    /// Whether lost, duplicated, reordered and corrupt messages are found.
    pub verify: bool,
    /// Settings for the consuming client, after `broker.properties`.
    pub properties: Properties,
    /// Groups with settings of their own.
    #[schemars(length(min = 1, max = MAX_GROUPS), extend("x-advice" = "write a table `[[consumers.group]]` for each group"))]
    pub group: Option<Vec<GroupTable>>,
    /// Backlog that is built before the consumers begin.
    pub backlog: Option<BacklogTable>,
}

impl Default for ConsumersTable {
    fn default() -> Self {
        ConsumersTable {
            groups: None,
            members: None,
            from: StartFrom::Earliest,
            end_to_end: true,
            timing: Timing::All,
            verify: true,
            properties: Properties::default(),
            group: None,
            backlog: None,
        }
    }
}

/// `[[consumers.group]]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct GroupTable {
    /// How long each consumer works on a message, before it takes the next one.
    pub work: Option<WorkTable>,
    /// Most messages per second that its consumers take together.
    pub rate: Option<Rate>,
    /// How long after the beginning of the load it begins.
    pub start_after: DurationText,
    /// Settings for this group, after `consumers.properties`.
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write a time, as in \"2ms\", or { kind = \"exponential\", mean = \"2ms\" }"))]
pub enum WorkTable {
    Fixed(WorkMean),
    Drawn(WorkKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkMean(#[schemars(extend("exclusiveMinimum" = 0))] pub DurationText);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum WorkKind {
    Fixed {
        /// Time of each message.
        mean: WorkMean,
    },
    Exponential {
        /// Mean time.
        mean: WorkMean,
        /// Seed of the times.
        #[serde(default = "first_seed")]
        seed: Count,
    },
    Lognormal {
        /// Mean time.
        mean: WorkMean,
        /// Standard deviation of the logarithm of a time.
        #[serde(default = "sigma")]
        #[schemars(range(max = 5), extend("exclusiveMinimum" = 0, "x-advice" = "it is the standard deviation of the logarithm, above 0 and at most 5"))]
        sigma: f64,
        /// Seed of the times.
        #[serde(default = "first_seed")]
        seed: Count,
    },
    Pareto {
        /// Mean time.
        mean: WorkMean,
        /// Shape: the share of times beyond `t` falls with `t` to the power of `-shape`.
        #[serde(default = "shape")]
        #[schemars(range(max = 100), extend("exclusiveMinimum" = 1, "x-advice" = "it is above 1, for there would be no mean, and at most 100"))]
        shape: f64,
        /// Seed of the times.
        #[serde(default = "first_seed")]
        seed: Count,
    },
}

fn sigma() -> f64 {
    1.0
}

fn shape() -> f64 {
    2.5
}

/// `[consumers.backlog]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct BacklogTable {
    /// Messages that are acknowledged before the consumers begin.
    #[schemars(range(min = 1))]
    pub messages: Option<Count>,
    /// The same in bytes, which are divided by the payloads' mean size.
    #[schemars(range(min = 1))]
    pub payload_bytes: Option<ByteSize>,
    /// A group has caught up when it is behind by no more messages than were due in this time.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub caught_up_within: DurationText,
}

impl Default for BacklogTable {
    /// Twice the time in which any broker's consumers receive what was just sent.
    fn default() -> Self {
        BacklogTable { messages: None, payload_bytes: None, caught_up_within: DurationText(Duration::from_millis(100)) }
    }
}

/// `[pipeline]`, without the keys of each sink, which are its kind's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct PipelineTable {
    /// How a payload is read.
    pub parse: Parse,
    /// JSON field with the time a message is from, in seconds since 1970.
    pub timestamp: Option<String>,
    /// Whether the broker's time of a message is taken where the message is not of this trial.
    pub broker_timestamp: bool,
    /// Messages of a batch.
    #[schemars(range(min = 1, max = MAX_BATCH))]
    pub batch: Count,
    /// Longest time that a batch waits to be filled.
    pub linger: DurationText,
    /// Batches that each instance writes at the same time.
    #[schemars(range(min = 1, max = MAX_WRITERS))]
    pub writers: Count,
    /// Members of the group.
    #[schemars(range(min = 1, max = MAX_INSTANCES))]
    pub instances: Count,
    /// Group that outlives the run. Default: one of the trial's own.
    pub group: Option<String>,
    /// How a batch goes to several sinks.
    pub sinks_run: SinksRun,
    /// When a message counts as done.
    pub commit: CommitPolicy,
    /// Where messages come from.
    pub producer_mode: ProducerMode,
    /// Whether the pipeline begins although a sink cannot be written to yet.
    pub wait_for_sinks: bool,
    /// Whether what was written is removed when the trial has ended.
    pub remove_rows: bool,
    /// Databases that every batch is written to.
    #[schemars(with = "Vec<serde_json::Value>", extend("x-advice" = "write `[[pipeline.sinks]]` with a `kind` for each database"))]
    pub sinks: Vec<toml::Value>,
}

impl Default for PipelineTable {
    fn default() -> Self {
        PipelineTable {
            parse: Parse::Json,
            timestamp: None,
            broker_timestamp: false,
            batch: Count(3000),
            linger: DurationText(Duration::from_millis(50)),
            writers: Count(2),
            instances: Count(1),
            group: None,
            sinks_run: SinksRun::InOrder,
            commit: CommitPolicy::AfterWrite,
            producer_mode: ProducerMode::Concurrent,
            wait_for_sinks: false,
            remove_rows: false,
            sinks: Vec::new(),
        }
    }
}
