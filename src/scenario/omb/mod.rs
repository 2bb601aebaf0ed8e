//! A workload and a driver of OpenMessaging Benchmark as the text of a scenario. What has no counterpart here is refused by its
//! name; what changes nothing of the load is passed over (`workload` and `driver` list it).
//!
//! The keys and their defaults are those of `Workload.java` and of each driver's `Config.java` in openmessaging/benchmark.

mod driver;
mod workload;
mod yaml;

use std::collections::BTreeMap;
use std::path::Path;

use toml_edit::DocumentMut;

use self::yaml::Value;
use super::error::ScenarioError;

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
    yaml::parse(&with_defaults(&text)).map_err(refuse)
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
