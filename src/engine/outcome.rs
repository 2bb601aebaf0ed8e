//! Everything one trial measured: the record is made from it.

use std::time::SystemTime;

use super::ComparedClock;
use super::collector::Totals;
use super::fault_log::FaultRun;
use super::idle_connections::IdleTally;
use super::prepare::TrialContext;
use super::send::{Attempted, FirstSent, Sent, TrialWindow, WakeUpDelays};
use crate::broker::{BrokerInfo, ConsumerAnswers, Durability, RemovalRule, Topic};
use crate::measure::host::{HostUsage, WallClock};
use crate::measure::{
    Acknowledged, Acks, Arrivals, Arrived, Clock, Condition, ConsumerTally, Errors, GroupAccount, Interval,
    MessageSets, Tally,
};
use crate::pipeline;
use crate::scenario::Part;
use crate::schemas::PayloadSchema;

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The scenario's own limit ended the load.
    Completed,
    /// The user did.
    Interrupted,
    /// Nothing had moved for as long as the scenario allows.
    Stalled,
    /// Nothing yet: this is a checkpoint of a trial that goes on.
    Running,
}

impl End {
    /// After a signal in a later phase, which does not change how a load ended that did not complete.
    pub fn interrupted(self) -> Self {
        if self == End::Completed { End::Interrupted } else { self }
    }
}

impl Outcome {
    /// The trial as far as it is known while it goes on. What only its end shows is left out.
    pub(super) fn so_far(
        trial: &TrialContext<'_>,
        window: &TrialWindow,
        load_ended_ns: u64,
        totals: Totals,
        usage: HostUsage,
        identity: BrokerInfo,
    ) -> Self {
        let (sent, pool) = (Sent::by_windows(&trial.acks), &trial.payloads);
        Outcome {
            end: End::Running,
            started_at: trial.started_at,
            planned_unix_ns: trial.identity.begins_at_unix_ns(),
            topics: trial.topics.clone(),
            messages_before: trial.messages_before,
            payload_sizes: PayloadSizes { mean: pool.mean(), smallest: pool.smallest(), largest: pool.largest() },
            payload_schema: trial.payload_schema.clone(),
            durability: trial.durability.clone(),
            ledger: Ledger::so_far(&sent, &totals.outcomes),
            sent,
            times: Times {
                load_start_ns: window.load_start_ns,
                first_sent: window.first_sent(),
                measure_start_ns: window.measure_start_ns,
                load_ended_ns,
                load_end_ns: window.nominal_end_ns(),
                epoch_unix_ns: trial.acks.clock().epoch_unix_ns(),
            },
            conditions: trial.conditions.all(),
            faults: trial.faults.all(),
            clock: trial.acks.clock(),
            totals,
            groups: Vec::new(),
            removal_rules: Vec::new(),
            consumer_answers: None,
            // Recorders would have to wait while it is read.
            partitions: None,
            consumers: trial.arrivals.as_ref().map(Arrivals::consumers).unwrap_or_default(),
            part: None,
            // Consumers hand over what they met when they end.
            receive_errors: Errors::default(),
            consumer_crashes: Vec::new(),
            crash: None,
            failure: None,
            pipeline: None,
            backlog: None,
            wake_up_delays: trial.is_open_loop().then(|| window.wake_up_delays().clone()),
            idle_connections: None,
            usage,
            identity,
            close_error: None,
        }
    }

    /// Measured messages that the schedule had due; `None` in a closed loop.
    pub fn due(&self) -> Option<u64> {
        self.sent.iter().filter_map(|sent| sent.due).reduce(|sum, due| sum + due)
    }
}

