//! The backlog that consumers were to find, and the tasks of single groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latency;

/// A backlog: built before the consumers began, and drained while the producers went on at their rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Backlog {
    /// Messages that were acknowledged when the consumers were told to begin, warm-up included; `null` if the load ended before.
    pub messages: Option<u64>,
    /// The payload of these messages, in bytes.
    pub payload_bytes: Option<u64>,
    /// While no consumer had begun; without the warm-up.
    pub build: BacklogPhase,
    /// From when the consumers were told to begin until the slowest group had caught up, or the load ended.
    pub drain: Option<BacklogPhase>,
    /// After that, until the load ended; `null` if a group did not catch up.
    pub after: Option<BacklogPhase>,
    /// How each group drained it; empty if the consumers did not begin during the load.
    pub groups: Vec<GroupDrain>,
}

/// What the producers saw during one phase of a backlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BacklogPhase {
    /// When it began, in nanoseconds since the load began.
    pub begin_ns: u64,
    /// How long it lasted, in nanoseconds.
    pub duration_ns: u64,
    /// Messages handed to the client, per second.
    pub sent_per_second: f64,
    /// Messages acknowledged, per second.
    pub messages_per_second: f64,
    /// Messages received by all groups together, per second.
    pub consumed_per_second: f64,
    /// Response times of the measured messages that were acknowledged meanwhile; `null` when none was.
    pub response: Option<Latency>,
}

/// How one group drained the backlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupDrain {
    /// The group's number, from 0.
    pub group: usize,
    /// From when the consumers were told to begin to the group's first message, in nanoseconds, to 5 ms; `null`: none came before
    /// the load ended.
    pub first_arrival_ns: Option<u64>,
    /// From the group's first message until it had caught up, in nanoseconds, to 5 ms; `null`: not before the load ended.
    pub duration_ns: Option<u64>,
    /// Messages that it had received by then, or when the load ended.
    pub received: u64,
    /// Messages that it had still to receive at that moment: those of the last `caught_up_within` where it had caught up.
    pub behind: u64,
    /// `received` over `duration_ns`, per second; `null` if it did not catch up.
    pub received_per_second: Option<f64>,
}

/// What a group was told to do besides receiving.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupTask {
    /// How long each of its consumers worked on a message, in nanoseconds: the mean. Left out if it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_mean_ns: Option<u64>,
    /// How the times of work were distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_distribution: Option<WorkDistribution>,
    /// Most messages per second that its consumers took together; left out without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_second: Option<f64>,
    /// When it was to begin, in nanoseconds after the load; left out if it began before the load, or with a backlog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_after_ns: Option<u64>,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkDistribution {
    Fixed,
    Exponential,
    Lognormal,
    Pareto,
}
