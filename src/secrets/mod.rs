//! What is secret in a scenario or on a command line, and how it is kept out of records, files, output and errors.
//!
//! - [`is_secret_name`]: the one list of names whose values are secret.
//! - `text`: secrets within a text that is not parsed: lines of a broken scenario, comments, URLs.
//! - `document`: secrets of a parsed scenario and of a command line.
//! - [`Secret`]: a value that is read when it is needed, and never shown.

mod document;
mod text;

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub use document::{mask_arguments, mask_document, mask_override, mask_tree, masked_command_line};
pub use text::{MaskedText, mask_text, mask_url};

/// Replaces a secret.
const MASK: &str = "***";

/// A name with one of these in it has a secret value. Dots, underscores and hyphens in a name are the same.
const SECRET_WORDS: [&str; 21] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "jaas",
    "key.pem",
    "private.key",
    "privatekey",
    "api.key",
    "apikey",
    "access.key",
    "accesskey",
    "subscription.key",
    "connection.string",
    "connectionstring",
    "authorization",
    "cookie",
    "oauthbearer.config",
];

/// A name that ends with one of these has a secret value: within other names they are parts of ordinary words.
const SECRET_ENDINGS: [&str; 3] = ["pass", "auth", "nkey"];

/// Words that are recognised with this many typing errors, because a misspelt key is repeated in an error message.
const MISSPELT_WORDS: [(&str, usize); 3] = [("password", 2), ("passphrase", 2), ("secret", 1)];

/// A name that ends with one of these is the place of a value. The value itself is not secret.
const LOCATION_WORDS: [&str; 6] = ["location", "path", "file", "url", "env", "command"];

/// Tables whose keys may contain dots: all parts together are the name.
const TABLES_OF_DOTTED_KEYS: [[&str; 2]; 4] =
    [["broker", "properties"], ["consumers", "properties"], ["producers", "headers"], ["topology", "config"]];

/// Whether a name's values are secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase().replace(['_', '-'], ".");
    let last = name.rsplit('.').next().unwrap_or_default();
    let misspelt = MISSPELT_WORDS.iter().any(|(word, errors)| strsim::damerau_levenshtein(last, word) <= *errors);
    let is_secret = misspelt || SECRET_ENDINGS.contains(&last) || SECRET_WORDS.iter().any(|word| name.contains(word));
    is_secret && !LOCATION_WORDS.contains(&last)
}

/// Whether the values at a path of keys are secret.
fn is_secret_path(keys: &[&str]) -> bool {
    match keys {
        ["sweep", "over", swept @ ..] => is_secret_path(swept),
        ["consumers", "group", "properties", rest @ ..] if !rest.is_empty() => is_secret_name(&rest.join(".")),
        [section, table, rest @ ..] if !rest.is_empty() && TABLES_OF_DOTTED_KEYS.contains(&[*section, *table]) => {
            is_secret_name(&rest.join("."))
        }
        [.., last] => is_secret_name(last),
        [] => false,
    }
}

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
    /// A sentence that names the variable or file which cannot be read, never its content, or that says that the secret is masked.
    pub fn reveal(&self) -> Result<String, String> {
        match self {
            Secret::Env(name) => std::env::var(name)
                .map_err(|_| format!("the environment variable {name}, which holds the secret, is not set")),
            Secret::File(path) => std::fs::read_to_string(path)
                .map(|text| text.trim_end_matches(['\n', '\r']).to_owned())
                .map_err(|error| format!("the secret's file {} cannot be read: {error}", path.display())),
            Secret::Inline(value) if value == MASK => Err(format!(
                "a secret is \"{MASK}\", as in the scenario that a run keeps: write the secret in its place, or {{ env = \"NAME\" }} or \
                 {{ file = \"path\" }}"
            )),
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
    use serde_json::Value;

    use super::*;

    #[test]
    fn names_with_secret_values() {
        let names =
            ["password", "sasl.password", "ssl.key.pem", "client_secret", "Authorization", "api-key", "pasword"];
        let others = ["X-Pwd", "passwd", "db_pass", "x-auth", "SharedAccessKey", "connectionString", "X-Api-Key"];
        for name in names.into_iter().chain(others) {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["count", "ssl.key.location", "keys", "username", "sasl.oauthbearer.token.endpoint.url", "token_command"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    /// The keys of these tables, and of those below them, whose values are of the type [`Secret`].
    fn keys_of_secrets(schema: &Value, found: &mut Vec<String>) {
        let union = |schema: &Value| schema.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_secret = |schema: &Value| schema["x-wanted"] == "a secret";
        for (key, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if is_secret(value) || union(value).iter().any(is_secret) {
                found.push(key.clone());
            }
            keys_of_secrets(value, found);
        }
        union(schema).iter().chain(schema.get("items")).for_each(|one| keys_of_secrets(one, found));
    }

    #[test]
    fn every_key_of_a_secret_has_the_name_of_one() {
        let mut found = Vec::new();
        keys_of_secrets(&crate::scenario::scenario_schema(crate::engine::kinds()), &mut found);
        assert!(found.iter().any(|key| key == "password"), "{found:?}");
        let shown: Vec<&String> = found.iter().filter(|key| !is_secret_name(key)).collect();
        assert!(shown.is_empty(), "a record would show {shown:?}");
        assert!(is_secret_name("broker.nats.nkey") && !is_secret_name("monkey"));
    }

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
        assert!(given(MASK).reveal().unwrap_err().contains("the scenario that a run keeps"));
    }
}