/// Everything one trial measured.
pub struct Outcome {
    pub end: End,
    pub started_at: SystemTime,
    /// When the load was to begin, in nanoseconds since 1970; `None` where no time was set.
    pub planned_unix_ns: Option<u64>,
    /// Topics as the scenario describes them, or as they were found.
    pub topics: Vec<Topic>,
    /// Messages that the topics had been written to before the trial; `None` where they are new or the broker does not tell.
    pub messages_before: Option<u64>,
    pub payload_sizes: PayloadSizes,
    /// `None`: payloads have no schema.
    pub payload_schema: Option<PayloadSchema>,
    /// What an acknowledgement meant.
    pub durability: Durability,
    pub ledger: Ledger,
    pub totals: Totals,
    /// What held messages up, by the clock below.
    pub conditions: Vec<Condition>,
    /// What became of faults, in the order of their times.
    pub faults: Vec<FaultRun>,
    pub clock: Clock,
    pub times: Times,
    /// What each producer did, in the order of their indices.
    pub sent: Vec<Sent>,
    /// What each group came to; empty when nothing is verified.
    pub groups: Vec<GroupOutcome>,
    /// Rules by which the broker removes messages, where a group did not receive all.
    pub removal_rules: Vec<RemovalRule>,
    /// What consumers answered to messages, where they answer each by itself.
    pub consumer_answers: Option<ConsumerAnswers>,
    /// What was acknowledged in each partition; `None`: there is one only, or this is a checkpoint.
    pub partitions: Option<Acknowledged>,
    /// What each consumer received, by group, topic and member.
    pub consumers: Vec<ConsumerTally>,
    /// Where this is a part of a scenario: what only all parts together decide; `None` for checkpoints.
    pub part: Option<PartOutcome>,
    /// What went wrong while receiving; each was retried.
    pub receive_errors: Errors,
    /// Panic message of a producer that crashed, which ended the load.
    pub crash: Option<String>,
    /// Why a producer could send nothing more, which ended the load, or consumers could not join; as a sentence.
    pub failure: Option<String>,
    /// Panic messages of consumers that crashed.
    pub consumer_crashes: Vec<String>,
    /// What the pipeline did, where there is one.
    pub pipeline: Option<pipeline::Outcome>,
    /// The backlog that was built for the consumers, where there is one.
    pub backlog: Option<BacklogOutcome>,
    /// How late wake-ups made messages; `None` in a closed loop, which has none.
    pub wake_up_delays: Option<WakeUpDelays>,
    /// What became of connections that carry no messages; `None`: there are none, or they are still open.
    pub idle_connections: Option<IdleTally>,
    /// Resources used in the measured window.
    pub usage: HostUsage,
    pub identity: BrokerInfo,
    /// What went wrong when topics were removed and connections closed.
    pub close_error: Option<String>,
}

/// What a share leaves to be put together with the others.
#[derive(Debug, Clone, PartialEq)]
pub struct PartOutcome {
    pub part: Part,
    /// The state of the wall clock when the trial began, and when the load had ended.
    pub first_wall_clock: WallClock,
    pub wall_clock: WallClock,
    /// How far it moved against the monotonic clock in between, in nanoseconds.
    pub wall_clock_moved_ns: u64,
    /// How it was compared with the clocks of the other parts, where that was done.
    pub compared: Option<ComparedClock>,
    /// The messages, where they are verified.
    pub messages: Option<MessageSets>,
}

/// Sizes of the ready-made payloads, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PayloadSizes {
    pub mean: f64,
    pub smallest: usize,
    pub largest: usize,
}

/// What became of a backlog that was built. Times are in nanoseconds since the load began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BacklogOutcome {
    /// When the consumers were told to begin.
    pub built_ns: u64,
    /// Messages that were acknowledged by then, and their payload.
    pub messages: u64,
    pub payload_bytes: u64,
    /// How each group drained it, in the order of the groups.
    pub groups: Vec<GroupDrain>,
}

/// How a group drained the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupDrain {
    /// When its first message was seen to have arrived.
    pub first_arrival_ns: Option<u64>,
    /// When it had caught up; `None`: not before the load ended.
    pub drained_ns: Option<u64>,
    /// Messages that it had received by then, or when the load ended, and how many it had still to receive.
    pub received: u64,
    pub behind: u64,
}

/// What one group received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOutcome {
    pub arrived: Arrived,
    pub account: GroupAccount,
    /// Messages that were acknowledged and had not arrived when the load ended; `None`: the group had not begun then.
    pub consumer_lag_at_load_end: Option<u64>,
}

/// The moments of a trial, in nanoseconds since its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub load_start_ns: u64,
    /// The load's first message; `None`: none was handed over.
    pub first_sent: Option<FirstSent>,
    pub measure_start_ns: u64,
    /// When the last producer ended.
    pub load_ended_ns: u64,
    /// When the scenario ends the load; `None` without a time limit.
    pub load_end_ns: Option<u64>,
    /// The epoch itself, in nanoseconds since 1970 by the wall clock.
    pub epoch_unix_ns: u64,
}

