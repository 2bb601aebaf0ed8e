//! What arrived: one message, the counts and latencies of many, and what single consumers received; and how far a consumer has come in each
//! partition.
//!
//! What single consumers received is added up once a second from what their recorders hold, so that a message costs nothing more.
//! Of each partition, a consumer keeps the offsets that it received, as stretches, and each producer's latest message, in bounded memory. The broker promises order only
//! within a partition, so it is checked per partition and producer.

use std::borrow::Cow;
use std::fmt;
use std::iter::once;
use std::ops::{AddAssign, Range};

use super::budget::Budget;
use super::histogram::{CompactDistribution, Distribution, Timeline};

/// A message that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    pub payload: &'a [u8],
    /// The engine's trace header, if the message carries one beside its payload.
    pub trace_header: Option<&'a [u8]>,
    /// Counted from 0 per topic: the broker promises order only within a partition;
    /// [`UNORDERED_PARTITION`]: it promises none.
    pub partition: u32,
    /// 0 from a broker without offsets.
    pub offset: u64,
    /// The broker flags this message as delivered before.
    pub redelivered: bool,
    pub details: &'a dyn Details,
}

/// What a message carries beside its payload. The client decodes a part when it is asked for, so that a receiver that does
/// not ask pays nothing.
pub trait Details: fmt::Debug {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// When the broker stored the message or the producer's client made it, whichever the broker keeps, in nanoseconds since
    /// 1970.
    fn timestamp_unix_ns(&self) -> Option<u64> {
        None
    }

    /// Each header's name and value, in the message's order, without the trace header.
    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

/// The details of a message that has none, or whose client does not decode any.
#[derive(Debug)]
pub struct NoDetails;

impl Details for NoDetails {}

/// What arrived in a stretch of time: at one consumer, or at all of a group, or at all there are. In messages, warm-up
/// included unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrived {
    /// Every message handed over, of this trial or not.
    pub messages: u64,
    pub payload_bytes: u64,
    /// Messages of this trial, intact or corrupt, repetitions included.
    pub received: u64,
    /// Intact messages that had not arrived at the group before. Where nothing is verified, repetitions cannot be distinguished and are
    /// among them.
    pub first: u64,
    /// Messages of `first` whose intended time lies in the measured phase.
    pub consumed: u64,
    /// Repetitions that the broker did not announce as such.
    pub duplicated: u64,
    /// Repetitions that the broker announced.
    pub redelivered: u64,
    /// First arrivals after a later message of the same producer in the same partition.
    pub reordered: u64,
    /// First arrivals whose order was not checked: the broker promises none.
    pub unordered: u64,
    /// First arrivals whose order was not checked: there was no memory left to.
    pub order_unchecked: u64,
    /// The checksum is not the one sent.
    pub corrupt: u64,
    /// Not of this trial.
    pub foreign: u64,
    /// Messages of `consumed` that arrived before their intended time, by clocks that differ: their latency is recorded as 0.
    pub before_intended: u64,
    /// Most that one of them did, in nanoseconds.
    pub most_before_intended_ns: u64,
    /// When the last of `first` arrived, in nanoseconds since the trial's epoch; 0: none did.
    pub last_first_ns: u64,
    /// The same of `consumed`.
    pub last_consumed_ns: u64,
}

impl AddAssign<&Arrived> for Arrived {
    fn add_assign(&mut self, other: &Arrived) {
        self.messages += other.messages;
        self.payload_bytes += other.payload_bytes;
        self.received += other.received;
        self.first += other.first;
        self.consumed += other.consumed;
        self.duplicated += other.duplicated;
        self.redelivered += other.redelivered;
        self.reordered += other.reordered;
        self.unordered += other.unordered;
        self.order_unchecked += other.order_unchecked;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.before_intended += other.before_intended;
        self.most_before_intended_ns = self.most_before_intended_ns.max(other.most_before_intended_ns);
        self.last_first_ns = self.last_first_ns.max(other.last_first_ns);
        self.last_consumed_ns = self.last_consumed_ns.max(other.last_consumed_ns);
    }
}

