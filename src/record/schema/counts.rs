//! The account of messages: how many, what became of them, which of them arrived and which are missing, and the transactions of producers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GroupTask;
use super::latency::Latency;
use crate::broker::RemovalRule;
use crate::measure::FailureClass;

/// The ledger of the measured messages: `attempted = acknowledged + failed + unresolved`.
///
/// A message is measured when its intended time lies in the measured window, whenever its outcome comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Counts {
    /// Messages the engine tried to hand to the client.
    pub attempted: u64,
    /// Messages the broker acknowledged, at the level of acknowledgement the scenario asks for.
    pub acknowledged: u64,
    /// Messages with an outcome that is not an acknowledgement; `errors` has them by class.
    pub failed: u64,
    /// Messages without any outcome when the drain ended: at its deadline, or by a signal.
    pub unresolved: u64,
    /// Messages that were due and never handed to the client; not among `attempted`. 0 in a closed loop.
    #[serde(default)]
    pub unsent: u64,
    /// Producers whose own account does not add up, though the sums over all of them may.
    #[serde(default)]
    pub producers_that_differ: u64,
    /// Payload of the acknowledged messages, in bytes; keys, headers and framing not counted.
    pub payload_bytes_acknowledged: u64,
    /// Measured messages that arrived at a group for the first time, by all consumers of all groups together; without
    /// `consumers.verify` repetitions cannot be recognised and are included. `null` without consumers.
    pub consumed: Option<u64>,
    /// Account of the warm-up, whose messages are in no other figure.
    pub warm_up: WarmUpCounts,
}

impl Counts {
    /// Measured messages that the broker did not acknowledge, for any reason: those that were due and never sent are among
    /// them. They are in no latency, and each waited longer than any that is.
    pub fn without_acknowledgement(&self) -> u64 {
        self.failed.saturating_add(self.unresolved).saturating_add(self.unsent)
    }

    /// The sum of both, also of numbers that a damaged record has.
    #[must_use]
    pub fn plus(mut self, other: &Counts) -> Self {
        add([
            (&mut self.attempted, other.attempted),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.failed, other.failed),
            (&mut self.unresolved, other.unresolved),
            (&mut self.unsent, other.unsent),
            (&mut self.producers_that_differ, other.producers_that_differ),
            (&mut self.payload_bytes_acknowledged, other.payload_bytes_acknowledged),
            (&mut self.warm_up.attempted, other.warm_up.attempted),
            (&mut self.warm_up.acknowledged, other.warm_up.acknowledged),
            (&mut self.warm_up.failed, other.warm_up.failed),
            (&mut self.warm_up.unresolved, other.warm_up.unresolved),
        ]);
        let consumed = [self.consumed, other.consumed].into_iter().flatten();
        Counts { consumed: consumed.reduce(u64::saturating_add), ..self }
    }

    /// Whether the ledger, and that of the warm-up, adds up.
    pub fn balances(&self) -> bool {
        let sums = |attempted: u64, outcomes: [u64; 3]| {
            outcomes.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)) == Some(attempted)
        };
        self.producers_that_differ == 0
            && sums(self.attempted, [self.acknowledged, self.failed, self.unresolved])
            && sums(self.warm_up.attempted, [self.warm_up.acknowledged, self.warm_up.failed, self.warm_up.unresolved])
    }
}

/// The sum of counts; those of a damaged record may not fit.
pub fn saturating_sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn add<const N: usize>(sums: [(&mut u64, u64); N]) {
    sums.into_iter().for_each(|(sum, number)| *sum = sum.saturating_add(number));
}

/// The ledger of the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WarmUpCounts {
    /// Messages the engine tried to hand to the client.
    pub attempted: u64,
    /// Messages the broker acknowledged.
    pub acknowledged: u64,
    /// Messages with an outcome that is not an acknowledgement.
    pub failed: u64,
    /// Messages without any outcome when the drain ended: at its deadline, or by a signal.
    pub unresolved: u64,
}

