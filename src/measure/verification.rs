//! Finds lost, duplicated, reordered and corrupt messages at full speed and in bounded memory.
//!
//! Each producer numbers its messages from 0. Per group, every sequence that arrives is marked in a bitmap of chunks of
//! 1024; a chunk that is full is let go, so only chunks with gaps cost memory (128 B each), and their number is bounded:
//! when it is reached, the oldest is given up, its missing messages count as missing for good, and the result says that
//! it is saturated. Order is only promised within a lane (a partition), so it is checked per lane and producer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const CHUNK_MESSAGES: u64 = 1024;
const CHUNK_WORDS: usize = (CHUNK_MESSAGES / 64) as usize;

/// Bytes that the incomplete chunks of one group may take together, unless it has so many producers that two chunks
/// each need more.
const CHUNK_BUDGET_BYTES: usize = 64 << 20;

/// One group's view of what arrived.
pub struct Verification {
    producers: Box<[Mutex<Sequences>]>,
}

/// What was found, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Different messages that arrived intact.
    pub distinct: u64,
    /// Arrivals of a message that had arrived before.
    pub duplicated: u64,
    /// Chunks of a gap-ridden stream that had to be given up: beyond them a late message counts as duplicated.
    pub saturated: bool,
}

impl Verification {
    pub fn new(producers: usize) -> Self {
        let most_chunks = (CHUNK_BUDGET_BYTES / (CHUNK_WORDS * 8) / producers.max(1)).max(2);
        Verification { producers: (0..producers).map(|_| Mutex::new(Sequences::new(most_chunks))).collect() }
    }

    /// Marks one intact message; false if its producer is none of this trial's.
    #[inline]
    pub fn mark(&self, producer: u32, sequence: u64) -> bool {
        match self.producers.get(producer as usize) {
            Some(sequences) => {
                sequences.lock().unwrap_or_else(PoisonError::into_inner).mark(sequence);
                true
            }
            None => false,
        }
    }

    /// The sum over all producers.
    pub fn found(&self) -> Found {
        self.producers.iter().fold(Found::default(), |sum, sequences| {
            let one = sequences.lock().unwrap_or_else(PoisonError::into_inner).found;
            Found {
                distinct: sum.distinct + one.distinct,
                duplicated: sum.duplicated + one.duplicated,
                saturated: sum.saturated | one.saturated,
            }
        })
    }
}

/// Which sequences of one producer have arrived.
struct Sequences {
    /// Number of the first chunk in `chunks`: all before it are full or given up.
    first_chunk: u64,
    chunks: VecDeque<Chunk>,
    incomplete: usize,
    most_chunks: usize,
    found: Found,
}

enum Chunk {
    Untouched,
    Partial { bits: Box<[u64; CHUNK_WORDS]>, missing: u32 },
    Full,
}

impl Sequences {
    fn new(most_chunks: usize) -> Self {
        Sequences { first_chunk: 0, chunks: VecDeque::new(), incomplete: 0, most_chunks, found: Found::default() }
    }

    #[inline]
    fn mark(&mut self, sequence: u64) {
        let number = sequence / CHUNK_MESSAGES;
        let Some(index) = number.checked_sub(self.first_chunk) else {
            self.found.duplicated += 1;
            return;
        };
        let index = index as usize;
        // A sequence no honest producer can have reached would make the table as long as it claims.
        if index >= self.most_chunks.saturating_mul(1024) {
            self.found.saturated = true;
            return;
        }
        while self.chunks.len() <= index {
            self.chunks.push_back(Chunk::Untouched);
        }
        let bit = sequence % CHUNK_MESSAGES;
        let (word, mask) = ((bit / 64) as usize, 1u64 << (bit % 64));
        if let Chunk::Untouched = self.chunks[index] {
            self.chunks[index] = Chunk::Partial { bits: Box::new([0; CHUNK_WORDS]), missing: CHUNK_MESSAGES as u32 };
            self.incomplete += 1;
        }
        match &mut self.chunks[index] {
            Chunk::Partial { bits, missing } if bits[word] & mask == 0 => {
                bits[word] |= mask;
                *missing -= 1;
                self.found.distinct += 1;
                if *missing == 0 {
                    self.chunks[index] = Chunk::Full;
                    self.incomplete -= 1;
                    self.let_go_of_full_chunks();
                } else if self.incomplete > self.most_chunks {
                    self.give_up_the_oldest();
                }
            }
            _ => self.found.duplicated += 1,
        }
    }

