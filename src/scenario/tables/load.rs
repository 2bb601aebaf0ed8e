//! `[producers]`, `[load]` and `[payload]`: what is sent, and when.

use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use toml::Value;

use super::quantities::plain;
use super::{ByteSize, Count, DurationText, Rate, RateOrRest};
use crate::limits::MAX_PRODUCERS_OF_ALL;
use crate::scenario::{Confirm, Partitioning, Placement};

const MAX_IN_FLIGHT: u64 = 100_000_000;

/// No broker takes messages beyond this.
const MAX_PAYLOAD: u64 = 1 << 30;

/// `[producers]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ProducersTable {
    /// Producers, at least one for each topic.
    #[schemars(range(min = 1, max = MAX_PRODUCERS_OF_ALL))]
    pub count: Count,
    /// Which topic a producer writes to.
    pub placement: Placement,
    /// Which partition of its topic a producer writes to.
    pub partitioning: Partitioning,
    /// Messages of one producer that may wait for their outcome. Default: its share of 100,000, within limits.
    #[schemars(range(min = 1, max = MAX_IN_FLIGHT))]
    pub in_flight: Option<Count>,
    /// Messages that are handed over in one call and, if the protocol allows it, sent as one unit.
    #[schemars(range(min = 1, max = MAX_IN_FLIGHT))]
    pub batch: Count,
    /// When a window opens again.
    pub confirm: Confirm,
    /// Whether every producer sends one batch and waits until all batches are acknowledged, before the next one.
    pub round_barrier: bool,
    /// Keys of messages.
    pub keys: KeysTable,
    /// Headers on every message; a list has values that messages have in turn.
    pub headers: Headers,
}

impl Default for ProducersTable {
    fn default() -> Self {
        ProducersTable {
            count: Count(1),
            placement: Placement::RoundRobin,
            partitioning: Partitioning::Client,
            in_flight: None,
            batch: Count(1),
            confirm: Confirm::Message,
            round_barrier: false,
            keys: KeysTable::None(NoKeys::None),
            headers: Headers::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write it as in { kind = \"zipf\", distinct = 1000, exponent = 1.1 }"))]
pub enum KeysTable {
    None(NoKeys),
    Keys(KeyKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoKeys {
    None,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum KeyKind {
    None,
    RoundRobin {
        /// Different keys.
        #[schemars(range(min = 1, max = u32::MAX))]
        distinct: Count,
    },
    Random {
        /// Different keys.
        #[schemars(range(min = 1, max = u32::MAX))]
        distinct: Count,
    },
    Zipf {
        /// Different keys.
        #[schemars(range(min = 1, max = u32::MAX))]
        distinct: Count,
        /// Exponent: key `k` has the weight `1 / (k+1)^exponent`.
        #[serde(default = "zipf_exponent")]
        #[schemars(range(max = 10), extend("exclusiveMinimum" = 0))]
        exponent: f64,
    },
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
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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
    pub pacing: Option<PacingTable>,
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
        #[schemars(extend("exclusiveMinimum" = 0))]
        over: DurationText,
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
        #[schemars(extend("exclusiveMinimum" = 0))]
        every: DurationText,
        /// Length of a burst.
        #[serde(rename = "for")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        length: DurationText,
    },
    /// Independent exponential gaps.
    Poisson {
        /// Mean rate of all producers together.
        rate: Rate,
        /// Seed of the gaps.
        #[serde(default = "first_seed")]
        seed: Count,
    },
}

pub(super) fn first_seed() -> Count {
    Count(1)
}

const STEPS: &str = "write it as in [{ rate = \"1k/s\", for = \"10s\" }, { rate = \"2k/s\", for = \"10s\" }]";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("x-advice" = STEPS))]
pub struct StepTable {
    /// Rate of all producers together.
    pub rate: RateOrRest,
    /// How long it holds.
    #[serde(rename = "for")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub length: DurationText,
}

/// `load.pacing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct PacingTable {
    /// Time in which a producer is woken at most once; all that came due meanwhile is sent at once.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub wake_interval: DurationText,
    /// Whether the pacing thread looks at the clock without a pause shortly before a message is due.
    pub spin: bool,
}

impl Default for PacingTable {
    /// Waking a sleeping producer costs two context switches, about 10 µs of CPU: at 200 µs that is a twentieth of a core.
    fn default() -> Self {
        PacingTable { wake_interval: DurationText(Duration::from_micros(200)), spin: false }
    }
}

/// `[payload]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct PayloadTable {
    /// What messages carry.
    pub kind: PayloadKind,
    /// Size of `zeros`, `random` and `message-pack` payloads. Default: 100B.
    pub size: Option<SizeTable>,
    /// Fraction of each `random` payload that repeats one byte.
    #[schemars(range(min = 0, max = 1))]
    pub compressibility: Option<f64>,
    /// Text file of `lines`, one message to a line, or of a `template`.
    #[schemars(extend("format" = "payload-file", "x-advice" = "name the file whose lines are sent"))]
    pub file: Option<PathBuf>,
    /// Template with placeholders.
    #[schemars(extend("x-advice" = "write the template itself, as in '{\"id\":${counter}}', or `file = \"…\"`"))]
    pub text: Option<String>,
    /// Floats of a `vector`.
    #[schemars(range(min = 1, max = MAX_PAYLOAD / 4), extend("x-advice" = "write how many floats a vector has, as in 512"))]
    pub dimension: Option<Count>,
    /// Upper limit of the random suffix of `log` payloads. Default: 20,000,000, as the published benchmark has it.
    #[schemars(range(min = 1))]
    pub range: Option<Count>,
    /// Payloads that are made before the load and sent in turn. Default: 1024, within 64 MiB.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub pool: Option<Count>,
    /// Seed: the same one makes the same payloads.
    pub seed: Count,
    /// Fraction of the messages with a null payload.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub tombstones: f64,
}

impl Default for PayloadTable {
    fn default() -> Self {
        PayloadTable {
            kind: PayloadKind::Zeros,
            size: None,
            compressibility: None,
            file: None,
            text: None,
            dimension: None,
            range: None,
            pool: None,
            seed: Count(1),
            tombstones: 0.0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PayloadKind {
    /// Bytes of zero.
    Zeros,
    /// Random bytes.
    Random,
    /// One MessagePack value of the type `bin`, of random bytes.
    MessagePack,
    /// Lines of a text file, in turn.
    Lines,
    /// Text with placeholders.
    Template,
    /// Little-endian 32-bit floats, uniform in [0, 1).
    Vector,
    /// Log records of eight keys, whose values have one common random suffix.
    Log,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write it as in { uniform = [\"100B\", \"1KiB\"] }, { normal = { mean = \"1KiB\", deviation = \"200B\" } } or { choices = [[\"100B\", 9], [\"10KiB\", 1]] }"))]
pub enum SizeTable {
    Fixed(PayloadSize),
    Drawn(SizeDistribution),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeDistribution {
    /// Between two sizes.
    Uniform([PayloadSize; 2]),
    /// Around a mean.
    Normal(NormalTable),
    /// Sizes with their weights.
    Choices(#[schemars(length(min = 1))] Vec<(PayloadSize, Weight)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PayloadSize(#[schemars(range(min = 1, max = MAX_PAYLOAD))] pub ByteSize);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weight(#[schemars(extend("exclusiveMinimum" = 0))] pub f64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NormalTable {
    /// Mean size.
    pub mean: PayloadSize,
    /// Standard deviation.
    pub deviation: PayloadSize,
    /// Largest size. Default: the mean and four deviations.
    pub max: Option<PayloadSize>,
}
