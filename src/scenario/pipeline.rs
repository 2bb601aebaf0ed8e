//! What a scenario's pipeline is, read and checked as in [`super::model`].

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SinkNeeds;

/// Consumers that do work: parse what they receive and write it to databases.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub parse: Parse,
    /// The JSON field with the time a message is from, in seconds since 1970: for messages that are not of this trial.
    pub timestamp: Option<String>,
    /// For such messages, take the time that the broker keeps with each of them.
    pub broker_timestamp: bool,
    /// Messages of a batch, at least 1, and the longest that one waits to be filled.
    pub batch: usize,
    pub linger: Duration,
    /// Batches that each instance writes at the same time, at least 1.
    pub writers: usize,
    /// Members of the group in this process: equal to [`super::Consumers::members`].
    pub instances: usize,
    /// A group that outlives the run and may be shared with other processes; `None`: one of the trial's own.
    pub group: Option<String>,
    pub sinks_run: SinksRun,
    pub commit: CommitPolicy,
    pub producer_mode: ProducerMode,
    /// Begin although a sink cannot be written to yet.
    pub wait_for_sinks: bool,
    /// Remove what was written when the trial has ended.
    pub remove_rows: bool,
    /// Where every batch is written to; empty: nowhere.
    pub sinks: Vec<Sink>,
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
#[derive(Clone, PartialEq)]
pub struct Sink {
    /// One of the kinds that were given ([`super::Kinds`]).
    pub kind: String,
    /// Its own keys, already checked by it.
    pub options: toml::Table,
    pub needs: SinkNeeds,
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
