//! `[payload]`: what messages carry, as it is written, and as it is once it is checked, with nothing generated yet.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::template::Template;
use super::{ByteSize, Count};
use crate::limits::TRACE_HEADER_BYTES;
use crate::net::Tls;
use crate::net::token::TOKEN_COMMAND;
use crate::scenario::Secret;
use crate::schemas::{Codec, Registry, SchemaType};

/// No broker takes messages beyond this.
const MAX_PAYLOAD: u64 = 1 << 30;

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
    /// Text file of `lines`, one message to a line, or of a `template`; of `files`, the message, or a folder with a file for each message.
    #[schemars(extend("format" = "payload-files", "x-advice" = "name the file that is sent"))]
    pub file: Option<PathBuf>,
    /// Template with placeholders.
    #[schemars(extend("x-advice" = "write the template itself, as in '{\"id\":${counter}}', or `file = \"…\"`"))]
    pub text: Option<String>,
    /// Floats of a `vector`.
    #[schemars(range(min = 1, max = MAX_PAYLOAD / 4), extend("x-advice" = "write how many floats a vector has, as in 512"))]
    #[serde(with = "Count")]
    pub dimension: Option<usize>,
    /// Upper limit of the random suffix of `log` payloads. Default: 20,000,000, as the published benchmark has it.
    #[serde(with = "Count")]
    #[schemars(range(min = 1))]
    pub range: Option<u64>,
    /// Payloads that are made before the load and sent in turn. Default: 1024, within 64 MiB.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub pool: Option<usize>,
    /// Seed: the same one makes the same payloads.
    #[serde(with = "Count")]
    pub seed: u64,
    /// Fraction of the messages with a null payload.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub tombstones: f64,
    /// Schema of `schema` payloads.
    #[schemars(extend("x-advice" = SCHEMA))]
    pub schema: Option<SchemaTable>,
}

pub(in crate::scenario) const SCHEMA: &str =
    "write `[payload.schema]` with `type = \"avro\"`, `file = \"order.avsc\"`, and `id = 12` or a `registry`";

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
            seed: 1,
            tombstones: 0.0,
            schema: None,
        }
    }
}

/// `[payload.schema]`: how records are encoded, and which records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SchemaTable {
    /// Language of the schema.
    #[serde(rename = "type")]
    pub schema_type: SchemaType,
    /// File of the schema: `.avsc`, `.json` or `.proto`.
    #[schemars(extend("format" = "payload-file"))]
    pub file: PathBuf,
    /// Message of a Protobuf file, with its package. Default: the first one of the file.
    pub message: Option<String>,
    /// File of records, one JSON object to a line. Default: records that are generated from the schema.
    #[schemars(extend("format" = "payload-file", "x-advice" = "name a file with one JSON object to a line"))]
    pub records: Option<PathBuf>,
    /// Id of the schema, where no registry is asked.
    #[schemars(range(min = 0, max = u32::MAX))]
    pub id: Option<u32>,
    /// Schema registry that knows the id.
    pub registry: Option<RegistryTable>,
}

/// `[payload.schema.registry]`: a registry with the REST interface of Confluent's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RegistryTable {
    /// URL of the registry.
    pub url: String,
    /// Subject of the schema. Default: the name of the topic and `-value`, where the scenario names one topic.
    pub subject: Option<String>,
    /// Whether the schema is registered if the subject does not have it.
    #[serde(default)]
    pub register: bool,
    /// Name to log in with.
    pub username: Option<String>,
    /// Password of that name.
    pub password: Option<Secret>,
    /// Instead of both: a bearer token.
    pub token: Option<Secret>,
    /// Instead of it: a program and its arguments that print one.
    #[schemars(length(min = 1), extend("x-advice" = TOKEN_COMMAND))]
    pub token_command: Option<Vec<String>>,
    /// Files of TLS, for a URL with `https://`.
    #[serde(default)]
    pub tls: Tls,
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
    /// Whole files, in turn: each is one message.
    Files,
    /// Text with placeholders.
    Template,
    /// Little-endian 32-bit floats, uniform in [0, 1).
    Vector,
    /// Log records of eight keys, whose values have one common random suffix.
    Log,
    /// Records encoded by a schema, behind the id that a schema registry has for it.
    Schema,
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

impl PayloadSize {
    pub(in crate::scenario) fn bytes(self) -> usize {
        usize::try_from(self.0.0).unwrap_or(usize::MAX)
    }
}

