//! Batches with what their messages' outcomes need, the pool of their memory, the queue in which a node's sender finds partitions that have a batch to
//! send, and what a client has sent, counted a batch at a time.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::codec::batch::{self, Author, Batch, HEADER_BYTES, Record};
use super::super::codec::compression::{Compressor, PayloadChecksums};
use crate::broker::{Telemetry, Wire};
use crate::load::PayloadPool;
use crate::measure::{Distribution, SendRun, SendRuns, SendTag};

/// Bytes of memory that is kept for later batches. Without it, a batch would grow from nothing, copied with each doubling.
const MAX_SPARE_BYTES: usize = 64 << 20;

/// Records of one partition, with what the outcomes of their messages need.
pub struct ProducerBatch {
    pub encoded: Batch,
    pub sent: SendRuns,
    pub payload_bytes: usize,
    /// Position among the batches of its partition.
    pub number: u64,
    pub created: Instant,
    /// Number of sends without success.
    pub attempts: u32,
    /// Whether the broker may have it under its number: it was sent, and no answer says otherwise.
    pub may_be_stored: bool,
    /// Producer id, epoch and sequence number; `None`: it was never sent.
    pub author: Option<Author>,
    /// Bytes of the records before compression; 0: they are not compressed yet.
    pub body_bytes: usize,
    is_sealed: bool,
}

impl ProducerBatch {
    #[inline]
    pub fn push(&mut self, record: &Record<'_>, send_tag: SendTag, payload_bytes: usize) {
        self.encoded.push(record);
        self.sent.push(send_tag, payload_bytes as u32);
        self.payload_bytes += payload_bytes;
    }

    /// Time from its first to its last message, as they were sent: it has waited for so long at least, which needs no look at a clock.
    #[inline]
    pub fn span(&self) -> Duration {
        let sent_ns = |run: Option<&SendRun>| run.map_or(0, |run| run.first.sent_ns());
        let runs = self.sent.runs();
        Duration::from_nanos(sent_ns(runs.last()).saturating_sub(sent_ns(runs.first())))
    }

    /// Whether it has waited for `linger`.
    pub fn has_lingered(&self, linger: Duration, now: Instant) -> bool {
        self.span() >= linger || self.created + linger <= now
    }

    /// Numbers it. A batch that gets another number is sealed again.
    pub fn set_author(&mut self, author: Author) {
        self.is_sealed &= self.author == Some(author);
        self.author = Some(author);
    }

    /// Compresses the records, if they are not, and fills in the header, with these attributes.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn seal(
        &mut self,
        attributes: u8,
        compressor: &mut Compressor,
        buffers: &BufferPool,
        payloads: &PayloadPool,
        checksums: &PayloadChecksums,
    ) -> io::Result<()> {
        if self.is_sealed {
            return Ok(());
        }
        if self.body_bytes == 0 {
            self.body_bytes = self.encoded.len() - HEADER_BYTES;
            if !matches!(compressor, Compressor::None) {
                let (memory, sent) = buffers.take();
                let mut packed = memory.into_bytes();
                packed.clear();
                packed.resize(HEADER_BYTES, 0);
                compressor.compress(&self.encoded.own_bytes()[HEADER_BYTES..], &mut packed)?;
                let unpacked = self.encoded.replace_bytes(packed);
                buffers.put(unpacked, sent);
            }
        }
        self.encoded.seal(attributes, self.author.unwrap_or(Author::UNNAMED), payloads, checksums);
        self.is_sealed = true;
        Ok(())
    }
}

/// How a batch comes back to its partition, to be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// Without an answer, or with an error that the broker may have met after it had written the batch.
    InDoubt,
    /// The leader does not have it under its number, because it lacks an earlier one.
    Absent,
    /// The leader has forgotten the identity, and all that was stored with it is gone.
    Forgotten,
}

/// Memory of batches that have their outcome.
#[derive(Default)]
pub struct BufferPool(Mutex<FreeMemory>);

