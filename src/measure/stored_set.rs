//! A set of sequence numbers as text: chunk by chunk, full and empty ones as runs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::sequences::{CHUNK_WORDS, Chunk, SequenceSet};

const UNTOUCHED: u8 = 0;
const FULL: u8 = 1;
const PARTIAL: u8 = 2;

/// A set of one producer's sequence numbers, to be kept and read again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoredSet {
    /// Numbers are in chunks of 1024. All chunks before this one are full, or were given up.
    first_chunk: u64,
    /// All chunks before this one may have been given up: what they held is not known.
    given_up_until: u64,
    /// Numbers that were marked, and attempts to mark one that had been given up.
    marked: u64,
    unknown: u64,
    /// The chunks from the first on, in base64. Each is a byte and what follows it: 0 and 1 stand for as many empty or full chunks as
    /// the next four bytes say (little-endian), 2 for a chunk whose 1024 bits follow.
    chunks: String,
}

impl SequenceSet {
    pub(super) fn store(&self) -> StoredSet {
        let mut bytes: Vec<u8> = Vec::new();
        let mut run: Option<(u8, u32)> = None;
        let end_run = |run: &mut Option<(u8, u32)>, bytes: &mut Vec<u8>| {
            if let Some((kind, count)) = run.take() {
                bytes.push(kind);
                bytes.extend(count.to_le_bytes());
            }
        };
        for chunk in &self.chunks {
            let kind = match chunk {
                Chunk::Untouched => UNTOUCHED,
                Chunk::Full => FULL,
                Chunk::Partial { bits, .. } => {
                    end_run(&mut run, &mut bytes);
                    bytes.push(PARTIAL);
                    bytes.extend(bits.iter().flat_map(|word| word.to_le_bytes()));
                    continue;
                }
            };
            match &mut run {
                Some((of, count)) if *of == kind => *count += 1,
                _ => {
                    end_run(&mut run, &mut bytes);
                    run = Some((kind, 1));
                }
            }
        }
        end_run(&mut run, &mut bytes);
        StoredSet {
            first_chunk: self.first_chunk,
            given_up_until: self.given_up_until,
            marked: self.marked,
            unknown: self.unknown,
            chunks: STANDARD.encode(bytes),
        }
    }
}

impl StoredSet {
    /// Whether nothing was ever marked.
    pub fn is_empty(&self) -> bool {
        self.marked + self.unknown == 0
    }

    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// # Errors
    /// When the text is not one that [`SequenceSet::store`] makes.
    pub(super) fn restore(&self) -> Result<SequenceSet, String> {
        let damaged = |_| "a set of sequence numbers is damaged".to_owned();
        let bytes = STANDARD.decode(&self.chunks).map_err(|error| damaged(error.to_string()))?;
        let mut set = SequenceSet::new(Budget::new(0));
        let mut rest = bytes.as_slice();
        while let Some((kind, after)) = rest.split_first() {
            let cut_off = || damaged(String::new());
            match *kind {
                PARTIAL => {
                    let (bits, after) = after.split_at_checked(CHUNK_WORDS * 8).ok_or_else(cut_off)?;
                    set.chunks.push_back(partial(bits));
                    rest = after;
                }
                kind @ (UNTOUCHED | FULL) => {
                    let (count, after) = after.split_first_chunk().ok_or_else(cut_off)?;
                    let chunk = || if kind == FULL { Chunk::Full } else { Chunk::Untouched };
                    set.chunks.extend((0..u32::from_le_bytes(*count)).map(|_| chunk()));
                    rest = after;
                }
                _ => return Err(cut_off()),
            }
        }
        set.first_chunk = self.first_chunk;
        (set.given_up_until, set.marked, set.unknown) = (self.given_up_until, self.marked, self.unknown);
        Ok(set)
    }
}

fn partial(bytes: &[u8]) -> Chunk {
    let mut bits = Box::new([0; CHUNK_WORDS]);
    for (word, bytes) in bits.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let missing = bits.iter().map(|word| word.count_zeros()).sum();
    Chunk::Partial { bits, missing }
}

