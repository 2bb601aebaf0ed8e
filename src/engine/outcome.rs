//! What a trial came to, as measured: the record is made from it.

use std::time::SystemTime;

use super::collector::Totals;
use super::consuming::ConsumerErrors;
use super::sender::Attempted;
use crate::broker::Identity;
use crate::measure::host::HostUsage;
use crate::measure::{Distribution, Found, Interval, Tally};

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The scenario's own limit ended the load.
    Completed,
    /// The user did.
    Interrupted,
}

/// Everything one trial measured.
pub struct Outcome {
    pub end: End,
    pub started_at: SystemTime,
    pub open_loop: bool,
    pub ledger: Ledger,
    pub totals: Totals,
    pub times: Times,
    /// Measured messages that the schedule wanted out; `None` in a closed loop.
    pub due: Option<u64>,
    /// What each group's verification found; empty when nothing is verified.
    pub found: Vec<Found>,
    pub consumer_errors: ConsumerErrors,
    /// How late wake-ups came; `None` in a closed loop, which has none.
    pub lag: Option<Distribution>,
    /// Of the measured phase and the drain.
    pub usage: HostUsage,
    pub identity: Identity,
    /// What went wrong when topics were removed and connections closed.
    pub close_error: Option<String>,
}

/// The moments of a trial, in nanoseconds since its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub load_start_ns: u64,
    pub measure_start_ns: u64,
    /// When the last producer ended.
    pub load_ended_ns: u64,
    /// When the scenario wanted the load to end, if it says a time.
    pub load_end_ns: Option<u64>,
}

/// The account of messages, kept in three places that know nothing of each other: producers count what they hand over,
/// recorders count outcomes, windows count what is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    pub measured: Account,
    pub warm_up: Account,
    /// Whether the three agree. If not, brokermark has a bug, and the trial is worth nothing.
    pub balanced: bool,
}

/// `attempted = acknowledged + failed + unresolved`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    pub attempted: u64,
    pub acknowledged: u64,
    pub failed: u64,
    pub unresolved: u64,
}

impl Ledger {
    /// Draws up the account. `in_flight` is what the windows say, measured and warm-up together.
    pub fn settle(attempted: Attempted, outcomes: &Interval, in_flight: u64) -> Self {
        let measured = Account::new(attempted.measured, outcomes.measured);
        let warm_up = Account::new(attempted.warm_up, outcomes.warm_up);
        let resolved = outcomes.measured.resolved() + outcomes.warm_up.resolved();
        let balanced = outcomes.measured.resolved() <= attempted.measured
            && outcomes.warm_up.resolved() <= attempted.warm_up
            && resolved + in_flight == attempted.measured + attempted.warm_up;
        Ledger { measured, warm_up, balanced }
    }
}

impl Account {
    fn new(attempted: u64, outcomes: Tally) -> Self {
        let unresolved = attempted.saturating_sub(outcomes.resolved());
        Account { attempted, acknowledged: outcomes.acknowledged, failed: outcomes.failed, unresolved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(acknowledged: u64, failed: u64) -> Interval {
        Interval { measured: Tally { acknowledged, failed, payload_bytes: 0 }, ..Interval::default() }
    }

    #[test]
    fn an_account_balances_only_if_all_three_books_agree() {
        let attempted = Attempted { measured: 10, warm_up: 0 };
        let ledger = Ledger::settle(attempted, &outcomes(7, 1), 2);
        assert!(ledger.balanced);
        assert_eq!(ledger.measured, Account { attempted: 10, acknowledged: 7, failed: 1, unresolved: 2 });
        assert!(!Ledger::settle(attempted, &outcomes(7, 1), 1).balanced, "a message vanished");
        assert!(!Ledger::settle(attempted, &outcomes(10, 1), 0).balanced, "an outcome was told twice");
    }
}
