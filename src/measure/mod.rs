//! What is recorded per message, and what the machine was doing meanwhile.
//!
//! Recording is arranged so that a message costs no allocation and no lock of its own: its [`SendTag`] travels through the
//! client library with it; the thread that learns of outcomes owns an [`AckRecorder`] and takes it once per
//! batch; a producer's [`Window`] opens by one atomic addition per run of outcomes. Once a second the engine collects
//! every recorder's [`Interval`] and merges their histograms.

mod acks;
mod arrivals;
mod clock;
mod errors;
mod histogram;
pub mod host;
mod interval;
mod message_sets;
mod reception;
mod tags;
mod verification;

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

pub use acks::{AckBatch, AckRecorder, Acks};
pub use arrivals::{ArrivalBatch, ArrivalRecorder, Arrivals, GroupLap, GroupProgress};
pub use clock::Clock;
pub use errors::{ErrorTally, Errors, FailureClass};
pub use histogram::{
    Acknowledged, BIN_NS, Bin, CompactDistribution, Distribution, MAX_PARTITIONS, PartitionIndex, PartitionName,
    PartitionNames, PartitionTally, Slowest, Timeline,
};
pub use interval::{Interval, PartEnds, PartResponse, PartResponses, Tally, Transactions, Window};
pub use message_sets::{GroupSets, MergedGroup, MessageSets, StoredSet, TopicSets, merge_groups};
pub use reception::{
    Arrived, ConsumerTally, Details, NoDetails, Order, PARTITION_BYTES, Partitions, Received, Reception,
    SubscriptionIndex, UNORDERED_PARTITION,
};
pub use tags::{
    MAX_PRODUCERS, Opened, SendRun, SendRuns, SendTag, TICK_NS, TRACE_HEADER_BYTES, TraceHeader, UNKNOWN_SEQUENCE,
};
pub use verification::{GroupAccount, Mark, Span, Verification};

/// Bytes that are left of an amount of memory that many tables share, so that the sum is bounded and each may take what the others do not need.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicIsize>);

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Budget(Arc::new(AtomicIsize::new(isize::try_from(bytes).unwrap_or(isize::MAX))))
    }

    /// Takes `bytes` if there are so many.
    pub fn take(&self, bytes: usize) -> bool {
        let Ok(bytes) = isize::try_from(bytes) else { return false };
        let enough = |left: isize| (left >= bytes).then(|| left - bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    /// Takes `bytes` in any case; false if more has been taken than there was.
    pub fn overdraw(&self, bytes: usize) -> bool {
        self.0.fetch_sub(bytes as isize, Ordering::Relaxed) >= bytes as isize
    }

    pub fn is_overdrawn(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }

    pub fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes as isize, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_missing_until_it_is_given_back() {
        let budget = Budget::new(100);
        assert!(budget.take(60) && !budget.take(60) && !budget.is_overdrawn());
        budget.clone().give_back(20);
        assert!(budget.take(60) && !budget.take(1));
        assert!(!budget.overdraw(5) && budget.is_overdrawn());
        budget.give_back(5);
        assert!(!budget.is_overdrawn() && !budget.take(usize::MAX));
    }
}