#[derive(Default)]
struct FreeMemory {
    memory: Vec<Memory>,
    bytes: usize,
}

type Memory = (batch::Memory, SendRuns);

impl BufferPool {
    /// An empty batch.
    pub fn allocate(&self, number: u64) -> ProducerBatch {
        let (memory, sent) = self.take();
        ProducerBatch {
            encoded: Batch::in_memory_of(memory),
            sent,
            payload_bytes: 0,
            number,
            created: Instant::now(),
            attempts: 0,
            may_be_stored: false,
            author: None,
            body_bytes: 0,
            is_sealed: false,
        }
    }

    /// Keeps the memory of a batch that has its outcome.
    pub fn deallocate(&self, batch: ProducerBatch) {
        self.put(batch.encoded.into_memory(), batch.sent);
    }

    fn take(&self) -> Memory {
        let mut kept = self.0.lock();
        let memory = kept.memory.pop().unwrap_or_default();
        kept.bytes -= bytes_of(&memory);
        memory
    }

    fn put(&self, memory: batch::Memory, mut sent: SendRuns) {
        sent.clear();
        let memory = (memory, sent);
        let bytes = bytes_of(&memory);
        let mut kept = self.0.lock();
        if kept.bytes + bytes <= MAX_SPARE_BYTES {
            kept.bytes += bytes;
            kept.memory.push(memory);
        }
    }
}

fn bytes_of((memory, sent): &Memory) -> usize {
    memory.size() + sent.memory_bytes()
}

/// Entries that have something to send, that linger, or that wait after an error, and what wakes the task that looks at them.
pub struct ReadyQueue<T> {
    lists: Mutex<Lists<T>>,
    work: Notify,
}

struct Lists<T> {
    /// Entries of which something can be sent.
    ready: VecDeque<Arc<T>>,
    /// Entries that wait for more messages until that moment. All wait for the same time, so the first is due first.
    lingering: VecDeque<(Instant, Arc<T>)>,
    /// Entries that wait until that moment, after errors.
    later: Vec<(Instant, Arc<T>)>,
}

impl<T> Default for ReadyQueue<T> {
    fn default() -> Self {
        let lists = Lists { ready: VecDeque::new(), lingering: VecDeque::new(), later: Vec::new() };
        ReadyQueue { lists: Mutex::new(lists), work: Notify::new() }
    }
}

impl<T> ReadyQueue<T> {
    /// Waits until something is on a list that was not.
    pub async fn work(&self) {
        self.work.notified().await;
    }

    /// Wakes the task that looks at the lists.
    pub fn wake(&self) {
        self.work.notify_one();
    }

    /// Something of the entry can be sent.
    pub fn add(&self, entry: Arc<T>) {
        self.lists.lock().ready.push_back(entry);
        self.work.notify_one();
    }

    /// The same of several entries, by the task itself.
    pub fn add_again(&self, entries: impl IntoIterator<Item = Arc<T>>) {
        self.lists.lock().ready.extend(entries);
    }

    /// The entry is sent at `due` at the latest.
    pub fn linger(&self, due: Instant, entry: Arc<T>) {
        let mut lists = self.lists.lock();
        let is_first = lists.lingering.is_empty();
        lists.lingering.push_back((due, entry));
        drop(lists);
        if is_first {
            self.work.notify_one();
        }
    }

    /// Nothing of the entry is sent before `moment`.
    pub fn postpone(&self, moment: Instant, entry: Arc<T>) {
        self.lists.lock().later.push((moment, entry));
    }

    /// Takes the entry off the list of what can be sent, now or later, on which it is. Returns whether it was on one. Entries that leave in the
    /// order in which they came are found at once.
    pub fn remove(&self, entry: &Arc<T>) -> bool {
        let mut lists = self.lists.lock();
        if let Some(place) = lists.ready.iter().position(|one| Arc::ptr_eq(one, entry)) {
            return lists.ready.remove(place).is_some();
        }
        let place = lists.later.iter().position(|(_, one)| Arc::ptr_eq(one, entry));
        place.is_some_and(|place| {
            lists.later.swap_remove(place);
            true
        })
    }

