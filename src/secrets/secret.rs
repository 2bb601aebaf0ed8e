//! A secret that is read when a connection is made, and never shown.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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

/// As a command line gives it: `env:NAME`, `file:PATH` or the secret itself, which every user of the machine can see there.
impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once(':') {
            Some(("env", name)) => Secret::Env(name.to_owned()),
            Some(("file", path)) => Secret::File(path.into()),
            _ => Secret::Inline(text.to_owned()),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_may_say_where_a_secret_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "hunter2\n").unwrap();
        let given = |text: &str| text.parse::<Secret>().unwrap();
        assert_eq!(given(&format!("file:{}", file.display())).reveal().unwrap(), "hunter2");
        assert_eq!(given("env:HOME"), Secret::Env("HOME".to_owned()));
        assert_eq!(given("hun:ter2").reveal().unwrap(), "hun:ter2");
        assert!(given("env:BROKERMARK_NOT_SET").reveal().unwrap_err().contains("BROKERMARK_NOT_SET"));
    }
}
