//! Chooses the partition of a message, as librdkafka and Kafka's own client do.

use serde::Deserialize;

/// By librdkafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
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
        (!self.is_any(key)).then(|| self.of(key.unwrap_or_default()) as usize % partitions)
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
    fn of(self, key: &[u8]) -> u32 {
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

#[cfg(test)]
mod tests {
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
    fn messages_without_a_key_go_anywhere_where_the_partitioner_says_so() {
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
}
