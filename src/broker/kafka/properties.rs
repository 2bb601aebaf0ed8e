//! How a scenario becomes librdkafka's properties: addresses, TLS and credentials, and what is brokermark's own to decide.

use std::env;

use super::config::{KafkaOptions, acks, is_true, isolation, producer};
use crate::broker::kafka_cluster::{self, USUAL_BATCH_BYTES};
use crate::broker::kafka_options::{Assignment, DIVIDED, TransactionOptions, joins_no_group};
use crate::broker::{BrokerError, Progress, Subscription};
use crate::scenario::{BrokerConfig, Contradiction, SaslMechanism, StartFrom};

/// SCRAM is salted hashing, which librdkafka leaves to OpenSSL; its OAUTHBEARER is built with it only.
pub const SASL_MECHANISMS: &[SaslMechanism] = if cfg!(feature = "kafka-tls") {
    &[SaslMechanism::ScramSha512, SaslMechanism::ScramSha256, SaslMechanism::Plain, SaslMechanism::OauthBearer]
} else {
    &[SaslMechanism::Plain]
};

/// Properties that a scenario cannot set, and why.
const REFUSED: [(&str, &str); 3] = [
    ("group.instance.id", "every member needs one of its own: write `static_members = true` in `[broker.kafka]`"),
    ("group.id", "brokermark names the groups: a pipeline joins another one with `pipeline.group`"),
    ("transactional.id", "every producer needs one of its own: write `[broker.kafka.transactions]`"),
];

/// Properties by which a producer numbers its batches. The client that makes topics is a producer to librdkafka, and would register.
const NUMBERING: [&str; 2] = ["enable.idempotence", "enable.gapless.guarantee"];

/// Most bytes of a batch.
const BATCH_SIZE: &str = "batch.size";

