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
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::scenario::template::Template;
    use crate::scenario::{Content, Size};

    fn build(content: Content, pool: usize, seed: u64) -> PayloadPool {
        PayloadPool::build(&Payload { content, pool, seed, tombstones: 0.0 }, 32).unwrap()
    }

    fn template(text: &str) -> Content {
        Content::Template { template: Template::parse(text).unwrap() }
    }

    fn everything(pool: &PayloadPool) -> Vec<&[u8]> {
        (0..pool.len() as u64).map(|index| pool.get(index)).collect()
    }

    #[test]
    fn payloads_depend_on_the_seed_alone() {
        for content in [
            Content::Random { size: Size::Uniform { min: 10, max: 100 }, compressibility: 0.3 },
            Content::MessagePack { size: Size::Fixed(10) },
            template("${random:0..1000000000}"),
            Content::Vector { dimension: 8 },
            Content::Log { range: 1_000_000_000 },
        ] {
            let [first, again, other] = [7, 7, 8].map(|seed| build(content.clone(), 16, seed));
            assert_eq!(everything(&first), everything(&again), "{content:?}");
            assert_ne!(everything(&first), everything(&other), "{content:?}");
        }
    }

    #[test]
    fn payloads_are_taken_in_turn_whatever_their_number() {
        for count in [1, 3, 4, 10] {
            let pool = build(Content::Vector { dimension: 16 }, count, 1);
            assert_eq!(pool.len(), count);
            for index in 0..count as u64 {
                let later = index + 1_000_000_007 * count as u64;
                assert_eq!(pool.get(index).as_ptr(), pool.get(later).as_ptr());
                assert_eq!(pool.checksum(index), pool.checksum(later));
            }
        }
    }

    #[test]
    fn checksums_cover_the_bytes_after_the_trace_header() {
        let pool = build(Content::Random { size: Size::Uniform { min: 0, max: 100 }, compressibility: 0.0 }, 64, 1);
        assert!(pool.smallest() < 32 && pool.largest() > 32);
        for index in 0..64 {
            let payload = pool.get(index);
            let expected = if payload.len() <= 32 { 0 } else { crc32fast::hash(&payload[32..]) };
            assert_eq!(pool.checksum(index), expected);
        }
    }

    #[test]
    fn sizes_are_those_of_the_payloads() {
        let pool = build(Content::Zeros { size: Size::Choices(vec![(10, 1.0), (20, 1.0)]) }, 100, 1);
        assert_eq!((pool.smallest(), pool.largest()), (10, 20));
    }

    #[test]
    fn the_pool_holds_its_payloads_and_nothing_else() {
        let pool = build(Content::Vector { dimension: 4 }, 4, 1);
        assert!((0..4).all(|index| pool.holds(pool.get(index))));
        assert!((0..4).all(|index| pool.at(pool.place(pool.get(index)).unwrap()) == pool.get(index)));
        let copy = pool.get(0).to_vec();
        assert!(!pool.holds(&copy));
        let moved = Box::new(pool);
        assert!(moved.holds(&moved.get(3)[1..]));
    }

    #[test]
    fn live_fields_are_filled_in_without_touching_the_pool() {
        let text = r#"{"id":${counter},"t":${timestamp},"d":"${choice:a|bcd}"}"#;
        let pool = build(template(text), 8, 1);
        let before = pool.get(5).to_vec();
        let mut scratch = Vec::new();
        let mut ranges = Vec::new();
        for index in 0..8 {
            ranges.push(pool.live(index).unwrap().render(&mut scratch, 40 + index, 1_700_000_000_123_456_789));
        }
        for (index, range) in ranges.into_iter().enumerate() {
            assert_eq!(range.len(), pool.get(index as u64).len());
            let value: serde_json::Value = serde_json::from_slice(&scratch[range]).unwrap();
            assert_eq!(value["id"], 40 + index);
            assert_eq!(value["t"], 1_700_000_000.123456);
        }
        assert_eq!(pool.get(5), before);
        let still = build(template("${choice:a|b}"), 8, 1);
        assert!(still.live(0).is_none());
    }

    #[test]
    fn errors_reach_the_caller() {
        let file = PathBuf::from("/no/such/file");
        let payload = Payload { content: Content::Lines { file }, pool: 1, seed: 1, tombstones: 0.0 };
        assert!(matches!(PayloadPool::build(&payload, 32), Err(LoadError::Unreadable { .. })));
    }
}
