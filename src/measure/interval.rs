//! What one recording thread saw since it was last asked: counts, latencies, errors by class, transactions, and response times by the part of
//! the schedule in which messages were intended, whenever they were acknowledged.
//!
//! Beside it, what was acknowledged in each partition during the whole trial, in bounded memory: counts and latencies, as far as clients know the
//! partition of a message.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Budget;
use super::errors::Errors;
use super::histogram::{CompactDistribution, Distribution, Timeline};
use super::tags::TICK_NS;

/// How many messages came to which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub acknowledged: u64,
    pub failed: u64,
    /// Payload bytes of the acknowledged ones.
    pub payload_bytes: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.payload_bytes += other.payload_bytes;
    }

    /// Messages whose outcome is known.
    pub fn resolved(&self) -> u64 {
        self.acknowledged + self.failed
    }
}

/// Outcomes of a stretch of time, as one thread or all of them saw it.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Messages whose intended time lies in the measured phase.
    pub measured: Tally,
    /// Messages of the warm-up: counted, and nothing more.
    pub warm_up: Tally,
    /// Acknowledged − intended; empty in a closed loop, which has no intended times.
    pub response: Distribution,
    /// Acknowledged − sent.
    pub service: Distribution,
    /// Sent − intended; empty in a closed loop.
    pub schedule_delay: Distribution,
    /// Moments at which measured messages were acknowledged: one for each [`AckBatch`](super::AckBatch) that had some. Messages
    /// whose outcome became known at one moment share a fate, so this is how many of their latencies are independent.
    pub moments: u64,
    /// Errors of measured messages.
    pub errors: Errors,
    /// When the last measured message was acknowledged, in nanoseconds since the trial's epoch; 0: none was.
    pub last_acknowledged_ns: u64,
    /// When messages were acknowledged, warm-up included, and how slow they were, without it.
    pub timeline: Timeline,
    /// Transactions, where producers send in some.
    pub transactions: Option<Box<Transactions>>,
    /// Response times by part, of a schedule that changes its rate.
    pub parts: PartResponses,
}

impl Interval {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Interval) {
        self.measured.add(other.measured);
        self.warm_up.add(other.warm_up);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.schedule_delay.merge(&other.schedule_delay);
        self.moments += other.moments;
        self.errors.merge(&other.errors);
        self.last_acknowledged_ns = self.last_acknowledged_ns.max(other.last_acknowledged_ns);
        self.timeline.merge(&other.timeline);
        if let Some(transactions) = &other.transactions {
            self.transactions.get_or_insert_default().merge(transactions);
        }
        self.parts.merge(&other.parts);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.measured = Tally::default();
        self.warm_up = Tally::default();
        self.response.clear();
        self.service.clear();
        self.schedule_delay.clear();
        self.moments = 0;
        self.errors = Errors::default();
        self.last_acknowledged_ns = 0;
        self.timeline.clear();
        if let Some(transactions) = &mut self.transactions {
            transactions.clear();
        }
        self.parts.clear();
    }
}

/// Transactions of measured messages that ended in a stretch of time.
#[derive(Debug, Clone, Default)]
pub struct Transactions {
    pub committed: u64,
    pub aborted: u64,
    /// Time from the call that commits, when all messages are written, to the broker's confirmation.
    pub commit: Distribution,
}

impl Transactions {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Transactions) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.commit.merge(&other.commit);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        (self.committed, self.aborted) = (0, 0);
        self.commit.clear();
    }
}

/// The parts of a schedule, in their order and without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartEnds(Box<[(u64, usize)]>);

impl PartEnds {
    /// From each part's end, in nanoseconds since the trial's epoch, and the result that it belongs to.
    pub fn new(ends: impl Iterator<Item = (u64, usize)>) -> Self {
        PartEnds(ends.collect())
    }

    /// The result to which a message belongs that was intended at `intended_ns`, which is exact to a tick.
    #[inline]
    fn result_at(&self, intended_ns: u64) -> Option<usize> {
        let later = self.0.partition_point(|(end_ns, _)| *end_ns <= intended_ns + TICK_NS);
        self.0.get(later).or(self.0.last()).map(|(_, result)| *result)
    }
}

/// Response times of messages that were intended in the parts of one result.
#[derive(Debug, Clone)]
pub struct PartResponse {
    pub result: usize,
    pub response: Distribution,
    /// Moments of acknowledgement, as in [`Interval::moments`].
    pub moments: u64,
    /// The latest of these moments.
    last_ns: u64,
}

impl PartResponse {
    fn new(result: usize) -> Self {
        PartResponse { result, response: Distribution::new(), moments: 0, last_ns: 0 }
    }
}

/// Response times of an interval: of few results, as most messages are acknowledged soon.
#[derive(Debug, Clone, Default)]
pub struct PartResponses(Vec<PartResponse>);

