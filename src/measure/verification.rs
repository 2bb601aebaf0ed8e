//! Finds lost, unread and duplicated messages at full speed and in bounded memory.
//!
//! Each producer numbers its messages from 0. What was acknowledged is one set of numbers for each producer, what arrived is
//! one for each producer and group; the account is made by comparing them.
//!
//! Numbers mostly come in order. They are marked in chunks of 1024. A chunk that is full keeps no bits, and full chunks at the front keep nothing
//! at all, so only gaps cost memory (128 B a chunk). Sets share a budget. When it is exceeded, a set that needs more gives up its
//! oldest chunks: from then on it does not know which of their numbers it holds.

use std::collections::VecDeque;
use std::ops::AddAssign;

use parking_lot::Mutex;

use super::budget::Budget;

/// Bytes that the sets of one trial may take together for each group, unless it has so many producers that two chunks for
/// each set need more.
const BYTES_PER_GROUP: usize = 64 << 20;

/// What was acknowledged, and what arrived where.
pub struct Verification {
    /// Acknowledged messages of each producer.
    pub(super) acknowledged: Sets,
    /// Messages that arrived, by group, then by producer.
    pub(super) arrived: Box<[Sets]>,
    /// The number of this process's first producer: spans count from it.
    pub(super) first_producer: usize,
}

pub(super) type Sets = Box<[Mutex<SequenceSet>]>;

/// Successive messages of one producer, from `begin` up to, without, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub producer_index: u32,
    pub begin: u64,
    pub end: u64,
}

/// What became of a group's messages, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupAccount {
    /// Acknowledged, offered to the group or passed by it, and not arrived.
    pub lost: u64,
    /// Acknowledged, not arrived, and not known to have been offered.
    pub unread: u64,
    /// Acknowledged, not arrived, and removed by the broker's own rules.
    pub removed: u64,
    /// Acknowledged, and not known to have arrived, in stretches that were given up.
    pub undecided: u64,
    /// Arrived, though failed or without an outcome.
    pub not_acknowledged_but_stored: u64,
    /// Something was given up, so the other numbers, and that of duplicates, are lower bounds.
    pub saturated: bool,
}

impl GroupAccount {
    /// Acknowledged messages that are not known to have arrived.
    pub fn missing(self) -> u64 {
        self.lost + self.unread + self.removed + self.undecided
    }
}

impl AddAssign for GroupAccount {
    fn add_assign(&mut self, other: GroupAccount) {
        self.lost += other.lost;
        self.unread += other.unread;
        self.removed += other.removed;
        self.undecided += other.undecided;
        self.not_acknowledged_but_stored += other.not_acknowledged_but_stored;
        self.saturated |= other.saturated;
    }
}

impl Verification {
    pub fn new(producers: usize, groups: usize) -> Self {
        Verification::within(BYTES_PER_GROUP * groups, producers, groups)
    }

    /// Of one of several processes whose `producers` are numbered together; its own begin at `first_producer`.
    pub fn for_process(producers: usize, groups: usize, first_producer: usize) -> Self {
        Verification { first_producer, ..Verification::new(producers, groups) }
    }

    fn within(budget_bytes: usize, producers: usize, groups: usize) -> Self {
        let budget = Budget::new(budget_bytes);
        let sets = || (0..producers).map(|_| Mutex::new(SequenceSet::new(budget.clone()))).collect();
        let arrived = (0..groups).map(|_| sets()).collect();
        Verification { acknowledged: sets(), arrived, first_producer: 0 }
    }

    /// Marks messages as acknowledged. Sorts `spans`, so that each producer's set is locked once.
    pub fn acknowledge(&self, spans: &mut [Span]) {
        if spans.windows(2).any(|pair| pair[0].producer_index != pair[1].producer_index) {
            spans.sort_unstable_by_key(|span| (span.producer_index, span.begin));
        }
        for of_one in spans.chunk_by(|one, next| one.producer_index == next.producer_index) {
            if let Some(set) = self.acknowledged.get(self.first_producer + of_one[0].producer_index as usize) {
                let mut set = set.lock();
                for span in of_one {
                    set.mark_all(span.begin, span.end);
                }
            }
        }
    }

