//! The text of a scenario, so that a problem is shown at its line of the file or at its override of the command line.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::path::{KeyPath, Step};
use super::problem::{Problem, SourcePosition};
use super::setting::Origin;
use crate::secrets::{MaskedText, mask_text};

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
            let _ = writeln!(report, "{}: {message}", self.origin.name());
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
