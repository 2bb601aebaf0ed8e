//! The histograms that latencies are counted in (nanoseconds, three significant digits), the timeline of acknowledgements, and what was acknowledged
//! in each partition.
//!
//! A [`CompactDistribution`] is small enough to have many of: 7.5 KiB, instead of the 220 KiB of a [`Distribution`]. Each partition has one, in bounded
//! memory and as far as clients know the partition of a message. A [`Timeline`] tells how many
//! messages were acknowledged in each tenth of a second, the first and the last moment in it, and the slowest of them. Outages are found in it,
//! and how many events made a tail.

use std::sync::Arc;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::budget::Budget;
use crate::limits::MAX_LATENCY_NS;

/// The resolution below this value is 64 ns, finer than a send tag's tick.
const MIN_NS: u64 = 100;

/// One latency's distribution, with what did not fit into it.
#[derive(Debug, Clone)]
pub struct Distribution {
    histogram: Histogram<u64>,
    beyond_range: u64,
}

impl Distribution {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(MIN_NS, MAX_LATENCY_NS, 3);
        // The bounds are constants that hdrhistogram documents as valid: low ≥ 1, high ≥ 2 × low, digits ≤ 5.
        Distribution { histogram: histogram.expect("valid constant bounds"), beyond_range: 0 }
    }

    /// Counts one value in nanoseconds.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        if self.histogram.record(value_ns).is_err() {
            self.beyond_range += 1;
        }
    }

    /// Counts `count` messages that share one value in nanoseconds.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        // A constant count is a shorter way through the histogram, which is taken where messages have latencies of their own.
        if count == 1 {
            self.record(value_ns);
        } else if self.histogram.record_n(value_ns, count).is_err() {
            self.beyond_range += count;
        }
    }

    /// Adds all of `other`; nothing is averaged.
    pub fn merge(&mut self, other: &Distribution) {
        if other.histogram.is_empty() && other.beyond_range == 0 {
            return;
        }
        // Both were made with the same bounds, so every value of the one fits the other.
        self.histogram.add(&other.histogram).expect("equal bounds");
        self.beyond_range += other.beyond_range;
    }

    /// Forgets every value, keeping the memory.
    pub fn clear(&mut self) {
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.beyond_range = 0;
    }

    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Values above [`MAX_LATENCY_NS`]: in no percentile, so they are reported beside them.
    pub fn beyond_range(&self) -> u64 {
        self.beyond_range
    }

    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty() && self.beyond_range == 0
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution::new()
    }
}

/// Values are counted in units of 2⁶ = 64 ns, as in [`Distribution`].
const UNIT_BITS: u32 = 6;

/// Each doubling of the value is divided into 2⁵ = 32 cells, so a cell is at most 1/32 of its values wide.
const CELL_BITS: u32 = 5;
const CELLS_PER_DOUBLING: usize = 1 << CELL_BITS;

/// Smaller values, in units, have a cell each.
const EXACT: u64 = 2 << CELL_BITS;

/// The last doubling ends above [`MAX_LATENCY_NS`]: 2³⁴ units are 1,100 s.
const DOUBLINGS: usize = 34 - CELL_BITS as usize - 1;

const CELLS: usize = EXACT as usize + DOUBLINGS * CELLS_PER_DOUBLING;

/// One latency's distribution in nanoseconds. A quantile of it errs by at most 1.6 %, or 32 ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactDistribution {
    cells: Box<[u64; CELLS]>,
    count: u64,
}

impl CompactDistribution {
    /// Bytes that one takes.
    pub const BYTES: usize = CELLS * size_of::<u64>();

    pub fn new() -> Self {
        CompactDistribution { cells: Box::new([0; CELLS]), count: 0 }
    }

