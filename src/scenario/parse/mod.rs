//! Turns a TOML tree into the typed scenario: one file for each table of the language, with the keys of that table.
//!
//! Each reader takes the whole scenario's [`Fields`], reads its own table and adds a problem for everything it cannot
//! accept; it goes on with a default, so that one reading finds as many problems as possible. What concerns more than
//! one table is checked in [`cross_checks`], once every table is right by itself.

mod broker;
mod client;
mod consumers;
mod consuming;
mod cross_checks;
mod distribution;
mod groups;
mod load;
mod options;
mod output;
mod payload;
mod pipeline;
mod producers;
mod properties;
mod run;
mod security;
mod thresholds;
mod topology;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Table;

use super::fields::{Field, Fields};
use super::path::KeyPath;
use super::problem::{OwnKeys, Problems, Tables};
use super::{Output, Scenario, sweep};
use crate::scenario::Kinds;

pub(super) use options::own_keys;
pub use output::DEFAULT_OUTPUT_DIRECTORY;
pub(super) use properties::flatten as flatten_properties;

/// The tables of the language, each with its keys.
pub(super) const TABLES: Tables = &[
    ("broker", broker::KEYS),
    ("broker.watch", watch::KEYS),
    ("broker.security", security::KEYS),
    ("broker.security.tls", security::TLS_KEYS),
    ("broker.security.sasl", security::SASL_KEYS),
    ("topology", topology::KEYS),
    ("producers", producers::KEYS),
    ("load", load::KEYS),
    ("payload", payload::KEYS),
    ("consumers", consumers::KEYS),
    ("pipeline", pipeline::KEYS),
    ("run", run::KEYS),
    ("sweep", sweep::KEYS),
    ("thresholds", thresholds::KEYS),
    ("output", output::KEYS),
    ("distribution", distribution::KEYS),
];

/// Every key of the language, with its table: `producers.count`.
#[cfg(test)]
pub(crate) fn every_key() -> Vec<String> {
    TABLES.iter().flat_map(|(table, keys)| keys.iter().map(move |key| format!("{table}.{key}"))).collect()
}

/// The keys of a broker's own table.
#[cfg(test)]
pub(crate) fn own_keys_of(kind: &str, kinds: Kinds<'_>) -> Vec<String> {
    let broker = Table::from_iter([("kind".to_owned(), kind.into())]);
    let keys = own_keys(&Table::from_iter([("broker".to_owned(), broker.into())]), kinds);
    keys.iter().map(|(key, _)| key.clone()).collect()
}

/// Collects the problems of a scenario, with advice on keys in the wrong table.
pub(super) fn problems(own_keys: &OwnKeys) -> Problems {
    Problems::new(TABLES, own_keys.clone())
}

/// What reading depends on besides the text.
pub(super) struct Context<'a> {
    pub kinds: Kinds<'a>,
    /// The scenario file's folder: relative paths start here.
    pub directory: &'a Path,
    /// The scenario's name where it gives none.
    pub default_name: String,
    /// What is known of the files read as payloads, so that a sweep reads each only once.
    line_files: RefCell<BTreeMap<PathBuf, Result<payload::LineSizes, String>>>,
    /// The files that payloads are made from, by the path that the scenario has.
    pub payload_files: RefCell<BTreeMap<String, PathBuf>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(kinds: Kinds<'a>, directory: &'a Path, default_name: String) -> Self {
        Context { kinds, directory, default_name, line_files: RefCell::default(), payload_files: RefCell::default() }
    }

    fn resolve(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// The path of a file that must be there, and whose contents are sent.
    fn payload_file(&self, field: &Field<'_>) -> Option<PathBuf> {
        let path = self.existing_file(field)?;
        self.payload_files.borrow_mut().insert(field.string()?.to_owned(), path.clone());
        Some(path)
    }

    /// The path of a file that must be there.
    fn existing_file(&self, field: &Field<'_>) -> Option<PathBuf> {
        let path = self.resolve(field.string()?);
        let (what, advice) = match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => return Some(path),
            Ok(found) if found.is_dir() => ("is a directory", "name a file in it"),
            Ok(_) => (
                "is a pipe or a device, which can be read only once",
                "write its contents to a file, and name that file",
            ),
            Err(_) => ("does not exist", "a relative path starts at the scenario's own folder"),
        };
        field.refuse(format!("`{}`: the file {} {what}", field.path, path.display()), advice);
        None
    }
}

/// The scenario of one point; `None` or not, it counts only if no problem was added.
pub(super) fn read(table: &Table, context: &Context<'_>, problems: &Problems) -> Option<Scenario> {
    let root = root(table, problems);
    let name = name(&root, context);
    let broker = broker::read(&root, context);
    let watch = watch::read(&root);
    let topology = topology::read(&root, context);
    let (producers, window) = producers::read(&root);
    let (payload, sizes) = payload::read(&root, context);
    let (load, pacing) = load::read(&root, sizes);
    let pipeline = pipeline::read(&root, context);
    let consumers = consumers::read(&root, context, pipeline.as_ref(), sizes);
    let (run, threads) = run::read(&root, &load);
    let (thresholds, when_invalid) = thresholds::read(&root);
    let output = output::read(&root);
    let distribution = distribution::read(&root);
    if !problems.is_empty() {
        return None;
    }
    let (broker, descriptor) = broker?;
    let scenario = Scenario {
        name,
        broker,
        watch,
        topology,
        producers,
        load,
        pacing,
        payload,
        consumers,
        pipeline,
        run,
        threads,
        thresholds,
        when_invalid,
        output,
        distribution,
        part: None,
    };
    Some(cross_checks::settle(scenario, window, &root, descriptor))
}

/// The name and output alone, which are the same for all points.
pub(super) fn read_identity(table: &Table, context: &Context<'_>) -> (String, Output) {
    let problems = Problems::default();
    let root = root(table, &problems);
    (name(&root, context), output::read(&root))
}

/// The fields of the whole scenario: its name and its tables.
fn root<'a>(table: &'a Table, problems: &'a Problems) -> Fields<'a> {
    let tables = TABLES.iter().map(|(name, _)| *name).filter(|name| !name.contains('.'));
    let known: Vec<&str> = std::iter::once("name").chain(tables).collect();
    Fields::new(table, KeyPath::default(), problems, &known)
}

fn name(root: &Fields<'_>, context: &Context<'_>) -> String {
    let Some(field) = root.get("name") else { return context.default_name.clone() };
    let Some(name) = field.string() else { return String::new() };
    if !is_name(name) {
        field.refuse(
            format!("\"{name}\" cannot name a scenario"),
            "use 1 to 100 letters, digits, dots, hyphens and underscores: directories and topics are named after it",
        );
    }
    name.to_owned()
}

/// Whether directories and topics of every broker may be named so.
fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && !name.chars().all(|character| character == '.')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "._-".contains(character))
}
