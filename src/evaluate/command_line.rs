//! The command line without its secrets, for the record.

const MASK: &str = "***";

/// Parts of an option's or key's name whose value is a secret. `sasl.jaas.config` holds a password in its middle;
/// a `…key.location` is a path and no secret, so `key` alone is not among them.
const SECRET_NAMES: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "access_key",
    "key.pem",
    "jaas.config",
];

/// The arguments with every secret replaced by `***`: the value of `name=value` and of `--name value` where the name
/// speaks of a secret, and the password of `scheme://user:password@host`.
pub fn mask_secrets(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut value_of_secret = false;
    let mask = |argument: String| {
        if std::mem::take(&mut value_of_secret) && !argument.starts_with("--") {
            return MASK.to_owned();
        }
        match argument.split_once('=') {
            Some((name, _)) if is_secret(name) => format!("{name}={MASK}"),
            None if argument.starts_with('-') && is_secret(&argument) => {
                value_of_secret = true;
                argument
            }
            _ => mask_nested(&mask_user_information(argument)),
        }
    };
    arguments.into_iter().map(mask).collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// `--set=broker.password=x` and `--set broker.properties={"sasl.password"="x"}` have the name behind the first `=`:
/// whatever follows the last name that speaks of a secret is masked whole.
fn mask_nested(argument: &str) -> String {
    let lower = argument.to_ascii_lowercase();
    let named = SECRET_NAMES.iter().filter_map(|secret| lower.find(secret)).min();
    match named.and_then(|name| argument[name..].find(['=', ':']).map(|offset| name + offset + 1)) {
        Some(value) if argument[..value].contains('=') => format!("{}{MASK}", &argument[..value]),
        _ => argument.to_owned(),
    }
}

fn mask_user_information(argument: String) -> String {
    let Some(begin) = argument.find("://").map(|at| at + 3) else { return argument };
    let authority = argument[begin..].find('/').map_or(&argument[begin..], |end| &argument[begin..begin + end]);
    match authority.rfind('@').and_then(|at| authority[..at].find(':').map(|colon| (colon, at))) {
        Some((colon, at)) => {
            format!("{}{MASK}{}", &argument[..begin + colon + 1], &argument[begin + at..])
        }
        None => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(arguments: &[&str]) -> String {
        mask_secrets(arguments.iter().map(|argument| (*argument).to_owned())).join(" ")
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        for arguments in [
            &["--set", "broker.security.sasl.password=hunter2"][..],
            &["--set=broker.security.sasl.password=hunter2"],
            &["--set", "broker.properties={\"sasl.password\" = \"hunter2\"}"],
            &["--set", "broker.properties.sasl.jaas.config=module required password=\"hunter2\";"],
            &["--access-key", "hunter2"],
            &["--api-token=hunter2"],
            &["--set", "broker.addresses=[\"kafka://me:hunter2@10.0.0.1:9092\"]"],
            &["nats://me:hun@ter2@host/path"],
        ] {
            let shown = masked(arguments);
            assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
            assert!(shown.contains("***"), "{shown}");
        }
    }

    #[test]
    fn the_rest_stays() {
        for arguments in [
            &["brokermark", "run", "a.toml", "--set", "producers.keys=random"][..],
            &["--set", "broker.security.tls.key=client.key"],
            &["http://host:80/path"],
        ] {
            assert_eq!(masked(arguments), arguments.join(" "));
        }
    }
}
