//! A scenario as it was written, and `--set a.b.c=value`, which changes it before it is read and displaces what would contradict the
//! change. What was typed is kept, so that errors can name it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::path::{KeyPath, Step};
use crate::secrets::{mask_override, mask_text};

/// A key that is set, and how that was typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// As `--set` takes it: `producers.count=512`.
    pub assignment: String,
    /// As it was typed, without secrets: `--producers 512`.
    pub typed: String,
}

impl Setting {
    /// By `--set`.
    pub fn set(assignment: &str) -> Self {
        let typed = format!("--set {}", mask_override(assignment));
        Setting { assignment: assignment.to_owned(), typed }
    }

    /// By words of its own, which stand for `key=value`.
    pub fn typed_as(typed: &str, assignment: String) -> Self {
        Setting { assignment, typed: mask_text(typed) }
    }

    /// The key, as it was written.
    pub fn key(&self) -> &str {
        self.assignment.split('=').next().unwrap_or_default().trim()
    }
}

/// Where a scenario's text is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A file: errors show its lines.
    File(String),
    /// Made of something else that the user named, such as a URL: its lines are nothing that the user knows.
    Made(String),
    /// Made of two files of OpenMessaging Benchmark. `places`: a key of the scenario, and the line and the key of a file of which it and all
    /// below it were made.
    Imported { workload: String, places: Vec<(String, String)> },
}

impl Origin {
    /// What the user named.
    pub fn name(&self) -> &str {
        match self {
            Origin::File(name) | Origin::Made(name) | Origin::Imported { workload: name, .. } => name,
        }
    }

    /// Where the user has written what became the value at `path`.
    pub(super) fn place_of(&self, path: Option<&KeyPath>) -> &str {
        let (Origin::Imported { places, .. }, Some(path)) = (self, path) else { return self.name() };
        let is_around = |key: &str| KeyPath::parse(key).is_ok_and(|key| path.starts_with(&key));
        let around = places.iter().filter(|(key, _)| is_around(key)).max_by_key(|(key, _)| key.len());
        around.map_or(self.name(), |(_, place)| place)
    }
}

/// A scenario as it was written, with all that it takes to read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Written {
    pub text: String,
    pub origin: Origin,
    /// In the order of their weight: a later one wins.
    pub settings: Vec<Setting>,
    /// Where relative paths start.
    pub directory: PathBuf,
    /// What the text does not have as its origin has it, in a sentence for people.
    pub note: Option<String>,
}

impl Written {
    /// Of a file, with each of `overrides` by `--set`.
    pub fn in_file(text: &str, name: &str, overrides: &[String], directory: &Path) -> Self {
        Written {
            text: text.to_owned(),
            origin: Origin::File(name.to_owned()),
            settings: overrides.iter().map(|one| Setting::set(one)).collect(),
            directory: directory.to_owned(),
            note: None,
        }
    }
}

/// One override of the command line.
#[derive(Debug)]
pub(super) struct Override {
    pub path: KeyPath,
    /// As it was typed, without secrets.
    pub typed: String,
    value: Value,
}

impl Override {
    /// # Errors
    /// A report, ready to be shown.
    pub(super) fn parse(setting: &Setting) -> Result<Self, String> {
        let Setting { assignment, typed } = setting;
        let refuse = |message: &str, advice: &str| Err(report(typed, message, advice));
        let Some((key, value)) = assignment.split_once('=') else {
            return refuse("an override has no `=`", "write `--set producers.count=512`");
        };
        let Ok(path) = KeyPath::parse(key) else {
            return refuse("this is not a key", "write tables and keys with dots between, as in `producers.count`");
        };
        let value = value.trim();
        let valued = |value: Value| Override { path, typed: typed.clone(), value };
        // `30s`, `127.0.0.1:9092` and `kafka` are not TOML, and become strings; so does what looks like a date.
        match value.parse::<Value>() {
            Ok(Value::Datetime(_)) => Ok(valued(value.into())),
            Ok(value) => Ok(valued(value)),
            Err(_) if value.starts_with(['[', '{', '"', '\'']) => refuse(
                "the value is not complete TOML",
                "quote the whole override for the shell, as in --set 'a.b=[1, 2]'",
            ),
            Err(_) => Ok(valued(value.into())),
        }
    }

