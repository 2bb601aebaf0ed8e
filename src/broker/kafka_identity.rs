//! What a Kafka cluster is called: its release, as far as it tells, its id and its size.

#[cfg(feature = "kafka-native")]
pub use release::{MetadataLevels, release};

use super::BrokerError;

/// Servers that speak Kafka's protocol, by which users call the kind.
pub const ALIASES: &[&str] = &["redpanda", "confluent", "msk", "event-hubs"];

/// The most topics of one request that creates or deletes them.
pub const TOPICS_PER_REQUEST: usize = 1000;

/// What a topic lacks while the cluster chooses leaders.
pub const NO_LEADERS: &str = "it has no leader for each of its partitions";

/// The result for a topic that was asked about alone.
pub fn only<R>(results: Vec<Result<R, BrokerError>>) -> Result<R, BrokerError> {
    let missing = || Err(BrokerError::Client { broker: "kafka", reason: "the response names no topic".to_owned() });
    results.into_iter().next().unwrap_or_else(missing)
}

/// The cluster of that id, where it is known.
pub fn cluster(id: Option<&str>, brokers: usize) -> String {
    format!("Kafka cluster {} of {brokers} broker(s)", id.unwrap_or("?"))
}

/// The same with its release, or why that is not known.
pub fn with_release(release: Option<String>, cluster: &str, unknown: &str) -> String {
    match release {
        Some(release) => format!("{release}, {}", cluster.trim_start_matches("Kafka ")),
        None => format!("{cluster}, {unknown}"),
    }
}

#[cfg(feature = "kafka-native")]
mod release {
    /// Levels of the feature `metadata.version`, which rise with Kafka's releases (KIP-584, KIP-778).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct MetadataLevels {
        /// The newest one that the software of a node knows.
        pub supported: Option<i16>,
        /// The one that the cluster uses.
        pub finalized: Option<i16>,
    }

    /// Releases, each with its first level. A level is never used for another release.
    ///
    /// Source: `MetadataVersion.java` of Apache Kafka, as of its release 4.3.
    const RELEASES: [(i16, &str); 14] = [
        (1, "3.0"),
        (2, "3.1"),
        (3, "3.2"),
        (4, "3.3"),
        (8, "3.4"),
        (9, "3.5"),
        (12, "3.6"),
        (15, "3.7"),
        (20, "3.8"),
        (21, "3.9"),
        (22, "4.0"),
        (26, "4.1"),
        (28, "4.2"),
        (30, "4.3"),
    ];

    /// The last level of the last of [`RELEASES`].
    const LAST: i16 = 30;

    /// Kafka's release by the levels that a node tells; `None`: it tells none. The number of a bug-fix release is in none of them.
    pub fn release(levels: MetadataLevels) -> Option<String> {
        let MetadataLevels { supported, finalized } = levels;
        let finalized = finalized.filter(|level| *level > 0);
        let used = finalized.map(|level| format!("metadata.version {level}"));
        match (supported.and_then(named), used) {
            (Some(software), Some(used)) => match finalized.and_then(named) {
                Some(older) if older != software => Some(format!("Kafka {software} ({used}, of {older})")),
                _ => Some(format!("Kafka {software} ({used})")),
            },
            (Some(software), None) => Some(format!("Kafka {software}")),
            // The software may be newer than what the cluster has agreed on.
            (None, Some(used)) => finalized.and_then(named).map(|least| format!("Kafka {least} or later ({used})")),
            (None, None) => None,
        }
    }

    fn named(level: i16) -> Option<String> {
        let (_, last) = RELEASES[RELEASES.len() - 1];
        if level > LAST {
            return Some(format!("later than {last}"));
        }
        RELEASES.iter().rev().find(|(first, _)| *first <= level).map(|(_, release)| (*release).to_owned())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_release_is_named_by_the_levels_that_a_node_tells() {
            let named = |supported, finalized| release(MetadataLevels { supported, finalized });
            let is = |text: &str| Some(text.to_owned());
            assert_eq!(named(Some(27), Some(27)), is("Kafka 4.1 (metadata.version 27)"));
            assert_eq!(named(Some(26), Some(26)), is("Kafka 4.1 (metadata.version 26)"));
            // As while a cluster is upgraded, and with ZooKeeper.
            assert_eq!(named(Some(25), Some(21)), is("Kafka 4.0 (metadata.version 21, of 3.9)"));
            assert_eq!(named(Some(14), None), is("Kafka 3.6"));
            assert_eq!(named(Some(14), Some(0)), is("Kafka 3.6"));
            assert_eq!(named(None, Some(7)), is("Kafka 3.3 or later (metadata.version 7)"));
            assert_eq!(named(Some(99), Some(30)), is("Kafka later than 4.3 (metadata.version 30, of 4.3)"));
            assert_eq!(named(None, None), None);
            assert_eq!(named(Some(0), None), None);
        }

        #[test]
        fn levels_rise_with_the_releases() {
            assert!(RELEASES.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1));
            assert!(RELEASES.iter().all(|(first, _)| *first <= LAST));
        }
    }
}
