//! Reads a TOML table key by key: every value is checked where it is read, and every unknown key is refused.

use std::time::Duration;

use toml::{Table, Value};

use super::foreign_words;
use super::path::KeyPath;
use super::problem::{Problems, SourcePosition};
use super::suggestion::{closest, list};
use super::units::{self, Rate, UnitError};

/// A value with its path; refusing it adds a problem.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub value: &'a Value,
    pub path: KeyPath,
    pub problems: &'a Problems,
}

/// A table whose keys are all known.
pub(super) struct Fields<'a> {
    table: &'a Table,
    pub path: KeyPath,
    pub problems: &'a Problems,
    /// Known keys that an unknown one probably stands for: they are not missing.
    misspelt: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The whole scenario, or any table; keys that are not `known` are refused at once.
    pub(super) fn new(table: &'a Table, path: KeyPath, problems: &'a Problems, known: &[&str]) -> Self {
        let mut misspelt = Vec::new();
        for key in table.keys().filter(|key| !known.contains(&key.as_str())) {
            let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
            let near = closest(key, known.iter().copied());
            let advice = match (foreign_words::counterpart(key, &path), near) {
                (Some(advice), _) => {
                    misspelt.extend(foreign_words::meant(key).map(str::to_owned));
                    advice
                }
                (None, Some(near)) => {
                    misspelt.push(near.to_owned());
                    format!("did you mean `{near}`?")
                }
                (None, None) => match problems.place_of(key, &path) {
                    Some(tables) => format!("`{key}` belongs to {tables}"),
                    None => format!("known here: {}", list(known.iter().copied())),
                },
            };
            problems.key(path.key(key), format!("unknown key `{key}`{place}"), advice);
        }
        Fields { table, path, problems, misspelt }
    }

    pub(super) fn get(&self, key: &str) -> Option<Field<'a>> {
        let value = self.table.get(key)?;
        Some(Field { value, path: self.path.key(key), problems: self.problems })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether an unknown key probably stands for this one.
    pub(super) fn is_misspelt(&self, key: &str) -> bool {
        self.misspelt.iter().any(|known| known == key)
    }

    /// The key's field, or a problem with `advice` on how to write it.
    pub(super) fn require(&self, key: &str, advice: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() && !self.is_misspelt(key) {
            let place = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
            self.problems.value(self.path.clone(), format!("`{key}` is missing{place}"), advice);
        }
        field
    }

    /// Refuses the second of two keys of which only one may be given.
    pub(super) fn exclusive(&self, first: &str, second: &str, advice: &str) {
        if self.has(first) && self.has(second) {
            let message = format!("`{first}` and `{second}` contradict each other");
            self.problems.key(self.path.key(second), message, advice);
        }
    }

    /// Refuses `key` for a `reason` that makes sense of its presence.
    pub(super) fn forbid(&self, key: &str, reason: &str, advice: &str) {
        if self.has(key) {
            self.problems.key(self.path.key(key), reason, advice);
        }
    }
}

impl<'a> Field<'a> {
    pub(super) fn refuse(&self, message: impl Into<String>, advice: impl Into<String>) {
        self.problems.value(self.path.clone(), message, advice);
    }

    fn refuse_kind(&self, wanted: &str, advice: &str) {
        let article = if self.value.type_str().starts_with(['a', 'i']) { "an" } else { "a" };
        let message = format!("`{}` should be {wanted}, not {article} {}", self.path, self.value.type_str());
        self.problems.add(
            SourcePosition::Value(self.path.clone()),
            message,
            (!advice.is_empty()).then(|| advice.to_owned()),
        );
    }

    fn units<T>(&self, result: Result<T, UnitError>) -> Option<T> {
        result.map_err(|error| self.refuse(format!("`{}`: {}", self.path, error.message), error.advice)).ok()
    }