    /// # Errors
    /// A report, ready to be shown, when the path leads through something that is not a table, or to an element that is not
    /// there.
    pub(super) fn apply(&self, document: &mut DocumentMut) -> Result<(), String> {
        for path in self.displaced() {
            let parent = path.parent();
            if let (Some(table), Some(Step::Key(key))) =
                (find(document.as_table_mut(), parent.steps()), path.steps().last())
            {
                table.remove(key);
            }
        }
        self.pin(document);
        self.open_tls(document);
        let Some((last, tables)) = self.path.steps().split_last() else { return Ok(()) };
        let mut table: &mut dyn TableLike = document.as_table_mut();
        // A table with a header of its own cannot stand inside an inline one.
        let mut inline = false;
        let mut depth = 0;
        while let Some(Step::Key(key)) = tables.get(depth) {
            depth += 1;
            let index = match self.path.steps().get(depth) {
                Some(Step::Index(index)) => Some(*index),
                _ => None,
            };
            let lead = KeyPath::from_steps(&self.path.steps()[..depth]);
            let Some(index) = index else {
                let new = || if inline { Item::Value(InlineTable::new().into()) } else { Item::Table(implicit()) };
                let item = table.entry(key).or_insert_with(new);
                inline |= item.is_inline_table();
                let refuse = || self.refuse(&format!("`{lead}` is not a table in the scenario"));
                table = item.as_table_like_mut().ok_or_else(refuse)?;
                continue;
            };
            let elements = table.get_mut(key).map(Element::count).unwrap_or_default();
            let element = table.get_mut(key).and_then(|item| Element::at(item, index));
            let missing = || {
                let message = format!("`{lead}` has {elements} element(s) in the scenario");
                report(&self.typed, &message, "their numbers begin with 0")
            };
            inline |= matches!(element, Some(Element::Value(_)));
            let element = element.ok_or_else(missing)?;
            depth += 1;
            if depth > tables.len() {
                return element.replace(self.value.clone()).map_err(|reason| self.refuse(reason));
            }
            let refuse = || self.refuse(&format!("`{lead}[{index}]` is not a table in the scenario"));
            table = element.table().ok_or_else(refuse)?;
        }
        if let Step::Key(last) = last {
            self.set(table, last);
        }
        Ok(())
    }

    /// Gives the key of this table the value.
    fn set(&self, table: &mut dyn TableLike, last: &str) {
        if self.path.parent().is_foreign_table() && !table.contains_key(last) {
            remove_dotted(table, last);
        }
        let mut value = self.value.clone();
        match table.get_mut(last) {
            Some(Item::Value(old)) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            _ => {
                value.decor_mut().clear();
                table.insert(last, Item::Value(value));
            }
        }
    }

    /// `tls = true` is short for a table without keys: a key of that table takes its place.
    fn open_tls(&self, document: &mut DocumentMut) {
        if let ["broker", "security", "tls", _] = self.path.keys().as_slice()
            && let Some(security) = find(document.as_table_mut(), KeyPath::from_keys(&["broker", "security"]).steps())
            && security.get("tls").is_some_and(Item::is_bool)
        {
            security.remove("tls");
        }
    }

    fn refuse(&self, message: &str) -> String {
        report(&self.typed, message, "override the value itself")
    }

    /// Keys that contradict this one: an override is a decision, so they go.
    fn displaced(&self) -> Vec<KeyPath> {
        if let [Step::Key(pipeline), Step::Key(sinks), Step::Index(_), Step::Key(key)] = self.path.steps()
            && (pipeline.as_str(), sinks.as_str()) == ("pipeline", "sinks")
        {
            let other = [("address", "addresses"), ("addresses", "address")].into_iter().find(|(own, _)| own == key);
            return other.map(|(_, other)| self.path.parent().key(other)).into_iter().collect();
        }
        let all: &[[&str; 2]] = match self.path.keys().as_slice() {
            ["broker", "address"] => &[["broker", "addresses"]],
            ["broker", "addresses"] => &[["broker", "address"]],
            ["load", "rate"] => &[["load", "schedule"], ["load", "model"]],
            ["load", "schedule"] => &[["load", "rate"], ["load", "model"]],
            ["load", "model"] if self.value.as_str() == Some("closed") => {
                &[["load", "rate"], ["load", "schedule"], ["load", "pacing"]]
            }
            // The topic is taken as it is.
            ["pipeline", "producer_mode"] if self.value.as_str() == Some("none") => {
                &[["topology", "partitions"], ["topology", "replication"], ["topology", "keep"], ["topology", "config"]]
            }
            _ => &[],
        };
        all.iter().map(|keys| KeyPath::from_keys(keys)).collect()
    }

