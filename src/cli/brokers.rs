//! `brokermark brokers`: the brokers of this build and their capabilities.

use std::io::{self, Write};

use serde_json::json;

use crate::broker::registry::descriptors;
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
        writeln!(out, "{:<8} {}\n{:<8} {}", descriptor.kind, descriptor.summary, "", abilities.join(" · "))?;
        if !descriptor.clients.is_empty() {
            let clients: Vec<&str> = descriptor.clients.iter().map(|client| client.name).collect();
            writeln!(out, "{:<8} clients: {}", "", clients.join(", "))?;
        }
    }
    Ok(())
}

fn as_json(descriptor: &Descriptor) -> serde_json::Value {
    let capabilities: serde_json::Map<_, _> =
        named(&descriptor.capabilities).into_iter().map(|(name, has)| (name.replace(' ', "_"), json!(has))).collect();
    let clients: Vec<_> = descriptor
        .clients
        .iter()
        .map(|client| json!({ "name": client.name, "missing_feature": client.missing_feature }))
        .collect();
    json!({ "kind": descriptor.kind, "summary": descriptor.summary, "capabilities": capabilities, "clients": clients })
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