    /// The next entry of which something can be sent.
    pub fn next(&self) -> Option<Arc<T>> {
        self.lists.lock().ready.pop_front()
    }

    /// The number of entries that have something to send.
    pub fn count(&self) -> usize {
        self.lists.lock().ready.len()
    }

    /// When a list has to be looked at again.
    pub fn next_due(&self) -> Option<Instant> {
        let lists = self.lists.lock();
        let later = lists.later.iter().map(|(due, _)| *due);
        later.chain(lists.lingering.front().map(|(due, _)| *due)).min()
    }

    /// Makes entries ready that were postponed until `now`, and takes those that have waited for messages until then.
    pub fn take_lingered(&self, now: Instant) -> Vec<Arc<T>> {
        let mut due = Vec::new();
        let mut lists = self.lists.lock();
        while lists.lingering.front().is_some_and(|(moment, _)| *moment <= now) {
            due.extend(lists.lingering.pop_front().map(|(_, entry)| entry));
        }
        let later: Vec<_> = lists.later.extract_if(.., |(moment, _)| *moment <= now).collect();
        lists.ready.extend(later.into_iter().map(|(_, entry)| entry));
        due
    }

    /// Takes every entry of which something can be sent, now or later.
    pub fn take_all(&self) -> VecDeque<Arc<T>> {
        let mut lists = self.lists.lock();
        let mut all = std::mem::take(&mut lists.ready);
        all.extend(lists.later.drain(..).map(|(_, entry)| entry));
        all
    }
}

/// Counts since the last look.
#[derive(Default)]
pub struct Traffic {
    /// Messages that were handed over and have no outcome.
    pub queued_messages: AtomicU64,
    /// Time for which producers waited for the client's memory.
    pub queue_full_ns: AtomicU64,
    /// Open connections that have sent something.
    pub connections: AtomicU64,
    /// Time for which a connection took no request, although there were batches to send.
    pub connections_full_ns: AtomicU64,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    wire: Wire,
    round_trips: Distribution,
}

impl Traffic {
    /// Whether the messages of every batch have their outcome.
    pub fn is_idle(&self) -> bool {
        self.queued_messages.load(Ordering::Relaxed) == 0
    }

    /// A request was sent.
    pub fn sent(&self) {
        self.counted.lock().wire.requests += 1;
    }

    /// A batch is to be sent again.
    pub fn retried(&self) {
        self.counted.lock().wire.retried += 1;
    }

    /// A response came after that time. `is_throttled`: a quota was used up.
    pub fn answered(&self, round_trip: Duration, is_throttled: bool) {
        let mut counted = self.counted.lock();
        counted.wire.quota_refusals += u64::from(is_throttled);
        counted.round_trips.record(round_trip.as_nanos() as u64);
    }

    /// The broker has a batch.
    pub fn taken(&self, batch: &ProducerBatch) {
        let wire = &mut self.counted.lock().wire;
        wire.raw_bytes += batch.payload_bytes as u64;
        wire.body_bytes += batch.body_bytes as u64;
        wire.sent_bytes += (batch.encoded.len() - HEADER_BYTES) as u64;
    }

    /// What was counted since the last call.
    pub fn take(&self) -> Telemetry {
        let mut counted = self.counted.lock();
        let wire = std::mem::take(&mut counted.wire);
        Telemetry {
            queue_messages: Some(self.queued_messages.load(Ordering::Relaxed)),
            queue_full_ns: self.queue_full_ns.swap(0, Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            connections_full_ns: self.connections_full_ns.swap(0, Ordering::Relaxed),
            wire: Some(wire),
            ..Telemetry::take_round_trips(&mut counted.round_trips)
        }
    }
}
