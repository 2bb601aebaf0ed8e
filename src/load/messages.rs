//! What messages are made of: ready-made payloads, so that generating them never limits sending; the parts of a payload that only the moment of
//! sending can fill in, a counter and the time; keys; and which messages have no payload.

use std::ops::Range;

use rand::RngExt;
use rand::distr::Uniform;
use rand_distr::Zipf;

use super::LoadError;
use super::payload::{self, ENTRY_BYTES, Slot, write_right_aligned};
use super::random::{Generator, Purpose, generator};
use crate::scenario::{Keys, Payload};

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
            .map(|Range { start, end }| {
                // CRC-32 (IEEE 802.3, as zlib's): sender and receiver compare the bytes that the trace header does not replace.
                let beyond = draft.bytes[start..end].get(overlaid..).unwrap_or_default();
                Entry { start, end, checksum: crc32fast::hash(beyond) }
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
        let slots = &self.slots[first..first + self.slots_per_entry];
        Some(LiveFields { text: &self.bytes[entry.start..entry.end], slots })
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

/// One payload with its live fields, as [`PayloadPool::live`] gives it.
#[derive(Debug, Clone, Copy)]
pub struct LiveFields<'a> {
    text: &'a [u8],
    slots: &'a [Slot],
}

impl LiveFields<'_> {
    /// Appends the payload to `scratch`, filled in for message `counter` at `now_unix_ns` (nanoseconds since 1970), and
    /// returns where it lies. The payloads of a batch can so share one buffer; clear it before the next. Nothing is
    /// allocated once the buffer has grown to a batch's size.
    #[inline]
    pub fn render(&self, scratch: &mut Vec<u8>, counter: u64, now_unix_ns: u64) -> Range<usize> {
        let start = scratch.len();
        scratch.extend_from_slice(self.text);
        let payload = &mut scratch[start..];
        for Slot { offset, field } in self.slots {
            field.write(&mut payload[*offset..*offset + field.columns()], counter, now_unix_ns);
        }
        start..scratch.len()
    }
}

const PREFIX: &[u8] = b"key-";
const MIN_DIGITS: usize = 6;
const MAX_DIGITS: usize = 20;

/// The keys of one producer's messages, `key-000042`, written in place.
///
/// All keys of a scenario are equally long, so those of a batch can lie side by side in one
/// buffer.
#[derive(Debug, Clone)]
pub struct KeySource {
    key: [u8; PREFIX.len() + MAX_DIGITS],
    length: usize,
    draw: Draw,
}

#[derive(Debug, Clone)]
enum Draw {
    None,
    RoundRobin {
        next: u64,
        distinct: u64,
    },
    Random {
        number: Uniform<u64>,
        generator: Generator,
    },
    /// Drawn by rejection, so exactly by its law, in constant time for any number of keys: J. Crease, "Zipf-distributed
    /// random numbers – rejection sampling", which `rand_distr` follows.
    Zipf {
        rank: Zipf<f64>,
        distinct: u64,
        generator: Generator,
    },
}

impl KeySource {
    /// Of producer `producer_index` (from 0) of `producers`; every producer has its own random stream of `seed`.
    ///
    /// In a round robin every producer goes through *all* keys, so that each topic sees each key; they start spread
    /// evenly over them, so that not all send the same key at once.
    pub fn new(keys: Keys, producer_index: usize, producers: usize, seed: u64) -> Self {
        let stream = || generator(seed, Purpose::Keys, producer_index as u64);
        // A scenario's `distinct` and `exponent` are above 0, so neither distribution can refuse them.
        let (distinct, draw) = match keys {
            Keys::None => (0, Draw::None),
            Keys::RoundRobin { distinct } => (distinct, round_robin(distinct, producer_index, producers)),
            Keys::Random { distinct } => match Uniform::new(0, distinct) {
                Ok(number) => (distinct, Draw::Random { number, generator: stream() }),
                Err(_) => (0, Draw::None),
            },
            Keys::Zipf { distinct, exponent } => match Zipf::new(distinct as f64, exponent) {
                Ok(rank) => (distinct, Draw::Zipf { rank, distinct, generator: stream() }),
                Err(_) => (0, Draw::None),
            },
        };
        let mut key = [0; PREFIX.len() + MAX_DIGITS];
        key[..PREFIX.len()].copy_from_slice(PREFIX);
        let length = match draw {
            Draw::None => 0,
            _ => PREFIX.len() + digits(distinct.saturating_sub(1)).max(MIN_DIGITS),
        };
        KeySource { key, length, draw }
    }

    /// Whether messages have no keys.
    pub fn is_none(&self) -> bool {
        matches!(self.draw, Draw::None)
    }

    /// The next message's key, valid until the one after is asked for; `None` when messages have none.
    #[inline]
    pub fn next_key(&mut self) -> Option<&[u8]> {
        let number = self.next_number()?;
        write_right_aligned(&mut self.key[PREFIX.len()..self.length], number, b'0');
        Some(&self.key[..self.length])
    }

    /// The numbers of the keys of messages from here on, each below the number of different keys, as [`KeySource::next_key`] writes them.
    pub fn numbers(self) -> impl Iterator<Item = u64> + Clone {
        KeyNumbers(self)
    }

    #[inline]
    fn next_number(&mut self) -> Option<u64> {
        Some(match &mut self.draw {
            Draw::None => return None,
            Draw::RoundRobin { next, distinct } => {
                let number = *next;
                *next = if number + 1 < *distinct { number + 1 } else { 0 };
                number
            }
            Draw::Random { number, generator } => generator.sample(*number),
            // The sampler's ranks count from 1; the upper bound guards against its rounding.
            Draw::Zipf { rank, distinct, generator } => (generator.sample(*rank) as u64).clamp(1, *distinct) - 1,
        })
    }
}

#[derive(Clone)]
struct KeyNumbers(KeySource);

impl Iterator for KeyNumbers {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.0.next_number()
    }
}

fn round_robin(distinct: u64, producer_index: usize, producers: usize) -> Draw {
    let start = u128::from(distinct) * producer_index as u128 / producers.max(1) as u128;
    // `producer_index < producers`, so the start lies below `distinct` and fits.
    Draw::RoundRobin { next: start as u64, distinct }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Decides message by message of one producer.
#[derive(Debug, Clone)]
pub struct TombstoneSource {
    share: f64,
    /// `None`: every message has a payload.
    generator: Option<Generator>,
}

impl TombstoneSource {
    /// Of producer `producer_index` (from 0), with `share` of the messages. Every producer has its own random stream of `seed`.
    pub fn new(share: f64, producer_index: usize, seed: u64) -> Self {
        let stream = || generator(seed, Purpose::Tombstones, producer_index as u64);
        TombstoneSource { share, generator: (share > 0.0).then(stream) }
    }

    /// Whether the next message has no payload.
    #[inline]
    pub fn next_is_tombstone(&mut self) -> bool {
        self.generator.as_mut().is_some_and(|generator| generator.random::<f64>() < self.share)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/load/messages.rs"]
mod tests;
