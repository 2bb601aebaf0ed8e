//! Finds lost, unread and duplicated messages at full speed and in bounded memory.
//!
//! Each producer numbers its messages from 0. What was acknowledged is one set of numbers for each producer, what arrived is
//! one for each producer and group; the account is made by comparing them. See [`super::sequences`] for what they cost.

use std::ops::AddAssign;

use parking_lot::Mutex;

use super::budget::Budget;
use super::sequences::{CHUNK_SEQUENCES, CHUNK_WORDS, Mark, SequenceSet};

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
        self.lost + self.unread + self.undecided
    }
}

impl AddAssign for GroupAccount {
    fn add_assign(&mut self, other: GroupAccount) {
        self.lost += other.lost;
        self.unread += other.unread;
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
        self.acknowledged.iter().map(|set| set.lock().marked()).sum()
    }
}

/// The account of one producer's messages and one group.
pub(super) fn compare(acknowledged: &SequenceSet, arrived: &SequenceSet, passed_until: u64) -> GroupAccount {
    let known_from = acknowledged.known_from().max(arrived.known_from());
    let mut account = GroupAccount {
        saturated: known_from > 0 || acknowledged.unknown() + arrived.unknown() > 0,
        ..GroupAccount::default()
    };
    if account.saturated {
        let before = |set: &SequenceSet| set.marked() - set.marked_from(known_from);
        account.undecided = (before(acknowledged) + acknowledged.unknown()).saturating_sub(before(arrived));
    }
    let first = known_from.max(acknowledged.full_until().min(arrived.full_until()));
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

#[cfg(test)]
#[path = "../../tests/unit/measure/verification.rs"]
mod tests;
