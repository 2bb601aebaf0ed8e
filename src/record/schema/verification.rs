//! The results of verification: messages that arrived, and messages that are missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GroupTask;

/// What the consumers found, in messages; the warm-up is in every count. Each group is owed every message, and every count
/// is the sum over the groups.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Verification {
    /// Messages of this trial received, repetitions and damaged messages included.
    pub received: u64,
    /// Messages acknowledged and never received intact, though the group has read past them: the broker acknowledged
    /// them. Those that arrived only damaged are among them.
    pub lost: u64,
    /// Messages acknowledged and not received when the wait ended, which the group had not reached or was not offered: a
    /// backlog, or consumers that were slow or cut off. The broker may have them.
    #[serde(default)]
    pub unread: u64,
    /// Messages acknowledged of which the verifier, beyond its bounded memory, does not know whether they were received.
    #[serde(default)]
    pub undecided: u64,
    /// Messages received though they had failed or had no outcome: a producer that sends them again makes duplicates.
    #[serde(default)]
    pub not_acknowledged_but_stored: u64,
    /// Deliveries beyond the first of a message to a group that the broker did not announce as repeated.
    pub duplicated: u64,
    /// Deliveries beyond the first that the broker announced as repeated.
    pub redelivered: u64,
    /// First arrivals after a later message of the same producer within a stretch for which the broker promises order.
    pub reordered: u64,
    /// First arrivals whose order was not checked, because the broker promises none.
    #[serde(default)]
    pub unordered: u64,
    /// First arrivals whose order was not checked, because the table of partitions and producers had reached its memory limit.
    #[serde(default)]
    pub order_unchecked: u64,
    /// Messages whose payload is not what was sent.
    pub corrupt: u64,
    /// Messages that are not of this trial; they are in no other figure.
    pub foreign: u64,
    /// Whether the verifier's bounded memory was exceeded: then `lost`, `unread`, `duplicated`, `redelivered` and
    /// `not_acknowledged_but_stored` are lower bounds.
    pub saturated: bool,
    /// The same of each group.
    #[serde(default)]
    pub groups: Vec<GroupVerification>,
}

/// What one group's consumers found, in messages. The warm-up is in every count but `consumed`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupVerification {
    /// The group's number, from 0.
    pub group: usize,
    /// What the group was told to do; left out if it was to receive as fast as it could, from before the load on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<GroupTask>,
    /// Messages of this trial received, repetitions and damaged messages included.
    pub received: u64,
    /// Measured messages that arrived for the first time; the warm-up is not among them.
    pub consumed: u64,
    /// Messages acknowledged and never received intact, though the group has read past them.
    pub lost: u64,
    /// Messages acknowledged and not received when the wait ended, which the group had not reached or was not offered.
    pub unread: u64,
    /// Messages acknowledged of which the verifier does not know whether they were received.
    pub undecided: u64,
    /// Messages received though they had failed or had no outcome.
    pub not_acknowledged_but_stored: u64,
    /// Deliveries beyond the first that the broker did not announce as repeated.
    pub duplicated: u64,
    /// Deliveries beyond the first that the broker announced as repeated.
    pub redelivered: u64,
    /// First arrivals out of their producer's order.
    pub reordered: u64,
    /// Messages whose payload is not what was sent.
    pub corrupt: u64,
    /// Messages that were acknowledged and not received when the load ended; `null` if the group began after the load.
    pub consumer_lag_at_load_end: Option<u64>,
    /// From the end of the load to the last first arrival, in nanoseconds: 0 if nothing came after the load. `null` if the
    /// group never caught up, or began after the load.
    pub catch_up_ns: Option<u64>,
}
