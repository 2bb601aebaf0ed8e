//! Single partitions: how far one consumer has come in each, and what was acknowledged in each, in bounded memory.
//!
//! A consumer keeps the next offset and each producer's latest message. The broker promises order only within a partition, so it is checked per
//! partition and producer. Counts and latencies of partitions are kept as far as clients know the partition of a message.

use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::Budget;
use super::histogram::CompactDistribution;

/// The partition of messages for which the broker promises no order: none of them is ever found reordered.
pub const UNORDERED_PARTITION: u32 = u32::MAX;

/// Bytes that the tables of all consumers of a trial may take together.
pub const PARTITION_BYTES: usize = 64 << 20;

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
    /// The offset after the last message that was received.
    next_offset: u64,
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
            let partition = &mut self.partitions[partition as usize];
            partition.next_offset = partition.next_offset.max(offset + 1);
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
        partition.next_offset = partition.next_offset.max(offset + 1);
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

/// Partitions of a trial that have figures of their own.
pub const MAX_PARTITIONS: usize = 4096;

/// Bytes that the latencies of all partitions may take together, in all recorders: about 2,000 distributions.
const LATENCY_BYTES: usize = 16 << 20;

/// Names a partition to an [`AckBatch`](super::AckBatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionIndex(u32);

impl PartitionIndex {
    /// The client does not know the partition, or it has no figures of its own.
    pub const UNKNOWN: PartitionIndex = PartitionIndex(u32::MAX);
}

/// A partition of a topic; without a number, all of the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionName {
    pub topic: Arc<str>,
    pub partition: Option<u32>,
}

/// The partitions of a trial, in the order in which clients named them.
#[derive(Debug)]
pub struct PartitionNames {
    known: Mutex<Vec<PartitionName>>,
    /// Topic of each producer: for messages whose partition is not known.
    topics: Vec<PartitionIndex>,
    budget: Budget,
}

impl PartitionNames {
    /// Of producers that write to these topics, one for each producer. With one topic only, its name says nothing about a message.
    pub fn new(topic_of_producer: impl Iterator<Item = Arc<str>>) -> Self {
        let mut names =
            PartitionNames { known: Mutex::default(), topics: Vec::new(), budget: Budget::new(LATENCY_BYTES) };
        names.topics = topic_of_producer.map(|topic| names.index_of(&topic, None)).collect();
        if names.known.lock().len() < 2 {
            names.known.lock().clear();
            names.topics.clear();
        }
        names
    }

    /// Where messages are counted that are written to this partition: always the same.
    pub fn index_of(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        let mut known = self.known.lock();
        let is_it = |name: &PartitionName| name.partition == partition && *name.topic == *topic;
        // The last ones are the likeliest: clients name the partitions of one topic after another.
        let found = known.iter().rposition(is_it).or_else(|| {
            let has_room = known.len() < MAX_PARTITIONS;
            has_room.then(|| {
                known.push(PartitionName { topic: topic.into(), partition });
                known.len() - 1
            })
        });
        found.map_or(PartitionIndex::UNKNOWN, |index| PartitionIndex(index as u32))
    }

    /// Where a message is counted whose client names `partition`.
    #[inline]
    pub(super) fn for_message(&self, partition: PartitionIndex, producer_index: usize) -> PartitionIndex {
        match self.topics.get(producer_index) {
            Some(topic) if partition == PartitionIndex::UNKNOWN => *topic,
            _ => partition,
        }
    }
}

/// What one recorder knows of the partitions.
#[derive(Debug, Default)]
pub(super) struct PartitionShard {
    tallies: Vec<Tally>,
    unknown: u64,
}

#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    moments: u64,
    /// The latest of these moments.
    last_ns: u64,
    latency: Option<CompactDistribution>,
    /// There was no memory for its latency.
    is_untimed: bool,
}

impl PartitionShard {
    /// Counts `messages` that share a latency, acknowledged at `now_ns`.
    pub(super) fn count(
        &mut self,
        names: &PartitionNames,
        partition: PartitionIndex,
        now_ns: u64,
        latency_ns: u64,
        messages: u64,
    ) {
        if partition == PartitionIndex::UNKNOWN {
            self.unknown += messages;
            return;
        }
        let index = partition.0 as usize;
        if self.tallies.len() <= index {
            self.tallies.resize_with(index + 1, Tally::default);
        }
        let tally = &mut self.tallies[index];
        tally.acknowledged += messages;
        if tally.last_ns != now_ns {
            tally.last_ns = now_ns;
            tally.moments += 1;
        }
        if tally.latency.is_none() && !tally.is_untimed {
            tally.is_untimed = !names.budget.take(CompactDistribution::BYTES);
            tally.latency = (!tally.is_untimed).then(CompactDistribution::new);
        }
        if let Some(latency) = &mut tally.latency {
            latency.record_n(latency_ns, messages);
        }
    }
}

/// What was acknowledged, by partition: measured messages only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acknowledged {
    /// Messages whose partition is not known.
    pub unknown: u64,
    /// Partitions that clients named, whether something was written to them or not.
    pub partitions: Vec<PartitionTally>,
}

/// What was acknowledged in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTally {
    pub name: PartitionName,
    pub acknowledged: u64,
    /// Moments at which that became known, of each recorder.
    pub moments: u64,
    /// Response time in an open loop, else service time. `None`: nothing was acknowledged, or there was no memory for it.
    pub latency: Option<CompactDistribution>,
}

impl Acknowledged {
    /// Nothing yet.
    pub(super) fn in_partitions(names: &PartitionNames) -> Self {
        let tally =
            |name: &PartitionName| PartitionTally { name: name.clone(), acknowledged: 0, moments: 0, latency: None };
        Acknowledged { unknown: 0, partitions: names.known.lock().iter().map(tally).collect() }
    }

    pub(super) fn add(&mut self, shard: &PartitionShard) {
        self.unknown += shard.unknown;
        let with_messages = self.partitions.iter_mut().zip(&shard.tallies).filter(|(_, tally)| tally.acknowledged > 0);
        for (sum, tally) in with_messages {
            match (&mut sum.latency, &tally.latency) {
                (Some(sum), Some(latency)) => sum.merge(latency),
                (None, Some(latency)) if sum.acknowledged == 0 => sum.latency = Some(latency.clone()),
                // What is not known of a part is not known of the whole.
                _ => sum.latency = None,
            }
            sum.acknowledged += tally.acknowledged;
            sum.moments += tally.moments;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/measure/partitions.rs"]
mod tests;
