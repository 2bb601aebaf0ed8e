//! Quantities as a scenario writes them, for fields of tables: each is read, written and described by its type.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use toml::Value;

use super::distribution::RankSet;
use super::threshold::Threshold;
use super::units;
use crate::scenario::Secret;
use crate::scenario::problem::Refusal;

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

/// A field that has a quantity as it is, or may have one.
pub trait Holds<Q>: Sized {
    /// `None` if it is too large for the field.
    fn hold(quantity: Q) -> Option<Self>;
    fn held(&self) -> Option<Q>;
}

macro_rules! holds_counts {
    ($($type:ty)*) => {$(
        impl Holds<u64> for $type {
            fn hold(quantity: u64) -> Option<Self> {
                quantity.try_into().ok()
            }

            fn held(&self) -> Option<u64> {
                (*self).try_into().ok()
            }
        }
    )*};
}

holds_counts!(i32 u32 u64 usize);

impl Holds<Duration> for Duration {
    fn hold(quantity: Duration) -> Option<Self> {
        Some(quantity)
    }

    fn held(&self) -> Option<Duration> {
        Some(*self)
    }
}

impl<Q, T: Holds<Q>> Holds<Q> for Option<T> {
    fn hold(quantity: Q) -> Option<Self> {
        T::hold(quantity).map(Some)
    }

    fn held(&self) -> Option<Q> {
        self.as_ref().and_then(T::held)
    }
}

/// A kind of value that JSON Schema has no type for.
pub(in crate::scenario) struct Format {
    /// Name in the schema.
    pub name: &'static str,
    /// What a value should be, for a sentence.
    pub wanted: &'static str,
    /// How to write it.
    pub advice: &'static str,
    /// The value's number, for its range.
    pub number: fn(&str) -> Result<f64, Refusal>,
    /// Types of TOML that it is written with.
    types: &'static [&'static str],
    /// Units behind its number, as a regular expression.
    units: &'static str,
}

const RATE_ADVICE: &str = "write it in quotes, as in \"100k/s\" or \"10MiB/s\"";
const RANKS_ADVICE: &str = "write the numbers of ranks, from 0, as in \"0-2,5\"";

pub(in crate::scenario) const FORMATS: [Format; 7] = [
    Format {
        name: "byte-size",
        wanted: "a size",
        advice: "write a number and a unit in quotes, as in \"100B\" or \"64KiB\"",
        number: |text| units::parse_size(text).map(|bytes| bytes as f64),
        types: &["string", "integer"],
        units: "(B|[kKMGT]B|[KMGT]iB)",
    },
    Format {
        name: "count",
        wanted: "a whole number",
        advice: "write a whole number, or a number with k, M or G, as in \"20M\"",
        number: |text| units::parse_count(text).map(|count| count as f64),
        types: &["integer", "string"],
        units: "[kKMG]?",
    },
    Format {
        name: "duration",
        wanted: "a duration",
        advice: "write a number and a unit in quotes, as in \"30s\" or \"250ms\"",
        number: |text| units::parse_duration(text).map(|duration| duration.as_secs_f64()),
        types: &["string"],
        units: "(ns|us|µs|μs|ms|s|m|min|h)",
    },
    Format {
        name: "rate",
        wanted: "a rate",
        advice: RATE_ADVICE,
        number: |text| units::parse_rate(text).map(|_| 1.0),
        types: &["string"],
        units: RATES,
    },
    Format {
        name: "rate-or-rest",
        wanted: "a rate",
        advice: RATE_ADVICE,
        number: |text| units::parse_rate_or_rest(text).map(|_| 1.0),
        types: &["string"],
        units: RATES,
    },
    Format {
        name: "threshold",
        wanted: "a requirement",
        advice: "write `metric comparison value`, as in \"p99 < 10ms\"",
        number: |text| Threshold::parse(text).map(|_| 1.0),
        types: &["string"],
        units: "",
    },
    Format {
        name: "ranks",
        wanted: "ranks",
        advice: RANKS_ADVICE,
        number: |text| text.parse::<RankSet>().map(|_| 1.0).map_err(|message| Refusal::new(message, RANKS_ADVICE)),
        types: &["string"],
        units: "",
    },
];

const RATES: &str = "((B|[kKMGT]B|[KMGT]iB)|[kKMG]?)\\s*/s";

