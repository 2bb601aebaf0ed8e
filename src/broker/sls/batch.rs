//! Logs on their way to the service: staged by a producer, collected into a group's batch, sealed for sending; and the queue of the io
//! workers, with full batches and failed batches that are due to be sent again at a given time.
//!
//! A batch's bytes are in pieces of one size, so that a batch takes the memory of what it holds and no more.
//! One buffer of a whole batch would be simpler and was tried: ten open groups of 3 MiB held 34 MiB, however little was in
//! them, since a buffer that has been used once stays in memory.

use std::cmp::{self, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::measure::{SendTag, Subject};
use crate::net::backoff::Backoff;

/// The place in which the logs of a batch are stored.
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
    /// Set once the batch was refused: the endpoint holds it up until it has an outcome, also if another worker sends it again.
    pub held_up: Option<Subject>,
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

/// Bytes of a piece: small beside a batch, large beside a log.
const PIECE_BYTES: usize = 64 << 10;

/// Space for the bytes that close a group, so that the buffer does not double for them.
const CLOSING_BYTES: usize = 4 << 10;

/// Bytes that are appended to until they are gathered.
#[derive(Default)]
pub struct Chunks {
    pieces: Vec<Vec<u8>>,
    length: usize,
}

impl Chunks {
    pub fn len(&self) -> usize {
        self.length
    }

    /// Appends `bytes`, with pieces from `spare` where the last one is full.
    pub fn extend(&mut self, mut bytes: &[u8], spare: &SparePieces) {
        self.length += bytes.len();
        while !bytes.is_empty() {
            match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_BYTES) {
                Some(piece) => {
                    let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - piece.len()));
                    piece.extend_from_slice(now);
                    bytes = later;
                }
                None => self.pieces.push(spare.take()),
            }
        }
    }

    /// Appends everything to `into`, in order, and gives the pieces back to `spare`.
    pub fn gather(self, into: &mut Vec<u8>, spare: &SparePieces) {
        into.reserve(self.length + CLOSING_BYTES);
        for piece in &self.pieces {
            into.extend_from_slice(piece);
        }
        spare.give(self.pieces);
    }
}

/// Unused pieces: at most as many as were once in use at the same time.
#[derive(Default)]
pub struct SparePieces(Mutex<Vec<Vec<u8>>>);

impl SparePieces {
    fn take(&self) -> Vec<u8> {
        let piece = self.0.lock().pop();
        piece.unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES))
    }

    fn give(&self, mut pieces: Vec<Vec<u8>>) {
        pieces.iter_mut().for_each(Vec::clear);
        self.0.lock().append(&mut pieces);
    }
}

/// A worker's next job.
pub enum Job {
    /// To close, compress and send.
    Fresh(Batch),
    /// To send again.
    Again(Sealed),
}

/// Shared by all workers.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    fresh: VecDeque<Batch>,
    again: BinaryHeap<Reverse<Due>>,
}

struct Due {
    at: Instant,
    sealed: Sealed,
}

impl Queue {
    pub fn push(&self, batch: Batch) {
        self.lock().fresh.push_back(batch);
        self.changed.notify_one();
    }

    pub fn push_again(&self, sealed: Sealed, at: Instant) {
        self.lock().again.push(Reverse(Due { at, sealed }));
        // A waiting worker must read the earliest time again.
        self.changed.notify_one();
    }

    /// Waits for the next job. A batch that is due to be sent again comes first. Cancel-safe.
    pub async fn next(&self) -> Job {
        loop {
            let wake = match self.pop() {
                Ok(job) => return job,
                Err(wake) => wake,
            };
            match wake {
                None => self.changed.notified().await,
                Some(at) => {
                    let _ = tokio::time::timeout_at(at.into(), self.changed.notified()).await;
                }
            }
        }
    }

    /// A job, or the time of the next one.
    ///
    /// Several pushes that no worker waits for leave one permit. So a worker that takes a job and leaves another one wakes the next.
    fn pop(&self) -> Result<Job, Option<Instant>> {
        let mut waiting = self.lock();
        let due = waiting.again.peek().map(|Reverse(due)| due.at);
        let job = if due.is_some_and(|at| at <= Instant::now())
            && let Some(Reverse(due)) = waiting.again.pop()
        {
            Job::Again(due.sealed)
        } else {
            waiting.fresh.pop_front().map(Job::Fresh).ok_or(due)?
        };
        if !waiting.fresh.is_empty() || !waiting.again.is_empty() {
            self.changed.notify_one();
        }
        Ok(job)
    }

    #[cfg(test)]
    pub fn pop_fresh(&self) -> Option<Batch> {
        self.lock().fresh.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/sls/batch.rs"]
mod tests;
