//! What a receipt of Pulsar meant: the persistence policies of the topic.

use serde::Deserialize;

use crate::broker::{Durability, DurabilityLevel};

/// The answer to `GET …/persistence?applied=true` (Pulsar's `PersistencePolicies`): the policies of the topic, else of its
/// namespace, else of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    bookkeeper_ensemble: u32,
    bookkeeper_write_quorum: u32,
    bookkeeper_ack_quorum: u32,
}

/// Of a persistent topic. A bookie answers when its journal has the entry. Whether it has synchronised the journal
/// (`journalSyncData`, on by default) is the bookies' setting, which the broker does not tell.
pub fn durability(persistence: Option<Persistence>) -> Durability {
    let Some(Persistence { bookkeeper_ensemble, bookkeeper_write_quorum, bookkeeper_ack_quorum }) = persistence else {
        return Durability::default();
    };
    let settings = [
        ("ensemble", bookkeeper_ensemble.to_string()),
        ("write-quorum", bookkeeper_write_quorum.to_string()),
        ("ack-quorum", bookkeeper_ack_quorum.to_string()),
        ("journalSyncData", "unknown".to_owned()),
    ];
    Durability::new(DurabilityLevel::Unknown, Some(bookkeeper_ack_quorum), settings, "the topic's persistence policies")
}

/// Of a topic that stores nothing.
pub fn of_non_persistent() -> Durability {
    Durability::new(DurabilityLevel::Nowhere, None, [], "the topic is not persistent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quorum_of_acknowledgements_is_the_number_of_copies() {
        let text = r#"{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":3,"bookkeeperAckQuorum":2,"managedLedgerMaxMarkDeleteRate":0.0}"#;
        let found = durability(serde_json::from_str(text).ok());
        assert_eq!((found.copies, found.settings["write-quorum"].as_str()), (Some(2), "3"));
        assert_eq!(durability(None), Durability::default());
    }
}
