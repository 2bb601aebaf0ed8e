//! `[topology]`: how many topics there are and what each looks like.

use crate::limits::MAX_PRODUCERS;
use crate::scenario::fields::Fields;
use crate::scenario::{Topology, keys};

pub(super) fn read(root: &Fields<'_>) -> Topology {
    let default = Topology { topics: 1, partitions: 1, replication: 1, name: None, keep: false };
    let Some(fields) = root.get("topology").and_then(|field| field.fields(&keys::TOPOLOGY)) else {
        return default;
    };
    let small = |key: &str, most: u64| {
        fields.get(key).and_then(|field| field.count(1, most)).and_then(|count| u32::try_from(count).ok()).unwrap_or(1)
    };
    let name = fields.get("name").and_then(|field| {
        let name = field.string()?;
        if !super::is_name(name) {
            let advice = "use 1 to 100 letters, digits, dots, hyphens and underscores";
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
        keep: fields.get("keep").and_then(|field| field.boolean()).unwrap_or(default.keep),
    }
}
