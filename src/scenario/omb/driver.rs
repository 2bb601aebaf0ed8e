//! A driver's file: which broker, where, and its settings.

use percent_encoding::percent_decode_str;
use toml_edit::{DocumentMut, InlineTable, Item, Table, value};

use super::{Keys, Untranslated, Value, addresses, is_true, number_if_set, pulsar_driver, text};
use crate::scenario::client_file::{self, Mapped, Untaken, properties::Property};
use crate::scenario::kind::Kinds;
use crate::scenario::overrides::{Override, Setting};

pub(super) fn convert(kinds: Kinds<'_>, keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    document["broker"] = Item::Table(Table::new());
    let class = text(keys, "driverClass").unwrap_or_default();
    let name = class.rsplit('.').next().unwrap_or_default();
    // Both speak Kafka's protocol: Redpanda, and Kafka on Pulsar.
    let known_as =
        if ["RedpandaBenchmarkDriver", "KopBenchmarkDriver"].contains(&name) { "KafkaBenchmarkDriver" } else { name };
    let kind = kinds.brokers.iter().find(|descriptor| descriptor.omb_driver == Some(known_as)).map(|found| found.kind);
    match (kind, name) {
        (Some("kafka"), "KopBenchmarkDriver") => kafka_on_pulsar(keys, document, untranslated),
        (Some("kafka"), "RedpandaBenchmarkDriver") if class.contains(".tx.") => untranslated.refuse(
            "driverClass",
            "its producers send in transactions: write the class without `.tx`, remove `requestsPerTransaction`, and set them, as in \
             --set broker.kafka.transactions.messages=2 --set broker.connections=1 for one producer",
        ),
        (Some("kafka"), _) => kafka(keys, document, untranslated),
        (Some("pulsar"), _) => pulsar_driver::convert(keys, document, untranslated),
        (Some("nats"), _) => nats(keys, document, untranslated),
        (Some("nsq"), _) => nsq(keys, document, untranslated),
        (Some("rabbitmq"), _) => rabbitmq(keys, document, untranslated),
        (Some("redis"), _) => redis(keys, document, untranslated),
        (_, "NatsStreamingBenchmarkDriver") => untranslated.refuse(
            "driverClass",
            "NATS Streaming is another server, which has come to its end: take `driver-nats/nats.yaml` for JetStream",
        ),
        (_, "") => untranslated.refuse("driverClass", "it is missing, so the kind of broker is unknown"),
        _ => {
            let kafka = "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver";
            let reason = format!(
                "this build has no broker for `{class}`: `brokermark brokers` lists what it has and how to add more; if the server speaks \
                 Kafka's protocol, take a file of the driver `{kafka}`"
            );
            untranslated.refuse("driverClass", &reason);
        }
    }
}

fn properties(keys: &Keys, block: &str, untranslated: &mut Untranslated) -> Vec<Property> {
    client_file::properties::parse(text(keys, block).unwrap_or_default()).unwrap_or_else(|(line, reason)| {
        untranslated.refuse(block, &format!("line {line}: {reason}"));
        Vec::new()
    })
}

/// Keys of the driver for Kafka. Its `name` is a label; that of the workload names the run.
pub(super) const KAFKA: [&str; 8] = [
    "name",
    "driverClass",
    "replicationFactor",
    "reset",
    "topicConfig",
    "commonConfig",
    "producerConfig",
    "consumerConfig",
];

/// Properties that the driver's clients set themselves, also where the file sets them: they have no effect there either.
pub(super) const OVERWRITTEN: [&str; 5] =
    ["group.id", "key.serializer", "key.deserializer", "value.serializer", "value.deserializer"];

/// Keys of the driver for Kafka on Pulsar. `reset` and the last three are those of a fork.
pub(super) const KOP: [&str; 11] = [
    "name",
    "driverClass",
    "producerType",
    "consumerType",
    "pollTimeoutMs",
    "pulsarConfig",
    "reset",
    "kafkaConfig",
    "kafkaCommonConfigConfig",
    "kafkaProducerConfig",
    "kafkaConsumerConfig",
];

/// The highest `request.timeout.ms` of librdkafka. Java's client has no limit, and the driver's files ask for 20 minutes.
const MAX_REQUEST_TIMEOUT_MS: u64 = 900_000;