    /// Marks one intact message as arrived at `group`; `None` if its producer does not belong to this trial.
    #[inline]
    pub fn arrive(&self, group: usize, producer: u32, sequence: u64) -> Option<Mark> {
        let set = self.arrived.get(group)?.get(producer as usize)?;
        Some(set.lock().mark(sequence))
    }

    pub fn groups(&self) -> usize {
        self.arrived.len()
    }

    /// Whether at most `missing` acknowledged messages have not arrived at `group`.
    pub fn misses_at_most(&self, group: usize, missing: u64) -> bool {
        let mut found = 0;
        (0..self.acknowledged.len()).all(|producer| {
            found += self.account_of(group, producer, u64::MAX).lost;
            found <= missing
        })
    }

    /// The account of one group. `passed_until` gives, for each producer, the number from which on messages are not known to have
    /// been offered to the group.
    pub fn account(&self, group: usize, passed_until: impl Fn(u32) -> u64) -> GroupAccount {
        let mut account = GroupAccount::default();
        for producer in 0..self.acknowledged.len() {
            account += self.account_of(group, producer, passed_until(producer as u32));
        }
        account
    }

    fn account_of(&self, group: usize, producer: usize, passed_until: u64) -> GroupAccount {
        compare(&self.acknowledged[producer].lock(), &self.arrived[group][producer].lock(), passed_until)
    }

    /// Messages of this process's producers that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.iter().map(|set| set.lock().marked).sum()
    }
}

/// The account of one producer's messages and one group.
pub(super) fn compare(acknowledged: &SequenceSet, arrived: &SequenceSet, passed_until: u64) -> GroupAccount {
    let known_from = acknowledged.given_up_until.max(arrived.given_up_until);
    let mut account = GroupAccount {
        saturated: known_from > 0 || acknowledged.unknown + arrived.unknown > 0,
        ..GroupAccount::default()
    };
    if account.saturated {
        let before = |set: &SequenceSet| set.marked - set.marked_from(known_from);
        account.undecided = (before(acknowledged) + acknowledged.unknown).saturating_sub(before(arrived));
    }
    let first = known_from.max(acknowledged.first_chunk.min(arrived.first_chunk));
    for chunk in first..acknowledged.end().max(arrived.end()) {
        let (acknowledged, arrived) = (acknowledged.bits(chunk), arrived.bits(chunk));
        for index in 0..CHUNK_WORDS {
            let (acknowledged, arrived) = (acknowledged.word(index), arrived.word(index));
            if acknowledged == arrived {
                continue;
            }
            let missing = acknowledged & !arrived;
            let passed = missing & below(passed_until, chunk * CHUNK_SEQUENCES + index as u64 * 64);
            account.lost += u64::from(passed.count_ones());
            account.unread += u64::from((missing & !passed).count_ones());
            account.not_acknowledged_but_stored += u64::from((arrived & !acknowledged).count_ones());
        }
    }
    account
}

/// Those of 64 numbers from `begin` on that are below `limit`.
fn below(limit: u64, begin: u64) -> u64 {
    match limit.saturating_sub(begin) {
        0 => 0,
        count if count < 64 => (1 << count) - 1,
        _ => u64::MAX,
    }
}

const CHUNK_SEQUENCES: u64 = 1024;
pub(super) const CHUNK_WORDS: usize = (CHUNK_SEQUENCES / 64) as usize;
const CHUNK_BYTES: usize = CHUNK_WORDS * size_of::<u64>();
const PLACE_BYTES: usize = size_of::<Chunk>();

/// Chunks with bits that a set keeps whatever the others have taken: those in which a stream without gaps goes on.
const MIN_CHUNKS: usize = 2;

/// How many chunks a number may be ahead of all others: further ahead, no producer can have got.
const FURTHEST_AHEAD: usize = 1 << 22;

/// What marking a number found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It was not in the set.
    First,
    /// It was in the set.
    Repeated,
    /// Its chunk was given up, so that it may have been in the set or not.
    Unknown,
}

