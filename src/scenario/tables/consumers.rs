//! `[consumers]`: who receives messages, how fast, from when on, and what is recorded of them.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::first_seed;
use super::{ByteSize, Count, DurationText, Properties, Rate};

const MAX_CONSUMERS: u64 = 100_000;
const MAX_GROUPS: u64 = 1_000;

/// Names of groups become a part of those that brokers know them by, some of which may not be long.
pub const MAX_GROUP_NAME: usize = 32;

/// `[consumers]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ConsumersTable {
    /// Groups, of which each receives every message. Default: 1, or as many as there are tables `[[consumers.group]]`.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_CONSUMERS), extend("x-advice" = "it is a number; groups with settings of their own are tables `[[consumers.group]]`"))]
    pub groups: Option<usize>,
    /// Consumers of each group, on each topic. Default: 1.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_CONSUMERS))]
    pub members: Option<usize>,
    /// Where consumers begin.
    pub from: StartFrom,
    /// Whether the time from when a message was due to when it was received is recorded.
    pub end_to_end: bool,
    /// Messages whose end-to-end latency is recorded.
    pub timing: Timing,
    /// Whether lost, duplicated, reordered and corrupt messages are found.
    pub verify: bool,
    /// Settings for the consuming client, after `broker.properties`.
    pub properties: Properties,
    /// Groups with settings of their own.
    #[schemars(length(min = 1, max = MAX_GROUPS), extend("x-advice" = "write a table `[[consumers.group]]` for each group"))]
    pub group: Option<Vec<GroupTable>>,
    /// Backlog that is built before the consumers begin.
    pub backlog: Option<BacklogTable>,
}

impl Default for ConsumersTable {
    fn default() -> Self {
        ConsumersTable {
            groups: None,
            members: None,
            from: StartFrom::Earliest,
            end_to_end: true,
            timing: Timing::All,
            verify: true,
            properties: Properties::default(),
            group: None,
            backlog: None,
        }
    }
}