/// A property of the Java clients as librdkafka has it.
fn accepted<'k>(key: &'k str, setting: &str, untranslated: &mut Untranslated) -> (&'k str, String) {
    match (key, setting.parse::<u64>()) {
        ("request.timeout.ms", Ok(milliseconds)) if milliseconds > MAX_REQUEST_TIMEOUT_MS => {
            untranslated.leave_out(key, &format!("{MAX_REQUEST_TIMEOUT_MS} is the highest that librdkafka accepts"));
            (key, MAX_REQUEST_TIMEOUT_MS.to_string())
        }
        // The Java client gathers no batches then.
        ("batch.size", Ok(0)) => ("batch.num.messages", "1".to_owned()),
        ("max.request.size", _) => ("message.max.bytes", setting.to_owned()),
        ("fetch.max.wait.ms", _) => ("fetch.wait.max.ms", setting.to_owned()),
        ("send.buffer.bytes", _) => ("socket.send.buffer.bytes", setting.to_owned()),
        ("receive.buffer.bytes", _) => ("socket.receive.buffer.bytes", setting.to_owned()),
        _ => (key, setting.to_owned()),
    }
}

/// Producers and consumers that speak Kafka's protocol, both.
fn kafka_on_pulsar(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &KOP);
    for key in ["producerType", "consumerType"] {
        if !text(keys, key).is_some_and(|kind| kind.eq_ignore_ascii_case("kafka")) {
            let reason = "producers and consumers of a scenario are of one broker: write kafka for both, or take a file of Pulsar's driver";
            untranslated.refuse(key, reason);
        }
    }
    let left_out = [
        ("pulsarConfig", "producers and consumers are Kafka's"),
        ("pollTimeoutMs", "it limits how long one call of the Java client waits"),
    ];
    untranslated.leave_out_each(keys, &left_out);
    let blocks = ["kafkaConfig", "kafkaCommonConfigConfig", "kafkaProducerConfig", "kafkaConsumerConfig"];
    kafka_clients(keys, &blocks, document, untranslated);
}

fn kafka(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &KAFKA);
    kafka_clients(keys, &["commonConfig", "producerConfig", "consumerConfig"], document, untranslated);
    if let Some(replication) = number_if_set(keys, "replicationFactor", untranslated) {
        document["topology"]["replication"] = value(replication as i64);
    }
    for Property { key, value: setting, .. } in properties(keys, "topicConfig", untranslated) {
        document["topology"]["config"].or_insert(Item::Table(Table::new()))[&key] = value(setting);
    }
}

/// Clients with the properties of these blocks.
fn kafka_clients(keys: &Keys, blocks: &[&str], document: &mut DocumentMut, untranslated: &mut Untranslated) {
    if is_true(keys, "reset", false, untranslated) {
        untranslated.leave_out("reset", "topics that existed before are never removed here");
    }
    document["broker"]["kind"] = value("kafka");
    document["broker"]["properties"] = Item::Table(Table::new());
    let all: Vec<Property> = blocks.iter().flat_map(|block| properties(keys, block, untranslated)).collect();
    let (of_security, rest): (Vec<Property>, Vec<Property>) =
        all.into_iter().partition(|one| client_file::is_security(&one.key));
    security(&of_security, document, untranslated);
    for Property { key, value, .. } in &rest {
        kafka_property(key, value, document, untranslated);
    }
    let broker = &mut document["broker"];
    if broker.get("addresses").is_none() {
        untranslated.refuse(blocks[0], "`bootstrap.servers` is missing");
    }
}

/// TLS and login, as `--properties` reads them.
fn security(all: &[Property], document: &mut DocumentMut, untranslated: &mut Untranslated) {
    for one in all {
        if all.iter().any(|other| other.key == one.key && other.value != one.value) {
            untranslated.refuse(&one.key, "it has two values: producers and consumers have one here");
        }
    }
    let mut mapped = Mapped::default();
    client_file::security(all, &mut mapped);
    mapped.refused.iter().for_each(|(_, key, reason)| untranslated.refuse(key, reason));
    mapped.left_out.iter().for_each(|(_, key, reason)| untranslated.leave_out(key, reason));
    for (key, value, _) in mapped.set {
        let set = Override::parse(&Setting::set(&format!("{key}={}", value.to_string().trim())));
        // Both are right: the key is one of ours, and nothing else has set its table.
        let _ = set.and_then(|set| set.apply(document));
    }
}