/// What arrived, and when.
#[derive(Debug, Clone, Default)]
pub struct Reception {
    pub arrived: Arrived,
    /// Received − intended, of the messages in [`Arrived::consumed`] whose producers are timed.
    pub end_to_end: Distribution,
    /// Moments at which such messages arrived: one for each batch that had some, as in
    /// [`Interval::moments`](super::Interval::moments).
    pub moments: u64,
    /// When they arrived, and how slow they were.
    pub timeline: Timeline,
    /// The longest of [`Reception::end_to_end`] in the batch that arrives now, in nanoseconds; `None`: it has had none.
    pub(super) slowest_of_batch_ns: Option<u64>,
}

impl Reception {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Reception) {
        self.arrived += &other.arrived;
        self.end_to_end.merge(&other.end_to_end);
        self.moments += other.moments;
        self.timeline.merge(&other.timeline);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.arrived = Arrived::default();
        self.end_to_end.clear();
        self.moments = 0;
        self.timeline.clear();
    }
}

/// Consumers of a trial whose latencies are kept apart: 256 take under 2 MiB, and adding theirs up takes some milliseconds a second.
pub(super) const MAX_TIMED: usize = 256;

/// Where a consumer is at work: its group, and which of the trial's topics it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionIndex {
    pub group: usize,
    pub topic: usize,
}

/// What one consumer received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerTally {
    pub subscription: SubscriptionIndex,
    /// Which of its group's members on the topic it is, from 0.
    pub member: usize,
    /// As [`Arrived::consumed`].
    pub consumed: u64,
    /// Messages that arrived inside the measured window: for the first time, where that is verified.
    pub in_window: u64,
    /// Moments of arrival, as [`Reception::moments`].
    pub moments: u64,
    /// As [`Reception::end_to_end`]; `None`: the trial has too many consumers to keep it of this one.
    pub end_to_end: Option<CompactDistribution>,
}

impl ConsumerTally {
    pub(super) fn new(subscription: SubscriptionIndex, member: usize, is_timed: bool) -> Self {
        let end_to_end = is_timed.then(CompactDistribution::new);
        ConsumerTally { subscription, member, consumed: 0, in_window: 0, moments: 0, end_to_end }
    }

    /// Adds what was received since the last time: inside the measured window or not, with first arrivals told apart or not. Its latencies,
    /// if they are kept.
    pub(super) fn add(
        &mut self,
        received: &Reception,
        is_in_window: bool,
        is_verified: bool,
    ) -> Option<CompactDistribution> {
        self.consumed += received.arrived.consumed;
        if is_in_window {
            self.in_window += if is_verified { received.arrived.first } else { received.arrived.messages };
        }
        self.moments += received.moments;
        let end_to_end = self.end_to_end.as_mut()?;
        let mut latencies = CompactDistribution::new();
        if !received.end_to_end.is_empty() {
            latencies.add(&received.end_to_end);
            end_to_end.merge(&latencies);
        }
        Some(latencies)
    }
}

/// The partition of messages for which the broker promises no order: none of them is ever found reordered.
pub const UNORDERED_PARTITION: u32 = u32::MAX;

/// Bytes that the tables of all consumers of a trial may take together.
pub const PARTITION_BYTES: usize = 64 << 20;

/// Gaps between received offsets that a consumer keeps of a partition: the longest.
const MAX_GAPS: usize = 64;

/// How a message lies in the order of its producer's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Kept,
    /// A later message of the same producer came before it in the same partition.
    Broken,
    /// The broker promises none.
    NotPromised,
    /// Not checked: the memory budget was used up.
    Unchecked,
}

/// One consumer's partitions. A partition is read by one consumer of a group at a time.
#[derive(Debug)]
pub struct Partitions {
    partitions: Vec<Partition>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct Partition {
    /// The offset of the first message that was received.
    first_offset: u64,
    /// The offset after the last message that was received.
    next_offset: u64,
    /// Offsets between them that were passed over.
    gaps: Vec<Range<u64>>,
    /// Offsets in gaps that are not kept.
    gap_offsets_not_kept: u64,
    /// The sequence after the latest message of each producer; 0: none came.
    next_sequences: Vec<u64>,
}

impl Partitions {
    pub fn new(budget: Budget) -> Self {
        Partitions { partitions: Vec::new(), budget }
    }

    /// A message was received at `offset` of `partition` that does not show its producer's order: a repetition, a damaged
    /// message, or a message of another program.
    #[inline]
    pub fn pass(&mut self, partition: u32, offset: u64) {
        if partition != UNORDERED_PARTITION && self.has_partition(partition as usize) {
            self.partitions[partition as usize].advance(offset, &self.budget);
        }
    }

