//! A secret that is read when a connection is made, and never shown.

use std::fmt;
use std::path::PathBuf;

/// Where a password comes from. Only [`Secret::reveal`] returns the value; `Debug` and records never show it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The name of an environment variable.
    Env(String),
    /// A file whose content, without the trailing line end, is the secret.
    File(PathBuf),
    /// Written in the scenario itself. The copy of the scenario in the run's directory shows `"***"` instead.
    Inline(String),
}

impl Secret {
    /// The secret itself.
    ///
    /// # Errors
    /// A sentence that names the variable or file which cannot be read, never its content.
    pub fn reveal(&self) -> Result<String, String> {
        match self {
            Secret::Env(name) => std::env::var(name)
                .map_err(|_| format!("the environment variable {name}, which holds the secret, is not set")),
            Secret::File(path) => std::fs::read_to_string(path)
                .map(|text| text.trim_end_matches(['\n', '\r']).to_owned())
                .map_err(|error| format!("the secret's file {} cannot be read: {error}", path.display())),
            Secret::Inline(value) => Ok(value.clone()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Env(name) => write!(formatter, "Secret::Env({name})"),
            Secret::File(path) => write!(formatter, "Secret::File({})", path.display()),
            Secret::Inline(_) => formatter.write_str("Secret::Inline(***)"),
        }
    }
}