    /// Counts `count` messages that share one value in nanoseconds. Values beyond the last cell are counted in it.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.cells[cell_of(value_ns)] += count;
        self.count += count;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &CompactDistribution) {
        for (cell, more) in self.cells.iter_mut().zip(other.cells.iter()) {
            *cell += more;
        }
        self.count += other.count;
    }

    /// Adds all of `other`, whose values beyond its range are slower than all others here as well.
    pub fn add(&mut self, other: &Distribution) {
        for value in other.histogram().iter_recorded() {
            self.record_n(value.value_iterated_to(), value.count_since_last_iteration());
        }
        if other.beyond_range() > 0 {
            self.record_n(u64::MAX, other.beyond_range());
        }
    }

    /// Values in it.
    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The middle of the cell in which `quantile` (0 to 1) lies, in nanoseconds; 0 without values.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        let wanted = ((quantile * self.count as f64).ceil() as u64).max(1);
        let mut counted = 0;
        let found = self.cells.iter().position(|count| {
            counted += count;
            counted >= wanted
        });
        found.map_or(0, middle_of)
    }
}

impl Default for CompactDistribution {
    fn default() -> Self {
        CompactDistribution::new()
    }
}

#[inline]
fn cell_of(value_ns: u64) -> usize {
    let units = value_ns >> UNIT_BITS;
    if units < EXACT {
        return units as usize;
    }
    let shift = units.ilog2() - CELL_BITS;
    let in_doubling = (units >> shift) as usize - CELLS_PER_DOUBLING;
    (EXACT as usize + (shift as usize - 1) * CELLS_PER_DOUBLING + in_doubling).min(CELLS - 1)
}

fn middle_of(cell: usize) -> u64 {
    let Some(above) = cell.checked_sub(EXACT as usize) else {
        return ((cell as u64) << UNIT_BITS) + (1 << UNIT_BITS) / 2;
    };
    let shift = above / CELLS_PER_DOUBLING + 1;
    let units = ((CELLS_PER_DOUBLING + above % CELLS_PER_DOUBLING) as u64) << shift;
    (units << UNIT_BITS) + (1 << (shift + UNIT_BITS as usize)) / 2
}

/// How long a bin is, in nanoseconds. A gap of this length or longer always lies between two bins, so that its begin and its end
/// are known exactly.
pub const BIN_NS: u64 = 100_000_000;

/// The longest latencies of measured messages, in nanoseconds: 0 without such messages. Rounded to 24 bits, which leaves each in its
/// bucket of a [`Distribution`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slowest {
    pub response_ns: f32,
    pub service_ns: f32,
    pub schedule_delay_ns: f32,
    pub end_to_end_ns: f32,
}

impl Slowest {
    fn join(&mut self, other: Slowest) {
        self.response_ns = self.response_ns.max(other.response_ns);
        self.service_ns = self.service_ns.max(other.service_ns);
        self.schedule_delay_ns = self.schedule_delay_ns.max(other.schedule_delay_ns);
        self.end_to_end_ns = self.end_to_end_ns.max(other.end_to_end_ns);
    }
}

/// What was acknowledged, or received, within one bin of the trial's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// The first and the last moment at which messages were acknowledged, in nanoseconds since the trial's epoch.
    pub first_ns: u64,
    pub last_ns: u64,
    pub messages: u64,
    pub slowest: Slowest,
}

impl Bin {
    /// Bins are counted from the trial's epoch.
    pub fn number(&self) -> u64 {
        self.first_ns / BIN_NS
    }

    fn join(&mut self, other: Bin) {
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.messages += other.messages;
        self.slowest.join(other.slowest);
    }
}

/// The bins in which something was acknowledged, in their order: 40 bytes each, 35 MB after a day.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    bins: Vec<Bin>,
}

impl Timeline {
    /// `messages` were acknowledged at a moment, of which the measured ones took up to `slowest`.
    pub fn add(&mut self, at_ns: u64, messages: u64, slowest: Slowest) {
        self.insert(Bin { first_ns: at_ns, last_ns: at_ns, messages, slowest });
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Timeline) {
        other.bins.iter().for_each(|bin| self.insert(*bin));
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.bins.clear();
    }

    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    fn insert(&mut self, bin: Bin) {
        match self.bins.last_mut() {
            Some(last) if last.number() == bin.number() => last.join(bin),
            // Other recorders have passed on what is later than this.
            Some(last) if last.number() > bin.number() => {
                match self.bins.binary_search_by_key(&bin.number(), Bin::number) {
                    Ok(index) => self.bins[index].join(bin),
                    Err(index) => self.bins.insert(index, bin),
                }
            }
            _ => self.bins.push(bin),
        }
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
#[path = "../../tests/unit/measure/histogram.rs"]
mod tests;
