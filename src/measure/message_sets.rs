//! What one share of a scenario knows of single messages: those that its producers had acknowledged, and those that its consumers
//! received, from its own producers or those of other shares. Only all shares together show what was lost.
//!
//! A set of sequence numbers is kept as text: chunk by chunk, full and empty ones as runs.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::budget::Budget;
use super::reception::SubscriptionIndex;
use super::verification::{CHUNK_WORDS, Chunk, GroupAccount, SequenceSet, Sets, Verification, compare};

/// The messages of one share. Producers are numbered over all shares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MessageSets {
    /// The topic of each producer of all shares, as its position among the trial's topics.
    pub topic_of_producer: Vec<usize>,
    /// Acknowledged messages of each producer; sets of other shares' producers are empty.
    pub acknowledged: Vec<StoredSet>,
    pub groups: Vec<GroupSets>,
    pub topics: Vec<TopicSets>,
}

/// What the share's consumers of one group received.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupSets {
    /// Messages of each producer that arrived.
    pub arrived: Vec<StoredSet>,
    /// Whether the share has consumers of the group.
    pub has_consumers: bool,
    /// Whether the order of every message was checked and kept, and the client keeps it.
    pub has_order: bool,
    /// Whether several members of the group take the messages of one partition in turn.
    #[serde(default)]
    pub takes_turns: bool,
    /// Whether the consumers asked for messages until none had come for long enough: of a broker without offsets, or where they take turns.
    pub was_offered_all: bool,
    /// The offset after the last message received, by topic, then by partition.
    pub next_offsets: Vec<Vec<u64>>,
    /// The sequence after the latest message received, by topic, then by partition, then by producer.
    pub next_sequences: Vec<Vec<Vec<u64>>>,
}

/// Where the partitions of a topic began and ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TopicSets {
    /// End offsets before the load; empty: the topic was new.
    pub starts: Vec<u64>,
    /// End offsets when consumers stopped; `None`: not known, or the broker will send messages before them again.
    pub ends: Option<Vec<u64>>,
}

/// What a group of all shares came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergedGroup {
    pub account: GroupAccount,
    /// Messages that arrived in several shares, each of which took it for the first: deliveries beyond the first.
    pub repeated: u64,
}

impl Verification {
    /// What was acknowledged, and what arrived at each group, by producer.
    pub fn stored(&self) -> (Vec<StoredSet>, Vec<Vec<StoredSet>>) {
        let stored = |sets: &Sets| sets.iter().map(|set| set.lock().store()).collect();
        (stored(&self.acknowledged), self.arrived.iter().map(stored).collect())
    }
}

impl Arrivals {
    /// By partition, then by producer, the sequence after the latest message that consumers of `subscription` received.
    pub fn next_sequences(&self, subscription: SubscriptionIndex, producers: usize) -> Vec<Vec<u64>> {
        let partitions = self.next_offsets(subscription).len() as u32;
        (0..partitions).map(|partition| self.passed_until(subscription, &[partition], producers)).collect()
    }
}

/// The account of each group over all shares.
///
/// # Errors
/// When the shares do not have the same producers, groups and topics, or a set is damaged.
pub fn merge_groups(shares: &[Arc<MessageSets>]) -> Result<Vec<MergedGroup>, String> {
    let Some(first) = shares.first() else { return Ok(Vec::new()) };
    let shape = |share: &MessageSets| {
        (share.topic_of_producer.clone(), share.acknowledged.len(), share.groups.len(), share.topics.len())
    };
    if shares.iter().any(|share| shape(share) != shape(first)) {
        return Err("the shares do not have the same producers, groups and topics".to_owned());
    }
    (0..first.groups.len()).map(|group| merge_group(shares, group)).collect()
}

fn merge_group(shares: &[Arc<MessageSets>], group: usize) -> Result<MergedGroup, String> {
    let mut merged = MergedGroup::default();
    for (producer, topic) in shares[0].topic_of_producer.iter().enumerate() {
        let acknowledged = united(shares.iter().map(|share| share.acknowledged.get(producer)))?.0;
        let (arrived, repeated) = united(shares.iter().map(|share| share.groups[group].arrived.get(producer)))?;
        merged.repeated += repeated;
        let all = compare(&acknowledged, &arrived, u64::MAX);
        merged.account += match all.lost {
            0 => all,
            _ => compare(&acknowledged, &arrived, passed_until(shares, group, *topic, producer)),
        };
    }
    Ok(merged)
}

