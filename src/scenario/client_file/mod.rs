//! `--properties FILE`: what the file of a Java client, or of librdkafka, says as keys of the scenario. What the scenario says itself (its file or
//! URL, and the options of the command line) wins over it.
//!
//! - `properties`: the lines of such a file. `jaas`: a login within one.
//! - `kafka`, `pulsar`: what each property is here.

mod jaas;
mod kafka;
pub mod properties;
mod pulsar;

use std::path::Path;

use toml::Table;
use toml_edit::{Array, InlineTable, Value};

pub(super) use self::kafka::{Untaken, is_security, security, untaken};
use self::properties::Property;
use super::kind::Kinds;
use super::overrides::{Setting, Written};
use super::path::KeyPath;
use super::problem::ScenarioError;

/// What is known of the scenario before its file is read.
struct Known {
    /// The text, without the settings.
    scenario: Table,
    /// Each key that is set, with the words that were typed.
    set: Vec<(KeyPath, String, Option<Value>)>,
}

impl Known {
    fn new(written: &Written) -> Self {
        let set = written.settings.iter().filter_map(|one| {
            let value = one.assignment.split_once('=').map(|(_, value)| value.trim());
            let value = value.map(|text| text.parse().unwrap_or_else(|_| Value::from(text)));
            Some((KeyPath::parse(one.key()).ok()?, one.typed.clone(), value))
        });
        Known { scenario: written.text.parse().unwrap_or_default(), set: set.collect() }
    }

    /// The text at `table.key`, as the command line or the scenario has it.
    fn text(&self, table: &str, key: &str) -> Option<String> {
        let path = KeyPath::from_keys(&[table, key]);
        let set = self.set.iter().rev().find(|(one, ..)| *one == path);
        let written = || self.scenario.get(table)?.get(key)?.as_str().map(str::to_owned);
        set.and_then(|(.., value)| value.as_ref()?.as_str().map(str::to_owned)).or_else(written)
    }

    /// Whether the scenario has the table, or a key of it.
    fn has(&self, table: &str) -> bool {
        let path = KeyPath::from_keys(&[table]);
        path.is_in(&self.scenario) || self.set.iter().any(|(one, ..)| one.starts_with(&path))
    }

    /// What of the scenario takes the place of `path`.
    fn instead_of(&self, path: &KeyPath) -> Option<String> {
        let keys = path.keys();
        let stands_for: Vec<KeyPath> = match keys.as_slice() {
            // One login is not completed by a part of another one.
            ["broker", "security", "sasl", ..] => vec![KeyPath::from_keys(&["broker", "security", "sasl"])],
            ["broker", "addresses"] => ["address", "addresses"].map(|key| KeyPath::from_keys(&["broker", key])).into(),
            _ => vec![path.clone()],
        };
        let tls_is_off = keys.starts_with(&["broker", "security", "tls"])
            && self.scenario.get("broker").and_then(|broker| broker.get("security")?.get("tls")?.as_bool())
                == Some(false);
        let written = stands_for.iter().find(|one| one.is_in(&self.scenario));
        if let Some(written) = written.or(tls_is_off.then_some(path)) {
            return Some(format!("`{written}` of the scenario"));
        }
        let set = self.set.iter().find(|(one, ..)| path.starts_with(one) || stands_for.contains(one));
        set.map(|(_, typed, _)| format!("`{typed}`"))
    }
}

/// What a file's properties are here.
#[derive(Default)]
pub(super) struct Mapped {
    /// Keys of the scenario, with the property that says so and its line.
    pub set: Vec<(String, Value, (usize, String))>,
    /// Properties that have no counterpart, each with its line and the reason.
    pub refused: Vec<(usize, String, String)>,
    /// Properties without which the load is the same.
    pub left_out: Vec<(usize, String, String)>,
}

impl Mapped {
    fn set(&mut self, key: &str, value: impl Into<Value>, by: &Property) {
        self.set.push((key.to_owned(), value.into(), (by.line, by.key.clone())));
    }

    fn refuse(&mut self, by: &Property, reason: impl Into<String>) {
        self.refused.push((by.line, by.key.clone(), reason.into()));
    }

    fn leave_out(&mut self, by: &Property, reason: impl Into<String>) {
        self.left_out.push((by.line, by.key.clone(), reason.into()));
    }

    /// The property's value. One that is neither true nor false is refused: what it would switch is not known.
    fn boolean(&mut self, one: &Property) -> Option<bool> {
        let value = boolean(&one.value);
        if value.is_none() {
            self.refuse(one, "it is neither true nor false: write one of them");
        }
        value
    }
}

