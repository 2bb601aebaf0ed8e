//! Collects logs into batches, one for each destination, within a budget of bytes.
//!
//! A log belongs to the batch of its store, topic, source and shard. A batch is queued when a log makes it reach its size
//! or count, or when it has lingered. The budget pays for a log's memory from its submission until its batch's outcome is
//! known.
//!
//! Batches are compressed by as many compressors as there are cores. The buffers for a whole batch and its compressed form belong to
//! the compressor and not to the worker: more workers than cores do not compress faster, and would only hold more memory.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use md5::{Digest, Md5};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use super::batch::{Batch, Chunks, Group, LogDestination, Queue, SparePieces, Staged};
use super::codec::Tag;
use super::config::{Compression, MAX_BATCH_BYTES, MAX_BATCH_LOGS};
use super::sign::hex;
use crate::measure::SendTag;

/// With this many groups, those without a batch are removed.
const MAX_IDLE_GROUPS: usize = 4096;

/// When a batch is queued.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes: usize,
    pub logs: usize,
    pub linger: Duration,
}

/// What all producers of a broker share.
pub struct Accumulator {
    pub budget: Semaphore,
    pub limits: Limits,
    pub tags: Vec<Tag>,
    pub queue: Queue,
    run_id: String,
    groups: Mutex<HashMap<Box<[u8]>, Arc<Group>>>,
    pub spare: SparePieces,
    pub compressors: Compressors,
    spare_logs: Mutex<Vec<Vec<(SendTag, u32)>>>,
    /// Logs whose outcome is not known.
    pub pending: AtomicU64,
    /// Time for which producers waited for the budget, in nanoseconds.
    pub waited_ns: AtomicU64,
}

