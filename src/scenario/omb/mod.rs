//! A workload and a driver of OpenMessaging Benchmark as the text of a scenario. A key without a counterpart is refused by its name. Where the
//! load is the same without it, it is left out, and the scenario says so at its head, with the reason.
//!
//! The keys and their defaults are those of `Workload.java` and of each driver's `Config.java` in openmessaging/benchmark.

mod driver;
mod pulsar_driver;
mod workload;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml_edit::{DocumentMut, Item, value};

use super::client_file::{self, boolean};
use super::kind::Kinds;
use super::problem::ScenarioError;
use crate::secrets::mask_text;

/// What a workload on a driver's broker stands for.
#[derive(Debug)]
pub struct Imported {
    /// The scenario as TOML. Comments at its head name the keys that are left out.
    pub text: String,
    /// The same keys in one sentence for people.
    pub note: Option<String>,
    /// Keys of the scenario, each with the line and the key of the file that it was made of.
    pub places: Vec<(String, String)>,
}

/// Keys of the scenario, each with the key of the workload that it is made of.
const OF_WORKLOAD: [(&str, &str); 19] = [
    ("topology.topics", "topics"),
    ("topology.partitions", "partitionsPerTopic"),
    ("producers.count", "topics"),
    ("producers.count", "producersPerTopic"),
    ("producers.keys", "keyDistributor"),
    ("payload.kind", "payloadFile"),
    ("payload.file", "payloadFile"),
    ("payload.size", "messageSize"),
    ("payload.size", "messageSizeDistribution"),
    ("payload.pool", "randomizedPayloadPoolSize"),
    ("payload.compressibility", "randomBytesRatio"),
    ("load", "producerRate"),
    ("load.schedule", "producerRateList"),
    ("consumers", "consumerPerSubscription"),
    ("consumers.groups", "subscriptionsPerTopic"),
    ("consumers.members", "consumerPerSubscription"),
    ("consumers.backlog", "consumerBacklogSizeGB"),
    ("run.warm_up", "warmupDurationMinutes"),
    ("run.duration", "testDurationMinutes"),
];

/// The same of a driver.
const OF_DRIVER: [(&str, &str); 6] = [
    ("broker", "driverClass"),
    ("broker.addresses", "bootstrap.servers"),
    ("broker.addresses", "serviceUrl"),
    ("broker.connections", "connectionsPerBroker"),
    ("topology.config", "topicConfig"),
    ("topology.replication", "replicationFactor"),
];

/// The scenario that a workload on a driver's broker stands for. `has_rate`: the rate is set elsewhere.
///
/// # Errors
/// When a file cannot be read, and for every key that has no counterpart.
pub fn import(kinds: Kinds<'_>, workload: &Path, driver: &Path, has_rate: bool) -> Result<Imported, ScenarioError> {
    let mut document = DocumentMut::new();
    let ((load, load_text), (broker, broker_text)) = (read(workload)?, read(driver)?);
    let mut untranslated = Untranslated {
        file: workload.display().to_string(),
        text: load_text,
        refused: Vec::new(),
        left_out: Vec::new(),
    };
    workload::convert(&load, has_rate, &mut document, &mut untranslated);
    let mut places: Vec<(String, String)> = untranslated.places(&OF_WORKLOAD);
    (untranslated.file, untranslated.text) = (driver.display().to_string(), broker_text);
    driver::convert(kinds, &broker, &mut document, &mut untranslated);
    places.extend(untranslated.places(&OF_DRIVER));
    for (table, inner) in [("broker", "properties"), ("topology", "config")] {
        let table_of = document.get(table).and_then(|table| table.get(inner)).and_then(Item::as_table_like);
        let keys: Vec<(String, &str)> = table_of
            .into_iter()
            .flat_map(|table| table.iter())
            .map(|(key, _)| (format!("{table}.{inner}.{key:?}"), key))
            .collect();
        let keys: Vec<(&str, &str)> = keys.iter().map(|(path, key)| (path.as_str(), *key)).collect();
        places.extend(untranslated.places(&keys));
    }
    let Untranslated { refused, left_out, .. } = untranslated;
    if !refused.is_empty() {
        return Err(ScenarioError { reports: refused });
    }
    if left_out.is_empty() {
        return Ok(Imported { text: document.to_string(), note: None, places });
    }
    let lines: String = left_out.iter().map(|(key, reason)| format!("# - `{key}`: {reason}\n")).collect();
    let keys: Vec<String> = left_out.iter().map(|(key, _)| format!("`{key}`")).collect();
    Ok(Imported {
        text: format!("# Not as in the files of OpenMessaging Benchmark:\n{lines}\n{document}"),
        note: Some(format!(
            "note: not as in the files of OpenMessaging Benchmark: {} (`run --print-scenario` says why)",
            keys.join(", ")
        )),
        places,
    })
}

type Keys = BTreeMap<String, Value>;