/// Properties of the protocols by which groups assign partitions.
const OF_GROUPS: [&str; 3] = ["group.protocol", "group.remote.assignor", "partition.assignment.strategy"];

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

    /// Batches of producers are no larger than topics with these settings take, unless the scenario sets the size of batches.
    pub fn keep_batches_within(&mut self, topic_config: &[(String, String)]) {
        let limit = kafka_cluster::batch_limit(topic_config.iter().map(|(key, value)| (key, value)));
        if let Some(bytes) = limit.map(kafka_cluster::within).filter(|bytes| *bytes < USUAL_BATCH_BYTES) {
            self.producer.insert(0, (BATCH_SIZE.to_owned(), bytes.to_string()));
        }
    }

    /// Why a topic with this `max.message.bytes` may refuse what producers gather, of messages that are not compressed.
    pub fn too_large_batches(&self, limit: usize) -> Option<Contradiction> {
        let value = |key: &str| self.for_producer().filter(|(name, _)| *name == key).last().map(|(_, value)| value);
        let is_compressed = ["compression.codec", "compression.type"].into_iter().find_map(value);
        if is_compressed.is_some_and(|codec| codec != "none") {
            return None;
        }
        let bytes = value(BATCH_SIZE).map_or(Some(USUAL_BATCH_BYTES), |bytes| bytes.parse().ok())?;
        let message = format!(
            "batches of up to {bytes} bytes are larger than the topic takes (`{}` = {limit})",
            kafka_cluster::MAX_MESSAGE_BYTES
        );
        let advice = format!("set `broker.kafka.batch_bytes` to {} or less", kafka_cluster::within(limit));
        (bytes > limit).then_some(Contradiction { message, advice })
    }

    /// For producing clients: statistics once a second feed the queue depth and round trips of the record.
    pub fn for_producer(&self) -> impl Iterator<Item = (&str, &str)> {
        let statistics = [("statistics.interval.ms", "1000")];
        statistics.into_iter().chain(borrowed(&self.shared)).chain(borrowed(&self.producer)).chain(borrowed(&self.user))
    }

    /// The `acks` that producers work with.
    pub fn acks(&self) -> &str {
        acks(self.for_producer())
    }

    /// Whether a batch that is sent again may come behind one that was in flight with it.
    pub fn may_reorder(&self) -> bool {
        may_reorder(self.for_producer())
    }

    /// How producers send in transactions, if they do.
    pub fn transactions(&self) -> Option<TransactionOptions> {
        self.transactions
    }

    /// For the client that makes and removes topics.
    pub fn for_admin(&self) -> impl Iterator<Item = (&str, &str)> {
        let user = borrowed(&self.user).filter(|(key, _)| !NUMBERING.contains(key));
        borrowed(&self.shared).chain(user)
    }

    /// When a member joins, the mock cluster's coordinator waits almost a session's length for the group's other members.
    pub fn shorten_sessions(&mut self) {
        let short = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")];
        self.consumer.extend(short.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    /// The name under which a group knows the member, if its members are static.
    ///
    /// # Errors
    /// For a member that commits, or whose group is committed the latest message as its begin: the group would keep its place after the
    /// trial, and could not be removed.
    pub fn instance_id(&self, subscription: &Subscription) -> Result<Option<String>, BrokerError> {
        if self.static_members && subscription.progress != Progress::Uncommitted {
            let reason = "a pipeline's members leave their group with the run: remove `static_members`".to_owned();
            return Err(BrokerError::Configuration(reason));
        }
        if self.static_members && subscription.from == StartFrom::Latest {
            let reason = "with librdkafka, `static_members` cannot begin at the latest message, because their group could not be removed with the \
                          run: remove `consumers.from` or `static_members`, or set `broker.client = \"native\"`";
            return Err(BrokerError::Configuration(reason.to_owned()));
        }
        Ok(self.static_members.then(|| format!("member-{}", subscription.member)))
    }

    /// Refuses a start that librdkafka does not have: where a group that is kept has committed nothing, all its members would begin at the earliest
    /// message, or each at the one that is the latest when its own first fetch is answered.
    ///
    /// # Errors
    /// For a group that is kept and is to begin at the latest message.
    pub fn check_start(subscription: &Subscription) -> Result<(), BrokerError> {
        if subscription.from == StartFrom::Latest && subscription.progress == Progress::Kept {
            let reason = "with librdkafka, `pipeline.group` cannot begin at the latest message: remove `consumers.from`, or set \
                          `broker.client = \"native\"`";
            return Err(BrokerError::Configuration(reason.to_owned()));
        }
        Ok(())
    }

    /// Whether brokermark assigns partitions to members.
    ///
    /// # Errors
    /// For what only a group's protocol has.
    pub fn is_assignment_manual(&self, subscription: &Subscription) -> Result<bool, BrokerError> {
        if Assignment::new(self.assignment, subscription) == Assignment::Group {
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
            .chain(borrowed(&self.user))
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

/// The properties of a scenario's `[broker.security]`.
///
/// # Errors
/// When a secret cannot be read.
pub fn security(config: &BrokerConfig) -> Result<Vec<(String, String)>, String> {
    let security = &config.security;
    let protocol = match (&security.tls, security.sasl.is_some() || security.bearer.is_some()) {
        (None, false) => return Ok(Vec::new()),
        (Some(_), false) => "ssl",
        (None, true) => "sasl_plaintext",
        (Some(_), true) => "sasl_ssl",
    };
    let mut properties = vec![("security.protocol", protocol.to_owned())];
    if let Some(tls) = &security.tls {
        let authorities = tls.ca.as_ref().map_or_else(|| authorities(env::var), |file| file.display().to_string());
        properties.push(("ssl.ca.location", authorities));
        for (key, file) in [("ssl.certificate.location", &tls.certificate), ("ssl.key.location", &tls.key)] {
            if let Some(file) = file {
                properties.push((key, file.display().to_string()));
            }
        }
        let identification = if tls.verify_host { "https" } else { "none" };
        properties.push(("ssl.endpoint.identification.algorithm", identification.to_owned()));
    }
    if security.bearer.is_some() {
        properties.push(("sasl.mechanisms", SaslMechanism::OauthBearer.name().to_owned()));
    }
    if let Some(sasl) = &security.sasl {
        properties.push(("sasl.mechanisms", sasl.mechanism.name().to_owned()));
        properties.push(("sasl.username", sasl.username.clone()));
        properties.push(("sasl.password", sasl.password.reveal()?));
    }
    Ok(properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Where the authorities are that the system trusts: at the places that OpenSSL's two variables name, as for the brokers whose
/// TLS is rustls, else in the places where librdkafka looks. An OpenSSL that was compiled in looks for them in a folder of its own.
fn authorities(variable: impl Fn(&'static str) -> Result<String, env::VarError>) -> String {
    let mut named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(|name| variable(name).ok());
    named.find(|path| !path.is_empty()).unwrap_or_else(|| "probe".to_owned())
}

/// Whether a batch that is sent again may come behind one that was in flight with it: by default, librdkafka does not number them, and has
/// many in flight.
fn may_reorder<'a>(properties: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let (mut is_numbered, mut in_flight) = (false, "many");
    for (key, value) in properties {
        match key {
            "enable.idempotence" => is_numbered = is_true(value),
            "transactional.id" => is_numbered = true,
            "max.in.flight" | "max.in.flight.requests.per.connection" => in_flight = value,
            _ => {}
        }
    }
    !is_numbered && in_flight != "1"
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
    fn user_properties_reach_every_client() {
        let properties = given(&[("enable.idempotence", "true"), ("client.dns.lookup", "use_all_dns_ips")]);
        let administrator: Vec<&str> = properties.for_admin().map(|(key, _)| key).collect();
        assert_eq!(administrator, ["client.dns.lookup"], "it numbers no batches");
        let consumer: Vec<&str> = properties.for_consumer("group", &[]).map(|(key, _)| key).collect();
        assert!(consumer.ends_with(&["enable.idempotence", "client.dns.lookup"]), "{consumer:?}");
        assert_eq!(properties.for_producer().count(), 1 + 2);
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
    fn batches_without_numbers_may_change_their_order() {
        assert!(may_reorder([("linger.ms", "5")].into_iter()));
        for value in ["true", "True", "t", "1"] {
            assert!(!may_reorder([("enable.idempotence", value)].into_iter()), "{value}");
        }
        assert!(may_reorder([("enable.idempotence", "False")].into_iter()));
        assert!(!may_reorder([("max.in.flight", "5"), ("max.in.flight.requests.per.connection", "1")].into_iter()));
    }

    #[test]
    fn the_last_acks_counts_under_either_name() {
        assert_eq!(acks([("acks", "0"), ("request.required.acks", "-1")].into_iter()), "all");
        assert_eq!(acks([("acks", "all"), ("linger.ms", "5"), ("acks", "1")].into_iter()), "1");
        assert_eq!(acks([("linger.ms", "5")].into_iter()), "all");
    }

    #[test]
    fn system_authorities_are_found_by_variable_or_by_place() {
        let with = |name: &'static str, value: &str| {
            let value = value.to_owned();
            authorities(move |asked| if asked == name { Ok(value.clone()) } else { Err(env::VarError::NotPresent) })
        };
        assert_eq!(with("SSL_CERT_FILE", "/ca.pem"), "/ca.pem");
        assert_eq!(with("SSL_CERT_DIR", "/certs"), "/certs");
        assert_eq!(with("SSL_CERT_FILE", ""), "probe");
        assert_eq!(with("HOME", "/root"), "probe");
    }
}