/// `[[consumers.group]]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct GroupTable {
    /// Name, which results and thresholds call it by. Default: its number, from 0.
    #[schemars(length(min = 1, max = MAX_GROUP_NAME))]
    pub name: Option<String>,
    /// Consumers of the group, on each topic. Default: `consumers.members`.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_CONSUMERS))]
    pub members: Option<usize>,
    /// How long each consumer works on a message, before it takes the next one.
    pub work: Option<WorkTable>,
    /// Most messages per second that its consumers take together.
    pub rate: Option<Rate>,
    /// How long after the beginning of the load it begins.
    #[serde(with = "DurationText")]
    pub start_after: Duration,
    /// Settings for this group, after `consumers.properties`.
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write a time, as in \"2ms\", or { kind = \"exponential\", mean = \"2ms\" }"))]
pub enum WorkTable {
    Fixed(WorkMean),
    Drawn(WorkKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkMean(#[schemars(extend("exclusiveMinimum" = 0))] pub DurationText);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum WorkKind {
    Fixed {
        /// Time of each message.
        mean: WorkMean,
    },
    Exponential {
        /// Mean time.
        mean: WorkMean,
        /// Seed of the times.
        #[serde(with = "Count", default = "first_seed")]
        seed: u64,
    },
    Lognormal {
        /// Mean time.
        mean: WorkMean,
        /// Standard deviation of the logarithm of a time.
        #[serde(default = "sigma")]
        #[schemars(range(max = 5), extend("exclusiveMinimum" = 0, "x-advice" = "it is the standard deviation of the logarithm, above 0 and at most 5"))]
        sigma: f64,
        /// Seed of the times.
        #[serde(with = "Count", default = "first_seed")]
        seed: u64,
    },
    Pareto {
        /// Mean time.
        mean: WorkMean,
        /// Shape: the share of times beyond `t` falls with `t` to the power of `-shape`.
        #[serde(default = "shape")]
        #[schemars(range(max = 100), extend("exclusiveMinimum" = 1, "x-advice" = "it is above 1, for there would be no mean, and at most 100"))]
        shape: f64,
        /// Seed of the times.
        #[serde(with = "Count", default = "first_seed")]
        seed: u64,
    },
}

fn sigma() -> f64 {
    1.0
}

fn shape() -> f64 {
    2.5
}

/// `[consumers.backlog]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct BacklogTable {
    /// Messages that are acknowledged before the consumers begin.
    #[serde(with = "Count")]
    #[schemars(range(min = 1))]
    pub messages: Option<u64>,
    /// The same in bytes, which are divided by the payloads' mean size.
    #[serde(with = "ByteSize")]
    #[schemars(range(min = 1))]
    pub payload_bytes: Option<u64>,
    /// A group has caught up when it is behind by no more messages than were due in this time.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub caught_up_within: Duration,
}

impl Default for BacklogTable {
    /// Twice the time in which any broker's consumers receive what was just sent.
    fn default() -> Self {
        BacklogTable { messages: None, payload_bytes: None, caught_up_within: Duration::from_millis(100) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Consumers {
    /// Every group receives every message. There is at least one.
    pub groups: Vec<ConsumerGroup>,
    /// Consumers of each group, per topic, unless the group has a number of its own.
    pub members: usize,
    pub from: StartFrom,
    /// Record the time from intended to received.
    pub end_to_end: bool,
    /// Of which messages.
    pub timing: Timing,
    /// Find lost, duplicated, reordered and corrupt messages.
    pub verify: bool,
    /// What the groups find when they begin; `None`: they begin before the load, but for those that are told otherwise.
    pub backlog: Option<Backlog>,
}

impl Consumers {
    /// Consumers of the group on each topic.
    pub fn members_of(&self, group: usize) -> usize {
        self.groups.get(group).and_then(|group| group.members).unwrap_or(self.members)
    }

    /// Those of the group that has the most.
    pub fn most_members(&self) -> usize {
        (0..self.groups.len()).map(|group| self.members_of(group)).max().unwrap_or(self.members)
    }

    /// The number of the group's first consumer on this one of so many topics, among those of all groups.
    pub fn number_of(&self, group: usize, topic: usize, topics: usize) -> usize {
        let before: usize = (0..group).map(|before| self.members_of(before)).sum();
        before * topics + self.members_of(group) * topic
    }

    /// The group's name; without one, its number.
    pub fn name_of(&self, group: usize) -> String {
        self.groups.get(group).and_then(|group| group.name.clone()).unwrap_or_else(|| group.to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartFrom {
    Earliest,
    Latest,
}

/// Which messages' end-to-end latency consumers record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// All, whichever process sent them.
    All,
    /// Those that their own process sent: one clock times both ends.
    Own,
}

/// One group of consumers.
#[derive(Clone, PartialEq, Default)]
pub struct ConsumerGroup {
    pub name: Option<String>,
    /// Its consumers, per topic; `None`: as many as the other groups have.
    pub members: Option<usize>,
    /// How long each of its consumers pretends to work on a message before it takes the next one.
    pub work: Option<Work>,
    /// Most messages per second that its consumers take together (> 0, finite).
    pub rate: Option<f64>,
    /// When it begins, after the load; zero: before the load.
    pub start_after: Duration,
    /// `consumers.properties`, with those of the group in their place.
    pub properties: Vec<(String, String)>,
}

impl ConsumerGroup {
    /// Whether its consumers take messages as fast as they can.
    pub fn is_unpaced(&self) -> bool {
        self.work.is_none() && self.rate.is_none()
    }
}

/// Without the values of properties, which may be secrets.
impl fmt::Debug for ConsumerGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.properties.iter().map(|(key, _)| key.as_str()).collect();
        formatter
            .debug_struct("ConsumerGroup")
            .field("name", &self.name)
            .field("members", &self.members)
            .field("work", &self.work)
            .field("rate", &self.rate)
            .field("start_after", &self.start_after)
            .field("properties", &keys)
            .finish()
    }
}

/// How long consumers work on a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Longer than zero.
    pub mean: Duration,
    pub law: WorkLaw,
    pub seed: u64,
}

/// How the times of work are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WorkLaw {
    Fixed,
    Exponential,
    /// The logarithm of a time is normal with this standard deviation (> 0).
    Lognormal {
        sigma: f64,
    },
    /// The share of times beyond `t` falls with `t` to the power of `-shape` (> 1, else there would be no mean).
    Pareto {
        shape: f64,
    },
}

/// The backlog that is built before the consumers begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Messages that are acknowledged before the consumers begin; at least 1.
    pub messages: u64,
    /// A group has caught up when it misses no more than the schedule has due in this time (> 0).
    pub caught_up_within: Duration,
}