/// The schema of a quantity that is a number with a unit.
fn schema_of_format(name: &str) -> Schema {
    let Some(format) = FORMATS.iter().find(|format| format.name == name) else { return Schema::default() };
    let types = if let [only] = format.types { json!(only) } else { json!(format.types) };
    let pattern = format!("^\\s*[0-9][0-9_]*(\\.[0-9_]+)?\\s*{}\\s*$", format.units);
    json_schema!({ "type": types, "format": name, "pattern": pattern })
}

/// Implements reading, writing and the schema of a quantity, and both for fields that hold what is in it.
macro_rules! quantity {
    ($type:ty, $plain:ty, $format:literal, $parse:expr, $write:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let parse: fn(&Value) -> Result<$plain, Refusal> = $parse;
                parse(&Value::deserialize(deserializer)?).map(Self).map_err(Error::custom)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn($plain) -> serde_json::Value = $write;
                write(self.0).serialize(serializer)
            }
        }

        /// For `#[serde(with = "…")]`: the field holds what is in the quantity, and has its schema.
        impl $type {
            /// # Errors
            /// When it is not such a quantity, or too large for the field.
            pub fn deserialize<'de, D: Deserializer<'de>, T: Holds<$plain>>(deserializer: D) -> Result<T, D::Error> {
                let quantity = <Self as Deserialize>::deserialize(deserializer)?.0;
                T::hold(quantity).ok_or_else(|| Error::custom("this is too large"))
            }

            /// # Errors
            /// Those of the serializer.
            pub fn serialize<T: Holds<$plain>, S: Serializer>(field: &T, serializer: S) -> Result<S::Ok, S::Error> {
                field.held().map(Self).serialize(serializer)
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
                schema_of_format($format)
            }
        }
    };
}

quantity!(ByteSize, u64, "byte-size", |value| whole(value, units::parse_size), |size| units::format_size(size).into());
quantity!(Count, u64, "count", |value| whole(value, units::parse_count), |count| count.into());
quantity!(
    DurationText,
    Duration,
    "duration",
    |value| match value {
        Value::Integer(number) => {
            Err(Refusal::new(format!("{number} has no unit"), format!("write \"{number}ms\" or \"{number}s\"")))
        }
        value => units::parse_duration(text(value)),
    },
    |duration| units::format_duration(duration).into()
);
quantity!(Rate, units::Rate, "rate", |value| units::parse_rate(text(value)), |rate| rate.to_string().into());
quantity!(RateOrRest, units::Rate, "rate-or-rest", |value| units::parse_rate_or_rest(text(value)), |rate| rate
    .to_string()
    .into());

/// `"250ms"`, for the `deserialize_with` of a [`Duration`] or an [`Option`] of one.
///
/// # Errors
/// When it is not a duration with its unit.
pub fn duration<'de, D: Deserializer<'de>, T: Holds<Duration>>(deserializer: D) -> Result<T, D::Error> {
    DurationText::deserialize(deserializer)
}

/// `"64KiB"`, for the `deserialize_with` of a number of bytes or an [`Option`] of one.
///
/// # Errors
/// When it is not a size, or too large for the number.
pub fn size<'de, D: Deserializer<'de>, T: Holds<u64>>(deserializer: D) -> Result<T, D::Error> {
    ByteSize::deserialize(deserializer)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn whole(value: &Value, parse: fn(&str) -> Result<u64, Refusal>) -> Result<u64, Refusal> {
    match value {
        Value::Integer(number) => {
            u64::try_from(*number).map_err(|_| Refusal::new(format!("{number} is below zero"), "write a whole number"))
        }
        value => parse(text(value)),
    }
}

/// For `#[serde(with = "Properties")]` of the settings themselves.
impl Properties {
    /// # Errors
    /// When it is not a table.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
        <Self as Deserialize>::deserialize(deserializer).map(|properties| properties.0)
    }

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(settings: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(settings.iter().map(|(key, value)| (key, value)))
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
        Properties::serialize(&self.0, serializer)
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

/// A number from 0 to 1, for `deserialize_with`.
///
/// # Errors
/// When it is another one.
pub fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let fraction = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&fraction) {
        Ok(fraction)
    } else {
        Err(D::Error::custom(format!("{fraction} is not a fraction: it must lie between 0 and 1")))
    }
}
