//! What an acknowledgement of Kafka meant, for both clients: the producers' `acks` and the configuration of the topics.

use std::collections::{BTreeMap, BTreeSet};

use super::{Durability, DurabilityLevel, Topic};

/// The settings of a topic that decide it ("Topic Configs" of Apache Kafka's documentation).
pub const TOPIC_SETTINGS: [&str; 3] = ["min.insync.replicas", "flush.messages", "flush.ms"];

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
        "all" => value("min.insync.replicas")
            .and_then(|copies| copies.parse::<u32>().ok())
            .map(|copies| copies.min(*replication)),
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
    fn copies_follow_from_acks_and_replicas_and_the_level_from_flushing() {
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
    fn topics_that_differ_are_unknown() {
        let found = durability("all", &topics(3), &[settings("1", NEVER), settings("2", NEVER)]);
        assert_eq!((found.level, found.copies), (DurabilityLevel::Unknown, None));
        assert_eq!(durability("all", &topics(3), &[]).level, DurabilityLevel::Unknown);
    }
}