/// The size of payloads where the scenario gives none.
pub(in crate::scenario) const DEFAULT_SIZE: SizeTable = SizeTable::Fixed(PayloadSize(ByteSize(100)));

/// What messages carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Payload {
    pub content: Content,
    /// Ready-made payloads that the producers take in turn; at least 1.
    pub pool: usize,
    pub seed: u64,
    /// The share (0 to below 1) of the messages that have a null payload.
    pub tombstones: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Zeros {
        size: Size,
    },
    /// `compressibility` is the share (0 to 1) of every payload that repeats one byte; the rest is random.
    Random {
        size: Size,
        compressibility: f64,
    },
    /// One MessagePack value of the type `bin`, of that many random bytes.
    MessagePack {
        size: Size,
    },
    /// The lines of a text file, without their line ends; not empty.
    Lines {
        file: PathBuf,
    },
    /// Files as they are, one for each payload; not empty.
    Files {
        files: Vec<PathBuf>,
    },
    /// Text with `${…}` placeholders: see `docs/SCENARIO.md`.
    Template {
        template: Template,
    },
    /// `dimension` little-endian 32-bit floats, uniform in [0, 1).
    Vector {
        dimension: usize,
    },
    /// The log lines of the published Aliyun benchmark: eight keys of which all values share one random suffix in [0, `range`).
    Log {
        range: u64,
    },
    /// Records encoded by a schema.
    Schema(SchemaContent),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SchemaContent {
    pub codec: Arc<Codec>,
    /// The records, one to a line; `None`: they are generated.
    pub records: Option<PathBuf>,
    pub id: SchemaId,
}

/// The id that stands in each message.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaId {
    Known(u32),
    /// It is asked for before payloads are made.
    Asked(Registry),
}

impl Payload {
    /// Whether every payload may carry the trace header of [`TRACE_HEADER_BYTES`] in itself. Otherwise a message header
    /// carries it, and a broker without headers is refused when the scenario is read. Payloads for other readers are
    /// never altered.
    pub fn fits_trace_header(&self) -> bool {
        match &self.content {
            Content::Zeros { size } | Content::Random { size, .. } => size.smallest() >= TRACE_HEADER_BYTES,
            Content::Vector { dimension } => dimension * 4 >= TRACE_HEADER_BYTES,
            Content::MessagePack { .. }
            | Content::Lines { .. }
            | Content::Files { .. }
            | Content::Template { .. }
            | Content::Log { .. }
            | Content::Schema(_) => false,
        }
    }
}

impl Content {
    /// The expected size of a payload in bytes; `None` where that is only known when payloads are made.
    pub fn mean_bytes(&self) -> Option<f64> {
        match self {
            Content::Zeros { size } | Content::Random { size, .. } | Content::MessagePack { size } => Some(size.mean()),
            Content::Vector { dimension } => Some(*dimension as f64 * 4.0),
            Content::Lines { .. }
            | Content::Files { .. }
            | Content::Template { .. }
            | Content::Log { .. }
            | Content::Schema(_) => None,
        }
    }
}

/// Payload sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    Fixed(usize),
    Uniform {
        min: usize,
        max: usize,
    },
    /// Cut off below at 1 byte and above at `max`.
    Normal {
        mean: f64,
        deviation: f64,
        max: usize,
    },
    /// Sizes with their relative weights; not empty, weights > 0.
    Choices(Vec<(usize, f64)>),
}

impl Size {
    /// The least that can occur.
    pub fn smallest(&self) -> usize {
        match self {
            Size::Fixed(size) => *size,
            Size::Uniform { min, .. } => *min,
            Size::Normal { .. } => 1,
            Size::Choices(choices) => choices.iter().map(|(size, _)| *size).min().unwrap_or(0),
        }
    }

    /// The most that can occur.
    pub fn largest(&self) -> usize {
        match self {
            Size::Fixed(size) => *size,
            Size::Uniform { max, .. } | Size::Normal { max, .. } => *max,
            Size::Choices(choices) => choices.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    /// The expected size in bytes; of a normal distribution, as if it were not cut off.
    pub fn mean(&self) -> f64 {
        match self {
            Size::Fixed(size) => *size as f64,
            Size::Uniform { min, max } => (*min as f64 + *max as f64) / 2.0,
            Size::Normal { mean, .. } => *mean,
            Size::Choices(choices) => {
                let weights: f64 = choices.iter().map(|(_, weight)| weight).sum();
                choices.iter().map(|(size, weight)| *size as f64 * weight).sum::<f64>() / weights
            }
        }
    }
}