    /// What this override takes out of a scenario that sets it, in words. `load.model` says nothing that its other keys do not.
    pub(super) fn notes(&self, scenario: &toml::Table) -> Vec<String> {
        let gone = self.displaced().into_iter().filter(|path| path.keys() != ["load", "model"] && path.is_in(scenario));
        gone.map(|path| format!("note: {} replaces `{path}` of the scenario", self.typed)).collect()
    }

    /// A swept key that is overridden is swept no longer.
    fn pin(&self, document: &mut DocumentMut) {
        let Some(over) = find(document.as_table_mut(), KeyPath::from_keys(&["sweep", "over"]).steps()) else { return };
        let swept: Vec<String> = over.iter().map(|(key, _)| key.to_owned()).collect();
        for key in swept {
            if KeyPath::parse(&key).is_ok_and(|path| path == self.path) {
                over.remove(&key);
            }
        }
        remove_dotted(over, &self.path.keys().join("."));
    }
}

fn report(typed: &str, message: &str, advice: &str) -> String {
    format!("{typed}: {message}\n   = {advice}\n")
}

fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

fn find<'a>(root: &'a mut Table, steps: &[Step]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = root;
    let mut steps = steps.iter().peekable();
    while let Some(Step::Key(key)) = steps.next() {
        let item = table.get_mut(key)?;
        table = match steps.next_if(|step| matches!(step, Step::Index(_))) {
            Some(Step::Index(index)) => Element::at(item, *index)?.table()?,
            _ => item.as_table_like_mut()?,
        };
    }
    Some(table)
}

/// An element of an array, however the array was written.
enum Element<'a> {
    Table(&'a mut Table),
    Value(&'a mut Value),
}

impl<'a> Element<'a> {
    fn count(item: &mut Item) -> usize {
        match item {
            Item::ArrayOfTables(tables) => tables.len(),
            item => item.as_array().map_or(0, toml_edit::Array::len),
        }
    }

    fn at(item: &'a mut Item, index: usize) -> Option<Self> {
        match item {
            Item::ArrayOfTables(tables) => tables.get_mut(index).map(Element::Table),
            item => item.as_array_mut().and_then(|array| array.get_mut(index)).map(Element::Value),
        }
    }

    fn table(self) -> Option<&'a mut dyn TableLike> {
        match self {
            Element::Table(table) => Some(table),
            Element::Value(value) => value.as_inline_table_mut().map(|table| table as &mut dyn TableLike),
        }
    }

    fn replace(self, mut value: Value) -> Result<(), &'static str> {
        match self {
            Element::Table(_) => Err("this is a whole table"),
            Element::Value(old) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
                Ok(())
            }
        }
    }
}

/// Removes `a.b.c`, however its dots were written, with the tables around it that are empty then.
fn remove_dotted(table: &mut dyn TableLike, name: &str) {
    if table.remove(name).is_some() {
        return;
    }
    for (position, _) in name.match_indices('.') {
        let outer = &name[..position];
        if let Some(inner) = table.get_mut(outer).and_then(Item::as_table_like_mut) {
            remove_dotted(inner, &name[position + 1..]);
            if inner.is_empty() {
                table.remove(outer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_that_displaces_a_key_of_the_scenario_says_so() {
        let notes = |assignment: &str, scenario: &str| {
            let scenario: toml::Table = scenario.parse().unwrap();
            Override::parse(&Setting::set(assignment)).unwrap().notes(&scenario)
        };
        let poisson = "[load]\nschedule = { kind = \"poisson\", rate = \"1k/s\" }";
        let note = "note: --set load.rate=2k/s replaces `load.schedule` of the scenario";
        assert_eq!(notes("load.rate=2k/s", poisson), [note]);
        assert!(notes("load.schedule.rate=2k/s", poisson).is_empty());
        assert!(notes("load.rate=2k/s", "[load]\nrate = \"1k/s\"").is_empty());
        assert!(notes("load.rate=2k/s", "[load]\nmodel = \"closed\"").is_empty());
    }

    #[test]
    fn what_was_typed_is_shown_without_secrets() {
        let set = Setting::set("broker.security.sasl.password=hunter2");
        assert_eq!(set.typed, "--set broker.security.sasl.password=***");
        assert_eq!(set.key(), "broker.security.sasl.password");
        let typed = Setting::typed_as("--size token=hunter2", "payload.size=token=hunter2".to_owned());
        assert_eq!(typed.typed, "--size token=***");
        assert_eq!(typed.key(), "payload.size");
    }
}
