//! `[producers]` and `[load]`: who sends, and when.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Value;

use super::quantities::plain;
use super::{Count, DurationText, Rate, RateOrRest};
use crate::limits::MAX_PRODUCERS_OF_ALL;

const MAX_IN_FLIGHT: u64 = 100_000_000;

/// `[producers]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Producers {
    /// Producers, at least one for each topic.
    // None in a part of a scenario that only consumes.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_PRODUCERS_OF_ALL))]
    pub count: usize,
    /// Which topic a producer writes to.
    pub placement: Placement,
    /// Which partition of its topic a producer writes to.
    pub partitioning: Partitioning,
    /// Messages of one producer that may wait for their outcome. Default: its share of 100,000, within limits.
    // In an open loop, the bound beyond which a producer falls behind its schedule. At least `batch`; 0 only where it is not given
    // and the scenario is not read yet.
    #[serde(with = "Count", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1, max = MAX_IN_FLIGHT))]
    pub in_flight: usize,
    /// Messages that are handed over in one call and, if the protocol allows it, sent as one unit.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_IN_FLIGHT))]
    pub batch: usize,
    /// When a window opens again.
    pub confirm: Confirm,
    /// Whether every producer sends one batch and waits until all batches are acknowledged, before the next one.
    pub round_barrier: bool,
    /// Keys of messages.
    #[serde(with = "KeysTable")]
    pub keys: Keys,
    /// Headers on every message; a list has values that messages have in turn.
    pub headers: Headers,
    /// The headers of a message: those of the first list, or in turn those of each list. There is at least one.
    #[serde(skip)]
    pub header_sets: Vec<Vec<(String, String)>>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for Producers {
    fn default() -> Self {
        Producers {
            count: 1,
            placement: Placement::RoundRobin,
            partitioning: Partitioning::Client,
            in_flight: 0,
            batch: 1,
            confirm: Confirm::Message,
            round_barrier: false,
            keys: Keys::None,
            headers: Headers::default(),
            header_sets: vec![Vec::new()],
        }
    }
}

/// Which topic a producer writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Topic 0 gets the first `count / topics` producers, then topic 1, …: the count is divisible by the topics.
    Blocks,
    /// Producer `i` writes to topic `i mod topics`.
    RoundRobin,
}

/// Which partition of its topic a producer writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// The client's choice, by key if there is one.
    Client,
    /// Each producer has one: of those on a topic, the first writes to partition 0, the second to 1, …
    Own,
    /// Each producer writes to all in turn.
    RoundRobin,
}

/// When a window opens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confirm {
    /// With every acknowledged message.
    Message,
    /// Only when all messages of a batch have their outcome.
    Batch,
}

/// `"none"`, or a table.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write it as in { kind = \"zipf\", distinct = 1000, exponent = 1.1 }"))]
enum KeysTable {
    Word(NoKeys),
    Table(Keys),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum NoKeys {
    None,
}

/// For `#[serde(with = "KeysTable")]` of the keys themselves.
impl KeysTable {
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        <Self as Deserialize>::deserialize(deserializer).map(|table| match table {
            KeysTable::Word(NoKeys::None) => Keys::None,
            KeysTable::Table(keys) => keys,
        })
    }

    fn serialize<S: Serializer>(keys: &Keys, serializer: S) -> Result<S::Ok, S::Error> {
        let table = if *keys == Keys::None { KeysTable::Word(NoKeys::None) } else { KeysTable::Table(*keys) };
        Serialize::serialize(&table, serializer)
    }
}

/// Keys of messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum Keys {
    None,
    RoundRobin {
        /// Different keys.
        #[serde(with = "Count")]
        #[schemars(range(min = 1, max = u32::MAX))]
        distinct: u64,
    },
    Random {
        /// Different keys.
        #[serde(with = "Count")]
        #[schemars(range(min = 1, max = u32::MAX))]
        distinct: u64,
    },
    Zipf {
        /// Different keys.
        #[serde(with = "Count")]
        #[schemars(range(min = 1, max = u32::MAX))]
        distinct: u64,
        /// Exponent: key `k` has the weight `1 / (k+1)^exponent`.
        #[serde(default = "zipf_exponent")]
        #[schemars(range(max = 10), extend("exclusiveMinimum" = 0))]
        exponent: f64,
    },
}

impl Keys {
    /// How many different keys messages have.
    pub fn distinct(self) -> u64 {
        match self {
            Keys::None => 0,
            Keys::RoundRobin { distinct } | Keys::Random { distinct } | Keys::Zipf { distinct, .. } => distinct,
        }
    }
}

fn zipf_exponent() -> f64 {
    1.0
}

/// Each header with its values, of which there is at least one, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Headers(pub Vec<(String, Vec<String>)>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        let values = |value: &Value| match value {
            Value::Array(values) => values.iter().map(plain).collect(),
            value => vec![plain(value)],
        };
        Ok(Headers(table.iter().map(|(name, value)| (name.clone(), values(value))).collect()))
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, values)| (name, values)))
    }
}

impl JsonSchema for Headers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Headers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let value = json_schema!({ "type": ["string", "integer", "number", "boolean"] });
        json_schema!({
            "type": "object",
            "x-advice": "write it as in { trace = \"abc\" }",
            "additionalProperties": {
                "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }],
                "x-wanted": "one value, or a list of values",
                "x-advice": "headers are strings, numbers or booleans",
            },
        })
    }
}

/// `[load]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct LoadTable {
    /// What decides when to send. Default: `open` with a rate or a schedule, else `closed`.
    pub model: Option<LoadKind>,
    /// Rate of all producers together: short for a constant schedule.
    pub rate: Option<Rate>,
    /// Rate that changes with time.
    pub schedule: Option<ScheduleTable>,
    /// How producers of an open loop are woken.
    pub pacing: Option<Pacing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Acknowledgements: as fast as the windows allow.
    Closed,
    /// The schedule, which does not wait for the broker.
    Open,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields, extend("x-advice" = "write it as in { kind = \"ramp\", from = \"1k/s\", to = \"100k/s\", over = \"30s\" }"))]
