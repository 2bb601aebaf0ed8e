//! What to write where a scenario's file cannot be read: perhaps a broker was meant, or the text is of another format.

use std::path::Path;

use super::Kinds;
use crate::net::address;

/// What to write in place of `path`.
pub(super) fn advice(path: &Path, kinds: Kinds<'_>) -> String {
    let written = path.to_string_lossy();
    let kept = path.join("scenario.toml");
    if kept.is_file() {
        return format!("this is a directory of results: its scenario is {}", kept.display());
    }
    if let Some(descriptor) = kinds.broker(&written) {
        let kind = descriptor.kind;
        return format!(
            "write the broker's URL, as in `{kind}://10.0.0.5`, or a file: `brokermark new {kind} > my.toml`"
        );
    }
    if let Some((kind, rest)) = written.split_once(':')
        && kinds.broker(kind).is_some()
    {
        return format!("write the broker's URL as `{kind}://{}`", rest.trim_start_matches('/'));
    }
    if address::check(&written).is_ok() {
        let known = kinds.names();
        let kind = known.first().copied().unwrap_or("kafka");
        return format!("an address needs the kind of its broker before it, as in `{kind}://{written}`");
    }
    "a scenario is a TOML file (`brokermark new` writes one) or a broker's URL, as in `kafka://10.0.0.5:9092`"
        .to_owned()
}

/// What to do about a text that is not TOML.
pub(super) fn other_format(text: &str, message: &str) -> Option<String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    // What the parser says of a word without quotes depends on its first letter.
    if ["must be quoted", "invalid float", "invalid boolean"].iter().any(|says| message.contains(says)) {
        return Some("write the value in quotes, as in `kind = \"kafka\"`".to_owned());
    }
    let is_json = first.starts_with('{') || first.starts_with("[{");
    let is_yaml = first == "---" || (first.split_once(':').is_some() && !first.contains('='));
    (is_json || is_yaml).then(|| {
        "scenarios are TOML: `brokermark new kafka` writes one; `--omb` reads workloads of OpenMessaging Benchmark"
            .to_owned()
    })
}