/// The account of messages, kept in three independent places: producers count what they hand over,
/// recorders count outcomes, windows count what is in flight. If they do not agree, brokermark has a bug, and the account
/// does not balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    pub measured: Account,
    pub warm_up: Account,
    /// Producers whose own books differ: so that an error with one cannot cancel an error with another.
    pub producers_that_differ: u64,
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
    /// Draws up the account. `in_flight` is the sum of all windows, measured and warm-up messages together. The warm-up's
    /// share follows from its own account; the rest are measured messages.
    pub fn settle(sent: &[Sent], outcomes: &Interval, acks: &Acks) -> Self {
        let differs = |sent: &&Sent| {
            let window = acks.window(sent.producer_index);
            sent.attempted.all() != window.submitted() || window.resolved() > window.submitted()
        };
        let producers_that_differ = sent.iter().filter(differs).count() as u64;
        Ledger { producers_that_differ, ..Ledger::draw_up(Attempted::sum(sent), outcomes, acks.in_flight()) }
    }

    fn draw_up(attempted: Attempted, outcomes: &Interval, in_flight: u64) -> Self {
        let of_warm_up = attempted.warm_up.saturating_sub(outcomes.warm_up.resolved()).min(in_flight);
        Ledger {
            measured: Account::new(attempted.measured, outcomes.measured, in_flight - of_warm_up),
            warm_up: Account::new(attempted.warm_up, outcomes.warm_up, of_warm_up),
            producers_that_differ: 0,
        }
    }

    /// The account of a trial that goes on. Its books are not read at the same moment, so they cannot check each other:
    /// messages without an outcome are the rest.
    fn so_far(sent: &[Sent], outcomes: &Interval) -> Self {
        let attempted = Attempted::sum(sent);
        let account = |attempted: u64, outcomes: Tally| {
            let attempted = attempted.max(outcomes.resolved());
            Account::new(attempted, outcomes, attempted - outcomes.resolved())
        };
        Ledger {
            measured: account(attempted.measured, outcomes.measured),
            warm_up: account(attempted.warm_up, outcomes.warm_up),
            producers_that_differ: 0,
        }
    }
}

impl Account {
    fn new(attempted: u64, outcomes: Tally, unresolved: u64) -> Self {
        Account { attempted, acknowledged: outcomes.acknowledged, failed: outcomes.failed, unresolved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(warm_up: (u64, u64), measured: (u64, u64), in_flight: u64) -> (bool, Ledger) {
        let tally = |acknowledged| Tally { acknowledged, failed: 1, payload_bytes: 0 };
        let outcomes = Interval { measured: tally(measured.1), warm_up: tally(warm_up.1), ..Interval::default() };
        let attempted = Attempted { measured: measured.0, warm_up: warm_up.0 };
        let ledger = Ledger::draw_up(attempted, &outcomes, in_flight);
        let balances =
            |account: Account| account.attempted == account.acknowledged + account.failed + account.unresolved;
        (balances(ledger.measured) && balances(ledger.warm_up), ledger)
    }

    #[test]
    fn an_account_balances_only_if_all_three_books_agree() {
        let (balanced, ledger) = settle((5, 3), (10, 7), 3);
        assert!(balanced);
        assert_eq!(ledger.measured, Account { attempted: 10, acknowledged: 7, failed: 1, unresolved: 2 });
        assert_eq!(ledger.warm_up.unresolved, 1);
        assert!(!settle((5, 3), (10, 7), 2).0, "a message vanished");
        assert!(!settle((5, 3), (10, 7), 4).0, "a window never opened");
        assert!(!settle((5, 4), (10, 10), 0).0, "an outcome was reported twice");
    }

    #[test]
    fn errors_with_two_producers_do_not_cancel() {
        let acks = Acks::new(Clock::start(), 2, false);
        let attempted = Attempted { measured: 10, warm_up: 0 };
        let sent = [0, 1].map(|producer_index| Sent { producer_index, attempted, due: None });
        let (submitted, resolved) = ([10, 10], [11, 9]);
        for producer_index in 0..2 {
            acks.window(producer_index).submit(submitted[producer_index]);
            acks.window(producer_index).resolve(resolved[producer_index]);
        }
        let tally = Tally { acknowledged: 19, ..Tally::default() };
        let outcomes = Interval { measured: tally, ..Interval::default() };
        let ledger = Ledger::settle(&sent, &outcomes, &acks);
        let Account { attempted, acknowledged, failed, unresolved } = ledger.measured;
        assert_eq!(attempted, acknowledged + failed + unresolved, "together they balance");
        assert_eq!(ledger.producers_that_differ, 1, "one had more outcomes than messages");
        acks.window(1).submit(1);
        assert_eq!(Ledger::settle(&sent, &outcomes, &acks).producers_that_differ, 2);
    }

    use crate::measure::Clock;
}
