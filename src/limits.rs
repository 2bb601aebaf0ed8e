//! Limits that the scenario checks and the measurement relies on.

/// Producers that one trial may have: the numbers that a send tag can hold.
pub const MAX_PRODUCERS: usize = 1 << 14;

/// The longest latency that histograms count: ten minutes. No drain deadline may be longer.
pub const LONGEST_LATENCY_NS: u64 = 600_000_000_000;

/// Bytes of the trace header that the engine writes into every message.
pub const TRACE_HEADER_BYTES: usize = 32;
