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
use toml_edit::{Array, DocumentMut, Item, value};

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
}

/// The scenario that a workload on a driver's broker stands for. `has_rate`: the rate is set elsewhere.
///
/// # Errors
/// When a file cannot be read, and for every key that has no counterpart.
pub fn import(kinds: Kinds<'_>, workload: &Path, driver: &Path, has_rate: bool) -> Result<Imported, ScenarioError> {
    let mut document = DocumentMut::new();
    let (load, broker) = (read(workload)?, read(driver)?);
    let mut untranslated =
        Untranslated { file: workload.display().to_string(), refused: Vec::new(), left_out: Vec::new() };
    workload::convert(&load, has_rate, &mut document, &mut untranslated);
    untranslated.file = driver.display().to_string();
    driver::convert(kinds, &broker, &mut document, &mut untranslated);
    let Untranslated { refused, left_out, .. } = untranslated;
    if !refused.is_empty() {
        return Err(ScenarioError { reports: refused });
    }
    if left_out.is_empty() {
        return Ok(Imported { text: document.to_string(), note: None });
    }
    let lines: String = left_out.iter().map(|(key, reason)| format!("# - `{key}`: {reason}\n")).collect();
    let keys: Vec<String> = left_out.iter().map(|(key, _)| format!("`{key}`")).collect();
    Ok(Imported {
        text: format!("# Not as in the files of OpenMessaging Benchmark:\n{lines}\n{document}"),
        note: Some(format!(
            "note: not as in the files of OpenMessaging Benchmark: {} (`run --print-scenario` says why)",
            keys.join(", ")
        )),
    })
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
    refused: Vec<String>,
    /// The load is the same without these.
    left_out: Vec<(String, String)>,
}

impl Untranslated {
    /// Once, if a key is read several times.
    fn refuse(&mut self, key: &str, reason: &str) {
        let line = format!("{}: `{key}`: {reason}\n", self.file);
        if !self.refused.contains(&line) {
            self.refused.push(line);
        }
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
    let with_port = |host: &str| if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    value(hosts.map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect::<Array>())
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
        Some("true") => true,
        Some("false") => false,
        Some(other) => {
            untranslated.refuse(key, &format!("`{other}` is neither true nor false"));
            default
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/omb/mod.rs"]
mod tests;
