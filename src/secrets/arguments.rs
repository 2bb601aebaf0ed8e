//! Secrets of a command line.

use super::text::{mask_text, mask_url};
use super::{MASK, is_secret_name};

/// The command line of this process as a record shows it. What is not Unicode is replaced.
pub fn masked_command_line() -> Vec<String> {
    mask_arguments(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()))
}

/// A command line as a record shows it.
pub fn mask_arguments(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut value_is_secret = false;
    let mask = |argument: String| {
        if std::mem::take(&mut value_is_secret) && !argument.starts_with("--") {
            return MASK.to_owned();
        }
        if let Some(text) = argument.strip_prefix("--set=") {
            return format!("--set={}", mask_override(text));
        }
        if let Some(shown) = mask_url(&argument) {
            return shown;
        }
        value_is_secret = argument.starts_with('-') && !argument.contains('=') && is_secret_name(&argument);
        mask_override(&argument)
    };
    arguments.into_iter().map(mask).collect()
}

/// An override of the command line (`a.b=value`), or another argument of the form `name=value`.
pub fn mask_override(text: &str) -> String {
    match text.split_once('=') {
        Some((key, value)) if is_secret_name(key) && !value.trim_start().starts_with('{') => format!("{key}={MASK}"),
        Some((key, value)) => match mask_url(value) {
            Some(shown) => format!("{key}={shown}"),
            None => mask_text(text),
        },
        None => mask_text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(arguments: &[&str]) -> String {
        mask_arguments(arguments.iter().map(|argument| (*argument).to_owned())).join(" ")
    }

    #[test]
    fn overrides_are_masked() {
        assert_eq!(mask_override("broker.security.sasl.password=hunter 2"), "broker.security.sasl.password=***");
        assert_eq!(mask_override("producers.count=3"), "producers.count=3");
        assert_eq!(
            mask_override(r#"broker.security.sasl={username="a",password="hunter2"}"#),
            r#"broker.security.sasl={username="a",password="***"}"#
        );
    }

    #[test]
    fn secrets_are_masked_in_every_form() {
        for arguments in [
            &["--set", "broker.security.sasl.password=hunter2"][..],
            &["--set=broker.security.sasl.password=hunter2"],
            &["--set", "broker.properties={\"sasl.password\" = \"hunter2\"}"],
            &["--set", "broker.properties={\"sasl.password\": \"hunter2\"}"],
            &["--set", "broker.properties.sasl.jaas.config=module required password=\"hunter2\";"],
            &["--set", "broker.properties.registry.api.key=hunter2"],
            &["--set", "producers.headers.authorization=hunter2"],
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

    /// Every pair of printable characters in a password, in a URL and in places that are known to be secret.
    #[test]
    fn no_printable_character_ends_a_secret() {
        for (one, other) in (' '..='~').flat_map(|one| (' '..='~').map(move |other| (one, other))) {
            let password = format!("zebra{one}{other}giraffe");
            let url = format!("kafka://me:{password}@h:1/o");
            for arguments in [
                &[url.as_str()][..],
                &["--against", &url],
                &[&format!("--against={url}")],
                &["--set", &format!("producers.headers.origin={url}")],
                &["--set", &format!("broker.security.sasl.password={password}")],
                &["--set", &format!("broker.addresses=[\"{url}\"]")],
            ] {
                let shown = masked(arguments);
                assert!(!shown.contains("zebra") && !shown.contains("giraffe"), "{arguments:?}: {shown}");
            }
        }
    }

    #[test]
    fn other_arguments_are_unchanged() {
        for arguments in [
            &["brokermark", "run", "a.toml", "--set", "producers.keys=random"][..],
            &["--set", "broker.security.tls.key=client.key"],
            &["http://host:80/path"],
        ] {
            assert_eq!(masked(arguments), arguments.join(" "));
        }
    }
}
