//! What both clients of Kafka say of a cluster and of its topics: what it is called, what an acknowledgement meant, and the commands of its
//! own tools.

use std::collections::{BTreeMap, BTreeSet};

use super::{Durability, DurabilityLevel, Removal, RemovalCause, RemovalExtent, RemovalRule, Topic};
use crate::scenario::{
    BrokerConfig, Capabilities, Contradiction, Descriptor, Keys, NAMES_OF_RUNS, Need, ProducerMode, Scenario,
};

#[cfg(feature = "kafka-native")]
pub use release::{MetadataLevels, release};

/// What both clients are called and can do.
pub const DESCRIPTOR: Descriptor = Descriptor {
    kind: "kafka",
    // Servers that speak Kafka's protocol, by which users call the kind.
    aliases: &["redpanda", "confluent", "msk", "event-hubs"],
    default_port: Some(9092),
    omb_driver: Some("KafkaBenchmarkDriver"),
    example: include_str!("kafka/example.toml"),
    capabilities: Capabilities {
        addresses: true,
        partitions: true,
        replication: true,
        keys: true,
        headers: true,
        own_headers: true,
        own_partition: true,
        null_payloads: true,
        consumers: true,
        groups: true,
        ordered: true,
        topic_config: true,
        existing_topics: true,
        offsets: true,
        ..Capabilities::NONE
    },
    ..Descriptor::NONE
};

/// The most topics of one request that creates or deletes them.
pub const TOPICS_PER_REQUEST: usize = 1000;

/// What a topic lacks while the cluster chooses leaders.
pub const NO_LEADERS: &str = "it has no leader for each of its partitions";

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

/// The commands of Kafka's own tools.
pub fn remedy(need: Need<'_>, config: &BrokerConfig) -> Option<String> {
    let address = config.first_address();
    let right = |rights: &str| {
        let user = config.user_name();
        format!(
            "kafka-acls.sh --bootstrap-server {address} --add --allow-principal User:{user} {rights} \
             --resource-pattern-type prefixed"
        )
    };
    Some(match need {
        Need::ProducerRight(topics) => right(&format!("--producer --topic {topics}")),
        Need::ConsumerRight(topics) => right(&format!("--consumer --topic {topics} --group {NAMES_OF_RUNS}")),
        Need::CreateRight(topics) => right(&format!("--operation Create --operation Describe --topic {topics}")),
        Need::DeleteRight(topics) => right(&format!("--operation Delete --topic {topics} --group {NAMES_OF_RUNS}")),
        Need::Topic(topic) => {
            format!("kafka-topics.sh --bootstrap-server {address} --create --topic {topic} --partitions 4")
        }
        Need::TopicUsers(topic) => format!(
            "kafka-consumer-groups.sh --bootstrap-server {address} --describe --all-groups lists the readers of {topic}"
        ),
        Need::Durability(topics) => right(&format!("--operation DescribeConfigs --topic {topics}")),
    })
}

/// The settings of a topic that decide it ("Topic Configs" of Apache Kafka's documentation).
pub const TOPIC_SETTINGS: [&str; 3] = [MIN_IN_SYNC, "flush.messages", "flush.ms"];

/// The settings of a topic that say which messages it takes.
pub const MESSAGE_SETTINGS: [&str; 2] = [CLEANUP_POLICY, MAX_MESSAGE_BYTES];

const CLEANUP_POLICY: &str = "cleanup.policy";
const MIN_IN_SYNC: &str = "min.insync.replicas";
pub const MAX_MESSAGE_BYTES: &str = "max.message.bytes";

/// Whether the run sends messages.
pub fn sends(scenario: &Scenario) -> bool {
    scenario.pipeline.as_ref().is_none_or(|pipeline| pipeline.producer_mode != ProducerMode::None)
}

