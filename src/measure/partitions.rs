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
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_per_partition_and_producer() {
        let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
        assert_eq!(partitions.arrived(0, 0, 0, 5), Order::Kept);
        assert_eq!(partitions.arrived(1, 0, 0, 3), Order::Kept, "another partition");
        assert_eq!(partitions.arrived(0, 0, 1, 0), Order::Kept, "another producer");
        assert_eq!(partitions.arrived(0, 0, 0, 4), Order::Broken);
        assert_eq!(partitions.arrived(0, 0, 0, 6), Order::Kept);
        assert_eq!(partitions.arrived(UNORDERED_PARTITION, 0, 0, 1), Order::NotPromised);
        assert_eq!(
            (partitions.next_sequence(0, 0), partitions.next_sequence(1, 0), partitions.next_sequence(7, 9)),
            (7, 4, 0)
        );
    }

    #[test]
    fn offsets_are_kept_per_partition_and_never_go_back() {
        let mut partitions = Partitions::new(Budget::new(PARTITION_BYTES));
        partitions.pass(2, 10);
        partitions.pass(2, 4);
        partitions.pass(UNORDERED_PARTITION, 99);
        assert_eq!((partitions.next_offset(2), partitions.next_offset(0), partitions.count()), (11, 0, 3));
    }

    #[test]
    fn tables_within_budget_report_what_was_unchecked() {
        let budget = Budget::new(10_000);
        let mut partitions = [Partitions::new(budget.clone()), Partitions::new(budget.clone())];
        let mut unchecked = 0;
        for partition in 0..100 {
            for producer in 0..100 {
                unchecked += u32::from(
                    partitions[partition as usize % 2].arrived(partition, 0, producer, 0) == Order::Unchecked,
                );
            }
        }
        let bytes = |partitions: &Partitions| {
            let tables =
                partitions.partitions.iter().map(|partition| partition.next_sequences.capacity() * size_of::<u64>());
            partitions.partitions.len() * size_of::<Partition>() + tables.sum::<usize>()
        };
        assert!(partitions.iter().map(bytes).sum::<usize>() <= 10_000);
        assert!(unchecked > 9_000, "{unchecked}");
        assert_eq!(partitions[0].arrived(u32::MAX - 1, 0, 0, 0), Order::Unchecked, "a partition no topic has");
        assert_eq!(partitions[0].arrived(0, 0, 0, 1), Order::Kept, "what is in the tables goes on");
    }

    fn names(topics: &[&str]) -> PartitionNames {
        PartitionNames::new(topics.iter().map(|topic| Arc::from(*topic)))
    }

    #[test]
    fn a_partition_has_one_index_however_often_it_is_named() {
        let names = names(&["only", "only"]);
        let first = names.index_of("only", Some(0));
        assert_ne!(first, names.index_of("only", Some(1)));
        assert_ne!(first, names.index_of("other", Some(0)));
        assert_eq!(first, names.index_of("only", Some(0)));
        assert_eq!(names.for_message(PartitionIndex::UNKNOWN, 1), PartitionIndex::UNKNOWN, "one topic says nothing");
        assert_eq!(names.for_message(first, 1), first);
    }

    #[test]
    fn unknown_partition_counts_for_the_topic_of_its_producer() {
        let names = names(&["a", "b", "a"]);
        let of = |producer| names.for_message(PartitionIndex::UNKNOWN, producer);
        assert_eq!((of(0), of(2)), (names.index_of("a", None), of(0)));
        assert_eq!(of(1), names.index_of("b", None));
        assert_eq!(of(3), PartitionIndex::UNKNOWN, "a producer that there is not");
    }

    #[test]
    fn partitions_beyond_the_limit_count_as_unknown() {
        let names = names(&["only"]);
        let indices: Vec<_> = (0..=MAX_PARTITIONS as u32).map(|number| names.index_of("only", Some(number))).collect();
        assert_eq!(indices[MAX_PARTITIONS], PartitionIndex::UNKNOWN);
        assert_eq!(names.index_of("only", Some(0)), indices[0]);
        let mut shard = PartitionShard::default();
        indices.iter().for_each(|index| shard.count(&names, *index, 1, 1_000_000, 2));
        let mut all = Acknowledged::in_partitions(&names);
        all.add(&shard);
        assert_eq!((all.unknown, all.partitions.len()), (2, MAX_PARTITIONS));
        assert!(all.partitions.iter().all(|of| (of.acknowledged, of.moments) == (2, 1)));
        let timed = all.partitions.iter().filter(|of| of.latency.is_some()).count();
        assert_eq!(timed, LATENCY_BYTES / CompactDistribution::BYTES);
    }

    #[test]
    fn what_several_recorders_know_of_a_partition_adds_up() {
        let names = names(&["only"]);
        let [first, second] = [0, 1].map(|number| names.index_of("only", Some(number)));
        let mut shards = [PartitionShard::default(), PartitionShard::default()];
        shards[0].count(&names, first, 5, 1_000_000, 99);
        shards[1].count(&names, first, 6, 80_000_000, 1);
        shards[1].count(&names, first, 6, 80_000_000, 1);
        let mut all = Acknowledged::in_partitions(&names);
        shards.iter().for_each(|shard| all.add(shard));
        let [of_first, of_second] = all.partitions.as_slice() else { panic!("{all:?}") };
        assert_eq!((of_first.acknowledged, of_first.moments), (101, 2));
        let latency = of_first.latency.as_ref().unwrap();
        assert!(latency.value_at_quantile(0.5) < 2_000_000 && latency.value_at_quantile(0.99) > 70_000_000);
        assert_eq!((of_second.acknowledged, of_second.name.partition), (0, Some(1)), "named, and never written to");
        assert_ne!(first, second);
    }
}
