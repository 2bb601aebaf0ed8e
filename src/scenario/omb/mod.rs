//! A workload and a driver of OpenMessaging Benchmark as the text of a scenario. What has no counterpart here is refused by its
//! name; what changes nothing of the load is passed over (`workload` and `driver` list it).
//!
//! The keys and their defaults are those of `Workload.java` and of each driver's `Config.java` in openmessaging/benchmark.

mod driver;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use toml_edit::DocumentMut;

use super::error::ScenarioError;
use crate::secrets::mask_text;

/// The scenario that a workload on a driver's broker stands for, as TOML. `has_rate`: the rate is set elsewhere.
///
/// # Errors
/// When a file cannot be read, and for every key that has no counterpart.
pub fn scenario_of(workload: &Path, driver: &Path, has_rate: bool) -> Result<String, ScenarioError> {
    let mut document = DocumentMut::new();
    let (load, broker) = (read(workload)?, read(driver)?);
    let mut refusals = Refusals { file: workload.display().to_string(), reports: Vec::new() };
    workload::convert(&load, has_rate, &mut document, &mut refusals);
    refusals.file = driver.display().to_string();
    driver::convert(&broker, &mut document, &mut refusals);
    if refusals.reports.is_empty() {
        Ok(document.to_string())
    } else {
        Err(ScenarioError { reports: refusals.reports })
    }
}

type Keys = BTreeMap<String, Value>;

fn read(path: &Path) -> Result<Keys, ScenarioError> {
    let refuse = |reason: String| {
        let advice = "give a workload of OpenMessaging Benchmark to --omb, and its driver's file as the scenario";
        ScenarioError::single(format!("{}: {reason}\n   = {advice}\n", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(format!("it cannot be read: {error}")))?;
    parse(&with_defaults(&text)).map_err(refuse)
}

/// Reads a document. The error has the line and no text of the file, which may be a login.
fn parse(text: &str) -> Result<Keys, String> {
    serde_saphyr::from_str(text).map_err(|error| mask_text(&error.without_snippet().to_string()))
}

/// A value of a key, as far as it is used: numbers and booleans stay text, and lists hold no setting of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    List,
    Table(Keys),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, a list or keys")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Text(flag.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Text(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Text(number.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Text(String::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut keys = Keys::new();
        while let Some((key, value)) = entries.next_entry()? {
            keys.insert(key, value);
        }
        Ok(Value::Table(keys))
    }
}

/// What is not taken, and why.
struct Refusals {
    file: String,
    reports: Vec<String>,
}

impl Refusals {
    fn add(&mut self, key: &str, reason: &str) {
        self.reports.push(format!("{}: `{key}`: {reason}\n", self.file));
    }

    /// Refuses every key that is not one of these.
    fn unknown(&mut self, keys: &Keys, known: &[&str]) {
        for key in keys.keys().filter(|key| !known.contains(&key.as_str())) {
            self.add(key, "this key has no counterpart in brokermark: remove it, or write the scenario in TOML");
        }
    }
}

/// The text with each placeholder that has a default, as in `${minutes:-15}`, replaced by it.
fn with_defaults(text: &str) -> String {
    let mut parts = text.split("${");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').and_then(|(inside, rest)| Some((inside.split_once(":-")?.1, rest))) {
            Some((default, rest)) => replaced.extend([default, rest]),
            None => replaced.extend(["${", part]),
        }
    }
    replaced
}

fn text<'a>(keys: &'a Keys, key: &str) -> Option<&'a str> {
    match keys.get(key)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// A whole number; `default` where the key is not there.
fn number(keys: &Keys, key: &str, default: u64, refusals: &mut Refusals) -> u64 {
    let Some(text) = text(keys, key) else { return default };
    text.parse().unwrap_or_else(|_| {
        refusals.add(key, &format!("`{text}` is not a whole number"));
        default
    })
}

fn is_true(keys: &Keys, key: &str) -> bool {
    text(keys, key) == Some("true")
}

#[cfg(test)]
mod tests;