/// Why topics with these settings do not take the messages of the scenario (`LogValidator.java` of Apache Kafka).
pub fn contradiction(scenario: &Scenario, settings: &BTreeMap<String, String>) -> Option<Contradiction> {
    let sends = sends(scenario);
    let is_compacted = settings.get(CLEANUP_POLICY).is_some_and(|policy| policy.contains("compact"));
    if sends && is_compacted && scenario.producers.keys == Keys::None {
        let message = format!("a compacted topic (`{CLEANUP_POLICY}`) takes no message without a key");
        let advice = "give messages keys (`producers.keys`), or use topics that are not compacted";
        return Some(Contradiction { message, advice: advice.to_owned() });
    }
    let limit = batch_limit(settings)?;
    let mean = scenario.payload.content.mean_bytes().filter(|mean| sends && *mean > limit as f64)?;
    let message = format!(
        "payloads of {mean} bytes (on average) are larger than the topic takes (`{MAX_MESSAGE_BYTES}` = {limit})"
    );
    let advice = format!(
        "make them smaller, or raise `topology.config.\"{MAX_MESSAGE_BYTES}\"`, with room for keys and headers"
    );
    Some(Contradiction { message, advice })
}

/// The most bytes of a batch that clients make unless the scenario sets another number: librdkafka's default.
pub const USUAL_BATCH_BYTES: usize = 1_000_000;

/// The largest batch that a topic with these settings takes, in bytes.
pub fn batch_limit<'a>(settings: impl IntoIterator<Item = (&'a String, &'a String)>) -> Option<usize> {
    settings.into_iter().find(|(key, _)| *key == MAX_MESSAGE_BYTES)?.1.parse().ok()
}

/// The most bytes of a batch before compression, so that the topic takes it: what does not compress becomes a little larger.
pub fn within(limit: usize) -> usize {
    (limit - limit / 64).saturating_sub(128).max(1)
}

/// What a batch is larger than that the broker refused as too large, and what to do.
pub fn too_large(refusal: &str) -> String {
    format!(
        "{refusal}; the topic takes batches up to its `{MAX_MESSAGE_BYTES}`: lower `broker.kafka.batch_bytes` or `producers.batch`, or raise \
         `topology.config.\"{MAX_MESSAGE_BYTES}\"`"
    )
}

/// The settings of a topic by which Kafka removes messages.
pub const REMOVAL_SETTINGS: [&str; 3] = [CLEANUP_POLICY, RETENTION_BYTES, RETENTION_MS];

const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";

/// The usual `retention.ms`, a week: a trial's messages are not as old.
const LONG_MS: i64 = 604_800_000;

/// What a topic with these settings has removed, by the first offset of each partition. `None`: it removes nothing.
pub fn removal(settings: &BTreeMap<String, String>, firsts: Vec<u64>) -> Option<Removal> {
    let value = |key: &str| settings.get(key)?.parse::<i64>().ok().filter(|value| *value >= 0);
    let policy = settings.get(CLEANUP_POLICY).map_or("", String::as_str);
    let is_compacted = policy.contains("compact");
    let mut rules = Vec::new();
    if policy.contains("delete") {
        let bytes = value(RETENTION_BYTES).map(|bytes| (RETENTION_BYTES, bytes));
        let age = value(RETENTION_MS).filter(|age_ms| *age_ms < LONG_MS).map(|age_ms| (RETENTION_MS, age_ms));
        let retention = |(key, value): (&str, i64)| RemovalRule::new(RemovalCause::Retention, key, value.to_string());
        rules.extend(bytes.into_iter().chain(age).map(retention));
    }
    if is_compacted {
        rules.push(RemovalRule::new(RemovalCause::Compaction, CLEANUP_POLICY, policy));
    }
    let extent = match is_compacted {
        true => RemovalExtent::FirstOffsetsWithGaps(firsts),
        false => RemovalExtent::FirstOffsets(firsts),
    };
    (!rules.is_empty()).then_some(Removal { rules, extent })
}

/// What Kafka reports for "never": the largest 64-bit number.
const NEVER: &str = "9223372036854775807";