    fn let_go_of_full_chunks(&mut self) {
        while let Some(Chunk::Full) = self.chunks.front() {
            self.chunks.pop_front();
            self.first_chunk += 1;
        }
    }

    fn give_up_the_oldest(&mut self) {
        while let Some(chunk) = self.chunks.pop_front() {
            self.first_chunk += 1;
            if let Chunk::Partial { .. } = chunk {
                self.incomplete -= 1;
                self.found.saturated = true;
                break;
            }
        }
        self.let_go_of_full_chunks();
    }
}

/// The lane of messages for which the broker promises no order: none of them is ever found reordered.
pub const LANE_WITHOUT_ORDER: u32 = u32::MAX;

/// The last sequence seen of each producer in each lane: one consumer's, since a lane is read by one at a time.
#[derive(Debug, Default)]
pub struct LaneOrder {
    lanes: Vec<Vec<u64>>,
}

impl LaneOrder {
    /// Whether the message comes after a later one of the same producer in the same lane, where that has an order.
    #[inline]
    pub fn is_reordered(&mut self, lane: u32, producer: u32, sequence: u64) -> bool {
        if lane == LANE_WITHOUT_ORDER {
            return false;
        }
        let (lane, producer) = (lane as usize, producer as usize);
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Vec::new);
        }
        let lasts = &mut self.lanes[lane];
        if lasts.len() <= producer {
            lasts.resize(producer + 1, 0);
        }
        let next = sequence + 1;
        let reordered = next < lasts[producer];
        lasts[producer] = lasts[producer].max(next);
        reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn finds_exactly_what_a_set_finds(sequences in proptest::collection::vec(0..5000u64, 0..9000)) {
            let verification = Verification::new(1);
            let mut seen = HashSet::new();
            let mut duplicated = 0;
            for sequence in sequences {
                verification.mark(0, sequence);
                duplicated += u64::from(!seen.insert(sequence));
            }
            let expected = Found { distinct: seen.len() as u64, duplicated, saturated: false };
            prop_assert_eq!(verification.found(), expected);
        }
    }

    #[test]
    fn memory_stays_bounded_when_every_chunk_has_a_gap_and_the_result_says_so() {
        let mut sequences = Sequences::new(16);
        for sequence in (0..100 * CHUNK_MESSAGES).filter(|sequence| sequence % CHUNK_MESSAGES != 7) {
            sequences.mark(sequence);
        }
        assert!(sequences.incomplete <= 16 && sequences.chunks.len() <= 17);
        assert_eq!(sequences.found.distinct, 100 * (CHUNK_MESSAGES - 1));
        assert!(sequences.found.saturated);
        sequences.mark(u64::MAX);
        assert!(sequences.chunks.len() <= 17);
    }

    #[test]
    fn order_is_kept_per_lane_and_producer() {
        let mut order = LaneOrder::default();
        assert!(!order.is_reordered(0, 0, 5));
        assert!(!order.is_reordered(1, 0, 3), "another lane");
        assert!(!order.is_reordered(0, 1, 0), "another producer");
        assert!(order.is_reordered(0, 0, 4));
        assert!(!order.is_reordered(0, 0, 6));
        assert!(!order.is_reordered(LANE_WITHOUT_ORDER, 0, 1), "nobody promised order");
        assert!(!order.is_reordered(0, 0, 6), "a repetition is a duplicate, not a reordering");
    }

    #[test]
    fn an_unknown_producer_is_not_counted() {
        let verification = Verification::new(2);
        assert!(!verification.mark(2, 0));
        assert_eq!(verification.found(), Found::default());
    }
}