fn united<'a>(sets: impl Iterator<Item = Option<&'a StoredSet>>) -> Result<(SequenceSet, u64), String> {
    let sets = sets.flatten().filter(|set| !set.is_empty()).map(StoredSet::restore).collect::<Result<Vec<_>, _>>()?;
    Ok(union(&sets))
}

/// From which of the producer's messages on the group may not have been offered what was acknowledged.
fn passed_until(shares: &[Arc<MessageSets>], group: usize, topic: usize, producer: usize) -> u64 {
    let of_group = || shares.iter().map(|share| &share.groups[group]).filter(|group| group.has_consumers);
    let next = latest(of_group().filter_map(|group| group.next_offsets.get(topic)));
    let was_offered_all = of_group().count() > 0 && of_group().all(|group| group.was_offered_all);
    // One member may be at the end before another has received what came before.
    let is_end_enough = was_offered_all || !of_group().any(|group| group.takes_turns);
    let partitions: Vec<usize> = match unreached_by(shares, topic, &next) {
        Some(unreached) if is_end_enough => unreached,
        None if was_offered_all => Vec::new(),
        _ => (0..next.len().max(1)).collect(),
    };
    if !partitions.is_empty() && !of_group().all(|group| group.has_order) {
        return 0;
    }
    let passed = |partition: usize| {
        let of_share = |group: &GroupSets| group.next_sequences.get(topic)?.get(partition)?.get(producer).copied();
        of_group().filter_map(of_share).max().unwrap_or(0)
    };
    partitions.into_iter().map(passed).min().unwrap_or(u64::MAX)
}

/// The partitions whose end was not reached; `None`: the ends are not known.
fn unreached_by(shares: &[Arc<MessageSets>], topic: usize, next: &[u64]) -> Option<Vec<usize>> {
    let topics = || shares.iter().filter_map(|share| share.topics.get(topic));
    let ends = latest(topics().filter_map(|topic| topic.ends.as_ref()));
    let start = |partition| topics().map(|topic| topic.starts.get(partition).copied().unwrap_or(0)).min().unwrap_or(0);
    let starts: Vec<u64> = (0..ends.len()).map(start).collect();
    (!ends.is_empty()).then(|| unreached(&starts, &ends, next).collect())
}

/// The partitions whose end was not reached, by their end offsets before the load and when consumers stopped, and by the offset after the last message
/// that was received in each.
pub fn unreached(starts: &[u64], ends: &[u64], next: &[u64]) -> impl Iterator<Item = usize> {
    let at = |offsets: &[u64], partition: usize| offsets.get(partition).copied().unwrap_or(0);
    let is_unreached =
        move |partition: &usize| at(next, *partition) < ends[*partition] && at(starts, *partition) != ends[*partition];
    (0..ends.len()).filter(is_unreached)
}

/// The largest offset of each partition.
fn latest<'a>(offsets: impl Iterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    offsets.fold(Vec::new(), |mut latest, offsets| {
        latest.resize(latest.len().max(offsets.len()), 0);
        latest.iter_mut().zip(offsets).for_each(|(latest, offset)| *latest = (*latest).max(*offset));
        latest
    })
}

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
    fn store(&self) -> StoredSet {
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

    /// # Errors
    /// When the text is not one that [`SequenceSet::store`] makes.
    fn restore(&self) -> Result<SequenceSet, String> {
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
fn union(sets: &[SequenceSet]) -> (SequenceSet, u64) {
    let known_from = sets.iter().map(|set| set.given_up_until).max().unwrap_or(0);
    let end = sets.iter().map(SequenceSet::end).max().unwrap_or(0);
    let before = sets.iter().map(|set| set.marked - set.marked_from(known_from));
    let mut all = SequenceSet::new(Budget::new(0));
    (all.first_chunk, all.given_up_until) = (known_from, known_from);
    (all.marked, all.unknown) = (before.sum(), sets.iter().map(|set| set.unknown).sum());
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

#[cfg(test)]
#[path = "../../tests/unit/measure/message_sets.rs"]
mod tests;
