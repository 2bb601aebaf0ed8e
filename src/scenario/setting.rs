//! What the command line says of a scenario, with the words that were typed, so that errors can name them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
}

impl Origin {
    /// What the user named.
    pub fn name(&self) -> &str {
        match self {
            Origin::File(name) | Origin::Made(name) => name,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
