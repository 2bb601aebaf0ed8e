//! `brokermark brokers`: the brokers of this build and their capabilities.

use std::io::{self, Write};

use serde_json::json;

use crate::broker::registry::{ABSENT, descriptors};
use crate::scenario::{Capabilities, Descriptor};

/// Prints the brokers of this build, as a list for people or as JSON.
///
/// # Errors
/// When `out` cannot be written.
pub fn brokers(json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let list: Vec<_> = descriptors().iter().map(as_json).collect();
        return writeln!(out, "{}", json!({ "brokers": list }));
    }
    for descriptor in descriptors() {
        let abilities: Vec<&str> =
            named(&descriptor.capabilities).into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
        let title = title(descriptor.kind, descriptor.client);
        writeln!(out, "{title}\n    {}\n    {}", descriptor.summary, abilities.join(" · "))?;
    }
    for absent in ABSENT {
        let part = if absent.security { "TLS and most logins are " } else { "" };
        writeln!(out, "{}\n    {part}not in this build: {}", title(absent.kind, absent.client), absent.remedy())?;
    }
    Ok(())
}

/// The kind, with the client where it has several.
fn title(kind: &str, client: Option<&str>) -> String {
    client.map_or_else(|| kind.to_owned(), |client| format!("{kind}, client = \"{client}\""))
}

fn as_json(descriptor: &Descriptor) -> serde_json::Value {
    let capabilities: serde_json::Map<_, _> =
        named(&descriptor.capabilities).into_iter().map(|(name, has)| (name.replace(' ', "_"), json!(has))).collect();
    json!({ "kind": descriptor.kind, "client": descriptor.client, "summary": descriptor.summary, "capabilities": capabilities })
}

fn named(capabilities: &Capabilities) -> [(&'static str, bool); 14] {
    [
        ("addresses", capabilities.addresses),
        ("embedded", capabilities.embedded),
        ("partitions", capabilities.partitions),
        ("replication", capabilities.replication),
        ("keys", capabilities.keys),
        ("headers", capabilities.headers),
        ("consumers", capabilities.consumers),
        ("groups", capabilities.groups),
        ("order", capabilities.ordered),
        ("tls", capabilities.tls),
        ("sasl", !capabilities.sasl.is_empty()),
        ("client properties", capabilities.properties),
        ("topic config", capabilities.topic_config),
        ("existing topics", capabilities.existing_topics),
    ]
}