/// The set of one producer's numbers that were acknowledged, or that arrived at one group.
pub(super) struct SequenceSet {
    /// Number of the first chunk in `chunks`: all before it are full or given up.
    pub(super) first_chunk: u64,
    /// All chunks before this one may have been given up; 0: none was. From here on the set knows what it holds.
    pub(super) given_up_until: u64,
    pub(super) chunks: VecDeque<Chunk>,
    partial: usize,
    budget: Budget,
    /// Numbers that were marked for the first time.
    pub(super) marked: u64,
    /// Numbers that were marked after their chunk had been given up: for the first time or again.
    pub(super) unknown: u64,
}

pub(super) enum Chunk {
    Untouched,
    Partial { bits: Box<[u64; CHUNK_WORDS]>, missing: u32 },
    Full,
}

impl SequenceSet {
    /// An empty set.
    pub(super) fn new(budget: Budget) -> Self {
        SequenceSet {
            first_chunk: 0,
            given_up_until: 0,
            chunks: VecDeque::new(),
            partial: 0,
            budget,
            marked: 0,
            unknown: 0,
        }
    }

    /// Marks one number.
    #[inline]
    pub(super) fn mark(&mut self, sequence: u64) -> Mark {
        let bit = sequence % CHUNK_SEQUENCES;
        let (word, mask) = ((bit / 64) as usize, 1u64 << (bit % 64));
        let number = sequence / CHUNK_SEQUENCES;
        if number < self.first_chunk {
            return self.past(number, 1);
        }
        let Some(index) = self.reach(number) else {
            self.unknown += 1;
            return Mark::Unknown;
        };
        let Chunk::Partial { bits, missing } = &mut self.chunks[index] else { return Mark::Repeated };
        if bits[word] & mask != 0 {
            return Mark::Repeated;
        }
        bits[word] |= mask;
        *missing -= 1;
        self.marked += 1;
        if *missing == 0 {
            self.fill(index);
        }
        Mark::First
    }

    /// Marks all numbers from `begin` up to, without, `end`.
    pub(super) fn mark_all(&mut self, begin: u64, end: u64) {
        let mut begin = begin;
        while begin < end {
            let number = begin / CHUNK_SEQUENCES;
            let stop = end.min((number + 1) * CHUNK_SEQUENCES);
            self.mark_within(number, begin % CHUNK_SEQUENCES, stop - begin);
            begin = stop;
        }
    }

    /// Marks `count` numbers of one chunk, from its `offset`th on.
    fn mark_within(&mut self, number: u64, offset: u64, count: u64) {
        if number < self.first_chunk {
            self.past(number, count);
            return;
        }
        let Some(index) = self.reach(number) else {
            self.unknown += count;
            return;
        };
        let Chunk::Partial { bits, missing } = &mut self.chunks[index] else { return };
        let (mut at, until) = (offset, offset + count);
        while at < until {
            let (word, shift) = ((at / 64) as usize, at % 64);
            let length = (64 - shift).min(until - at);
            let mask = u64::MAX >> (64 - length) << shift;
            let new = (mask & !bits[word]).count_ones();
            bits[word] |= mask;
            *missing -= new;
            self.marked += u64::from(new);
            at += length;
        }
        if *missing == 0 {
            self.fill(index);
        }
    }

    /// What is known of `count` numbers of a chunk before the first that is kept.
    fn past(&mut self, number: u64, count: u64) -> Mark {
        if number >= self.given_up_until {
            return Mark::Repeated;
        }
        self.unknown += count;
        Mark::Unknown
    }

