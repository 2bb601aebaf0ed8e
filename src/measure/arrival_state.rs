//! What a trial's recorders of arrivals share: the figures of each group, and each recorder's own part.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::budget::Budget;
use super::clock::Clock;
use super::consumer_tally::ConsumerTally;
use super::partitions::Partitions;
use super::reception::{Arrived, Reception};
use super::verification::Verification;

pub(super) struct Shared {
    pub(super) clock: Clock,
    /// What is added to a time of this clock to get a time as trace headers carry it.
    pub(super) header_offset_ns: u64,
    /// The producers whose messages have an end-to-end latency.
    pub(super) timed: Range<u32>,
    pub(super) run_tag: u32,
    /// `None` when nothing is verified.
    pub(super) verification: Option<Arc<Verification>>,
    pub(super) groups: Box<[Group]>,
    pub(super) partition_budget: Budget,
    pub(super) consumers: Mutex<Vec<Consumer>>,
}

/// What is known of a group at once, whenever its recorders were collected.
#[derive(Default)]
pub(super) struct Group {
    pub(super) deliveries: AtomicU64,
    pub(super) first: AtomicU64,
    pub(super) corrupt: AtomicU64,
    pub(super) errors: AtomicU64,
    /// What was collected.
    pub(super) arrived: Mutex<Arrived>,
}

/// How far a group is now, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupProgress {
    /// Messages handed over.
    pub deliveries: u64,
    /// As [`Arrived::first`].
    pub first: u64,
    /// As [`Arrived::corrupt`].
    pub corrupt: u64,
    /// Times that receiving failed.
    pub errors: u64,
}

/// One consumer: what it records now, and what was collected of it.
pub(super) struct Consumer {
    pub(super) shard: Arc<Mutex<Shard>>,
    pub(super) tally: ConsumerTally,
}

pub(super) struct Shard {
    pub(super) reception: Reception,
    pub(super) partitions: Partitions,
}
