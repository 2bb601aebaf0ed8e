//! Logs on their way to the service: staged by a producer, collected into a group's batch, and sealed for sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

use super::chunks::Chunks;
use crate::measure::SendTag;
use crate::net::backoff::Backoff;

/// Where the logs of a batch are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDestination {
    pub store: Arc<str>,
    pub topic: Vec<u8>,
    pub source: Vec<u8>,
    /// 32 hexadecimal digits; `None`: the service picks the shard.
    pub shard_hash: Option<String>,
}

/// A destination and the batch that is being collected for it.
pub struct Group {
    pub destination: LogDestination,
    /// The group's name in its store. Logs of one group keep their order.
    pack: String,
    batches: AtomicU64,
    pub open: Mutex<Option<Batch>>,
}

/// Logs that are sent as one request.
pub struct Batch {
    pub group: Arc<Group>,
    /// The group's logs as protobuf, not yet closed.
    pub body: Chunks,
    /// Each log's send tag and payload size.
    pub logs: Vec<(SendTag, u32)>,
    /// The logs' size as the service counts it.
    pub raw_bytes: usize,
    /// The budget that the logs have taken.
    pub taken_bytes: usize,
    pub opened: Instant,
}

/// Encoded logs of one producer for one group, not yet submitted.
#[derive(Default)]
pub struct Staged {
    pub bytes: Vec<u8>,
    pub logs: Vec<StagedLog>,
}

#[derive(Debug, Clone, Copy)]
pub struct StagedLog {
    /// Where the log ends in the bytes.
    pub end: usize,
    /// The log's size as the service counts it.
    pub raw_bytes: usize,
    /// The budget that the log has taken.
    pub taken_bytes: usize,
    pub send_tag: SendTag,
    pub payload_bytes: u32,
}

/// A closed and compressed batch.
pub struct Sealed {
    pub path: String,
    pub shard_hash: Option<String>,
    pub logs: Vec<(SendTag, u32)>,
    pub raw_bytes: usize,
    /// The budget that the logs have taken.
    pub taken_bytes: usize,
    /// Size of the body before compression.
    pub body_bytes: usize,
    pub body: Bytes,
    /// How often it has been sent again.
    pub retries: u32,
    pub backoff: Backoff,
}

impl Group {
    pub fn new(destination: LogDestination, pack: String) -> Self {
        Group { destination, pack, batches: AtomicU64::new(0), open: Mutex::default() }
    }

    /// A new batch's name in its store: `{group}-{number}`.
    pub fn next_pack(&self) -> String {
        format!("{}-{:X}", self.pack, self.batches.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Staged {
    /// Removes the last log.
    pub fn unstage(&mut self) {
        self.logs.pop();
        self.bytes.truncate(self.logs.last().map_or(0, |log| log.end));
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.logs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_unstaged_without_a_trace() {
        let mut staged = Staged::default();
        let send_tag = SendTag::new(0, 0, 0, 0, true);
        let log = |end| StagedLog { end, raw_bytes: 1, taken_bytes: 1, send_tag, payload_bytes: 1 };
        staged.bytes.extend([1, 2, 3]);
        staged.logs.extend([log(2), log(3)]);
        staged.unstage();
        assert_eq!((&staged.bytes[..], staged.logs.len()), (&[1, 2][..], 1));
        staged.unstage();
        assert_eq!((staged.bytes.len(), staged.logs.len()), (0, 0));
    }
}
