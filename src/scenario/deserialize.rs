//! Durations, sizes and secrets as a scenario writes them, for the `deserialize_with` of the brokers' own tables.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Value;

use super::Secret;
use super::units::{parse_duration, parse_size};

/// `"250ms"`, for a [`Duration`] or an [`Option`] of one.
///
/// # Errors
/// When it is not a duration with its unit.
pub fn duration<'de, D: Deserializer<'de>, T: From<Duration>>(deserializer: D) -> Result<T, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Integer(number) => {
            return Err(Error::custom(format!("{number} has no unit: write \"{number}ms\" or \"{number}s\"")));
        }
        other => {
            return Err(Error::custom(format!(
                "a duration is text with its unit, as in \"5ms\", not {}",
                other.type_str()
            )));
        }
    };
    parse_duration(&text).map(T::from).map_err(Error::custom)
}

/// `"64KiB"`, for a number of bytes or an [`Option`] of one.
///
/// # Errors
/// When it is not a size, or too large for the number.
pub fn size<'de, D: Deserializer<'de>, T: TryFrom<u64, Error: Display>>(deserializer: D) -> Result<T, D::Error> {
    let bytes = parse_size(&String::deserialize(deserializer)?).map_err(Error::custom)?;
    T::try_from(bytes).map_err(Error::custom)
}

/// `{ env = "NAME" }`, `{ file = "path" }` or a string.
///
/// # Errors
/// When it is something else. The error does not repeat the value.
pub fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, deny_unknown_fields)]
    enum Written {
        Inline(String),
        Env { env: String },
        File { file: PathBuf },
    }
    // Serde's own message would repeat the value.
    let written = Written::deserialize(deserializer)
        .map_err(|_| Error::custom("write { env = \"NAME\" }, { file = \"path\" } or a string"))?;
    Ok(Some(match written {
        Written::Inline(text) => Secret::Inline(text),
        Written::Env { env } => Secret::Env(env),
        Written::File { file } => Secret::File(file),
    }))
}
