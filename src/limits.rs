//! Limits and names that several modules agree on. This module imports nothing.

/// Producers that one process may have: a send tag numbers them in 14 bits.
pub const MAX_PRODUCERS: usize = 1 << 14;

/// Producers that all processes of a scenario may have together.
pub const MAX_PRODUCERS_OF_ALL: usize = 1 << 20;

/// The most bytes that a payload pool may take: beyond it, the trial would load the host's memory.
pub const MAX_POOL_BYTES: usize = 4 << 30;

/// Bytes of the trace header that brokermark adds to messages for verification.
pub const TRACE_HEADER_BYTES: usize = 32;

/// The name of the message header that carries the trace header beside a payload.
pub const TRACE_HEADER_NAME: &str = "brokermark";

/// What memory for unpacking batches keeps between them: one batch that needs far more does not hold its memory until the run ends.
pub const MAX_UNPACKED_KEPT_BYTES: usize = 16 << 20;

/// Gives back what memory for unpacking holds beyond [`MAX_UNPACKED_KEPT_BYTES`].
pub fn shrink_unpacked(memory: &mut Vec<u8>) {
    if memory.capacity() > MAX_UNPACKED_KEPT_BYTES {
        memory.clear();
        memory.shrink_to(MAX_UNPACKED_KEPT_BYTES);
    }
}

/// Groups of consumers whose latencies are kept apart: one takes some 200 KB.
pub const MAX_GROUPS_APART: usize = 16;

/// The longest time that a histogram holds, in nanoseconds: ten minutes.
pub const MAX_LATENCY_NS: u64 = 600_000_000_000;
