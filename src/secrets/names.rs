//! Which names have secret values.

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
const SECRET_ENDINGS: [&str; 2] = ["pass", "auth"];

/// Words that are recognised with this many typing errors, because a misspelt key is repeated in an error message.
const MISSPELT_WORDS: [(&str, usize); 3] = [("password", 2), ("passphrase", 2), ("secret", 1)];

/// A name that ends with one of these is the place of a value. The value itself is not secret.
const LOCATION_WORDS: [&str; 5] = ["location", "path", "file", "url", "env"];

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
pub(super) fn is_secret_path(keys: &[&str]) -> bool {
    match keys {
        [section, table, rest @ ..] if !rest.is_empty() && TABLES_OF_DOTTED_KEYS.contains(&[*section, *table]) => {
            is_secret_name(&rest.join("."))
        }
        [.., last] => is_secret_name(last),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_secret_values() {
        let names =
            ["password", "sasl.password", "ssl.key.pem", "client_secret", "Authorization", "api-key", "pasword"];
        let others = ["X-Pwd", "passwd", "db_pass", "x-auth", "SharedAccessKey", "connectionString", "X-Api-Key"];
        for name in names.into_iter().chain(others) {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["count", "ssl.key.location", "keys", "username", "sasl.oauthbearer.token.endpoint.url"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
