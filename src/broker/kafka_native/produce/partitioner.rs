//! Chooses the partition of a message: by its key, as librdkafka and Kafka's own client do, or the one whose turn it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accumulator::{Limits, Partition};

/// How the partition of a message is chosen, by librdkafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// Whatever the key.
    Random,
    /// CRC-32 of the key; messages without a key go to the partition of an empty one.
    Consistent,
    /// The same, but messages without a key, or with an empty one, go to any partition.
    #[default]
    ConsistentRandom,
    /// The hash of Kafka's own client; messages without a key go to the partition of an empty one.
    Murmur2,
    /// The same, but messages without a key go to any partition: the default of Kafka's own client.
    Murmur2Random,
}

impl Partitioner {
    /// The partition of `key`, of `partitions`. `None`: any, so that it is best to fill one batch after the other.
    ///
    /// Source: librdkafka's `rdkafka_msg.c`, `rd_kafka_msg_partitioner_*`.
    #[inline]
    pub fn partition(self, key: Option<&[u8]>, partitions: usize) -> Option<usize> {
        (!self.is_any(key)).then(|| self.hash(key.unwrap_or_default()) as usize % partitions)
    }

    /// Whether messages with that key may go to any partition.
    #[inline]
    pub fn is_any(self, key: Option<&[u8]>) -> bool {
        match self {
            Partitioner::Random => true,
            Partitioner::ConsistentRandom => key.is_none_or(<[u8]>::is_empty),
            Partitioner::Murmur2Random => key.is_none(),
            Partitioner::Consistent | Partitioner::Murmur2 => false,
        }
    }

    /// The number of which the partition of `key` is made.
    fn hash(self, key: &[u8]) -> u32 {
        match self {
            Partitioner::Murmur2 | Partitioner::Murmur2Random => murmur2(key) & 0x7fff_ffff,
            Partitioner::Random | Partitioner::Consistent | Partitioner::ConsistentRandom => crc32fast::hash(key),
        }
    }
}

/// Austin Appleby's MurmurHash2 with the seed of Kafka's own client (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ bytes.len() as u32;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        let block = u32::from_le_bytes(*block).wrapping_mul(MIX);
        hash = hash.wrapping_mul(MIX) ^ (block ^ block >> 24).wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        let mut block = [0; 4];
        block[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(block)).wrapping_mul(MIX);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MIX);
    hash ^ hash >> 15
}

/// The partitions of a topic.
pub struct TopicRoutes {
    pub name: Arc<str>,
    pub partitions: Vec<Arc<Partition>>,
    /// The partition whose turn is next, how many bytes are left of the turn that goes on, and when that one ends, in nanoseconds
    /// since the trial's epoch.
    next: AtomicUsize,
    left_bytes: AtomicUsize,
    ends_ns: AtomicU64,
}

impl TopicRoutes {
    /// Turns begin with the partition `begin`, counted on from the first after the last one.
    pub fn new(name: &str, partitions: usize, begin: usize, identity: Option<(i64, i16)>) -> Self {
        let name: Arc<str> = name.into();
        let partition = |index| Arc::new(Partition::new(name.clone(), index as i32, identity));
        TopicRoutes {
            partitions: (0..partitions).map(partition).collect(),
            name,
            next: AtomicUsize::new(begin),
            left_bytes: AtomicUsize::new(0),
            ends_ns: AtomicU64::new(0),
        }
    }

    /// The partition for `bytes`, sent at `now_ns`, that may go to any.
    ///
    /// Each partition has its turn: for as many bytes as a batch takes (KIP-794), and for twice `linger` at most, as in librdkafka
    /// (`sticky.partitioning.linger.ms`), so that a slow producer loads all partitions too. The next one follows in turn, not at random.
    pub fn any(&self, bytes: usize, now_ns: u64, limits: &Limits) -> usize {
        let partitions = self.partitions.len();
        if partitions == 1 {
            return 0;
        }
        let left = self.left_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let next = self.next.load(Ordering::Relaxed);
        // The producer that takes the last of the turn begins the next one; a subtraction below zero wraps to a number beyond any turn.
        if left > bytes && left <= limits.batch_bytes && now_ns < self.ends_ns.load(Ordering::Relaxed) {
            return next.wrapping_sub(1) % partitions;
        }
        self.left_bytes.store(limits.batch_bytes, Ordering::Relaxed);
        self.ends_ns.store(now_ns + 2 * limits.linger.as_nanos() as u64, Ordering::Relaxed);
        self.next.fetch_add(1, Ordering::Relaxed) % partitions
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// From the tests of Kafka (`UtilsTest.testMurmur2`).
    #[test]
    fn hashes_are_those_of_java() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn keyless_messages_go_anywhere_if_the_partitioner_says_so() {
        for (partitioner, without, empty) in [
            (Partitioner::Random, None, None),
            (Partitioner::Consistent, Some(0), Some(0)),
            (Partitioner::ConsistentRandom, None, None),
            (Partitioner::Murmur2, Some(0x106e_08d9 % 7), Some(0x106e_08d9 % 7)),
            (Partitioner::Murmur2Random, None, Some(0x106e_08d9 % 7)),
        ] {
            assert_eq!(partitioner.partition(None, 7), without, "{partitioner:?}");
            assert_eq!(partitioner.partition(Some(b""), 7), empty, "{partitioner:?}");
        }
        // CRC-32 of "key", as zlib computes it.
        assert_eq!(Partitioner::ConsistentRandom.partition(Some(b"key"), 1000), Some(0x8a90_aba9 % 1000));
    }

    const MILLISECOND: u64 = 1_000_000;

    fn limits(linger: Duration) -> Limits {
        Limits { batch_bytes: 1_000, linger, delivery_timeout: Duration::from_secs(1) }
    }

    /// How often each of four partitions was chosen, by messages of 100 B at this distance.
    fn chosen(messages: u64, distance_ns: u64, linger: Duration) -> [usize; 4] {
        let topic = TopicRoutes::new("orders", 4, 0, None);
        let mut chosen = [0; 4];
        for number in 0..messages {
            chosen[topic.any(100, number * distance_ns, &limits(linger))] += 1;
        }
        chosen
    }

    #[test]
    fn a_fast_producer_fills_one_batch_after_the_other() {
        assert_eq!(chosen(40, 0, Duration::from_millis(5)), [10, 10, 10, 10]);
        let topic = TopicRoutes::new("orders", 4, 0, None);
        let first: Vec<usize> = (0..11).map(|_| topic.any(100, 0, &limits(Duration::from_millis(5)))).collect();
        assert_eq!(first, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_slow_producer_loads_all_partitions() {
        assert_eq!(chosen(8, 10 * MILLISECOND, Duration::from_millis(5)), [2, 2, 2, 2]);
        assert_eq!(chosen(8, 5 * MILLISECOND, Duration::from_millis(5)), [2, 2, 2, 2]);
        assert_eq!(
            chosen(8, MILLISECOND, Duration::ZERO),
            [2, 2, 2, 2],
            "without `linger`, nothing waits for a fuller batch"
        );
    }
}