    /// A message arrived for the first time, at `offset` of `partition`.
    #[inline]
    pub fn arrived(&mut self, partition: u32, offset: u64, producer: u32, sequence: u64) -> Order {
        if partition == UNORDERED_PARTITION {
            return Order::NotPromised;
        }
        let (index, producer) = (partition as usize, producer as usize);
        let is_known = self.partitions.get(index).is_some_and(|partition| producer < partition.next_sequences.len());
        let has_entry = is_known || self.has_partition(index) && self.has_producer(index, producer);
        if !has_entry {
            self.pass(partition, offset);
            return Order::Unchecked;
        }
        let partition = &mut self.partitions[index];
        partition.advance(offset, &self.budget);
        let (latest, next) = (&mut partition.next_sequences[producer], sequence + 1);
        if next < *latest {
            return Order::Broken;
        }
        *latest = next;
        Order::Kept
    }

    /// The offset after the last message of `partition` that was received; 0: none was.
    pub fn next_offset(&self, partition: u32) -> u64 {
        self.partitions.get(partition as usize).map_or(0, |partition| partition.next_offset)
    }

    /// The stretches of offsets of `partition` that were received, in their order, and how many offsets in them were passed over all the same.
    pub fn received_offsets(&self, partition: u32) -> (Vec<Range<u64>>, u64) {
        let Some(of) = self.partitions.get(partition as usize) else { return Default::default() };
        let mut gaps = of.gaps.clone();
        gaps.sort_unstable_by_key(|gap| gap.start);
        let begins = once(of.first_offset).chain(gaps.iter().map(|gap| gap.end));
        let ends = gaps.iter().map(|gap| gap.start).chain(once(of.next_offset));
        (begins.zip(ends).map(|(begin, end)| begin..end).collect(), of.gap_offsets_not_kept)
    }

    /// The sequence after the producer's latest message in `partition`; 0: none came.
    pub fn next_sequence(&self, partition: u32, producer: u32) -> u64 {
        let partition = self.partitions.get(partition as usize);
        partition.and_then(|partition| partition.next_sequences.get(producer as usize)).copied().unwrap_or(0)
    }

    /// Partitions that may have been seen are numbered below it.
    pub fn count(&self) -> u32 {
        self.partitions.len() as u32
    }

    /// Adds the partition, as far as the budget allows.
    #[inline]
    fn has_partition(&mut self, partition: usize) -> bool {
        if self.partitions.len() <= partition {
            let missing = partition + 1 - self.partitions.len();
            if !self.budget.take(missing.saturating_mul(size_of::<Partition>())) {
                return false;
            }
            self.partitions.resize_with(partition + 1, Partition::default);
        }
        true
    }

    /// Adds the producer to the partition, as far as the budget allows.
    fn has_producer(&mut self, partition: usize, producer: usize) -> bool {
        let sequences = &mut self.partitions[partition].next_sequences;
        let wanted = (producer + 1).next_power_of_two().max(sequences.len());
        let missing = wanted - sequences.len();
        if !self.budget.take(missing.saturating_mul(size_of::<u64>())) {
            return false;
        }
        sequences.reserve_exact(missing);
        sequences.resize(wanted, 0);
        true
    }
}

impl Partition {
    /// A message was received at `offset`.
    #[inline]
    fn advance(&mut self, offset: u64, budget: &Budget) {
        if offset > self.next_offset {
            self.jump(offset, budget);
        }
        self.next_offset = self.next_offset.max(offset + 1);
    }

    /// A message was received behind the next offset.
    #[cold]
    fn jump(&mut self, offset: u64, budget: &Budget) {
        let mut gap = self.next_offset..offset;
        if self.next_offset == 0 {
            self.first_offset = offset;
            return;
        }
        if self.gaps.len() < MAX_GAPS && budget.take(size_of::<Range<u64>>()) {
            self.gaps.push(gap);
            return;
        }
        let length = |gap: &Range<u64>| gap.end - gap.start;
        if let Some(shortest) = self.gaps.iter_mut().min_by_key(|gap| length(gap))
            && length(shortest) < length(&gap)
        {
            std::mem::swap(shortest, &mut gap);
        }
        self.gap_offsets_not_kept += length(&gap);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/measure/reception.rs"]
mod tests;
