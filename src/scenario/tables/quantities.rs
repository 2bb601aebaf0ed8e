//! Quantities as a scenario writes them, for fields of tables: each is read, written and described by its type.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use toml::Value;

use crate::scenario::Secret;
use crate::scenario::units::{self, UnitError};

/// Bytes: `"64KiB"`, or a bare whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// A number of things: `20_000_000` or `"20M"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

/// A span of time with its unit: `"250ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DurationText(pub Duration);

/// A rate above zero: `"100k/s"` messages or `"10MiB/s"` bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub units::Rate);

/// A rate that may be zero: of a part of a schedule in which nothing is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateOrRest(pub units::Rate);

/// Settings for a client library or a broker, in the order of the file; secrets are revealed.
#[derive(Clone, PartialEq, Default)]
pub struct Properties(pub Vec<(String, String)>);

/// Without the values, which may be secrets.
impl fmt::Debug for Properties {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

impl Count {
    /// For what is held in memory. The schema has the range.
    pub fn amount(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Implements reading, writing and the schema of a quantity.
macro_rules! quantity {
    ($type:ty, $types:expr, $format:literal, $pattern:expr, $parse:expr, $write:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let parse: fn(&Value) -> Result<Self, UnitError> = $parse;
                parse(&Value::deserialize(deserializer)?).map_err(Error::custom)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn(&Self) -> serde_json::Value = $write;
                write(self).serialize(serializer)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $format.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $types, "format": $format, "pattern": $pattern })
            }
        }
    };
}

const NUMBER: &str = r"^\s*[0-9][0-9_]*(\.[0-9_]+)?\s*";
const SIZES: &str = "(B|[kKMGT]B|[KMGT]iB)";
const COUNTS: &str = "[kKMG]?";

quantity!(
    ByteSize,
    ["string", "integer"],
    "byte-size",
    format!("{NUMBER}{SIZES}\\s*$"),
    |value| whole(value, units::parse_size).map(ByteSize),
    |size| units::format_size(size.0).into()
);
quantity!(
    Count,
    ["integer", "string"],
    "count",
    format!("{NUMBER}{COUNTS}\\s*$"),
    |value| whole(value, units::parse_count).map(Count),
    |count| count.0.into()
);
quantity!(
    DurationText,
    "string",
    "duration",
    format!("{NUMBER}(ns|us|µs|μs|ms|s|m|min|h)\\s*$"),
    |value| match value {
        Value::Integer(number) => Err(UnitError {
            message: format!("{number} has no unit"),
            advice: format!("write \"{number}ms\" or \"{number}s\""),
        }),
        value => units::parse_duration(text(value)).map(DurationText),
    },
    |duration| units::format_duration(duration.0).into()
);
quantity!(
    Rate,
    "string",
    "rate",
    format!("{NUMBER}({SIZES}|{COUNTS})\\s*/s\\s*$"),
    |value| units::parse_rate(text(value)).map(Rate),
    |rate| rate.0.to_string().into()
);
quantity!(
    RateOrRest,
    "string",
    "rate-or-rest",
    format!("{NUMBER}({SIZES}|{COUNTS})\\s*/s\\s*$"),
    |value| units::parse_rate_or_rest(text(value)).map(RateOrRest),
    |rate| rate.0.to_string().into()
);

/// `"250ms"`, for the `deserialize_with` of a [`Duration`] or an [`Option`] of one.
///
/// # Errors
/// When it is not a duration with its unit.
pub fn duration<'de, D: Deserializer<'de>, T: From<Duration>>(deserializer: D) -> Result<T, D::Error> {
    DurationText::deserialize(deserializer).map(|duration| T::from(duration.0))
}

/// `"64KiB"`, for the `deserialize_with` of a number of bytes or an [`Option`] of one.
///
/// # Errors
/// When it is not a size, or too large for the number.
pub fn size<'de, D: Deserializer<'de>, T: TryFrom<u64, Error: fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    T::try_from(ByteSize::deserialize(deserializer)?.0).map_err(Error::custom)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn whole(value: &Value, parse: fn(&str) -> Result<u64, UnitError>) -> Result<u64, UnitError> {
    match value {
        Value::Integer(number) => u64::try_from(*number).map_err(|_| UnitError {
            message: format!("{number} is below zero"),
            advice: "write a whole number".to_owned(),
        }),
        value => parse(text(value)),
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        Ok(Properties(table.into_iter().map(|(key, value)| (key, plain(&value))).collect()))
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl JsonSchema for Properties {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Properties".into()
    }

    /// A property that is a table is a secret, or a part of a key with dots and without quotes: `linger.ms = 5`.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": {
                "type": ["string", "integer", "number", "boolean", "object"],
                "format": "property",
                "x-wanted": "one value",
                "x-advice": "join the values with commas",
            },
        })
    }
}

/// A simple value as client libraries expect it.
pub(in crate::scenario) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, deny_unknown_fields)]
        enum Source {
            Inline(String),
            Env { env: String },
            File { file: PathBuf },
        }
        // Serde's own message would repeat the value.
        let source = Source::deserialize(deserializer)
            .map_err(|_| Error::custom("write { env = \"NAME\" }, { file = \"path\" } or a string"))?;
        Ok(match source {
            Source::Inline(text) => Secret::Inline(text),
            Source::Env { env } => Secret::Env(env),
            Source::File { file } => Secret::File(file),
        })
    }
}

/// Not the secret, nor where it is.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        "***".serialize(serializer)
    }
}

/// The schema of `"inline"`, `{ env = "NAME" }` and `{ file = "path" }`.
impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let source = |key: &str, format: &str, description: &str| {
            json_schema!({
                "type": "object",
                "properties": { key: { "type": "string", "format": format, "description": description } },
                "required": [key],
                "additionalProperties": false,
            })
        };
        json_schema!({
            "anyOf": [{ "type": "string" },
                source("env", "environment-variable", "Environment variable that has it."),
                source("file", "existing-file", "File that has it, without the line end."),
            ],
            "x-wanted": "a secret",
            "x-advice": "write { env = \"NAME\" }, { file = \"path\" } or a string",
        })
    }
}
