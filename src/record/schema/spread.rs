//! How figures differ from one partition, or one consumer, to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures differ if the largest is this many times the smallest, or more.
const NOTABLE: f64 = 1.1;

/// The smallest and the largest of several figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Extent {
    /// Smallest figure.
    pub smallest: u64,
    /// Largest figure.
    pub largest: u64,
}

/// What was acknowledged in single partitions. Latencies are those of the trial's `headline`: response or service time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Partitions {
    /// Partitions of all topics that clients named, or that the topics are known to have; where clients do not know the partition of a
    /// message, the topics.
    pub partitions: u64,
    /// Measured messages that were acknowledged of which the client does not know the partition.
    pub unknown: u64,
    /// Measured messages that were acknowledged in each partition.
    pub acknowledged: Extent,
    /// Median latency of each partition with messages, in nanoseconds; `null` where it is not known of one.
    pub p50_ns: Option<Extent>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<Extent>,
    /// Partitions, at most 32, by topic and number: of more, the slowest, and those with the most and the fewest messages.
    pub listed: Vec<PartitionFigures>,
}

/// What was acknowledged in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PartitionFigures {
    /// Topic of the partition.
    pub topic: String,
    /// Number of the partition, from 0; `null`: these are the messages of the topic whose partition the client does not know.
    pub partition: Option<u32>,
    /// Measured messages that were acknowledged.
    pub acknowledged: u64,
    /// Median latency in nanoseconds, certain to 1.6 %; `null`: nothing was acknowledged, or the memory for latencies of partitions was
    /// used up.
    pub p50_ns: Option<u64>,
    /// 99th percentile, in nanoseconds; `null` also with fewer than ten independent values beyond it.
    pub p99_ns: Option<u64>,
}

/// What single consumers received.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Consumers {
    /// Groups with two consumers or more (of a share: with one or more), and how their consumers differ.
    pub groups: Vec<ConsumerSpread>,
    /// Consumers, at most 32, by group, topic and member: of more, the slowest, and those with the most and the fewest messages.
    pub listed: Vec<ConsumerFigures>,
}

/// How the consumers of one group differ.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ConsumerSpread {
    /// The group's number, from 0.
    pub group: usize,
    /// Number of its consumers, on all topics.
    pub consumers: u64,
    /// Measured messages that each consumer received.
    pub consumed: Extent,
    /// Median end-to-end latency of each consumer, in nanoseconds; `null` where it is not known of one.
    pub end_to_end_p50_ns: Option<Extent>,
    /// 99th percentile, likewise.
    pub end_to_end_p99_ns: Option<Extent>,
}

/// What one consumer received.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ConsumerFigures {
    /// Number of its group, from 0.
    pub group: usize,
    /// Topic that it reads.
    pub topic: String,
    /// Number among the group's members on this topic, from 0.
    pub member: usize,
    /// Measured messages that it received, without the repetitions that verification found.
    pub consumed: u64,
    /// Messages that it received inside the measured window, per second.
    pub consumed_per_second: f64,
    /// Median of its end-to-end latency, in nanoseconds, certain to 1.6 %; `null`: it received nothing, or the scenario does not ask for
    /// this latency, or the trial has more than 256 consumers, or consumers fell further and further behind.
    pub end_to_end_p50_ns: Option<u64>,
    /// 99th percentile, in nanoseconds; `null` also with fewer than ten independent values beyond it.
    pub end_to_end_p99_ns: Option<u64>,
}

impl Extent {
    /// Of several figures; `None` without any.
    pub fn from_values(figures: impl Iterator<Item = u64>) -> Option<Self> {
        figures.map(|figure| Extent { smallest: figure, largest: figure }).reduce(Extent::plus)
    }

    /// Of those of both.
    pub fn plus(self, other: Extent) -> Self {
        Extent { smallest: self.smallest.min(other.smallest), largest: self.largest.max(other.largest) }
    }

    /// Whether the largest is more than 10 % above the smallest.
    pub fn differs(&self) -> bool {
        self.largest as f64 > self.smallest as f64 * NOTABLE
    }
}

impl Consumers {
    /// The same without latencies: those of consumers that fell further and further behind tell how long the trial lasted.
    pub fn without_latencies(mut self) -> Self {
        for group in &mut self.groups {
            (group.end_to_end_p50_ns, group.end_to_end_p99_ns) = (None, None);
        }
        for consumer in &mut self.listed {
            (consumer.end_to_end_p50_ns, consumer.end_to_end_p99_ns) = (None, None);
        }
        self
    }
}

impl Partitions {
    /// Whether a figure of one partition is more than 10 % above that of another.
    pub fn differ(&self) -> bool {
        [Some(self.acknowledged), self.p50_ns, self.p99_ns].iter().flatten().any(Extent::differs)
    }
}

impl ConsumerSpread {
    /// Whether a figure of one consumer is more than 10 % above that of another.
    pub fn differs(&self) -> bool {
        [Some(self.consumed), self.end_to_end_p50_ns, self.end_to_end_p99_ns].iter().flatten().any(Extent::differs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_a_difference() {
        let extent = |figures: &[u64]| Extent::from_values(figures.iter().copied());
        assert_eq!(extent(&[]), None);
        assert_eq!(extent(&[7, 3, 5]), Some(Extent { smallest: 3, largest: 7 }));
        let differs = |figures: &[u64]| extent(figures).unwrap().differs();
        assert_eq!(
            [differs(&[100, 110]), differs(&[100, 111]), differs(&[0, 0]), differs(&[0, 1])],
            [false, true, false, true]
        );
    }
}
