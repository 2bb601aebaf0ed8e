//! What was probably meant: the known word nearest to an unknown one, and the scenario language's word for that of another tool.

use super::path::KeyPath;

/// The word that `written` most probably stands for, if one is near enough to be worth proposing: about one slip in
/// three letters.
pub(super) fn closest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    known
        .into_iter()
        // Between single characters everything is near.
        .filter(|word| word.len() > 1)
        .map(|word| (strsim::damerau_levenshtein(&written, &word.to_lowercase().replace('-', "_")), word))
        .filter(|(distance, word)| *distance <= (word.chars().count().max(3)) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `a`, `b` and `c`, for a sentence.
pub(super) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.pop() {
        None => "none".to_owned(),
        Some(only) if words.is_empty() => only,
        Some(last) => format!("{} and {last}", words.join(", ")),
    }
}

/// Words as others write them, with `_` between their parts, and the key of the scenario language.
const KEYS: &[(&[&str], &str)] = &[
    (
        &["bootstrap", "bootstrap_servers", "bootstrap_server", "brokers", "hosts", "servers", "service_url", "url"],
        ADDRESSES,
    ),
    (&["topic", "topic_name"], "topology.name"),
    (&["replication_factor", "replicas"], "topology.replication"),
    (&["throughput", "msg_rate", "message_rate", "producer_rate"], "load.rate"),
    (&["record_size", "message_size", "msg_size", "payload_size"], "payload.size"),
    (&["num_records", "num_messages", "num_msgs"], "run.messages"),
    (&["test_duration", "test_duration_minutes", "time"], "run.duration"),
    (&["warmup", "warmup_duration", "warmup_duration_minutes"], "run.warm_up"),
    (&["num_producers", "producers_per_topic"], "producers.count"),
    (&["num_partitions", "partitions_per_topic"], "topology.partitions"),
];

const ADDRESSES: &str = "broker.addresses";

/// What to write in place of a word that other tools have and this one has not.
pub(super) fn instead_of(word: &str) -> Option<String> {
    let advice = "Kerberos is not supported: name the port of a listener with SCRAM-SHA-512, OAUTHBEARER or PLAIN, or one that takes a client's \
                  certificate (`broker.security.tls.certificate`)";
    matches!(word, "GSSAPI" | "KERBEROS").then(|| advice.to_owned())
}

/// Percentiles, which are thresholds and not keys.
const PERCENTILES: &[&str] = &["p50", "p90", "p95", "p99", "p999", "p99_9", "latency"];

/// Keys that only one of a broker's clients has: their table, their name, and the client.
const OF_ONE_CLIENT: &[(&str, &str, &str)] =
    &[("broker.kafka", "share_group", "native"), ("broker.kafka", "session_timeout", "native")];

/// What to write in place of `key`, which the table `found` does not know.
pub(super) fn counterpart(key: &str, found: &KeyPath) -> Option<String> {
    let is_meant = |(table, name, _): &&(&str, &str, &str)| *name == key && found.to_string() == *table;
    if let Some((_, name, client)) = OF_ONE_CLIENT.iter().find(is_meant) {
        return Some(format!("write `client = \"{client}\"`, which has `{name}`"));
    }
    if PERCENTILES.contains(&normal(key).as_str()) {
        return Some("write a threshold: `thresholds.require = [\"p99 < 20ms\"]`".to_owned());
    }
    let meant = key_of(key)?;
    let (table, name) = meant.split_once('.').unwrap_or(("", meant));
    let here = *found == KeyPath::from_keys(&[table]);
    // In other tables, a server may be another one.
    if meant == ADDRESSES && !here && !found.is_empty() {
        return None;
    }
    let shown = if here { name } else { meant };
    Some(match meant {
        ADDRESSES => format!("write `{shown} = [\"host:port\"]`"),
        _ => format!("the key for it is `{shown}`"),
    })
}

/// The last part of the key that was meant, which is then not missing.
pub(super) fn meant(key: &str) -> Option<&'static str> {
    key_of(key).and_then(|meant| meant.rsplit('.').next())
}

fn key_of(key: &str) -> Option<&'static str> {
    let key = normal(key);
    KEYS.iter().find(|(words, _)| words.contains(&key.as_str())).map(|(_, meant)| *meant)
}

fn normal(key: &str) -> String {
    key.to_lowercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::super::resolve::every_key;
    use super::*;

    #[test]
    fn slips_are_understood_and_strangers_are_not() {
        let known = ["count", "placement", "in_flight", "round-robin"];
        assert_eq!(closest("cuont", known), Some("count"));
        assert_eq!(closest("in-flight", known), Some("in_flight"));
        assert_eq!(closest("round_robin", known), Some("round-robin"));
        assert_eq!(closest("potato", known), None);
    }

    #[test]
    fn lists_read_as_prose() {
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(list(["a"]), "`a`");
    }

    #[test]
    fn every_counterpart_is_a_key_and_no_word_is_one() {
        for (words, meant) in KEYS {
            let keys = every_key();
            let (table, _) = meant.split_once('.').unwrap();
            assert!(keys.iter().any(|key| key == meant), "{meant}");
            let is_key = |word: &&str| keys.contains(&format!("{table}.{word}"));
            assert!(!words.iter().any(is_key), "{words:?}");
        }
    }

    #[test]
    fn a_key_is_named_as_it_is_written_where_it_stands() {
        let found = |key: &str, table: &str| counterpart(key, &KeyPath::from_keys(&[table])).unwrap();
        assert_eq!(found("replication-factor", "topology"), "the key for it is `replication`");
        assert_eq!(found("throughput", "producers"), "the key for it is `load.rate`");
        assert_eq!(found("bootstrap.servers", "broker"), "write `addresses = [\"host:port\"]`");
        let of_kafka = counterpart("share_group", &KeyPath::from_keys(&["broker", "kafka"]));
        assert_eq!(of_kafka.as_deref(), Some("write `client = \"native\"`, which has `share_group`"));
        assert!(found("p99", "thresholds").contains("thresholds.require"));
        assert_eq!(counterpart("count", &KeyPath::default()), None);
        assert_eq!(counterpart("url", &KeyPath::from_keys(&["broker", "watch"])), None);
    }
}
