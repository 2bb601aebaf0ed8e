//! What a page is made of, each from records: pure functions that return HTML and charts.
//!
//! - `lead`, `tiles`: the sentence, the verdict and the largest figures. `verdict`: reasons, notes and thresholds.
//! - `sweep`, `sweep_tables`, `points`: the points of a sweep, and the trials of one. `search`: the probes of a search.
//! - `timeline`, `course`, `resources`, `latency`: one trial over time, and its percentiles.
//! - `spread`: partitions and consumers that differ. `details`: parts of a schedule, groups of consumers, outages. `pipeline`: stages, rows, lag. `comparison`: two runs.
//! - `ledger`, `conditions`: the account of messages; what is needed to repeat the run.

pub mod comparison;
pub mod conditions;
pub mod course;
pub mod details;
pub mod heat;
mod lag;
pub mod latency;
pub mod lead;
pub mod ledger;
mod measure;
pub mod pipeline;
pub mod points;
pub mod reason_title;
mod resources;
pub mod search;
pub mod spread;
pub mod sweep;
mod sweep_tables;
pub mod tiles;
mod timeline;
pub mod verdict;

use std::collections::BTreeMap;

use super::figure::Figure;

/// A part of the page, with a heading of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: &'static str,
    pub title: String,
    pub parts: Vec<Part>,
}

/// What stands in a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Html(String),
    Figure(Box<Figure>),
    /// Side by side where there is room.
    Pair(Vec<Figure>),
}

impl Part {
    pub fn figure(figure: Figure) -> Self {
        Part::Figure(Box::new(figure))
    }

    fn figures_mut(&mut self) -> &mut [Figure] {
        match self {
            Part::Html(_) => &mut [],
            Part::Figure(figure) => std::slice::from_mut(figure),
            Part::Pair(figures) => figures,
        }
    }

    pub fn figures(&self) -> &[Figure] {
        match self {
            Part::Html(_) => &[],
            Part::Figure(figure) => std::slice::from_ref(figure),
            Part::Pair(figures) => figures,
        }
    }
}

impl Section {
    /// A section; `None` without parts.
    pub fn of(id: &'static str, title: &str, parts: Vec<Part>) -> Option<Self> {
        (!parts.is_empty()).then(|| Section { id, title: title.to_owned(), parts })
    }

    /// The same with a title that says whose it is, where a page has several.
    pub fn named_as_of(mut self, whose: &str) -> Self {
        self.title = format!("{whose}: {}", self.title.to_lowercase());
        self
    }
}

/// Gives every chart a name of its own: a page may have the same one of all trials, and of one.
pub fn name_apart(sections: &mut [Section]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for figure in sections.iter_mut().flat_map(|section| &mut section.parts).flat_map(|part| part.figures_mut()) {
        let times = seen.entry(figure.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            figure.id = format!("{}-{times}", figure.id);
        }
    }
}

/// A JSON value without the quotation marks of a text.
pub fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `1 trial`, `2 trials`.
pub fn several(number: usize, thing: &str) -> String {
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{} {thing}s", crate::record::readable::count(number as u64))
    }
}

/// With a capital letter at its begin.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
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

/// Cells as texts.
pub fn texts(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}
