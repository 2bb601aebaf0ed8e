//! Problems of a scenario: found by key while it is read, and shown at their line of the file, or at the override of the command line.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::overrides::Origin;
use super::path::{KeyPath, Step};
use crate::secrets::{MaskedText, mask_text};

/// Why a text is not what is asked for, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {advice}")]
pub struct Refusal {
    pub message: String,
    pub advice: String,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Refusal { message: message.into(), advice: advice.into() }
    }
}

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
        let table = table.filter(|_| own.is_none() || *found != KeyPath::from_keys(&["broker"]));
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

/// Where a scenario's values come from.
#[derive(Debug)]
pub(super) struct Source {
    pub origin: Origin,
    pub text: String,
    /// The keys that were overridden, with the words that were typed, in order.
    pub overrides: Vec<(KeyPath, String)>,
}

impl Source {
    /// The problem with where it is, the offending text, and what would be right.
    pub(super) fn report(&self, problem: &Problem) -> String {
        let mut report = String::new();
        // Messages may repeat a value.
        let message = mask_text(&problem.message);
        match self.override_of(problem) {
            Some(typed) => {
                let _ = writeln!(report, "{typed}: {message}");
            }
            None => self.report_in_file(&mut report, problem, &message),
        }
        if let Some(advice) = &problem.advice {
            let _ = writeln!(report, "   = {advice}");
        }
        report
    }

    /// For showing problems in the order of the file, after those of overrides.
    pub(super) fn position(&self, problem: &Problem) -> Option<usize> {
        if self.override_of(problem).is_some() {
            return None;
        }
        self.range(problem).map_or(Some(0), |range| Some(range.start))
    }

    fn range(&self, problem: &Problem) -> Option<Range<usize>> {
        match &problem.place {
            SourcePosition::Bytes(range) => Some(range.clone()),
            SourcePosition::Key(path) => self.locate(path, true),
            SourcePosition::Value(path) => self.locate(path, false),
        }
    }

    /// The words that set what the problem is about, or a key in a table that is not in the file.
    fn override_of(&self, problem: &Problem) -> Option<&str> {
        let path = problem.place.path()?;
        let find = |is_of: &dyn Fn(&KeyPath) -> bool| self.overrides.iter().rev().find(|(key, _)| is_of(key));
        let made = |key: &KeyPath| key.starts_with(path) && !path.is_empty() && !self.has(path);
        let found = find(&|key| path.starts_with(key)).or_else(|| find(&made));
        found.map(|(_, typed)| typed.as_str())
    }

    fn report_in_file(&self, report: &mut String, problem: &Problem, message: &str) {
        // Writing to a string cannot fail.
        let (Some(range), Origin::File(file)) = (self.range(problem), &self.origin) else {
            let _ = writeln!(report, "{}: {message}", self.origin.place_of(problem.place.path()));
            return;
        };
        let start = floor_to_character(&self.text, range.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let number = self.text[..line_start].matches('\n').count();
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        let end = floor_to_character(line, range.end.saturating_sub(line_start));
        let column = self.text[line_start..start].chars().count() + 1;
        let _ = writeln!(report, "{file}:{}:{column}: {message}", number + 1);

        let masked = MaskedText::new(&self.text).lines.into_iter().nth(number).unwrap_or_default();
        let (from, to) = (masked.shown_at((start - line_start).min(line.len())), masked.shown_at(end));
        let indent: String =
            masked.text[..from].chars().map(|character| if character == '\t' { '\t' } else { ' ' }).collect();
        let carets = "^".repeat(masked.text.get(from..to).map_or(0, |shown| shown.chars().count()).max(1));
        let gutter = " ".repeat((number + 1).to_string().len());
        let _ = writeln!(report, " {gutter} |\n {} | {}\n {gutter} | {indent}{carets}", number + 1, masked.text);
    }

    /// Whether the file itself has something there.
    fn has(&self, path: &KeyPath) -> bool {
        self.text.parse().is_ok_and(|scenario| path.is_in(&scenario))
    }

    /// The bytes of a key or value; of the nearest table around it that the file has, if it is not there itself.
    fn locate(&self, path: &KeyPath, key_wanted: bool) -> Option<Range<usize>> {
        let root = DeTable::parse(&self.text).ok()?;
        let mut table = Some(root.get_ref());
        let mut value: Option<&Spanned<DeValue<'_>>> = None;
        let mut found = None;
        for (position, step) in path.steps().iter().enumerate() {
            let last = position + 1 == path.steps().len();
            match step {
                Step::Key(name) => {
                    let Some((key, inner)) = table.and_then(|table| entry(table, name)) else { break };
                    found = Some(if last && key_wanted { key } else { inner.span() });
                    value = Some(inner);
                }
                Step::Index(index) => {
                    let element =
                        value.and_then(|value| value.get_ref().as_array()).and_then(|array| array.get(*index));
                    let Some(inner) = element else { break };
                    found = Some(inner.span());
                    value = Some(inner);
                }
            }
            table = value.and_then(|value| value.get_ref().as_table());
        }
        found
    }
}

/// The key's place and the value, where `name` may also be written as a dotted key (`linger.ms` without quotes).
fn entry<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> Option<(Range<usize>, &'a Spanned<DeValue<'i>>)> {
    table.iter().find_map(|(key, value)| {
        let written = key.get_ref().as_ref();
        if written == name {
            return Some((key.span(), value));
        }
        let rest = name.strip_prefix(written)?.strip_prefix('.')?;
        entry(value.get_ref().as_table()?, rest)
    })
}

fn floor_to_character(text: &str, position: usize) -> usize {
    let mut position = position.min(text.len());
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    position
}

/// Everything that is wrong with a scenario, ready to be printed: for each problem the file, line and column, the
/// offending text, and what would be right. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    pub(super) reports: Vec<String>,
}

/// More than this many problems are counted, not shown.
const MAX_SHOWN: usize = 10;

impl ScenarioError {
    pub(super) fn single(report: String) -> Self {
        ScenarioError { reports: vec![report] }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, report) in self.reports.iter().take(MAX_SHOWN).enumerate() {
            if position > 0 {
                formatter.write_str("\n\n")?;
            }
            formatter.write_str(report.trim_end())?;
        }
        match self.reports.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(formatter, "\n\n… and {more} more"),
        }
    }
}

impl std::error::Error for ScenarioError {}
