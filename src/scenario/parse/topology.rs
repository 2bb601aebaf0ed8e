//! `[topology]`: topics, their partitions, replication and settings.

use super::{Context, properties};
use crate::limits::MAX_PRODUCERS;
use crate::scenario::Topology;
use crate::scenario::fields::Fields;

pub(super) const KEYS: &[&str] = &["topics", "partitions", "replication", "name", "keep", "existing", "config"];

pub(super) fn read(root: &Fields<'_>, context: &Context<'_>) -> Topology {
    let Some(fields) = root.get("topology").and_then(|field| field.fields(KEYS)) else {
        let (config, name) = (Vec::new(), None);
        return Topology { topics: 1, partitions: 1, replication: 1, name, keep: false, existing: false, config };
    };
    let small = |key: &str, most: u64| {
        fields.get(key).and_then(|field| field.count(1, most)).and_then(|count| u32::try_from(count).ok()).unwrap_or(1)
    };
    let name = fields.get("name").and_then(|field| {
        let name = field.string()?;
        if is_taken_as_it_is(root, &fields) {
            if !is_existing_name(name) {
                field.refuse("this cannot name a topic", "a name has 1 to 255 bytes, without control characters");
            }
        } else if !super::is_name(name) {
            let advice = "use 1 to 100 letters, digits, dots, hyphens and underscores; a topic of another name can be \
                          used with `topology.existing = true`";
            field.refuse(format!("\"{name}\" cannot name a topic"), advice);
        }
        Some(name.to_owned())
    });
    Topology {
        // Every topic needs a producer.
        topics: fields.get("topics").and_then(|field| field.amount(1, MAX_PRODUCERS)).unwrap_or(1),
        partitions: small("partitions", 100_000),
        replication: small("replication", 1_000),
        name,
        keep: fields.get("keep").and_then(|field| field.boolean()).unwrap_or(false),
        existing: existing(&fields),
        config: fields.get("config").map(|field| properties::read(&field, context)).unwrap_or_default(),
    }
}

/// Whether no topic is created: by `existing`, or because the scenario has no producers.
fn is_taken_as_it_is(root: &Fields<'_>, fields: &Fields<'_>) -> bool {
    let mode = root.get("pipeline").and_then(|field| field.value.get("producer_mode").cloned());
    let exists = fields.get("existing").is_some_and(|field| field.value.as_bool() == Some(true));
    exists || mode.is_some_and(|mode| mode.as_str() == Some("none"))
}

/// Whether any broker may have a topic of this name. Kafka's have up to 249 letters of few kinds, and RabbitMQ's streams up to 255 bytes of
/// any kind: which of them a broker has, it says itself.
fn is_existing_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Refuses what would have no effect on topics that are taken as they are.
fn existing(fields: &Fields<'_>) -> bool {
    let Some(field) = fields.get("existing") else { return false };
    let existing = field.boolean().unwrap_or(false);
    if existing {
        for key in ["partitions", "replication", "keep", "config"] {
            fields.forbid(key, &format!("`{key}` has no effect on topics that exist"), "remove it, or `existing`");
        }
        if !fields.has("name") {
            field.refuse("topics that exist have a name", "set `topology.name`");
        }
    }
    existing
}