/// The failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ErrorCount {
    /// Class of the failures: classes that mean the same for every broker.
    pub class: FailureClass,
    /// Messages that failed so, or errors while receiving.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// The client's message of the first of them.
    pub first_message: String,
    /// Time of the first of them, in nanoseconds since the begin of the measured phase; 0: before it.
    pub first_at_ns: u64,
}

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
    /// Messages acknowledged and not received, because the broker had removed them by its own rules, as `removal_rules` tells.
    #[serde(default)]
    pub removed: u64,
    /// Messages acknowledged of which the verifier, beyond its bounded memory, does not know whether they were received. Of shares that were
    /// merged: also those not received that a missing share may have received, or that the broker may have removed by its own rules.
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
    /// Rules by which the broker removes messages from the topics; empty where nothing was missing, or where the broker does not tell. Of a
    /// share and of shares that were merged: of the topics of which it has removed some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removal_rules: Vec<RemovalRule>,
    /// Findings of each group.
    #[serde(default)]
    pub groups: Vec<GroupVerification>,
}

impl Verification {
    /// The sum of both, also of numbers that a damaged record has; without groups.
    #[must_use]
    pub fn plus(mut self, other: &Verification) -> Self {
        add([
            (&mut self.received, other.received),
            (&mut self.lost, other.lost),
            (&mut self.unread, other.unread),
            (&mut self.removed, other.removed),
            (&mut self.undecided, other.undecided),
            (&mut self.not_acknowledged_but_stored, other.not_acknowledged_but_stored),
            (&mut self.duplicated, other.duplicated),
            (&mut self.redelivered, other.redelivered),
            (&mut self.reordered, other.reordered),
            (&mut self.unordered, other.unordered),
            (&mut self.order_unchecked, other.order_unchecked),
            (&mut self.corrupt, other.corrupt),
            (&mut self.foreign, other.foreign),
        ]);
        Verification { saturated: self.saturated || other.saturated, groups: Vec::new(), ..self }
    }

    /// Adds what one group's consumers found.
    pub fn add_group(&mut self, group: GroupVerification) {
        add([
            (&mut self.received, group.received),
            (&mut self.lost, group.lost),
            (&mut self.unread, group.unread),
            (&mut self.removed, group.removed),
            (&mut self.undecided, group.undecided),
            (&mut self.not_acknowledged_but_stored, group.not_acknowledged_but_stored),
            (&mut self.duplicated, group.duplicated),
            (&mut self.redelivered, group.redelivered),
            (&mut self.reordered, group.reordered),
            (&mut self.corrupt, group.corrupt),
        ]);
        self.groups.push(group);
    }
}

/// What one group's consumers found, in messages. The warm-up is in every count but `consumed`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupVerification {
    /// The group's number, from 0.
    pub group: usize,
    /// Name of the group; left out if the scenario gives it none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Task of the group; left out if it was to receive as fast as it could, from before the load on.
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
    /// Messages acknowledged and not received, because the broker had removed them by its own rules.
    #[serde(default)]
    pub removed: u64,
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
    /// Time from the end of the load to the last first arrival, in nanoseconds: 0 if nothing came after the load. `null` if the
    /// group never caught up, or began after the load.
    pub catch_up_ns: Option<u64>,
}

impl GroupVerification {
    /// The group's name; without one, its number.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.group.to_string())
    }
}

/// The transactions in which measured messages were sent. A message is acknowledged when its transaction is committed; one whose
/// transaction is aborted has failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Transactions {
    /// Transactions that the broker confirmed to be committed.
    pub committed: u64,
    /// Transactions that were aborted: on purpose, or because of an error.
    pub aborted: u64,
    /// Latency from the call that commits a transaction, when the broker has written all its messages, to the broker's confirmation.
    /// `null` if none was committed.
    pub commit: Option<Latency>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_balances_only_when_every_message_has_one_outcome() {
        let mut counts = Counts { attempted: 10, acknowledged: 7, failed: 2, unresolved: 1, ..Counts::default() };
        assert!(counts.balances());
        counts.acknowledged += 1;
        assert!(!counts.balances());
        counts.attempted += 1;
        counts.warm_up.attempted = 1;
        assert!(!counts.balances(), "the warm-up's ledger counts too");
        counts.warm_up.failed = u64::MAX;
        counts.warm_up.unresolved = 2;
        assert!(!counts.balances(), "an overflowing sum does not balance");
        let crafted = Counts { failed: u64::MAX, unsent: 1, ..Counts::default() };
        assert_eq!(crafted.without_acknowledgement(), u64::MAX);
        let differing = Counts { producers_that_differ: 1, ..Counts::default() };
        assert!(!differing.balances(), "two errors that cancel in the sums");
    }
}