/// Adds what `file` says to a scenario, below all that the scenario says itself.
///
/// # Errors
/// When the file cannot be read, and for each property without a counterpart, with its line and without its value.
pub fn add(kinds: Kinds<'_>, file: &Path, mut written: Written) -> Result<Written, ScenarioError> {
    let name = file.display();
    let single = |reason: String| ScenarioError::single(format!("{name}{reason}\n"));
    let known = Known::new(&written);
    let kind = known.text("broker", "kind").unwrap_or_default();
    let kind = kinds.broker(&kind).map_or(kind.as_str(), |descriptor| descriptor.kind).to_owned();
    let bytes = std::fs::read(file).map_err(|error| single(format!(": it cannot be read: {error}")))?;
    // Java's own encoding of such files, if it is not UTF-8.
    let text =
        String::from_utf8(bytes).unwrap_or_else(|other| other.into_bytes().into_iter().map(char::from).collect());
    let all = properties::parse(&text).map_err(|(line, reason)| single(format!(":{line}: {reason}")))?;
    let mut mapped = Mapped::default();
    let properties = last_of_each(all, &mut mapped);
    match kind.as_str() {
        "kafka" => kafka::map(&properties, &known, &mut mapped),
        "pulsar" => pulsar::map(&properties, &mut mapped),
        _ => {
            let advice = "a broker of kind `kafka` or `pulsar` has one";
            return Err(single(format!(
                ": `--properties` is the file of a client, and a broker of kind `{kind}` has none: {advice}"
            )));
        }
    }
    if !mapped.refused.is_empty() {
        mapped.refused.sort();
        let report = |(line, key, reason): &(usize, String, String)| format!("{name}:{line}: `{key}`: {reason}\n");
        return Err(ScenarioError { reports: mapped.refused.iter().map(report).collect() });
    }
    let (mut settings, mut taken) = (Vec::new(), Vec::new());
    for (key, value, (line, property)) in mapped.set {
        let Ok(path) = KeyPath::parse(&key) else { continue };
        match known.instead_of(&path) {
            Some(instead) => mapped.left_out.push((line, property, format!("{instead} wins over it"))),
            None => {
                taken.push(format!("# - `{property}` (line {line}) sets {key}\n"));
                let typed = format!("{name}:{line}: `{property}`");
                settings.push(Setting::typed_as(&typed, format!("{key}={}", value.to_string().trim())));
            }
        }
    }
    mapped.left_out.sort();
    mapped.left_out.dedup();
    let comment = |(line, key, reason): &(usize, String, String)| format!("# - `{key}` (line {line}) - {reason}\n");
    let left_out: String = mapped.left_out.iter().map(comment).collect();
    let not_taken = if left_out.is_empty() { "" } else { "# Not taken from it:\n" };
    let heading = format!("# From {name}; the scenario's own keys and the command line's options win over it:\n");
    if !written.text.ends_with('\n') && !written.text.is_empty() {
        written.text.push('\n');
    }
    written.text.extend(["\n", &heading, &taken.concat(), not_taken, &left_out]);
    if !mapped.left_out.is_empty() {
        let keys: Vec<String> = mapped.left_out.iter().map(|(_, key, _)| format!("`{key}`")).collect();
        let note = format!("note: not taken from {name}: {} (`run --print-scenario` says why)", keys.join(", "));
        written.note = Some(written.note.map_or(note.clone(), |before| format!("{before}\n{note}")));
    }
    written.settings.splice(0..0, settings);
    Ok(written)
}

/// `true` or `false`, in upper or lower case, as Java's `Boolean.parseBoolean` and the parsers of Kafka and Jackson read them.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") { Some(true) } else { is("false").then_some(false) }
}

/// Of a key that stands there several times, Java takes the last.
fn last_of_each(all: Vec<Property>, mapped: &mut Mapped) -> Vec<Property> {
    let mut kept: Vec<Property> = Vec::with_capacity(all.len());
    for property in all {
        if let Some(before) = kept.iter().position(|one| one.key == property.key) {
            let before = kept.remove(before);
            mapped.leave_out(&before, format!("line {} sets it again", property.line));
        }
        kept.push(property);
    }
    kept
}

/// The property's value, if it has one that is not empty.
fn find<'p>(properties: &'p [Property], keys: &[&str]) -> Option<&'p Property> {
    properties.iter().find(|one| keys.contains(&one.key.as_str()) && !one.value.is_empty())
}

/// A path of the file: relative ones start at the current directory, as they do for the client.
fn path(text: &str) -> String {
    std::path::absolute(text).map_or_else(|_| text.to_owned(), |path| path.display().to_string())
}

/// Hosts as a list of addresses, with this port where they name none.
pub(super) fn addresses<'a>(hosts: impl Iterator<Item = &'a str>, port: u16) -> Array {
    let with_port = |host: &str| if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    hosts.map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect()
}

/// A secret in a file of its own.
fn secret_in_file(file: &str) -> Value {
    let mut table = InlineTable::new();
    table.insert("file", path(file).into());
    table.into()
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/client_file.rs"]
mod tests;