impl PartResponses {
    /// Counts `messages` that were intended at one time and acknowledged at `now_ns`.
    pub(super) fn record(&mut self, ends: &PartEnds, now_ns: u64, response_ns: u64, messages: u64) {
        let Some(result) = ends.result_at(now_ns.saturating_sub(response_ns)) else { return };
        let part = self.response_mut(result);
        part.response.record_n(response_ns, messages);
        if part.last_ns != now_ns {
            part.last_ns = now_ns;
            part.moments += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &PartResponses) {
        for theirs in &other.0 {
            let mine = self.response_mut(theirs.result);
            mine.response.merge(&theirs.response);
            mine.moments += theirs.moments;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &PartResponse> {
        self.0.iter()
    }

    fn response_mut(&mut self, result: usize) -> &mut PartResponse {
        let index = self.0.iter().position(|part| part.result == result).unwrap_or_else(|| {
            self.0.push(PartResponse::new(result));
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// Partitions of a trial that have figures of their own.
pub const MAX_PARTITIONS: usize = 4096;

/// Bytes that the latencies of all partitions may take together, in all recorders: about 2,000 distributions.
const LATENCY_BYTES: usize = 16 << 20;

/// Names a partition to an [`AckBatch`](super::AckBatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionIndex(u32);

impl PartitionIndex {
    /// The client does not know the partition, or it has no figures of its own.
    pub const UNKNOWN: PartitionIndex = PartitionIndex(u32::MAX);
}

/// A partition of a topic; without a number, all of the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionName {
    pub topic: Arc<str>,
    pub partition: Option<u32>,
}

/// The partitions of a trial, in the order in which clients named them.
#[derive(Debug)]
pub struct PartitionNames {
    known: Mutex<Vec<PartitionName>>,
    /// Topic of each producer: for messages whose partition is not known.
    topics: Vec<PartitionIndex>,
    budget: Budget,
}

impl PartitionNames {
    /// Of producers that write to these topics, one for each producer. With one topic only, its name says nothing about a message.
    pub fn new(topic_of_producer: impl Iterator<Item = Arc<str>>) -> Self {
        let mut names =
            PartitionNames { known: Mutex::default(), topics: Vec::new(), budget: Budget::new(LATENCY_BYTES) };
        names.topics = topic_of_producer.map(|topic| names.index_of(&topic, None)).collect();
        if names.known.lock().len() < 2 {
            names.known.lock().clear();
            names.topics.clear();
        }
        names
    }

    /// Where messages are counted that are written to this partition: always the same.
    pub fn index_of(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        let mut known = self.known.lock();
        let is_it = |name: &PartitionName| name.partition == partition && *name.topic == *topic;
        // The last ones are the likeliest: clients name the partitions of one topic after another.
        let found = known.iter().rposition(is_it).or_else(|| {
            let has_room = known.len() < MAX_PARTITIONS;
            has_room.then(|| {
                known.push(PartitionName { topic: topic.into(), partition });
                known.len() - 1
            })
        });
        found.map_or(PartitionIndex::UNKNOWN, |index| PartitionIndex(index as u32))
    }

    /// Where a message is counted whose client names `partition`.
    #[inline]
    pub(super) fn for_message(&self, partition: PartitionIndex, producer_index: usize) -> PartitionIndex {
        match self.topics.get(producer_index) {
            Some(topic) if partition == PartitionIndex::UNKNOWN => *topic,
            _ => partition,
        }
    }
}

/// What one recorder knows of the partitions.
#[derive(Debug, Default)]
pub(super) struct PartitionShard {
    tallies: Vec<PartitionCount>,
    unknown: u64,
}

#[derive(Debug, Default)]
struct PartitionCount {
    acknowledged: u64,
    moments: u64,
    /// The latest of these moments.
    last_ns: u64,
    latency: Option<CompactDistribution>,
    /// There was no memory for its latency.
    is_untimed: bool,
}

impl PartitionShard {
    /// Counts `messages` that share a latency, acknowledged at `now_ns`.
    pub(super) fn count(
        &mut self,
        names: &PartitionNames,
        partition: PartitionIndex,
        now_ns: u64,
        latency_ns: u64,
        messages: u64,
    ) {
        if partition == PartitionIndex::UNKNOWN {
            self.unknown += messages;
            return;
        }
        let index = partition.0 as usize;
        if self.tallies.len() <= index {
            self.tallies.resize_with(index + 1, PartitionCount::default);
        }
        let tally = &mut self.tallies[index];
        tally.acknowledged += messages;
        if tally.last_ns != now_ns {
            tally.last_ns = now_ns;
            tally.moments += 1;
        }
        if tally.latency.is_none() && !tally.is_untimed {
            tally.is_untimed = !names.budget.take(CompactDistribution::BYTES);
            tally.latency = (!tally.is_untimed).then(CompactDistribution::new);
        }
        if let Some(latency) = &mut tally.latency {
            latency.record_n(latency_ns, messages);
        }
    }
}

/// What was acknowledged, by partition: measured messages only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acknowledged {
    /// Messages whose partition is not known.
    pub unknown: u64,
    /// Partitions that clients named, whether something was written to them or not.
    pub partitions: Vec<PartitionTally>,
}

/// What was acknowledged in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTally {
    pub name: PartitionName,
    pub acknowledged: u64,
    /// Moments at which that became known, of each recorder.
    pub moments: u64,
    /// Response time in an open loop, else service time. `None`: nothing was acknowledged, or there was no memory for it.
    pub latency: Option<CompactDistribution>,
}

impl Acknowledged {
    /// Nothing yet.
    pub(super) fn in_partitions(names: &PartitionNames) -> Self {
        let tally =
            |name: &PartitionName| PartitionTally { name: name.clone(), acknowledged: 0, moments: 0, latency: None };
        Acknowledged { unknown: 0, partitions: names.known.lock().iter().map(tally).collect() }
    }

    pub(super) fn add(&mut self, shard: &PartitionShard) {
        self.unknown += shard.unknown;
        let with_messages = self.partitions.iter_mut().zip(&shard.tallies).filter(|(_, tally)| tally.acknowledged > 0);
        for (sum, tally) in with_messages {
            match (&mut sum.latency, &tally.latency) {
                (Some(sum), Some(latency)) => sum.merge(latency),
                (None, Some(latency)) if sum.acknowledged == 0 => sum.latency = Some(latency.clone()),
                // What is not known of a part is not known of the whole.
                _ => sum.latency = None,
            }
            sum.acknowledged += tally.acknowledged;
            sum.moments += tally.moments;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/measure/interval.rs"]
mod tests;
