//! The `[broker.kafka]` table, and how a scenario becomes librdkafka properties.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::producer_only::is_producer_only;
use super::property_values::values;
use super::security::security;
use crate::broker::compression::Compression;
use crate::broker::kafka_options::{Assignment, DIVIDED, RequiredAcks, TransactionOptions, joins_no_group};
use crate::broker::{BrokerError, BrokerOptions, Progress, Subscription};
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
    /// Who decides which member of a group reads which partitions; left out, see [`Assignment::of`].
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

/// Properties that a scenario cannot set, and why.
const REFUSED: [(&str, &str); 3] = [
    ("group.instance.id", "every member needs one of its own: write `static_members = true` in `[broker.kafka]`"),
    ("group.id", "brokermark names the groups: a pipeline joins another one with `pipeline.group`"),
    ("transactional.id", "every producer needs one of its own: write `[broker.kafka.transactions]`"),
];

/// Properties of the protocols by which groups assign partitions.
const OF_GROUPS: [&str; 3] = ["group.protocol", "group.remote.assignor", "partition.assignment.strategy"];

/// Why `[broker.properties]` cannot be given to librdkafka: a property that it does not know or whose value it refuses, or one that
/// `[broker.kafka]` sets as well. Nothing is connected to.
pub fn refusal(config: &BrokerConfig, options: &KafkaOptions) -> Option<String> {
    let own: Vec<(String, String)> = producer(options).into_iter().chain(isolation(options)).collect();
    let twice = |(key, _): &&(String, String)| own.iter().any(|(name, _)| name == key);
    if let Some((key, _)) = config.properties.iter().find(twice) {
        return Some(format!(
            "`broker.properties.{key}` is set by `[broker.kafka]` as well, and only one of them counts"
        ));
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

/// Properties for librdkafka, in order: a later one of the same name wins.
#[derive(Clone)]
pub struct Properties {
    /// What every client of the trial shares: addresses and security.
    shared: Vec<(String, String)>,
    producer: Vec<(String, String)>,
    consumer: Vec<(String, String)>,
    transactions: Option<TransactionOptions>,
    user: Vec<(String, String)>,
    static_members: bool,
    assignment: Option<Assignment>,
}

impl Properties {
    /// From a scenario's `[broker]`, for clients that call themselves `client_id`, at `addresses`.
    ///
    /// # Errors
    /// When a secret cannot be read, or a property is not the user's to set.
    pub fn new(
        config: &BrokerConfig,
        options: &KafkaOptions,
        client_id: &str,
        addresses: &str,
    ) -> Result<Self, BrokerError> {
        check(&config.properties)?;
        let mut shared = vec![
            ("bootstrap.servers".to_owned(), addresses.to_owned()),
            ("client.id".to_owned(), client_id.to_owned()),
            // The library goes on to the next address of a name when one has failed: after 30 s by default, which is longer than a run waits
            // for its first connection.
            ("socket.connection.setup.timeout.ms".to_owned(), "5000".to_owned()),
            // In turn: a name that is resolved anew for each attempt, as it is after a second by default, has its addresses in another order.
            ("broker.address.ttl".to_owned(), "60000".to_owned()),
        ];
        shared.extend(security(config).map_err(BrokerError::Configuration)?);
        Ok(Properties {
            shared,
            producer: producer(options),
            consumer: isolation(options).into_iter().collect(),
            transactions: options.transactions,
            user: config.properties.clone(),
            static_members: options.static_members,
            assignment: options.assignment,
        })
    }

    /// For producing clients: statistics once a second feed the queue depth and round trips of the record.
    pub fn for_producer(&self) -> impl Iterator<Item = (&str, &str)> {
        let statistics = [("statistics.interval.ms", "1000")];
        statistics.into_iter().chain(borrowed(&self.shared)).chain(borrowed(&self.producer)).chain(borrowed(&self.user))
    }

    /// How producers send in transactions, if they do.
    pub fn transactions(&self) -> Option<TransactionOptions> {
        self.transactions
    }

    /// For the client that makes and removes topics.
    pub fn for_admin(&self) -> impl Iterator<Item = (&str, &str)> {
        borrowed(&self.shared).chain(self.user_of_any_client())
    }

    /// When a member joins, the mock cluster's coordinator waits almost a session's length for the group's other members.
    pub fn shorten_sessions(&mut self) {
        let short = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")];
        self.consumer.extend(short.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    /// The name under which a group knows the member, if its members are static.
    ///
    /// # Errors
    /// For a member that commits: the group would keep its place after the trial, and could not be removed.
    pub fn instance_id(&self, subscription: &Subscription) -> Result<Option<String>, BrokerError> {
        if self.static_members && subscription.progress != Progress::Uncommitted {
            let reason = "a pipeline's members leave their group with the run: remove `static_members`".to_owned();
            return Err(BrokerError::Configuration(reason));
        }
        Ok(self.static_members.then(|| format!("member-{}", subscription.member)))
    }

    /// Whether brokermark assigns partitions to members.
    ///
    /// # Errors
    /// For what only a group's protocol has.
    pub fn is_assignment_manual(&self, subscription: &Subscription) -> Result<bool, BrokerError> {
        if Assignment::of(self.assignment, subscription) == Assignment::Group {
            let divided = || Err(BrokerError::Configuration(DIVIDED.to_owned()));
            return if subscription.is_divided { divided() } else { Ok(false) };
        }
        let set = self.user.iter().chain(&subscription.properties).map(|(key, _)| key.as_str());
        let of_groups = set.filter(|key| OF_GROUPS.contains(key)).map(|key| format!("the property '{key}'"));
        let named = self.static_members.then(|| "`static_members`".to_owned());
        match named.into_iter().chain(of_groups).next() {
            None => Ok(true),
            Some(found) => Err(BrokerError::Configuration(joins_no_group(&found))),
        }
    }

    /// What the user sets for every client: a property of producers means nothing to another client.
    fn user_of_any_client(&self) -> impl Iterator<Item = (&str, &str)> {
        borrowed(&self.user).filter(|(key, _)| !is_producer_only(key))
    }

    /// For a member of `group`. Offsets are not committed unless the user's properties ask for it: a group that has committed
    /// nothing leaves nothing on the broker. A broker that comes back is found within a second: with librdkafka's default of
    /// 10 s, a member may lose its session meanwhile and wait for its end. A queue that has been full is filled again after
    /// 5 ms: with the default of a second, one member of eight partitions received 125,000 messages/s of a backlog instead of
    /// 674,000.
    pub fn for_consumer<'a>(
        &'a self,
        group: &'a str,
        properties: &'a [(String, String)],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let own = [
            ("group.id", group),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "earliest"),
            ("topic.metadata.refresh.interval.ms", "10000"),
            ("reconnect.backoff.max.ms", "1000"),
            ("fetch.queue.backoff.ms", "5"),
        ];
        own.into_iter()
            .chain(borrowed(&self.consumer))
            .chain(borrowed(&self.shared))
            .chain(self.user_of_any_client())
            .chain(borrowed(properties))
    }
}

/// Refuses what a scenario cannot set.
///
/// # Errors
/// When one of `properties` is not the user's to set.
pub fn check(properties: &[(String, String)]) -> Result<(), BrokerError> {
    let refused = |(key, _): &(String, String)| REFUSED.iter().find(|(refused, _)| refused == key);
    match properties.iter().find_map(refused) {
        None => Ok(()),
        Some((key, why)) => Err(BrokerError::Configuration(format!("remove the property '{key}': {why}"))),
    }
}

/// Refuses what a member that commits cannot have otherwise.
///
/// # Errors
/// When one of `properties` is among `own` ones.
pub fn check_member(own: &[(&str, &str)], properties: &[(String, String)]) -> Result<(), BrokerError> {
    let decided = |(key, _): &&(String, String)| own.iter().any(|(decided, _)| decided == key);
    match properties.iter().find(decided) {
        None => Ok(()),
        Some((key, _)) => {
            let reason =
                format!("remove `consumers.properties.\"{key}\"`: for members that commit, brokermark decides it");
            Err(BrokerError::Configuration(reason))
        }
    }
}

fn borrowed(properties: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    properties.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

fn producer(options: &KafkaOptions) -> Vec<(String, String)> {
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

/// Transactions without their effect on consumers would be pointless.
fn isolation(options: &KafkaOptions) -> Option<(String, String)> {
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

    fn given(user: &[(&str, &str)]) -> Properties {
        let user = user.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (shared, producer, consumer) = (Vec::new(), Vec::new(), Vec::new());
        let (transactions, static_members, assignment) = (None, false, None);
        Properties { shared, producer, consumer, transactions, user, static_members, assignment }
    }

    #[test]
    fn what_is_not_a_producers_alone_reaches_consumers_and_the_administrator() {
        let properties = given(&[
            ("linger.ms", "5"),
            ("enable.ssl.certificate.verification", "false"),
            ("client.dns.lookup", "resolve_canonical_bootstrap_servers_only"),
            ("https.ca.location", "/ca.pem"),
            ("https.ca.pem", "-"),
            ("acks", "1"),
        ]);
        let shared = ["enable.ssl.certificate.verification", "client.dns.lookup", "https.ca.location", "https.ca.pem"];
        let administrator: Vec<&str> = properties.for_admin().map(|(key, _)| key).collect();
        assert_eq!(administrator, shared);
        let consumer: Vec<&str> = properties.for_consumer("group", &[]).map(|(key, _)| key).collect();
        assert!(consumer.ends_with(&shared), "{consumer:?}");
        assert!(!consumer.contains(&"linger.ms") && !consumer.contains(&"acks"), "{consumer:?}");
        assert_eq!(properties.for_producer().count(), 1 + 6);
    }

    #[test]
    fn groups_and_transactions_are_not_the_users_to_set() {
        let of = |key: &str| check(&[("linger.ms".to_owned(), "5".to_owned()), (key.to_owned(), "x".to_owned())]);
        assert!(of("client.rack").is_ok());
        let error = of("transactional.id").unwrap_err().to_string();
        assert!(error.contains("'transactional.id'") && error.contains("[broker.kafka.transactions]"), "{error}");
        assert!(of("group.id").unwrap_err().to_string().contains("pipeline.group"));
        assert!(of("group.instance.id").unwrap_err().to_string().contains("static_members"));
    }

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
}
