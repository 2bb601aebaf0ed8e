//! The account of messages: how many, and what became of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The same account of the warm-up, whose messages are in no other figure.
    pub warm_up: WarmUpCounts,
}

impl Counts {
    /// Measured messages that the broker did not acknowledge, for whatever reason: those that were due and never sent are among
    /// them. They are in no latency, and each waited longer than any that is.
    pub fn without_acknowledgement(&self) -> u64 {
        self.failed.saturating_add(self.unresolved).saturating_add(self.unsent)
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
    /// Why they failed, in classes that mean the same for every broker.
    pub class: FailureClass,
    /// Messages that failed so, or errors while receiving.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// The client's message of the first of them.
    pub first_message: String,
    /// When the first of them failed, in nanoseconds since the begin of the measured phase; 0: before it.
    pub first_at_ns: u64,
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