pub enum ScheduleTable {
    Constant {
        /// Rate of all producers together.
        rate: Rate,
    },
    /// From one rate to another, then at the last.
    Ramp {
        /// Rate at the beginning.
        from: RateOrRest,
        /// Rate at the end.
        to: RateOrRest,
        /// Time from one to the other.
        #[serde(with = "DurationText")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        over: Duration,
    },
    /// Each rate for its time, then at the last.
    Steps {
        /// Rates with their times.
        #[schemars(length(min = 1), extend("x-advice" = STEPS))]
        steps: Vec<StepTable>,
    },
    /// A rate with bursts, of which the first begins at once.
    Bursts {
        /// Rate between bursts.
        base: RateOrRest,
        /// Rate of a burst.
        burst: RateOrRest,
        /// Time from the beginning of a burst to that of the next.
        #[serde(with = "DurationText")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        every: Duration,
        /// Length of a burst.
        #[serde(rename = "for", with = "DurationText")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        length: Duration,
    },
    /// Independent exponential gaps.
    Poisson {
        /// Mean rate of all producers together.
        rate: Rate,
        /// Seed of the gaps.
        #[serde(with = "Count", default = "first_seed")]
        seed: u64,
    },
}

pub(super) fn first_seed() -> u64 {
    1
}

const STEPS: &str = "write it as in [{ rate = \"1k/s\", for = \"10s\" }, { rate = \"2k/s\", for = \"10s\" }]";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("x-advice" = STEPS))]
pub struct StepTable {
    /// Rate of all producers together.
    pub rate: RateOrRest,
    /// How long it holds.
    #[serde(rename = "for", with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub length: Duration,
}

/// `load.pacing`: how exactly an open loop keeps its intended times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Pacing {
    /// Time in which a producer is woken at most once; all that came due meanwhile is sent at once.
    // Each message with its own intended time.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub wake_interval: Duration,
    /// Time in which a thread of the load is woken at most once for its producers; all that came due meanwhile is sent at once. Default:
    /// as short as the thread has time for, at most `wake_interval`.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub slice: Option<Duration>,
    /// Whether one thread reads the clock without a pause shortly before a message is due.
    pub spin: bool,
}

impl Default for Pacing {
    /// Waking a thread costs about 10 µs of CPU: at 200 µs that is a twentieth of a core.
    fn default() -> Self {
        Pacing { wake_interval: Duration::from_micros(200), slice: None, spin: false }
    }
}

/// What decides when a message is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// As fast as the windows allow.
    Closed,
    /// By a schedule that does not wait for the broker.
    Open(Schedule),
}

/// Rates are of all producers together, already in messages per second (finite): a rate in bytes per second was divided by the mean
/// payload size when the scenario was read. A part of a schedule may have the rate 0, where another one has not.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    Constant {
        rate: f64,
    },
    /// From one rate to another, linearly over `over` (> 0), then at the last.
    Ramp {
        from: f64,
        to: f64,
        over: Duration,
    },
    /// Each rate for its time, in turn, then the last until the load ends. Not empty.
    Steps(Vec<(f64, Duration)>),
    /// `base`, but `burst` during the first `length` of each `every` (`length < every`).
    Bursts {
        base: f64,
        burst: f64,
        every: Duration,
        length: Duration,
    },
    /// Independent exponential gaps with mean `1 / rate`.
    Poisson {
        rate: f64,
        seed: u64,
    },
}

impl Schedule {
    /// The rate of each part.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        let rates = match self {
            Schedule::Constant { rate } | Schedule::Poisson { rate, .. } => vec![*rate],
            Schedule::Ramp { from, to, .. } => vec![*from, *to],
            Schedule::Steps(steps) => steps.iter().map(|(rate, _)| *rate).collect(),
            Schedule::Bursts { base, burst, .. } => vec![*base, *burst],
        };
        rates.into_iter()
    }

    /// The highest rate at which it stays, in messages per second: of bursts the average, since consumers catch up between them.
    pub fn highest_lasting_rate(&self) -> f64 {
        match self {
            Schedule::Bursts { base, burst, every, length } => {
                base + (burst - base) * length.as_secs_f64() / every.as_secs_f64()
            }
            _ => self.rates().fold(0.0, f64::max),
        }
    }

    /// Whether nothing is due any more after its parts.
    pub fn comes_to_rest(&self) -> bool {
        match self {
            Schedule::Ramp { to, .. } => *to == 0.0,
            Schedule::Steps(steps) => steps.last().is_some_and(|(rate, _)| *rate == 0.0),
            Schedule::Constant { .. } | Schedule::Poisson { .. } | Schedule::Bursts { .. } => false,
        }
    }

    /// The same shape with every rate multiplied by this factor.
    pub fn scaled(&self, factor: f64) -> Schedule {
        match self {
            Schedule::Constant { rate } => Schedule::Constant { rate: rate * factor },
            Schedule::Ramp { from, to, over } => Schedule::Ramp { from: from * factor, to: to * factor, over: *over },
            Schedule::Steps(steps) => {
                Schedule::Steps(steps.iter().map(|(rate, length)| (rate * factor, *length)).collect())
            }
            Schedule::Bursts { base, burst, every, length } => {
                Schedule::Bursts { base: base * factor, burst: burst * factor, every: *every, length: *length }
            }
            Schedule::Poisson { rate, seed } => Schedule::Poisson { rate: rate * factor, seed: *seed },
        }
    }
}