impl Accumulator {
    pub fn new(total_bytes: usize, limits: Limits, tags: Vec<Tag>, run_id: String) -> Self {
        Accumulator {
            budget: Semaphore::new(total_bytes.min(Semaphore::MAX_PERMITS)),
            limits,
            tags,
            queue: Queue::default(),
            run_id,
            groups: Mutex::default(),
            spare: SparePieces::default(),
            compressors: Compressors::default(),
            spare_logs: Mutex::default(),
            pending: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    /// The group of `key`, with the result of `destination` if it is new.
    pub fn group(&self, key: &[u8], destination: impl FnOnce() -> LogDestination) -> Arc<Group> {
        let mut groups = self.groups.lock();
        if let Some(group) = groups.get(key) {
            return group.clone();
        }
        if groups.len() >= MAX_IDLE_GROUPS {
            groups.retain(|_, group| Arc::strong_count(group) > 1 || group.open.lock().is_some());
        }
        let mut digest = Md5::new();
        digest.update(self.run_id.as_bytes());
        digest.update(key);
        let pack = hex(&digest.finalize()[..8]).to_uppercase();
        let group = Arc::new(Group::new(destination(), pack));
        groups.insert(key.into(), group.clone());
        group
    }

    /// Adds the staged logs to the batch of `group`. Their budget has been taken. `staged` is empty afterwards.
    pub fn append(&self, group: &Arc<Group>, staged: &mut Staged) {
        self.pending.fetch_add(staged.logs.len() as u64, Ordering::Relaxed);
        let mut open = group.open.lock();
        // Ends of the staged bytes that are copied and that are counted.
        let (mut copied, mut counted) = (0, 0);
        for log in &staged.logs {
            let encoded = log.end - counted;
            let full = |batch: &Batch| {
                let bytes = (batch.raw_bytes + log.raw_bytes).max(batch.body.len() + counted - copied + encoded);
                bytes > MAX_BATCH_BYTES || batch.logs.len() >= MAX_BATCH_LOGS
            };
            if open.as_ref().is_some_and(full) {
                self.enqueue(&mut open, &staged.bytes[copied..counted]);
                copied = counted;
            }
            let batch = open.get_or_insert_with(|| self.batch(group));
            batch.raw_bytes += log.raw_bytes;
            batch.taken_bytes += log.taken_bytes;
            batch.logs.push((log.send_tag, log.payload_bytes));
            counted = log.end;
            if batch.raw_bytes >= self.limits.bytes || batch.logs.len() >= self.limits.logs {
                self.enqueue(&mut open, &staged.bytes[copied..counted]);
                copied = counted;
            }
        }
        if let Some(batch) = open.as_mut() {
            batch.body.extend(&staged.bytes[copied..], &self.spare);
        }
        staged.logs.clear();
        staged.bytes.clear();
    }

    /// Queues the open batch, with its last bytes.
    fn enqueue(&self, open: &mut Option<Batch>, last: &[u8]) {
        if let Some(mut batch) = open.take() {
            batch.body.extend(last, &self.spare);
            self.queue.push(batch);
        }
    }

    fn batch(&self, group: &Arc<Group>) -> Batch {
        let logs = self.spare_logs.lock().pop().unwrap_or_default();
        let (body, opened) = (Chunks::default(), Instant::now());
        Batch { group: group.clone(), body, logs, raw_bytes: 0, taken_bytes: 0, opened }
    }

    /// Returns the budget and the list of a batch whose outcome is known.
    pub fn settle(&self, mut logs: Vec<(SendTag, u32)>, taken_bytes: usize) {
        self.pending.fetch_sub(logs.len() as u64, Ordering::Relaxed);
        logs.clear();
        self.spare_logs.lock().push(logs);
        self.budget.add_permits(taken_bytes);
    }

    /// Queues each batch when it has lingered. Never returns.
    pub async fn sweep(&self) {
        loop {
            let now = Instant::now();
            // A batch that begins after now is due no earlier.
            let mut next = now + self.limits.linger;
            let groups: Vec<Arc<Group>> = self.groups.lock().values().cloned().collect();
            for group in groups {
                let mut open = group.open.lock();
                let Some(due) = open.as_ref().map(|batch| batch.opened + self.limits.linger) else { continue };
                if due <= now {
                    self.enqueue(&mut open, &[]);
                } else {
                    next = next.min(due);
                }
            }
            tokio::time::sleep_until(next.into()).await;
        }
    }
}

/// The buffer for what is compressed grows in steps of this, for bodies differ by little.
const OUTPUT_STEP_BYTES: usize = 1 << 20;

/// The compressors that all workers share.
pub struct Compressors {
    idle: Mutex<Vec<Compressor>>,
    returned: Condvar,
}

/// Buffers that are kept from one batch to the next.
#[derive(Default)]
struct Compressor {
    body: Vec<u8>,
    output: Vec<u8>,
}

impl Default for Compressors {
    fn default() -> Self {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        Compressors { idle: Mutex::new((0..count).map(|_| Compressor::default()).collect()), returned: Condvar::new() }
    }
}

impl Compressors {
    /// Lets `fill` write a body and compresses it: the body as it is sent, and its size before. Waits, blocking its thread,
    /// while all compressors are in use.
    ///
    /// # Errors
    /// The compressor's.
    pub fn compress(
        &self,
        compression: Compression,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(Bytes, usize), io::Error> {
        let mut idle = self.idle.lock();
        self.returned.wait_while(&mut idle, |idle| idle.is_empty());
        let mut compressor = idle.pop().unwrap_or_default();
        drop(idle);
        compressor.body.clear();
        fill(&mut compressor.body);
        let (body_bytes, body) = (compressor.body.len(), compressor.compress(compression));
        self.idle.lock().push(compressor);
        self.returned.notify_one();
        Ok((body?, body_bytes))
    }
}

impl Compressor {
    /// What is in `body`, compressed. Uncompressed, it is the buffer itself.
    fn compress(&mut self, compression: Compression) -> Result<Bytes, io::Error> {
        let most = match compression {
            Compression::None => return Ok(Bytes::from(std::mem::take(&mut self.body))),
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(self.body.len()),
            Compression::Zstd => zstd::zstd_safe::compress_bound(self.body.len()),
        };
        if self.output.len() < most {
            // New memory that is zero already costs nothing until it is written to, and most of it never is.
            self.output = vec![0; most.next_multiple_of(OUTPUT_STEP_BYTES)];
        }
        let size = match compression {
            Compression::Zstd => zstd::bulk::compress_to_buffer(&self.body, &mut self.output, 1)?,
            _ => lz4_flex::block::compress_into(&self.body, &mut self.output).map_err(io::Error::other)?,
        };
        Ok(Bytes::copy_from_slice(&self.output[..size]))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/sls/accumulator.rs"]
mod tests;
