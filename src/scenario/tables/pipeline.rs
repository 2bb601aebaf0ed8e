//! `[pipeline]`: consumers that do work: they parse what they receive and write it to databases.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Count, DurationText};

/// Beyond it a batch would be one of the host's memory.
const MAX_BATCH: u64 = 1_000_000;
const MAX_WRITERS: u64 = 10_000;
const MAX_INSTANCES: u64 = 10_000;

/// `[pipeline]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Pipeline {
    /// How a payload is read.
    pub parse: Parse,
    /// JSON field with the time a message is from, in seconds since 1970.
    pub timestamp: Option<String>,
    /// Whether the broker's time of a message is taken where the message is not of this trial.
    pub broker_timestamp: bool,
    /// Messages of a batch.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_BATCH))]
    pub batch: usize,
    /// Longest time that a batch waits to be filled.
    #[serde(with = "DurationText")]
    pub linger: Duration,
    /// Batches that each instance writes at the same time.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_WRITERS))]
    pub writers: usize,
    /// Members of the group.
    // In this process: equal to [`super::Consumers::members`].
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_INSTANCES))]
    pub instances: usize,
    /// Group that outlives the run. Default: one of the trial's own.
    // It may be shared with other processes.
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
    pub sinks: Vec<Sink>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline {
            parse: Parse::Json,
            timestamp: None,
            broker_timestamp: false,
            batch: 3000,
            linger: Duration::from_millis(50),
            writers: 2,
            instances: 1,
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

/// How a message's payload is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Parse {
    Json,
    None,
}

/// How a batch goes to several sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SinksRun {
    /// To the next when the one before has it.
    InOrder,
    InParallel,
}

/// When a message counts as done, so that a consumer that starts anew does not read it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommitPolicy {
    /// When every sink has it.
    AfterWrite,
    OnReceipt,
}

/// Where messages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProducerMode {
    /// The producers send while the pipeline works.
    Concurrent,
    /// The producers send first; then the pipeline works off what they left.
    Backlog,
    /// Producers do not send: the pipeline works off existing messages.
    None,
}

/// A database that batches are written to.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Sink {
    /// One of the kinds that were given ([`crate::scenario::Kinds`]).
    pub kind: String,
    /// Its own keys, already checked by it.
    #[serde(flatten)]
    pub options: toml::Table,
    #[serde(skip)]
    pub needs: SinkNeeds,
}

/// What a sink needs of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkNeeds {
    /// JSON fields.
    pub fields: Vec<String>,
    /// Whether every message must have an offset in its partition.
    pub offsets: bool,
    /// Why its rows cannot be removed after the run; `None`: they can.
    pub not_removable: Option<&'static str>,
}

/// Without the values of options, which may be secrets.
impl fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sink")
            .field("kind", &self.kind)
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .field("needs", &self.needs)
            .finish()
    }
}