    /// The table's fields, of which only `known` ones may exist.
    pub(super) fn fields(&self, known: &[&str]) -> Option<Fields<'a>> {
        match self.value {
            Value::Table(table) => Some(Fields::new(table, self.path.clone(), self.problems, known)),
            _ => {
                self.refuse_kind("a table", "");
                None
            }
        }
    }

    pub(super) fn string(&self) -> Option<&'a str> {
        self.value.as_str().or_else(|| {
            self.refuse_kind("a string", "write it in quotes");
            None
        })
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| {
            self.refuse_kind("true or false", "");
            None
        })
    }

    /// A number within `range`; `range_text` is the range in words.
    pub(super) fn number(&self, range: impl Fn(f64) -> bool, range_text: &str) -> Option<f64> {
        let number = match self.value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            _ => {
                self.refuse_kind("a number", range_text);
                return None;
            }
        };
        if number.is_finite() && range(number) {
            return Some(number);
        }
        self.refuse(format!("`{}` cannot be {number}", self.path), range_text);
        None
    }

    /// A whole number from `least` to `most`, also written with k, M or G.
    pub(super) fn count(&self, least: u64, most: u64) -> Option<u64> {
        let bounds = match most {
            u64::MAX => format!("it is at least {least}"),
            _ => format!("it lies between {least} and {most}"),
        };
        let count = match self.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::String(text) => Some(self.units(units::parse_count(text))?),
            _ => {
                self.refuse_kind("a whole number", &bounds);
                return None;
            }
        };
        match count {
            Some(count) if (least..=most).contains(&count) => Some(count),
            _ => {
                self.refuse(format!("`{}` cannot be {}", self.path, self.shown()), bounds);
                None
            }
        }
    }

    /// As [`Field::count`], for what is held in memory.
    pub(super) fn amount(&self, least: usize, most: usize) -> Option<usize> {
        self.count(least as u64, most as u64).and_then(|count| usize::try_from(count).ok())
    }

    pub(super) fn seed(&self) -> Option<u64> {
        self.count(0, u64::MAX)
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        match self.value {
            Value::String(text) => self.units(units::parse_duration(text)),
            Value::Integer(number) => {
                let advice = format!("did you mean \"{number}s\", or \"{number}ms\"?");
                self.refuse(format!("`{}` has no unit", self.path), advice);
                None
            }
            _ => {
                self.refuse_kind("a duration", "write a number and a unit in quotes, as in \"30s\" or \"250ms\"");
                None
            }
        }
    }

    /// A duration that is not zero.
    pub(super) fn duration_above_zero(&self) -> Option<Duration> {
        let duration = self.duration()?;
        if duration.is_zero() {
            self.refuse(format!("`{}` cannot be zero", self.path), "give it a length, as in \"30s\"");
            return None;
        }
        Some(duration)
    }

    /// Bytes from 1 to `most`: `"64KiB"`, or a bare whole number.
    pub(super) fn size(&self, most: u64) -> Option<u64> {
        let size = match self.value {
            Value::String(text) => Some(self.units(units::parse_size(text))?),
            Value::Integer(number) => u64::try_from(*number).ok(),
            _ => {
                self.refuse_kind("a size", "write a number and a unit in quotes, as in \"100B\" or \"64KiB\"");
                return None;
            }
        };
        match size {
            Some(size) if (1..=most).contains(&size) => Some(size),
            _ => {
                let bounds = format!("it lies between 1B and {}", units::format_size(most));
                self.refuse(format!("`{}` cannot be {}", self.path, self.shown()), bounds);
                None
            }
        }
    }

    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate_by(units::parse_rate)
    }

    /// A rate that may be zero.
    pub(super) fn rate_or_rest(&self) -> Option<Rate> {
        self.rate_by(units::parse_rate_or_rest)
    }

    fn rate_by(&self, parse: fn(&str) -> Result<Rate, UnitError>) -> Option<Rate> {
        match self.value {
            Value::String(text) => self.units(parse(text)),
            Value::Integer(number) => {
                let message = format!("`{}` has no unit", self.path);
                self.refuse(message, format!("did you mean \"{number}/s\" (messages per second)?"));
                None
            }
            _ => {
                self.refuse_kind("a rate", "write it in quotes, as in \"100k/s\" or \"10MiB/s\"");
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let names = || words.iter().map(|(word, _)| *word);
        let Some(text) = self.value.as_str() else {
            self.refuse_kind(&format!("one of {}", list(names())), "");
            return None;
        };
        let known = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if known.is_none() {
            let advice = match closest(text, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it is one of {}", list(names())),
            };
            self.refuse(format!("`{}` cannot be \"{text}\"", self.path), advice);
        }
        known
    }

    /// The elements of an array, not empty.
    pub(super) fn elements(&self, advice: &str) -> Option<Vec<Field<'a>>> {
        match self.value {
            Value::Array(values) if values.is_empty() => {
                self.refuse(format!("`{}` is empty", self.path), advice);
                None
            }
            Value::Array(values) => Some(
                values
                    .iter()
                    .enumerate()
                    .map(|(index, value)| Field { value, path: self.path.index(index), problems: self.problems })
                    .collect(),
            ),
            _ => {
                self.refuse_kind("a list", advice);
                None
            }
        }
    }

    /// Exactly two elements.
    pub(super) fn pair(&self, advice: &str) -> Option<[Field<'a>; 2]> {
        let elements = self.elements(advice)?;
        let count = elements.len();
        <[Field<'a>; 2]>::try_from(elements)
            .map_err(|_| self.refuse(format!("`{}` has {count} elements, not 2", self.path), advice))
            .ok()
    }

    /// The value as the user wrote it, for a message.
    fn shown(&self) -> String {
        match self.value {
            Value::String(text) => format!("\"{text}\""),
            other => other.to_string(),
        }
    }
}
