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
#[path = "../../../../tests/unit/broker/kafka_native/produce/partitioner.rs"]
mod tests;
