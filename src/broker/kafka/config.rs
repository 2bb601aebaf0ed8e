//! The `[broker.kafka]` table, and what is refused of `[broker.properties]`.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::broker::BrokerOptions;
use crate::broker::compression::Compression;
use crate::broker::kafka_options::{Assignment, RequiredAcks, TransactionOptions};
use crate::scenario::BrokerConfig;
use crate::scenario::tables::{ByteSize, DurationText, duration, size};
use crate::secrets::is_secret_name;

/// The settings that have a name of their own; every other property of librdkafka goes to `[broker.properties]`. What is left out
/// stays as librdkafka has it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaOptions {
    /// Which acknowledgements a produce request waits for.
    pub acks: Option<RequiredAcks>,
    pub compression: Option<Compression>,
    /// Whether the producer numbers its batches, so that the broker drops repetitions.
    pub idempotence: Option<bool>,
    /// librdkafka's name of a partitioner: `consistent_random`, `murmur2_random`, …
    pub partitioner: Option<String>,
    /// How long a batch waits for more messages.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<DurationText>")]
    pub linger: Option<Duration>,
    /// Most bytes of a batch.
    #[serde(deserialize_with = "size")]
    #[schemars(with = "Option<ByteSize>")]
    pub batch_bytes: Option<u64>,
    /// Whether members of groups keep their partitions while they are away for less than a session.
    pub static_members: bool,
    /// Who decides which member of a group reads which partitions; left out, see [`Assignment::new`].
    pub assignment: Option<Assignment>,
    /// What consumers receive of transactions; librdkafka's own default is `read-committed`.
    pub isolation: Option<Isolation>,
    /// Each producer sends in transactions.
    pub transactions: Option<TransactionOptions>,
}

impl BrokerOptions for KafkaOptions {}

/// What consumers receive of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Nothing of one that is open or was aborted.
    ReadCommitted,
    ReadUncommitted,
}

