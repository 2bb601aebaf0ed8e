//! What a trial's recorders of arrivals share: the figures of each group, and each recorder's own part.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::budget::Budget;
use super::clock::Clock;
use super::compact::CompactDistribution;
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
    pub(super) latencies: Mutex<GroupLatencies>,
}

/// End-to-end latencies of a group, as they were collected.
#[derive(Default)]
pub(super) struct GroupLatencies {
    /// Of all that was collected.
    pub(super) all: CompactDistribution,
    /// Since the last [`GroupLap`].
    pub(super) lap: CompactDistribution,
    /// First arrivals at the last [`GroupLap`].
    pub(super) first: u64,
    /// One of its consumers has no latencies of its own, so those of the group are not known.
    pub(super) is_untimed: bool,
}

/// What a group received since the last lap, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupLap {
    /// As [`Arrived::first`], since the last lap.
    pub consumed: u64,
    /// Messages of the trial that have arrived so far, damaged ones included, without the repetitions that verification found.
    pub arrived: u64,
    /// Median and 99th percentile of the end-to-end latency since the last lap; `None`: no measured message arrived, or the trial has too
    /// many consumers to keep it.
    pub end_to_end_p50_ns: Option<u64>,
    pub end_to_end_p99_ns: Option<u64>,
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

impl Group {
    /// Adds what one of its consumers received; `None`: it has no latencies of its own.
    pub(super) fn add_latencies(&self, latencies: Option<CompactDistribution>) {
        let mut of_group = self.latencies.lock();
        match latencies {
            Some(latencies) if !latencies.is_empty() => {
                of_group.all.merge(&latencies);
                of_group.lap.merge(&latencies);
            }
            Some(_) => {}
            None => of_group.is_untimed = true,
        }
    }

    /// Ends a lap.
    pub(super) fn lap(&self) -> GroupLap {
        let arrived = *self.arrived.lock();
        let mut latencies = self.latencies.lock();
        let lap = mem::take(&mut latencies.lap);
        let is_known = !lap.is_empty() && !latencies.is_untimed;
        let at = |quantile| is_known.then(|| lap.value_at_quantile(quantile));
        GroupLap {
            consumed: arrived.first - mem::replace(&mut latencies.first, arrived.first),
            arrived: arrived.first + arrived.corrupt,
            end_to_end_p50_ns: at(0.5),
            end_to_end_p99_ns: at(0.99),
        }
    }
}
