//! Messages that have a schema: records as JSON, encoded by an Avro, JSON or Protobuf schema, behind the id by which a schema registry
//! knows it.
//!
//! - [`Codec`]: a schema that was read. It encodes records, and generates them.
//! - `avro`, `json` and `protobuf`: what it does for each type of schema. They need the feature `schemas`.
//! - [`Registry`]: where the id is from, if the scenario does not give it.

#[cfg(feature = "schemas")]
mod avro;
#[cfg(feature = "schemas")]
mod json;
#[cfg(feature = "schemas")]
mod protobuf;
mod registry;
#[cfg(feature = "schemas")]
mod values;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rand::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use registry::{Login, Registry};

/// Bytes before each encoded record: a zero, and the schema's id as a big-endian number of 32 bits (Confluent Platform documentation,
/// "Formats, Serializers, and Deserializers for Schema Registry", section "Wire format").
pub const HEAD_BYTES: usize = 5;

/// The head of messages with a schema of this id.
pub fn head(id: u32) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = id.to_be_bytes();
    [0, a, b, c, d]
}

/// Language of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchemaType {
    /// Apache Avro.
    Avro,
    /// JSON Schema.
    Json,
    /// Protocol Buffers.
    Protobuf,
}

impl SchemaType {
    /// As a scenario writes it.
    pub fn name(self) -> &'static str {
        match self {
            SchemaType::Avro => "avro",
            SchemaType::Json => "json",
            SchemaType::Protobuf => "protobuf",
        }
    }
}

/// The schema of a trial's payloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PayloadSchema {
    /// Language of the schema.
    #[serde(rename = "type")]
    pub schema_type: SchemaType,
    /// Id that stands in each message.
    pub id: u32,
    /// Subject by which the registry was asked for the id; `null` where the scenario gave it.
    pub subject: Option<String>,
    /// Number of the schema under the subject; `null` where the registry did not tell.
    pub version: Option<u32>,
}

/// A schema that was read from a file.
pub struct Codec {
    pub schema_type: SchemaType,
    /// The file's text, as a registry gets it.
    pub text: String,
    /// What a registry does not get with it: files of the user's own that the schema imports.
    pub imports: Vec<String>,
    /// The message that was asked for, of Protobuf.
    message: Option<String>,
    encoder: Box<dyn Encoder>,
}

/// What is done by one schema.
trait Encoder: Send + Sync {
    /// All bytes of a message after the schema's id.
    ///
    /// # Errors
    /// A sentence that names what of the record does not fit the schema.
    fn encode(&self, record: &Value) -> Result<Vec<u8>, String>;

    /// A record that fits the schema, as [`Encoder::encode`] takes it.
    ///
    /// # Errors
    /// A sentence that names what of the schema no record can be generated for.
    fn generate(&self, random: &mut dyn Rng) -> Result<Value, String>;
}

impl Codec {
    /// Reads a schema. `message`: which of a Protobuf file's messages; by default the first one.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or is not such a schema, or this build has no schemas.
    pub fn open(schema_type: SchemaType, file: &Path, message: Option<&str>) -> Result<Codec, String> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let (encoder, imports) = encoder(schema_type, &text, file, message)
            .map_err(|reason| format!("{shown} cannot be used as a schema: {reason}"))?;
        Ok(Codec { schema_type, text, imports, message: message.map(str::to_owned), encoder })
    }

    /// All bytes of a message after the schema's id.
    ///
    /// # Errors
    /// A sentence that names what of the record does not fit the schema.
    pub fn encode(&self, record: &Value) -> Result<Vec<u8>, String> {
        self.encoder.encode(record)
    }

    /// As [`Codec::encode`], of a generated record: the same for the same state of `random`.
    ///
    /// # Errors
    /// A sentence that names what of the schema no record can be generated for.
    pub fn generate(&self, random: &mut dyn Rng) -> Result<Vec<u8>, String> {
        self.encode(&self.encoder.generate(random)?)
    }

    /// Encodes the first `count` records of a file with one JSON object a line. Empty lines are skipped. `each` gets the bytes of each.
    ///
    /// # Errors
    /// A sentence, with the number of the line where one is wrong; and those of `each`.
    pub fn encode_lines<E: From<String>>(
        &self,
        file: &Path,
        count: usize,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let shown = file.display();
        let unreadable = |error: std::io::Error| format!("{shown} cannot be read: {error}");
        let lines = BufReader::new(File::open(file).map_err(unreadable)?).lines().enumerate();
        let mut left = count;
        for (index, line) in lines {
            let line = line.map_err(unreadable)?;
            if left == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                continue;
            }
            let at = |reason: String| format!("{shown}, line {}: {reason}", index + 1);
            let record = serde_json::from_str(&line).map_err(|error| at(format!("this is not JSON: {error}")))?;
            each(&self.encode(&record).map_err(at)?)?;
            left -= 1;
        }
        if left == count {
            Err(format!("{shown} has no records: write one JSON object on each line").into())
        } else {
            Ok(())
        }
    }
}

impl PartialEq for Codec {
    fn eq(&self, other: &Self) -> bool {
        let all = |codec: &Codec| (codec.schema_type, codec.imports.clone(), codec.message.clone());
        self.text == other.text && all(self) == all(other)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Codec({:?}, {:?}, {:?})", self.schema_type, self.message, self.text)
    }
}

/// What encodes by a schema, and which files of the user's own it imports.
#[cfg(feature = "schemas")]
fn encoder(
    schema_type: SchemaType,
    text: &str,
    file: &Path,
    message: Option<&str>,
) -> Result<(Box<dyn Encoder>, Vec<String>), String> {
    Ok(match schema_type {
        SchemaType::Avro => (Box::new(avro::Avro::parse(text)?), Vec::new()),
        SchemaType::Json => (Box::new(json::Json::parse(text)?), Vec::new()),
        SchemaType::Protobuf => {
            let (protobuf, imports) = protobuf::Protobuf::compile(file, message)?;
            (Box::new(protobuf), imports)
        }
    })
}

#[cfg(not(feature = "schemas"))]
fn encoder(_: SchemaType, _: &str, _: &Path, _: Option<&str>) -> Result<(Box<dyn Encoder>, Vec<String>), String> {
    Err("this build has no schemas: build brokermark with `--features schemas`".to_owned())
}

#[cfg(all(test, feature = "schemas"))]
#[path = "../../tests/unit/schemas/mod.rs"]
mod tests;