    /// Where the chunk is, with bits unless it is full; `None`: no producer can have got so far.
    #[inline]
    fn reach(&mut self, number: u64) -> Option<usize> {
        let mut index = (number - self.first_chunk) as usize;
        if index >= self.chunks.len() {
            // So that a table is not made as long as a number claims.
            if index - self.chunks.len() > FURTHEST_AHEAD {
                return None;
            }
            self.budget.overdraw((index + 1 - self.chunks.len()) * PLACE_BYTES);
            self.chunks.resize_with(index + 1, || Chunk::Untouched);
        }
        if let Chunk::Untouched = self.chunks[index] {
            let bits = Box::new([0; CHUNK_WORDS]);
            self.chunks[index] = Chunk::Partial { bits, missing: CHUNK_SEQUENCES as u32 };
            self.partial += 1;
            self.budget.overdraw(CHUNK_BYTES);
            while index > 0 && self.has_more_than_its_least() && self.budget.is_overdrawn() {
                index -= self.give_up_the_oldest();
            }
        }
        Some(index)
    }

    fn has_more_than_its_least(&self) -> bool {
        self.partial > MIN_CHUNKS || self.chunks.len() * PLACE_BYTES > MIN_CHUNKS * CHUNK_BYTES
    }

    fn fill(&mut self, index: usize) {
        self.chunks[index] = Chunk::Full;
        self.partial -= 1;
        self.budget.give_back(CHUNK_BYTES);
        self.let_go_of_full_chunks();
    }

    fn let_go_of_full_chunks(&mut self) -> usize {
        let full = self.chunks.iter().take_while(|chunk| matches!(chunk, Chunk::Full)).count();
        self.chunks.drain(..full);
        self.first_chunk += full as u64;
        self.budget.give_back(full * PLACE_BYTES);
        full
    }

    /// Gives up the oldest chunk; returns how many are no longer kept, with the full ones after it.
    fn give_up_the_oldest(&mut self) -> usize {
        let Some(chunk) = self.chunks.pop_front() else { return 0 };
        self.budget.give_back(PLACE_BYTES);
        if let Chunk::Partial { .. } = chunk {
            self.partial -= 1;
            self.budget.give_back(CHUNK_BYTES);
        }
        self.first_chunk += 1;
        self.given_up_until = self.first_chunk;
        1 + self.let_go_of_full_chunks()
    }

    /// The chunk after the last one of which anything is held.
    pub(super) fn end(&self) -> u64 {
        self.first_chunk + self.chunks.len() as u64
    }

    /// Whether it holds the number; `None`: the number's chunk may have been given up.
    pub(super) fn holds(&self, sequence: u64) -> Option<bool> {
        let number = sequence / CHUNK_SEQUENCES;
        let bit = sequence % CHUNK_SEQUENCES;
        let holds = self.bits(number).word((bit / 64) as usize) & 1 << (bit % 64) != 0;
        (number >= self.given_up_until).then_some(holds)
    }

    /// A chunk's bits; of chunks from [`SequenceSet::given_up_until`] on.
    pub(super) fn bits(&self, number: u64) -> Bits<'_> {
        match number.checked_sub(self.first_chunk).map(|index| self.chunks.get(index as usize)) {
            None | Some(Some(Chunk::Full)) => Bits::All,
            Some(Some(Chunk::Partial { bits, .. })) => Bits::Some(bits),
            Some(Some(Chunk::Untouched)) | Some(None) => Bits::None,
        }
    }

    /// Numbers marked in chunk `from` and later ones.
    pub(super) fn marked_from(&self, from: u64) -> u64 {
        let full = self.first_chunk.saturating_sub(from) * CHUNK_SEQUENCES;
        let kept = (from.max(self.first_chunk)..self.end()).map(|number| match self.bits(number) {
            Bits::None => 0,
            Bits::Some(bits) => bits.iter().map(|word| u64::from(word.count_ones())).sum(),
            Bits::All => CHUNK_SEQUENCES,
        });
        full + kept.sum::<u64>()
    }
}

/// What a set holds of one chunk.
#[derive(Clone, Copy)]
pub(super) enum Bits<'a> {
    None,
    Some(&'a [u64; CHUNK_WORDS]),
    All,
}

impl Bits<'_> {
    pub(super) fn word(self, index: usize) -> u64 {
        match self {
            Bits::None => 0,
            Bits::Some(bits) => bits[index],
            Bits::All => u64::MAX,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/measure/verification.rs"]
mod tests;