/// One line of `commonConfig`, `producerConfig` or `consumerConfig`. All clients of a scenario have the same properties.
fn kafka_property(key: &str, setting: &str, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    match key {
        "bootstrap.servers" => {
            // A listener's name may stand before a host, as in SSL://host:9093.
            let hosts = setting.split(',').map(|host| host.rsplit("://").next().unwrap_or(host));
            document["broker"]["addresses"] = addresses(hosts, 9092);
            return;
        }
        "auto.offset.reset" => return start(key, setting, document, untranslated),
        _ if OVERWRITTEN.contains(&key) => return,
        // Of the forks' own consumers.
        "offsetCommitLingerMs" => return untranslated.leave_out(key, "consumers of a load commit nothing"),
        "max.request.size" => {}
        _ => match client_file::untaken(key) {
            Some(Untaken::LeftOut(reason)) => return untranslated.leave_out(key, reason),
            Some(Untaken::Refused(reason)) => return untranslated.refuse(key, reason),
            // The client says whether it has it, when the scenario is checked.
            None => {}
        },
    }
    let (own, setting) = accepted(key, setting, untranslated);
    let properties = &mut document["broker"]["properties"];
    match properties.get(own).and_then(Item::as_str) {
        Some(before) if before != setting => untranslated.refuse(
            key,
            &format!(
                "it is `{before}` in one block and `{setting}` in another: producers and consumers have one value here"
            ),
        ),
        _ => properties[own] = value(setting),
    }
}

/// Where consumers begin. They are there before the first message, and those of a backlog begin with it.
fn start(key: &str, setting: &str, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    match (setting, document.get_mut("consumers")) {
        ("earliest", _) | ("latest", None) => {}
        ("latest", Some(consumers)) if consumers.get("backlog").is_none() => consumers["from"] = value(setting),
        ("latest", Some(_)) => untranslated.leave_out(key, "consumers of a backlog begin at its first message"),
        _ => untranslated.refuse(key, "write earliest or latest"),
    }
}

/// Keys of the driver for Pulsar.
pub(super) const NSQ: [&str; 4] = ["name", "driverClass", "nsqdHost", "lookupHost"];

fn nsq(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &NSQ);
    document["broker"]["kind"] = value("nsq");
    let lookup = "consumers connect to `nsqdHost` too, which has all messages; `broker.nsq.lookup` would ask it";
    untranslated.leave_out_each(keys, &[("lookupHost", lookup)]);
    match text(keys, "nsqdHost") {
        // Its producers connect to this nsqd, and its consumers ask nsqlookupd for the same one.
        Some(host) => document["broker"]["addresses"] = addresses([host].into_iter(), 4150),
        None => untranslated.refuse("nsqdHost", "it is missing"),
    }
    refuse_partitions(document, untranslated);
}

fn refuse_partitions(document: &DocumentMut, untranslated: &mut Untranslated) {
    if document["topology"]["partitions"].as_integer().is_some_and(|partitions| partitions > 1) {
        untranslated.refuse("driverClass", "this driver has no partitions, and the workload's topics have several");
    }
}

pub(super) const NATS: [&str; 4] = ["name", "driverClass", "natsHostUrl", "replicationFactor"];

/// Streams in files, and durable consumers to which the server pushes, with its own limit of unacknowledged messages.
fn nats(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &NATS);
    let url = text(keys, "natsHostUrl").unwrap_or_default();
    if url.is_empty() {
        untranslated.refuse("natsHostUrl", "it is missing");
    } else if url.contains('@') {
        untranslated.refuse("natsHostUrl", "remove the login, and set `broker.security.sasl`");
    }
    let broker = &mut document["broker"];
    broker["kind"] = value("nats");
    broker["addresses"] = addresses(url.split(',').map(|url| url.rsplit("://").next().unwrap_or(url)), 4222);
    if url.starts_with("tls://") {
        broker["security"]["tls"] = value(true);
    }
    broker["nats"] = Item::Table(Table::new());
    broker["nats"]["consumer"] = value("push");
    broker["nats"]["max_ack_pending"] = value(1000);
    if let Some(replication) = number_if_set(keys, "replicationFactor", untranslated) {
        document["topology"]["replication"] = value(replication as i64);
    }
    refuse_partitions(document, untranslated);
}

pub(super) const REDIS: [&str; 8] = [
    "name",
    "driverClass",
    "redisHost",
    "redisPort",
    "redisUser",
    "redisPass",
    "jedisPoolMaxTotal",
    "jedisPoolMaxIdle",
];

