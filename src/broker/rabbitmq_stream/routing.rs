//! Chooses the stream of a super stream for a key, as RabbitMQ's other clients do.

use crate::broker::murmur3::murmur3;

/// The seed that RabbitMQ's clients share.
const SEED: u32 = 104_729;

/// The partition of a key: the remainder of its hash, as the Java client's `HashRoutingStrategy`.
pub fn partition(key: &[u8], partitions: usize) -> usize {
    murmur3(key, SEED) as usize % partitions
}
