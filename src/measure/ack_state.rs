//! What a trial's recorders of outcomes share, and each recorder's own part.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::clock::Clock;
use super::interval::Interval;
use super::part_tally::PartEnds;
use super::partition_tally::{PartitionIndex, PartitionNames, PartitionShard};
use super::verification::{Span, Verification};
use super::window::Window;

pub(super) struct Shared {
    pub(super) clock: Clock,
    /// Whether messages have intended times, so that response time and schedule delay exist.
    pub(super) open_loop: bool,
    pub(super) windows: Box<[Window]>,
    pub(super) stopped: AtomicBool,
    /// Where it is marked which messages were acknowledged, if anything is verified.
    pub(super) verification: Option<Arc<Verification>>,
    /// Where partitions have figures of their own.
    pub(super) partitions: Option<PartitionNames>,
    /// Where the schedule changes its rate.
    pub(super) part_ends: OnceLock<PartEnds>,
    pub(super) shards: Mutex<Vec<Arc<Mutex<Shard>>>>,
    /// Takes what the engine itself refuses: rare, so shared by all producers.
    pub(super) rejections: Arc<Mutex<Shard>>,
}

/// One recorder's part of the trial.
#[derive(Default)]
pub(super) struct Shard {
    pub(super) interval: Interval,
    /// Acknowledged messages of a batch that are not marked yet: empty between batches, kept for its memory.
    pub(super) spans: Vec<Span>,
    pub(super) partitions: PartitionShard,
    /// Set when the trial has been accounted for: outcomes that come later find it closed and stay unresolved.
    pub(super) closed: bool,
}

impl Shared {
    pub(super) fn partition(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        self.partitions.as_ref().map_or(PartitionIndex::UNKNOWN, |names| names.index_of(topic, partition))
    }
}