/// All numbers of `sets`, and how many are in several of them: a number in three sets counts twice.
pub(super) fn union(sets: &[SequenceSet]) -> (SequenceSet, u64) {
    let known_from = sets.iter().map(SequenceSet::known_from).max().unwrap_or(0);
    let end = sets.iter().map(SequenceSet::end).max().unwrap_or(0);
    let before = sets.iter().map(|set| set.marked() - set.marked_from(known_from));
    let mut all = SequenceSet::new(Budget::new(0));
    (all.first_chunk, all.given_up_until) = (known_from, known_from);
    (all.marked, all.unknown) = (before.sum(), sets.iter().map(SequenceSet::unknown).sum());
    let mut repeated = 0;
    for number in known_from..end {
        let mut bits = Box::new([0u64; CHUNK_WORDS]);
        let mut marks = 0;
        for set in sets {
            let of_set = set.bits(number);
            for (index, word) in bits.iter_mut().enumerate() {
                marks += u64::from(of_set.word(index).count_ones());
                *word |= of_set.word(index);
            }
        }
        let missing: u32 = bits.iter().map(|word| word.count_zeros()).sum();
        let count = u64::from(bits.iter().map(|word| word.count_ones()).sum::<u32>());
        all.marked += count;
        repeated += marks - count;
        all.chunks.push_back(match (missing, count) {
            (0, _) => Chunk::Full,
            (_, 0) => Chunk::Untouched,
            _ => Chunk::Partial { bits, missing },
        });
    }
    (all, repeated)
}

/// Whether a number is in a set that has given up nothing.
#[cfg(test)]
pub(super) fn holds(set: &SequenceSet, number: u64) -> bool {
    use super::sequences::CHUNK_SEQUENCES;
    let bit = number % CHUNK_SEQUENCES;
    set.bits(number / CHUNK_SEQUENCES).word((bit / 64) as usize) >> (bit % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MAX: u64 = 12_000;

    fn set(runs: &[(u64, u64)], step: u64) -> (SequenceSet, BTreeSet<u64>) {
        let mut set = SequenceSet::new(Budget::new(1 << 20));
        let mut model = BTreeSet::new();
        for (begin, length) in runs {
            for number in (*begin..begin + length).step_by(step as usize) {
                set.mark(number);
                model.insert(number);
            }
        }
        (set, model)
    }

    proptest! {
        #[test]
        fn sets_are_read_as_they_were_stored_and_united_as_sets_are(
            runs in proptest::collection::vec(
                (proptest::collection::vec((0..8000u64, 0..4000u64), 0..5), 1..4u64), 1..4),
        ) {
            let (sets, models): (Vec<SequenceSet>, Vec<BTreeSet<u64>>) =
                runs.iter().map(|(runs, step)| set(runs, *step)).unzip();
            let restored: Vec<SequenceSet> = sets.iter().map(|set| set.store().restore().unwrap()).collect();
            for (set, model) in restored.iter().zip(&models) {
                prop_assert_eq!(set.marked(), model.len() as u64);
                prop_assert!((0..MAX).all(|number| holds(set, number) == model.contains(&number)));
            }
            let (all, repeated) = union(&restored);
            let expected: BTreeSet<u64> = models.iter().flatten().copied().collect();
            prop_assert_eq!(all.marked(), expected.len() as u64);
            prop_assert_eq!(repeated, models.iter().map(|model| model.len() as u64).sum::<u64>() - all.marked());
            prop_assert!((0..MAX).all(|number| holds(&all, number) == expected.contains(&number)));
        }
    }

    #[test]
    fn stored_set_without_gaps_is_small_and_damage_is_refused() {
        let mut long = SequenceSet::new(Budget::new(1 << 20));
        long.mark_all(1, 100_000_000);
        let stored = long.store();
        assert!(stored.chunks.len() < 400, "{}", stored.chunks.len());
        let cut_off = StoredSet { chunks: stored.chunks[..8].to_owned(), ..stored };
        assert!(cut_off.restore().is_err());
    }
}
