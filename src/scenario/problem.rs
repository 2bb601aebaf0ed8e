//! Problems of a scenario, by key: found while parsing, and located in the file when they are printed.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use super::path::KeyPath;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub place: SourcePosition,
    pub message: String,
    /// What would be valid.
    pub advice: Option<String>,
}

/// What to point at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SourcePosition {
    Key(KeyPath),
    /// The value; if it is missing, the table that should hold it.
    Value(KeyPath),
    /// Bytes of the file, where it could not be read as TOML.
    Bytes(Range<usize>),
}

impl SourcePosition {
    pub(super) fn path(&self) -> Option<&KeyPath> {
        match self {
            SourcePosition::Key(path) | SourcePosition::Value(path) => Some(path),
            SourcePosition::Bytes(_) => None,
        }
    }
}

/// The tables of the language by their names, with their keys.
pub(super) type Tables = Rc<[(String, Vec<String>)]>;

/// The keys of brokers' own tables, each with its table.
pub(super) type OwnKeys = Rc<[(String, String)]>;

/// Collects problems, so that one reading shows all of them.
#[derive(Debug)]
pub(super) struct Problems {
    found: RefCell<Vec<Problem>>,
    tables: Tables,
    own_keys: OwnKeys,
    /// Keys that an unknown one probably stands for: they are not missing.
    misspelt: RefCell<Vec<KeyPath>>,
}

impl Problems {
    /// `tables` and `own_keys` are for advice on a key that stands in the wrong table.
    pub(super) fn new(tables: Tables, own_keys: OwnKeys) -> Self {
        Problems { found: RefCell::default(), tables, own_keys, misspelt: RefCell::default() }
    }

    /// Where `key` belongs that stands in the table `found`: the language's table that has it, if exactly one has it, and
    /// the broker's own.
    pub(super) fn place_of(&self, key: &str, found: &KeyPath) -> Option<String> {
        let own = self.own_keys.iter().find(|(own, _)| own == key).map(|(_, table)| table.as_str());
        let has_key = |(_, keys): &&(String, Vec<String>)| keys.iter().any(|one| one == key);
        let mut tables = self.tables.iter().filter(has_key).map(|(table, _)| table.as_str());
        let table = tables.next().filter(|_| tables.next().is_none());
        let table = table.filter(|_| own.is_none() || *found != KeyPath::of(&["broker"]));
        let places: Vec<String> = own.into_iter().chain(table).map(|table| format!("[{table}]")).collect();
        (!places.is_empty()).then(|| places.join(" or "))
    }

    pub(super) fn add(&self, place: SourcePosition, message: impl Into<String>, advice: Option<String>) {
        self.found.borrow_mut().push(Problem { place, message: message.into(), advice });
    }

    pub(super) fn value(&self, path: KeyPath, message: impl Into<String>, advice: impl Into<String>) {
        self.add(SourcePosition::Value(path), message, Some(advice.into()));
    }

    pub(super) fn key(&self, path: KeyPath, message: impl Into<String>, advice: impl Into<String>) {
        self.add(SourcePosition::Key(path), message, Some(advice.into()));
    }

    /// A key of a table that must be there, unless an unknown one probably stands for it.
    pub(super) fn missing(&self, table: &KeyPath, key: &str, advice: &str) {
        if !self.is_misspelt(&table.key(key)) {
            let place = if table.is_empty() { String::new() } else { format!(" in `{table}`") };
            self.value(table.clone(), format!("`{key}` is missing{place}"), advice);
        }
    }

    pub(super) fn misspelt(&self, key: KeyPath) {
        self.misspelt.borrow_mut().push(key);
    }

    pub(super) fn is_misspelt(&self, key: &KeyPath) -> bool {
        self.misspelt.borrow().contains(key)
    }

    pub(super) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    pub(super) fn into_inner(self) -> Vec<Problem> {
        self.found.into_inner()
    }
}