/// With `acks` as "all", "1" or "0", from the settings of each topic; unknown where topics differ, or their settings could not be read.
pub fn durability(acks: &str, topics: &[Topic], settings: &[BTreeMap<String, String>]) -> Durability {
    let source = "the producers' settings and the broker's configuration of the topics";
    let own = ("acks", acks.to_owned());
    if acks == "0" {
        return Durability::new(DurabilityLevel::Nowhere, None, [own], source);
    }
    let replications: BTreeSet<u32> = topics.iter().map(|topic| topic.replication).collect();
    let alike = settings.windows(2).all(|pair| pair[0] == pair[1]) && replications.len() == 1;
    let (Some(first), Some(replication), true) = (settings.first(), replications.first(), alike) else {
        return Durability::new(DurabilityLevel::Unknown, None, [own], "the producers' settings");
    };
    let value = |key: &str| first.get(key).map(|value| if value == NEVER { "never" } else { value });
    let known = TOPIC_SETTINGS.iter().filter_map(|key| Some((*key, value(key)?.to_owned())));
    let settings = known.chain([own, ("replication", replication.to_string())]);
    let copies = match acks {
        "all" => {
            value(MIN_IN_SYNC).and_then(|copies| copies.parse::<u32>().ok()).map(|copies| copies.min(*replication))
        }
        _ => Some(1),
    };
    // The leader synchronises before it answers only when it does so for every message (LogConfig, `flush.messages`).
    let level = match value("flush.messages") {
        None => DurabilityLevel::Unknown,
        Some("1") => DurabilityLevel::Disk,
        Some(_) => DurabilityLevel::PageCache,
    };
    Durability::new(level, copies, settings, source)
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
    /// Source: `MetadataVersion.java` of Apache Kafka, as of its release 4.4.
    const RELEASES: [(i16, &str); 15] = [
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
        (31, "4.4"),
    ];

    /// The last level of the last of [`RELEASES`].
    const LAST: i16 = 33;

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
            assert_eq!(named(Some(99), Some(30)), is("Kafka later than 4.4 (metadata.version 30, of 4.3)"));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(min_insync: &str, flush: &str) -> BTreeMap<String, String> {
        let all = [("min.insync.replicas", min_insync), ("flush.messages", flush), ("flush.ms", NEVER)];
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn topics(replication: u32) -> Vec<Topic> {
        ["a", "b"].map(|name| Topic { name: name.to_owned(), partitions: 1, replication }).to_vec()
    }

    #[test]
    fn copies_follow_acks_and_replicas_level_follows_flushing() {
        let of = |acks, replication, settings: BTreeMap<String, String>| {
            let found = durability(acks, &topics(replication), &[settings.clone(), settings]);
            (found.level, found.copies)
        };
        assert_eq!(of("all", 3, settings("2", NEVER)), (DurabilityLevel::PageCache, Some(2)));
        assert_eq!(of("all", 1, settings("2", NEVER)), (DurabilityLevel::PageCache, Some(1)));
        assert_eq!(of("1", 3, settings("2", "1")), (DurabilityLevel::Disk, Some(1)));
        assert_eq!(of("0", 3, settings("2", "1")), (DurabilityLevel::Nowhere, None));
        assert_eq!(of("all", 3, BTreeMap::new()), (DurabilityLevel::Unknown, None));
        let never = durability("all", &topics(1), &[settings("1", NEVER)]);
        assert_eq!(never.settings["flush.ms"], "never");
    }

    #[test]
    fn only_rules_that_may_have_removed_something_are_named() {
        let told = |pairs: &[(&str, &str)]| {
            let settings = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let removal = removal(&settings, vec![3]);
            removal.map(|found| (found.rules.iter().map(ToString::to_string).collect::<Vec<_>>(), found.extent))
        };
        let usual = [("cleanup.policy", "delete"), ("retention.bytes", "-1"), ("retention.ms", "604800000")];
        assert_eq!(told(&usual), None);
        let small = [("cleanup.policy", "delete"), ("retention.bytes", "5000000"), ("retention.ms", "604800000")];
        let rules = vec!["retention (retention.bytes = 5000000)".to_owned()];
        assert_eq!(told(&small), Some((rules, RemovalExtent::FirstOffsets(vec![3]))));
        let compacted = [("cleanup.policy", "compact"), ("retention.bytes", "5000000")];
        let rules = vec!["compaction (cleanup.policy = compact)".to_owned()];
        assert_eq!(told(&compacted), Some((rules, RemovalExtent::FirstOffsetsWithGaps(vec![3]))));
    }

    #[test]
    fn topics_that_differ_are_unknown() {
        let found = durability("all", &topics(3), &[settings("1", NEVER), settings("2", NEVER)]);
        assert_eq!((found.level, found.copies), (DurabilityLevel::Unknown, None));
        assert_eq!(durability("all", &topics(3), &[]).level, DurabilityLevel::Unknown);
    }
}