/// Streams, whose consumers acknowledge nothing. Its pool of connections is what all producers and consumers share.
fn redis(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &REDIS);
    untranslated.leave_out_each(keys, &[("jedisPoolMaxIdle", "no connection is closed while it is idle")]);
    if text(keys, "redisPass").is_some() {
        untranslated.refuse("redisPass", "remove the login, and set `broker.security.sasl`");
    } else if text(keys, "redisUser").is_some() {
        untranslated.refuse("redisUser", "it does nothing without `redisPass`: remove it");
    }
    let Some(host) = text(keys, "redisHost") else { return untranslated.refuse("redisHost", "it is missing") };
    let port = number_if_set(keys, "redisPort", untranslated).unwrap_or(6379);
    let Some(port) = u16::try_from(port).ok().filter(|port| *port > 0) else {
        return untranslated.refuse("redisPort", &format!("{port} is not a port: write one from 1 to {}", u16::MAX));
    };
    let broker = &mut document["broker"];
    broker["kind"] = value("redis");
    broker["addresses"] = addresses([host].into_iter(), port);
    if let Some(connections) = number_if_set(keys, "jedisPoolMaxTotal", untranslated) {
        broker["connections"] = value(connections as i64);
    }
    broker["redis"] = Item::Table(Table::new());
    broker["redis"]["acknowledge"] = value(false);
    refuse_partitions(document, untranslated);
}

pub(super) const RABBITMQ: [&str; 12] = [
    "name",
    "driverClass",
    "amqpUris",
    "brokerAddress",
    "brokers",
    "messagePersistence",
    "queueType",
    "exchangeType",
    "producerCreationDelay",
    "producerCreationBatchSize",
    "consumerCreationDelay",
    "consumerCreationBatchSize",
];

const RABBITMQ_PACE: &str = "clients are created here as fast as the server answers";

const RABBITMQ_LEFT_OUT: [(&str, &str); 4] = [
    ("producerCreationDelay", RABBITMQ_PACE),
    ("producerCreationBatchSize", RABBITMQ_PACE),
    ("consumerCreationDelay", RABBITMQ_PACE),
    ("consumerCreationBatchSize", RABBITMQ_PACE),
];

/// Members of a quorum queue, where nothing else is asked for and there are as many nodes.
const QUORUM_MEMBERS: usize = 3;

fn rabbitmq(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &RABBITMQ);
    untranslated.leave_out_each(keys, &RABBITMQ_LEFT_OUT);
    document["broker"]["kind"] = value("rabbitmq");
    document["broker"]["rabbitmq"] = Item::Table(Table::new());
    // Earlier versions of the driver, and forks of it, name hosts.
    let uris: Vec<&str> =
        ["amqpUris", "brokerAddress", "brokers"].into_iter().flat_map(|key| texts(keys.get(key))).collect();
    rabbitmq_connection(&uris, document, untranslated);
    let own = &mut document["broker"]["rabbitmq"];
    let queue = text(keys, "queueType").filter(|queue| !queue.is_empty()).unwrap_or("CLASSIC").to_lowercase();
    own["queue"] = value(&queue);
    own["exchange"] = value(text(keys, "exchangeType").unwrap_or("FANOUT").to_lowercase());
    own["persistent"] = value(is_true(keys, "messagePersistence", false, untranslated));
    // Its consumers are given messages without acknowledging them.
    own["acknowledge"] = value("automatic");
    if queue == "quorum" {
        document["topology"]["replication"] = value(uris.len().clamp(1, QUORUM_MEMBERS) as i64);
    }
    refuse_partitions(document, untranslated);
}

fn texts(of: Option<&Value>) -> Vec<&str> {
    match of {
        Some(Value::Text(text)) => vec![text],
        Some(Value::List(values)) => values.iter().flat_map(|value| texts(Some(value))).collect(),
        _ => Vec::new(),
    }
}

/// Nodes, and what all of them have in common: the login, the virtual host, and whether they use TLS.
fn rabbitmq_connection(uris: &[&str], document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let parts = uris.iter().map(|uri| {
        let (scheme, rest) = uri.split_once("://").unwrap_or(("amqp", uri));
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        (host, (scheme, login, path))
    });
    let (hosts, common): (Vec<&str>, Vec<_>) = parts.unzip();
    let Some((scheme, login, path)) = common.first().copied() else {
        return untranslated.refuse("amqpUris", "it is missing");
    };
    if common.iter().any(|other| *other != common[0]) {
        untranslated.refuse("amqpUris", "its nodes must have one login, one virtual host and one scheme");
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let broker = &mut document["broker"];
    broker["addresses"] = addresses(hosts.into_iter(), if scheme == "amqps" { 5671 } else { 5672 });
    if !path.is_empty() {
        broker["rabbitmq"]["virtual_host"] = value(decoded(path));
    }
    if scheme == "amqps" {
        broker["security"]["tls"] = value(true);
    }
    if let Some((username, password)) = login.and_then(|login| login.split_once(':')) {
        let mut sasl = InlineTable::new();
        sasl.insert("mechanism", "PLAIN".into());
        sasl.insert("username", decoded(username).into());
        sasl.insert("password", decoded(password).into());
        broker["security"]["sasl"] = value(sasl);
    }
}
