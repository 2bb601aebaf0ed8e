//! What Kafka's protocol has for every message: batches of records, written and read, and their compression.
//!
//! Everything else of the protocol is per request, and comes from the crate `kafka-protocol`.

pub mod batch;
pub mod compression;
pub mod layout;
pub mod records;
pub mod responses;
pub mod shares;

/// Bytes that are not what the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed record batch: {0}")]
pub struct Malformed(pub &'static str);
