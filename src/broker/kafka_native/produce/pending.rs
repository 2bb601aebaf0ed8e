//! A batch with what its messages' outcomes need, and the memory that batches take turns in.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::codec::batch::{self, Author, Batch, HEADER_BYTES, Record, TRANSACTIONAL};
use super::super::codec::checksum::PayloadChecksums;
use super::super::codec::compression::{Compression, Compressor};
use crate::load::PayloadPool;
use crate::measure::{SendRun, SendRuns, SendTag};

/// Bytes of memory that is kept for later batches. Without it, a batch would grow from nothing, copied with each doubling.
const MAX_SPARE_BYTES: usize = 64 << 20;

/// How the batches of a client are sealed.
#[derive(Debug, Clone, Copy)]
pub struct Sealing {
    pub compression: Compression,
    pub is_transactional: bool,
}

/// Records with the messages that they are.
pub struct Pending {
    pub batch: Batch,
    pub sent: SendRuns,
    pub payload_bytes: usize,
    /// Its place among the batches of its partition.
    pub number: u64,
    pub created: Instant,
    /// How often it was sent in vain.
    pub attempts: u32,
    /// `None`: it was never sent.
    pub author: Option<Author>,
    /// Bytes of the records before compression; 0: they are not compressed yet.
    pub body_bytes: usize,
    is_sealed: bool,
}

impl Pending {
    #[inline]
    pub fn push(&mut self, record: &Record<'_>, send_tag: SendTag, payload_bytes: usize) {
        self.batch.push(record);
        self.sent.push(send_tag, payload_bytes as u32);
        self.payload_bytes += payload_bytes;
    }

    /// From its first to its last message, as they were sent: it has waited for so long at least, which needs no look at a clock.
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

    /// Compresses the records, if they are not, and fills in the header.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn seal(
        &mut self,
        sealing: Sealing,
        compressor: &mut Compressor,
        spare: &Spare,
        payloads: &PayloadPool,
        checksums: &PayloadChecksums,
    ) -> io::Result<()> {
        let Sealing { compression, is_transactional } = sealing;
        if self.is_sealed {
            return Ok(());
        }
        if self.body_bytes == 0 {
            self.body_bytes = self.batch.len() - HEADER_BYTES;
            if compression != Compression::None {
                let (memory, sent) = spare.take();
                let mut packed = memory.into_bytes();
                packed.clear();
                packed.resize(HEADER_BYTES, 0);
                compressor.compress(&self.batch.own_bytes()[HEADER_BYTES..], &mut packed)?;
                let unpacked = self.batch.replace_bytes(packed);
                spare.put(unpacked, sent);
            }
        }
        let attributes = compression as u8 | if is_transactional { TRANSACTIONAL } else { 0 };
        self.batch.seal(attributes, self.author.unwrap_or(Author::UNNAMED), payloads, checksums);
        self.is_sealed = true;
        Ok(())
    }
}

/// Memory of batches that have their outcome.
#[derive(Default)]
pub struct Spare(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    memory: Vec<Memory>,
    bytes: usize,
}

type Memory = (batch::Memory, SendRuns);

impl Spare {
    /// An empty batch.
    pub fn batch(&self, number: u64) -> Pending {
        let (memory, sent) = self.take();
        Pending {
            batch: Batch::in_memory_of(memory),
            sent,
            payload_bytes: 0,
            number,
            created: Instant::now(),
            attempts: 0,
            author: None,
            body_bytes: 0,
            is_sealed: false,
        }
    }

    /// Keeps the memory of a batch that has its outcome.
    pub fn keep(&self, pending: Pending) {
        self.put(pending.batch.into_memory(), pending.sent);
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
