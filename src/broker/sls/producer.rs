//! A producer: encodes logs, takes their size from the budget, and adds them to their groups.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use md5::{Digest, Md5};
use tokio::sync::SemaphorePermit;

use super::accumulator::Accumulator;
use super::batch::{Group, LogDestination, Staged, StagedLog};
use super::codec::{Record, write_log};
use super::config::MAX_BATCH_BYTES;
use super::sign::hex;
use crate::broker::{FailureClass, Outgoing, Producer, SubmitError};

/// Groups that a producer caches. Beyond it, the cache is cleared.
const MAX_CACHED: usize = 1024;

/// Shards are distinguished by this many bits of a key's hash, so that keys do not each get a batch of their own: as the
/// service's own Java producer does.
const SHARD_HASH_MASK: u8 = 0b1111_1100;

/// A sender to one log store.
pub struct SlsProducer {
    accumulator: Arc<Accumulator>,
    store: Arc<str>,
    max_block: Duration,
    total_bytes: usize,
    record: Record,
    /// A group's name: topic and source, each after its length, and shard.
    name: Vec<u8>,
    known: HashMap<Box<[u8]>, usize>,
    groups: Vec<(Arc<Group>, Staged)>,
    /// Groups with something staged.
    touched: Vec<usize>,
}

impl SlsProducer {
    pub fn new(accumulator: Arc<Accumulator>, store: &str, max_block: Duration, total_bytes: usize) -> Self {
        SlsProducer {
            accumulator,
            store: store.into(),
            max_block,
            total_bytes,
            record: Record::default(),
            name: Vec::new(),
            known: HashMap::new(),
            groups: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Encodes a log into its group's staged bytes. Returns the group's index and the log's memory: the size that the
    /// service counts or the size of the encoding, whichever is larger.
    #[inline]
    fn stage(&mut self, outgoing: &Outgoing<'_>, unix_seconds: u32) -> (usize, usize) {
        self.record.read(outgoing.payload);
        let index = self.group(outgoing);
        let staged = &mut self.groups[index].1;
        let trace_header = outgoing.trace_header;
        let begin = staged.bytes.len();
        let raw_bytes = write_log(&mut staged.bytes, &self.record, outgoing.payload, trace_header, unix_seconds);
        if staged.logs.is_empty() {
            self.touched.push(index);
        }
        let (end, payload_bytes) = (staged.bytes.len(), outgoing.payload.len() as u32);
        let taken_bytes = raw_bytes.max(end - begin);
        staged.logs.push(StagedLog { end, raw_bytes, taken_bytes, send_tag: outgoing.send_tag, payload_bytes });
        (index, taken_bytes)
    }

    #[inline]
    fn group(&mut self, outgoing: &Outgoing<'_>) -> usize {
        let (topic, source) = self.record.topic_and_source(outgoing.payload);
        let shard = outgoing.key.map(|key| Md5::digest(key)[0] & SHARD_HASH_MASK);
        self.name.clear();
        for part in [topic, source] {
            self.name.extend_from_slice(&(part.len() as u32).to_le_bytes());
            self.name.extend_from_slice(part);
        }
        self.name.extend(shard);
        if let Some(&index) = self.known.get(&self.name[..]) {
            return index;
        }
        let own = [self.store.as_bytes(), b"\0", &self.name].concat();
        let group = self.accumulator.group(&own, || LogDestination {
            store: self.store.clone(),
            topic: topic.to_vec(),
            source: source.to_vec(),
            shard_hash: shard.map(|byte| hex(&[byte]) + &"0".repeat(30)),
        });
        self.groups.push((group, Staged::default()));
        self.known.insert(self.name.as_slice().into(), self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Discards the staged logs of a call that was cancelled.
    fn reset(&mut self) {
        for index in self.touched.drain(..) {
            self.groups[index].1.clear();
        }
        if self.groups.len() > MAX_CACHED {
            self.known.clear();
            self.groups.clear();
        }
    }
}

/// Waits until the budget has space for a log.
async fn acquire(
    accumulator: &Accumulator,
    taken_bytes: usize,
    max_block: Duration,
) -> Result<SemaphorePermit<'_>, SubmitError> {
    let weight = u32::try_from(taken_bytes).unwrap_or(u32::MAX);
    if let Ok(permit) = accumulator.budget.try_acquire_many(weight) {
        return Ok(permit);
    }
    let waiting = Waiting { accumulator, since: Instant::now() };
    let permit = tokio::time::timeout(max_block, accumulator.budget.acquire_many(weight)).await;
    drop(waiting);
    match permit {
        Ok(Ok(permit)) => Ok(permit),
        // The semaphore is never closed, so this is the timeout.
        _ => Err(SubmitError {
            class: FailureClass::QueueFull,
            message: format!(
                "the budget had no space for {taken_bytes} bytes within {max_block:?}: logs without an outcome fill `total_size`"
            ),
        }),
    }
}

/// Counts the wait, also when it is cancelled.
struct Waiting<'a> {
    accumulator: &'a Accumulator,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited_ns = self.since.elapsed().as_nanos() as u64;
        self.accumulator.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
    }
}

impl Producer for SlsProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        self.reset();
        let Some((first, rest)) = batch.split_first() else { return Ok(0) };
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        let (_, taken_bytes) = self.stage(first, unix_seconds);
        let most = MAX_BATCH_BYTES.min(self.total_bytes);
        if taken_bytes > most {
            self.reset();
            let message = format!("a log of {taken_bytes} bytes is larger than the {most} that can be sent");
            return Err(SubmitError { class: FailureClass::TooLarge, message });
        }
        let accumulator = self.accumulator.clone();
        let permit = acquire(&accumulator, taken_bytes, self.max_block).await?;
        let mut taken = 1;
        // Nothing awaits from here on, so a cancellation cannot split the batch.
        for outgoing in rest {
            let (index, taken_bytes) = self.stage(outgoing, unix_seconds);
            let fits = taken_bytes <= most;
            match accumulator.budget.try_acquire_many(taken_bytes as u32) {
                Ok(permit) if fits => permit.forget(),
                _ => {
                    self.groups[index].1.unstage();
                    break;
                }
            }
            taken += 1;
        }
        permit.forget();
        for index in mem::take(&mut self.touched) {
            let (group, staged) = &mut self.groups[index];
            accumulator.append(group, staged);
        }
        Ok(taken)
    }
}
