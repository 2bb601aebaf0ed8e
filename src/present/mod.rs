//! What records say, in words and tables, once for all who show it: the text of `show`, `compare` and `search`, and the pages of `report`,
//! render these values and word nothing themselves.
//!
//! - `verdict`: can it be trusted, what limited it, and each finding. `trial`: one trial's headline and latencies. `account`: what became
//!   of its messages. `faults`: what followed each fault. `verified`: what consumers found. `pipeline`: what a pipeline did. `setup`: what is needed to repeat it.
//! - `points`: trials grouped by point, and how points lie to each other. `sweep`: their headline and tables.
//! - `search`: the probes of a search and its answer. `comparison`: two runs. `thin`: a series as a screen can show it.

pub mod account;
pub mod comparison;
pub mod faults;
pub mod pipeline;
pub mod points;
pub mod search;
pub mod setup;
pub mod sweep;
pub mod thin;
pub mod trial;
pub mod verdict;
pub mod verified;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::record::Latency;
pub use crate::record::readable::capital;
use crate::record::readable::{count, duration, plain, settings};

/// What a piece of text is, which decides its colour and its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Strong,
    Faint,
    Good,
    Doubtful,
    Bad,
}

impl Tone {
    pub fn mark(self) -> &'static str {
        match self {
            Tone::Good => "✓",
            Tone::Bad => "✗",
            Tone::Doubtful => "!",
            Tone::Plain | Tone::Strong | Tone::Faint => "",
        }
    }
}

/// What a reader is to find within seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    /// What tells it from other runs of that name: point, trial, time.
    pub context: Vec<String>,
    /// What was run: broker, acknowledgements, messages, clients, length.
    pub ran: Vec<String>,
    /// The result in plain words.
    pub sentence: String,
    pub answers: Vec<Answer>,
}

/// What a reader asks first, answered by a word with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub question: &'static str,
    /// Plain where there is nothing to judge: what limited a trial is neither good nor bad.
    pub tone: Tone,
    pub word: String,
    pub evidence: String,
}

pub const TRUST: &str = "Can it be trusted?";
pub const LIMIT: &str = "What limited it?";

/// A reason against figures, a note, or what went wrong: with its evidence and what to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finding {
    pub tone: Tone,
    /// The name by which the documentation has its exact condition; empty where there is none.
    pub id: String,
    pub title: String,
    /// The trials that it concerns, where there are several.
    pub trials: String,
    pub evidence: String,
    /// What to do; may be empty.
    pub advice: String,
}

/// A label with what is known of it, in one sentence or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    pub label: String,
    pub sentences: Vec<String>,
    /// The most sentences that a terminal shows; a page shows all.
    pub most: usize,
}

impl Fact {
    pub fn new(label: &str, sentence: impl Into<String>) -> Self {
        Fact::list(label, vec![sentence.into()])
    }

    pub fn list(label: &str, sentences: Vec<String>) -> Self {
        Fact { label: label.to_owned(), sentences, most: usize::MAX }
    }
}

/// The sentences of all facts that have one.
pub fn known(facts: impl IntoIterator<Item = Fact>) -> Vec<Fact> {
    let is_known = |fact: &Fact| fact.sentences.iter().any(|sentence| !sentence.is_empty());
    facts.into_iter().filter(is_known).collect()
}

/// A table by columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    pub title: String,
    /// What else to know: "each row is 30 s".
    pub note: String,
    pub columns: Vec<Column>,
}

/// A column with a cell for every row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub title: String,
    pub cells: Vec<(Tone, String)>,
    pub align: Align,
    /// Where there is no room for all, columns of the lowest rank are left out first; those of rank [`Column::KEEP`] never.
    pub rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

impl Column {
    pub const KEEP: u8 = u8::MAX;

    pub fn new(title: &str, align: Align, rank: u8, cells: impl IntoIterator<Item = String>) -> Self {
        Column::toned(title, align, rank, cells.into_iter().map(|cell| (Tone::Plain, cell)))
    }

    pub fn toned(title: &str, align: Align, rank: u8, cells: impl IntoIterator<Item = (Tone, String)>) -> Self {
        Column { title: title.to_owned(), align, rank, cells: cells.into_iter().collect() }
    }

    pub fn width(&self) -> usize {
        let cells = self.cells.iter().map(|(_, cell)| cell.chars().count());
        cells.chain([self.title.chars().count()]).max().unwrap_or(0)
    }
}

impl Table {
    /// Of rows, whose columns stand at the left where they have words and not numbers.
    pub fn from_rows<T: Into<String>>(titles: impl IntoIterator<Item = T>, rows: Vec<Vec<String>>) -> Self {
        let mut columns: Vec<Column> =
            titles.into_iter().map(|title| Column::new(&title.into(), Align::Right, Column::KEEP, [])).collect();
        for row in rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.cells.push((Tone::Plain, cell));
            }
        }
        for column in &mut columns {
            let mut firsts = column.cells.iter().filter_map(|(_, cell)| cell.chars().next());
            if firsts.any(|first| !first.is_ascii_digit() && !matches!(first, '–' | '-' | 'u')) {
                column.align = Align::Left;
            }
        }
        Table { columns, ..Table::default() }
    }

    pub fn with_note(self, note: impl Into<String>) -> Self {
        Table { note: note.into(), ..self }
    }

    /// The number of its rows.
    pub fn rows(&self) -> usize {
        self.columns.iter().map(|column| column.cells.len()).max().unwrap_or(0)
    }
}

/// `1 trial`, `2 trials`.
pub fn several(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{} {thing}s", count(number as u64)) }
}

/// The swept values of a point; empty without a sweep.
pub fn point(values: &BTreeMap<String, Value>) -> String {
    settings(values.iter().map(|(key, value)| (key, plain(value))))
}

/// With a small first letter.
pub fn uncapital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Each name with how often it occurs, the most frequent one first.
pub fn by_frequency<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match found.iter_mut().find(|entry| entry.0 == name) {
            Some(entry) => entry.1 += 1,
            None => found.push((name, 1)),
        }
    }
    found.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    found
}

/// A value, or a dash where there is none.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// A duration in nanoseconds, or a dash.
pub fn duration_or_dash(ns: Option<u64>) -> String {
    or_dash(ns.map(|ns| duration(ns as f64)))
}

/// The numbers above 0, with their names: "3 lost", "2 duplicated".
pub fn above_zero(numbers: &[(u64, &str)]) -> Vec<String> {
    let above = numbers.iter().filter(|(number, _)| *number > 0);
    above.map(|(number, name)| format!("{} {name}", count(*number))).collect()
}

/// A percentile in words; a dash where too few independent values lie beyond it to state it, an asterisk where few events made it.
pub fn stated(latency: &Latency, quantile: f64, value_ns: impl Into<Option<u64>>) -> String {
    let value_ns = value_ns.into().filter(|_| latency.supports(quantile));
    let mark = if latency.is_of_few_events(quantile) { "*" } else { "" };
    or_dash(value_ns.map(|value_ns| duration(value_ns as f64) + mark))
}

/// What a percentile with an asterisk is.
pub const FEW_EVENTS: &str = "* few events made it: another run may not have it";
