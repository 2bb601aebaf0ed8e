//! How many of the messages that did not arrive at a group the broker has removed.
//!
//! On a broker that numbers the messages of a partition, an offset below the first one that can still be read, which no consumer of the group
//! received, is a message that the broker stored and removed. Such offsets are counted; which messages they had is not known. So as many of
//! those that are missing count as removed, and no more. Offsets that may have been those of other messages are taken off first.
//!
//! Compaction keeps the latest message of each key: one that is missing is not removed by it. The keys of a producer are drawn again from its
//! seed for that, so that sending remembers none.

use std::ops::Range;

use super::arrivals::Arrivals;
use super::reception::SubscriptionIndex;
use super::verification::{GroupAccount, Verification};

/// Messages that a broker has stored and a group cannot receive any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unreceivable {
    /// Messages that the group's consumers have passed.
    pub passed: u64,
    /// Messages that they had not reached.
    pub ahead: u64,
}

impl Unreceivable {
    /// Messages that the broker has not delivered to a group that has `lost` messages: has passed and not received them. What is left lies
    /// behind those that the broker removed, as it delivers in order, so the group has not passed it.
    pub fn from_undelivered(messages: u64, some_are_left: bool, lost: u64) -> Self {
        Unreceivable { passed: if some_are_left { messages.min(lost) } else { messages }, ahead: 0 }
    }

    #[must_use]
    pub fn plus(self, other: Unreceivable) -> Self {
        Unreceivable { passed: self.passed + other.passed, ahead: self.ahead + other.ahead }
    }

    /// Without `others`, which are not acknowledged messages of this trial.
    #[must_use]
    pub fn without(self, others: u64) -> Self {
        let left = others.saturating_sub(self.passed);
        Unreceivable { passed: self.passed.saturating_sub(others), ahead: self.ahead.saturating_sub(left) }
    }
}

impl GroupAccount {
    /// Counts missing messages as removed, as far as there are removed ones. `kept`: those of them that the broker's rules keep.
    #[must_use]
    pub fn with_removed(mut self, unreceivable: Unreceivable, kept: GroupAccount) -> Self {
        let passed = self.lost.saturating_sub(kept.lost).min(unreceivable.passed);
        let ahead = self.unread.saturating_sub(kept.unread).min(unreceivable.ahead + unreceivable.passed - passed);
        self.lost -= passed;
        self.unread -= ahead;
        self.removed += passed + ahead;
        self
    }
}

/// The latest message of a key in a topic, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latest {
    Unsent,
    /// It is lost, or unread.
    Lost,
    Unread,
    /// It has arrived, or may not have been stored as the latest one.
    NotMissing,
}

impl Verification {
    /// Acknowledged messages that a group misses and that are the latest of their key in a topic. `senders`: the producers of the topic by their
    /// numbers, with the key of each message that they have sent, as a number below `distinct`. `passed_until` as for [`Verification::account`].
    ///
    /// Which message is the latest of a key is not known if several producers send it, or if a message may come behind as many later ones as
    /// `reordered`. A key counts if none of those that may be the latest arrived. It does not if one of them has no acknowledgement, as it
    /// may be stored all the same.
    pub fn account_of_latest<K: Iterator<Item = u64> + Clone>(
        &self,
        group: usize,
        distinct: usize,
        reordered: u64,
        senders: impl Iterator<Item = (usize, K)>,
        passed_until: impl Fn(usize) -> u64,
    ) -> GroupAccount {
        let mut of_keys = vec![Latest::Unsent; distinct];
        for (producer, keys) in senders {
            let sent = || keys.clone().zip(0u64..);
            let mut last = vec![0; distinct];
            sent().for_each(|(key, sequence)| last[key as usize] = sequence);
            let (acknowledged, arrived) = (self.acknowledged[producer].lock(), self.arrived[group][producer].lock());
            for (key, sequence) in sent().filter(|(key, sequence)| sequence + reordered >= last[*key as usize]) {
                let is_missing = (acknowledged.holds(sequence), arrived.holds(sequence)) == (Some(true), Some(false));
                let is_passed = sequence < passed_until(producer);
                let latest = &mut of_keys[key as usize];
                *latest = match *latest {
                    _ if !is_missing => Latest::NotMissing,
                    Latest::NotMissing => Latest::NotMissing,
                    Latest::Unsent | Latest::Lost if is_passed => Latest::Lost,
                    _ => Latest::Unread,
                };
            }
        }
        let count = |of: Latest| of_keys.iter().filter(|latest| **latest == of).count() as u64;
        GroupAccount { lost: count(Latest::Lost), unread: count(Latest::Unread), ..GroupAccount::default() }
    }
}

impl Arrivals {
    /// Offsets of `subscription` below `firsts`, the first ones of each partition that can be read, that no consumer received. Those below
    /// `starts` are not of this trial. `has_gaps`: what was passed over behind them is removed as well.
    pub fn unreceivable(
        &self,
        subscription: SubscriptionIndex,
        starts: &[u64],
        firsts: &[u64],
        has_gaps: bool,
    ) -> Unreceivable {
        let of_partition = |(partition, first): (usize, &u64)| {
            let start = starts.get(partition).copied().unwrap_or(0);
            let (mut received, mut not_kept) = (Vec::new(), 0);
            self.at(subscription, |partitions| {
                let (stretches, passed_over) = partitions.received_offsets(partition as u32);
                received.extend(stretches);
                not_kept += passed_over;
            });
            let next = received.iter().map(|stretch| stretch.end).max().unwrap_or(0);
            let end = if has_gaps { next.max(*first) } else { *first };
            let all = missing(&mut received, start..end);
            let ahead = end.saturating_sub(next.max(start));
            Unreceivable { passed: all - ahead + if has_gaps { not_kept } else { 0 }, ahead }
        };
        firsts.iter().enumerate().map(of_partition).fold(Unreceivable::default(), Unreceivable::plus)
    }
}

/// How many offsets of `within` are in none of `stretches`.
fn missing(stretches: &mut [Range<u64>], within: Range<u64>) -> u64 {
    stretches.sort_unstable_by_key(|stretch| stretch.start);
    let (mut at, mut missing) = (within.start, 0);
    for stretch in stretches {
        missing += stretch.start.min(within.end).saturating_sub(at);
        at = at.max(stretch.end);
    }
    missing + within.end.saturating_sub(at)
}

#[cfg(test)]
#[path = "../../tests/unit/measure/removed.rs"]
mod tests;
