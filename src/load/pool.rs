//! Ready-made payloads, so that generating them never limits sending.

use std::ops::Range;

use super::error::LoadError;
use super::live::{LiveFields, Slot};
use super::payload;
use crate::scenario::Payload;

/// The most a pool may take: beyond it the load would be one of the host's memory.
pub(super) const MAX_POOL_BYTES: usize = 4 << 30;

/// Every payload of a trial, in one allocation that never moves.
///
/// Payloads are numbered by the messages that carry them: message `index` has payload `index mod len`. Where the number
/// of payloads is a power of two, that is a mask; otherwise a division, which a current processor does in 2 to 5 ns.
#[derive(Debug)]
pub struct PayloadPool {
    bytes: Box<[u8]>,
    entries: Box<[Entry]>,
    /// `Some(len - 1)` when the number of payloads is a power of two.
    mask: Option<u64>,
    /// Where each payload's live fields are; `slots_per_entry` of each, in the order of the payloads.
    slots: Box<[Slot]>,
    slots_per_entry: usize,
    total_size: u64,
    smallest: usize,
    largest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    end: usize,
    checksum: u32,
}

impl PayloadPool {
    /// Makes the payloads, the same for the same description on every machine.
    ///
    /// `room_for_envelope` is how many bytes at the start of a payload an envelope may replace when it is sent:
    /// [`PayloadPool::checksum`] is of what comes after them. It changes no payload and no size; whether a payload is
    /// long enough to be written into, [`PayloadPool::smallest`] tells.
    ///
    /// # Errors
    /// When a file cannot be read or has no lines, a template is wrong, or the payloads would take more than 4 GiB.
    pub fn build(payload: &Payload, room_for_envelope: usize) -> Result<PayloadPool, LoadError> {
        let draft = payload::generate(payload)?;
        let entries: Box<[Entry]> = draft
            .ranges
            .into_iter()
            .map(|Range { start, end }| Entry {
                start,
                end,
                checksum: checksum_beyond(room_for_envelope, &draft.bytes[start..end]),
            })
            .collect();
        let sizes = || entries.iter().map(|entry| entry.end - entry.start);
        Ok(PayloadPool {
            mask: entries.len().is_power_of_two().then(|| entries.len() as u64 - 1),
            slots_per_entry: draft.slots.len() / entries.len().max(1),
            slots: draft.slots.into(),
            total_size: sizes().map(|size| size as u64).sum(),
            smallest: sizes().min().unwrap_or(0),
            largest: sizes().max().unwrap_or(0),
            bytes: draft.bytes.into(),
            entries,
        })
    }

    /// How many payloads there are, at least 1. A file may have fewer lines than the scenario's pool asks for.
    #[expect(clippy::len_without_is_empty, reason = "a pool is never empty")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The payload of message `index`, taken modulo [`PayloadPool::len`]. Of a payload with live fields, the bytes are
    /// as at counter 0 and time 0.
    #[inline]
    pub fn get(&self, index: u64) -> &[u8] {
        let entry = &self.entries[self.position(index)];
        &self.bytes[entry.start..entry.end]
    }

    /// The parts of message `index`'s payload that are filled in when it is sent; `None`: send it as it is.
    #[inline]
    pub fn live(&self, index: u64) -> Option<LiveFields<'_>> {
        if self.slots_per_entry == 0 {
            return None;
        }
        let position = self.position(index);
        let first = position * self.slots_per_entry;
        let entry = &self.entries[position];
        Some(LiveFields::new(&self.bytes[entry.start..entry.end], &self.slots[first..first + self.slots_per_entry]))
    }

    /// Whether payloads have live fields; all of a pool have, or none.
    pub fn is_live(&self) -> bool {
        self.slots_per_entry > 0
    }

    /// [`checksum_beyond`] the room for the envelope of what [`PayloadPool::get`] returns. A payload with live fields
    /// is another one each time it is rendered: its checksum has to be taken then.
    #[inline]
    pub fn checksum(&self, index: u64) -> u32 {
        self.entries[self.position(index)].checksum
    }

    /// Mean size of the payloads in bytes: the mean of what is sent whenever the pool is gone through evenly.
    pub fn mean_size(&self) -> f64 {
        self.total_size as f64 / self.entries.len() as f64
    }

    /// Size of the smallest payload in bytes.
    pub fn smallest(&self) -> usize {
        self.smallest
    }

    /// Size of the largest payload in bytes.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Whether `payload` lies inside the pool, so that it lives and stays unchanged as long as the pool does.
    #[inline]
    pub fn holds(&self, payload: &[u8]) -> bool {
        let pool = self.bytes.as_ptr_range();
        let payload = payload.as_ptr_range();
        pool.start <= payload.start && payload.end <= pool.end
    }

    #[inline]
    fn position(&self, index: u64) -> usize {
        // Either way the result is below the number of entries.
        match self.mask {
            Some(mask) => (index & mask) as usize,
            None => (index % self.entries.len() as u64) as usize,
        }
    }
}

/// The CRC-32 (IEEE 802.3, as zlib's) of a payload without its first `envelope` bytes; that of nothing, 0, if there are
/// no more. Sender and receiver compare what the envelope does not replace.
#[inline]
pub fn checksum_beyond(envelope: usize, payload: &[u8]) -> u32 {
    crc32fast::hash(payload.get(envelope..).unwrap_or_default())
}

/// Payloads in the making: what a generator family hands over.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    /// Where each payload lies in `bytes`; payloads may share bytes.
    pub(super) ranges: Vec<Range<usize>>,
    /// The live fields, the same number for each payload.
    pub(super) slots: Vec<Slot>,
}

impl Draft {
    /// Room for payloads of `bytes` all together.
    pub(super) fn with_room(payloads: usize, bytes: u128) -> Result<Draft, LoadError> {
        check_limit(payloads, bytes)?;
        Ok(Draft {
            bytes: Vec::with_capacity(bytes as usize),
            ranges: Vec::with_capacity(payloads),
            ..Draft::default()
        })
    }

    /// Appends the payload that `write` appends to the bytes.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), LoadError> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.finish(start)
    }

    /// Makes what has been appended since `start` a payload.
    pub(super) fn finish(&mut self, start: usize) -> Result<(), LoadError> {
        self.ranges.push(start..self.bytes.len());
        check_limit(self.ranges.len(), self.bytes.len() as u128)
    }
}

/// Counts the bookkeeping too, so that a thousand million tiny payloads are refused as well.
pub(super) fn check_limit(payloads: usize, bytes: u128) -> Result<(), LoadError> {
    let bytes = bytes + (payloads as u128) * size_of::<Entry>() as u128;
    if bytes > MAX_POOL_BYTES as u128 {
        return Err(LoadError::PoolTooLarge { bytes, limit: MAX_POOL_BYTES });
    }
    Ok(())
}