/// The keys of a file, and its text.
fn read(path: &Path) -> Result<(Keys, String), ScenarioError> {
    let advice = "give a workload of OpenMessaging Benchmark to --omb, and its driver's file as the scenario";
    let refuse = |place: String, reason: String, advice: &str| {
        ScenarioError::single(format!("{}{place}: {reason}\n   = {advice}\n", path.display()))
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| refuse(String::new(), format!("it cannot be read: {error}"), advice))?;
    match parse(&with_defaults(&text)) {
        Ok(keys) => Ok((keys, text)),
        Err((line, reason)) => {
            let is_template = ["{{", "{%"].iter().any(|mark| text.contains(mark));
            let advice =
                if is_template { "it is a template: fill in what stands in {{ }} and {% %} first" } else { advice };
            Err(refuse(line.map_or_else(String::new, |line| format!(":{line}")), reason, advice))
        }
    }
}

/// Reads a document. The error has the line and no text of the file, which may be a login.
fn parse(text: &str) -> Result<Keys, (Option<u64>, String)> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map(|location| location.line());
        (line, mask_text(&error.without_snippet().to_string()))
    })
}

/// The line, from 1, that begins with a key: of the document, or of a property in a block of it.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let begins = |line: &str| {
        let line = line.trim_start().trim_start_matches("- ").trim_start_matches(['"', '\'']);
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || "._-".contains(next)))
    };
    text.lines().position(begins).map(|index| index + 1)
}

/// A value of a key, as far as it is used: numbers and booleans stay text, and lists hold no setting of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "serde_json::Value")]
enum Value {
    Text(String),
    List(Vec<Value>),
    Table(Keys),
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Value::Text(String::new()),
            serde_json::Value::Bool(flag) => Value::Text(flag.to_string()),
            // `15.0` is a whole number.
            serde_json::Value::Number(number) => Value::Text(match number.as_f64().filter(|_| number.is_f64()) {
                Some(number) => number.to_string(),
                None => number.to_string(),
            }),
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Array(values) => Value::List(values.into_iter().map(Value::from).collect()),
            serde_json::Value::Object(keys) => {
                Value::Table(keys.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

/// Keys that the scenario does not have as the files have them, and why.
struct Untranslated {
    /// The file that is being read.
    file: String,
    /// Its text.
    text: String,
    refused: Vec<String>,
    /// The load is the same without these.
    left_out: Vec<(String, String)>,
}

impl Untranslated {
    /// Once, if a key is read several times.
    fn refuse(&mut self, key: &str, reason: &str) {
        let line = line_of(&self.text, key).map_or_else(String::new, |line| format!(":{line}"));
        let report = format!("{}{line}: `{key}`: {reason}\n", self.file);
        if !self.refused.contains(&report) {
            self.refused.push(report);
        }
    }

    /// Those of these keys of the scenario whose key the file has.
    fn places(&self, keys: &[(&str, &str)]) -> Vec<(String, String)> {
        let place = |(made, key): &(&str, &str)| {
            line_of(&self.text, key).map(|line| ((*made).to_owned(), format!("{}:{line}: `{key}`", self.file)))
        };
        keys.iter().filter_map(place).collect()
    }

    /// Refuses every key that is not one of these.
    fn refuse_unknown(&mut self, keys: &Keys, known: &[&str]) {
        for key in keys.keys().filter(|key| !known.contains(&key.as_str())) {
            self.refuse(key, "this key has no counterpart in brokermark: remove it, or write the scenario in TOML");
        }
    }

    /// Says of a key that it is not taken over, or not as it is written; once, if several blocks have it.
    fn leave_out(&mut self, key: &str, reason: &str) {
        if !self.left_out.iter().any(|(other, _)| other == key) {
            self.left_out.push((key.to_owned(), reason.to_owned()));
        }
    }

    /// The same of each of these that the file has.
    fn leave_out_each(&mut self, keys: &Keys, reasons: &[(&str, &str)]) {
        for (key, reason) in reasons.iter().filter(|(key, _)| has_value(keys, key)) {
            self.leave_out(key, reason);
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

/// Hosts as a list of addresses, with this port where they name none.
fn addresses<'a>(hosts: impl Iterator<Item = &'a str>, port: u16) -> Item {
    value(client_file::addresses(hosts, port))
}

fn text<'a>(keys: &'a Keys, key: &str) -> Option<&'a str> {
    match keys.get(key)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether the file has the key, and not an empty text for it.
fn has_value(keys: &Keys, key: &str) -> bool {
    keys.get(key).is_some_and(|value| *value != Value::Text(String::new()))
}

/// A whole number, if the key is there. Of 32 bits, so that no product of two overflows.
fn number_if_set(keys: &Keys, key: &str, untranslated: &mut Untranslated) -> Option<u64> {
    let text = text(keys, key).filter(|text| !text.is_empty())?;
    let number: Option<u32> = text.parse().ok();
    if number.is_none() {
        untranslated.refuse(key, &format!("`{text}` is not a whole number from 0 to {}", u32::MAX));
    }
    number.map(u64::from)
}

/// A whole number; `default` where the key is not there.
fn number(keys: &Keys, key: &str, default: u64, untranslated: &mut Untranslated) -> u64 {
    number_if_set(keys, key, untranslated).unwrap_or(default)
}

/// Whether the key is set to `true`; `default` where it is not there.
fn is_true(keys: &Keys, key: &str, default: bool, untranslated: &mut Untranslated) -> bool {
    match text(keys, key) {
        None | Some("") => default,
        Some(text) => boolean(text).unwrap_or_else(|| {
            untranslated.refuse(key, &format!("`{text}` is neither true nor false"));
            default
        }),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/omb/mod.rs"]
mod tests;