/// The words that librdkafka takes for properties that have few, which its refusals do not list: in the order of librdkafka's table of
/// its properties (`CONFIGURATION.md`, column "Range").
const VALUES: [(&str, &[&str]); 16] = [
    ("metadata.recovery.strategy", &["none", "rebootstrap"]),
    ("broker.address.family", &["any", "v4", "v6"]),
    ("security.protocol", &["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]),
    ("ssl.endpoint.identification.algorithm", &["none", "https"]),
    ("sasl.oauthbearer.method", &["default", "oidc"]),
    ("sasl.oauthbearer.grant.type", &["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]),
    ("sasl.oauthbearer.assertion.algorithm", &["RS256", "ES256"]),
    ("sasl.oauthbearer.metadata.authentication.type", &["none", "azure_imds"]),
    ("group.protocol", &["classic", "consumer"]),
    ("offset.store.method", &["none", "file", "broker"]),
    ("isolation.level", &["read_uncommitted", "read_committed"]),
    ("compression.codec", &["none", "gzip", "snappy", "lz4", "zstd"]),
    ("compression.type", &["none", "gzip", "snappy", "lz4", "zstd"]),
    ("client.dns.lookup", &["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]),
    ("queuing.strategy", &["fifo", "lifo"]),
    ("auto.offset.reset", &["smallest", "earliest", "beginning", "largest", "latest", "end", "error"]),
];

/// Why `[broker.properties]` cannot be given to librdkafka: a property that it does not know or whose value it refuses, or one that
/// `[broker.kafka]` sets as well. Nothing is connected to.
pub fn refusal(config: &BrokerConfig, options: &KafkaOptions) -> Option<String> {
    if config.security.bearer.is_some() && config.security.written_token().is_none() {
        return Some("librdkafka gets its token from `broker.security.sasl.token` only".to_owned());
    }
    let own: Vec<(String, String)> = producer(options).into_iter().chain(isolation(options)).collect();
    let twice = |(key, _): &&(String, String)| own.iter().any(|(name, _)| name == key);
    if let Some((key, _)) = config.properties.iter().find(twice) {
        return Some(format!(
            "`broker.properties.{key}` is set by `[broker.kafka]` as well, and only one of them counts"
        ));
    }
    let set = || own.iter().chain(&config.properties).map(|(key, value)| (key.as_str(), value.as_str()));
    let idempotence = set().rfind(|(key, _)| *key == "enable.idempotence");
    if idempotence.is_some_and(|(_, value)| is_true(value)) && acks(set()) != "all" {
        return Some("`idempotence` needs `acks = \"all\"`".to_owned());
    }
    let mut client = ClientConfig::new();
    config.properties.iter().for_each(|(key, value)| _ = client.set(key, value));
    match client.create_native_config() {
        Err(KafkaError::ClientConfig(_, _, key, _)) if is_secret_name(&key) => {
            Some(format!("librdkafka does not accept `broker.properties.{key}`"))
        }
        Err(KafkaError::ClientConfig(_, reason, key, value)) => {
            let known = |values: &[&str]| format!("\"{value}\" is not one of {}", values.join(", "));
            let reason = values(&key).map_or(reason, known);
            Some(format!("librdkafka does not accept `broker.properties.{key}`: {reason}"))
        }
        _ => None,
    }
}

/// The words that the property takes, if they are few.
fn values(property: &str) -> Option<&'static [&'static str]> {
    VALUES.iter().find(|(name, _)| *name == property).map(|(_, values)| *values)
}

/// The properties of producers that `[broker.kafka]` sets.
pub fn producer(options: &KafkaOptions) -> Vec<(String, String)> {
    let linger_ms = options.linger.map(|linger| (linger.as_secs_f64() * 1e3).to_string());
    let set = [
        ("acks", options.acks.map(|acks| acks.name().to_owned())),
        ("compression.codec", options.compression.map(|compression| compression.name().to_owned())),
        ("enable.idempotence", options.idempotence.map(|idempotence| idempotence.to_string())),
        ("partitioner", options.partitioner.clone()),
        ("linger.ms", linger_ms),
        ("batch.size", options.batch_bytes.map(|bytes| bytes.to_string())),
    ];
    set.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Whether librdkafka takes the value of a property for true (`_RK_C_BOOL` in `rdkafka_conf.c`). It refuses what is neither true nor false.
pub fn is_true(value: &str) -> bool {
    ["true", "t", "1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The `acks` that librdkafka works with: the last that was set under one of its names. Its default is `all`.
pub fn acks<'a>(properties: impl Iterator<Item = (&'a str, &'a str)>) -> &'a str {
    let set = properties.filter(|(key, _)| matches!(*key, "acks" | "request.required.acks"));
    match set.last() {
        None | Some((_, "-1" | "all")) => "all",
        Some((_, acks)) => acks,
    }
}

/// Transactions without their effect on consumers would be pointless.
pub fn isolation(options: &KafkaOptions) -> Option<(String, String)> {
    let level = match options.isolation {
        Some(Isolation::ReadUncommitted) => "read_uncommitted",
        Some(Isolation::ReadCommitted) => "read_committed",
        None => options.transactions.map(|_| "read_committed")?,
    };
    Some(("isolation.level".to_owned(), level.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_settings_become_librdkafkas() {
        let options: KafkaOptions = toml::from_str(
            "acks = \"all\"\ncompression = \"lz4\"\nidempotence = true\nlinger = \"500us\"\nbatch_bytes = \"128KiB\"",
        )
        .unwrap();
        let properties = producer(&options);
        let value = |key: &str| properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert_eq!(value("acks"), Some("all"));
        assert_eq!(value("compression.codec"), Some("lz4"));
        assert_eq!(value("enable.idempotence"), Some("true"));
        assert_eq!(value("linger.ms"), Some("0.5"));
        assert_eq!(value("batch.size"), Some("131072"));
        assert_eq!(value("partitioner"), None);
    }

    #[test]
    fn an_unknown_setting_is_refused_with_those_that_exist() {
        let error = toml::from_str::<KafkaOptions>("ack = \"1\"").unwrap_err();
        assert!(error.message().contains("unknown field `ack`") && error.message().contains("`acks`"), "{error}");
        assert!(toml::from_str::<KafkaOptions>("acks = \"2\"").is_err());
        assert_eq!(toml::from_str::<KafkaOptions>("acks = 1").unwrap().acks, Some(RequiredAcks::Leader));
        assert_eq!(toml::from_str::<KafkaOptions>("acks = -1").unwrap().acks, Some(RequiredAcks::All));
    }

    #[test]
    fn the_words_are_those_that_librdkafka_takes() {
        for (property, words) in VALUES {
            let refusal = |word: &str| ClientConfig::new().set(property, word).create_native_config().err();
            for word in words {
                let refusal = refusal(word).map(|error| error.to_string());
                // Some need OpenSSL or libcurl.
                let is_absent =
                    |text: &String| text.contains("not supported") || text.contains("not available at build time");
                assert!(refusal.iter().all(is_absent), "{property} {word}: {refusal:?}");
            }
            assert!(refusal("another").is_some(), "{property}");
        }
    }
}
