//! Ready-made payloads, so that generating them never limits sending.

use std::ops::Range;

use super::live::{LiveFields, Slot};
use super::payload::draft::ENTRY_BYTES;
use super::{LoadError, payload};
use crate::scenario::Payload;

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
    smallest: usize,
    largest: usize,
}

/// Where bytes lie inside a pool. They stay there unchanged as long as the pool lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadPlace {
    start: usize,
    end: usize,
}

impl PayloadPlace {
    /// How many bytes of the pool come before it.
    #[inline]
    pub fn begin(self) -> usize {
        self.start
    }

    /// How many bytes there are.
    #[inline]
    pub fn size(self) -> usize {
        self.end - self.start
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    end: usize,
    checksum: u32,
}

const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES);

impl PayloadPool {
    /// Makes the payloads, the same for the same description.
    ///
    /// `overlaid` is how many bytes at the start of a payload a trace header may replace when it is sent:
    /// [`PayloadPool::checksum`] covers the bytes after them. Payloads and sizes do not depend on it.
    ///
    /// # Errors
    /// When a file cannot be read or has no lines, sizes cannot be drawn, or the payloads would take more than 4 GiB.
    pub fn build(payload: &Payload, overlaid: usize) -> Result<PayloadPool, LoadError> {
        let draft = payload::generate(payload)?;
        let entries: Box<[Entry]> = draft
            .ranges
            .into_iter()
            .map(|Range { start, end }| Entry {
                start,
                end,
                checksum: checksum_beyond(overlaid, &draft.bytes[start..end]),
            })
            .collect();
        let sizes = || entries.iter().map(|entry| entry.end - entry.start);
        Ok(PayloadPool {
            mask: entries.len().is_power_of_two().then(|| entries.len() as u64 - 1),
            slots_per_entry: draft.slots.len() / entries.len().max(1),
            slots: draft.slots.into(),
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

    /// CRC-32 of the bytes after the overlaid ones of what [`PayloadPool::get`] returns. A payload with live fields
    /// is another one each time it is rendered: its checksum has to be taken then.
    #[inline]
    pub fn checksum(&self, index: u64) -> u32 {
        self.entries[self.position(index)].checksum
    }

    /// Size of the smallest payload in bytes.
    pub fn smallest(&self) -> usize {
        self.smallest
    }

    /// Mean size of the payloads in bytes.
    pub fn mean(&self) -> f64 {
        self.entries.iter().map(|entry| (entry.end - entry.start) as f64).sum::<f64>()
            / self.entries.len().max(1) as f64
    }

    /// Size of the largest payload in bytes.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// The size of every payload in bytes; `None`: they differ.
    pub fn uniform_size(&self) -> Option<usize> {
        (self.smallest == self.largest).then_some(self.largest)
    }

    /// All payloads, one after the other. Equal ones may be there once.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether `payload` lies inside the pool, so that it lives and stays unchanged as long as the pool does.
    #[inline]
    pub fn holds(&self, payload: &[u8]) -> bool {
        self.place(payload).is_some()
    }

    /// Where `payload` lies inside the pool; `None`: it is not a part of it.
    #[inline]
    pub fn place(&self, payload: &[u8]) -> Option<PayloadPlace> {
        let start = payload.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        let end = start.checked_add(payload.len())?;
        (end <= self.bytes.len()).then_some(PayloadPlace { start, end })
    }

    /// The bytes at a place that [`PayloadPool::place`] has named.
    #[inline]
    pub fn at(&self, place: PayloadPlace) -> &[u8] {
        &self.bytes[place.start..place.end]
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

/// The CRC-32 (IEEE 802.3, as zlib's) of a payload without its first `overlaid` bytes; that of nothing, 0, if there are
/// no more. Sender and receiver compare the bytes that the trace header does not replace.
#[inline]
fn checksum_beyond(overlaid: usize, payload: &[u8]) -> u32 {
    crc32fast::hash(payload.get(overlaid..).unwrap_or_default())
}

#[cfg(test)]
#[path = "../../tests/unit/load/pool.rs"]
mod tests;
