//! What was acknowledged in each partition, as far as clients know the partition of a message: counts and latencies in bounded memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::Budget;
use super::histogram::CompactDistribution;

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
    fn messages_of_unknown_partitions_belong_to_their_producers_topic_where_there_are_several() {
        let names = names(&["a", "b", "a"]);
        let of = |producer| names.for_message(PartitionIndex::UNKNOWN, producer);
        assert_eq!((of(0), of(2)), (names.index_of("a", None), of(0)));
        assert_eq!(of(1), names.index_of("b", None));
        assert_eq!(of(3), PartitionIndex::UNKNOWN, "a producer that there is not");
    }

    #[test]
    fn names_and_latencies_are_limited_and_messages_beyond_are_counted_as_unknown() {
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
