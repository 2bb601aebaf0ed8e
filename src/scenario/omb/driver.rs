//! A driver's file: which broker, where, and its settings.

use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::{Keys, Refusals, Value, is_true, text};

pub(super) fn convert(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    document["broker"] = Item::Table(Table::new());
    let class = text(keys, "driverClass").unwrap_or_default();
    match class.rsplit('.').next().unwrap_or_default() {
        "KafkaBenchmarkDriver" => kafka(keys, document, refusals),
        "PulsarBenchmarkDriver" => pulsar(keys, document, refusals),
        "NsqBenchmarkDriver" => nsq(keys, document, refusals),
        "RabbitMqBenchmarkDriver" => refusals.add(
            "driverClass",
            "this driver uses queues over AMQP 0.9.1, and brokermark RabbitMQ's streams: their figures cannot be compared",
        ),
        "" => refusals.add("driverClass", "it is missing, so the kind of broker is unknown"),
        _ => refusals.add("driverClass", &format!("brokermark has no broker for `{class}`")),
    }
}

fn addresses<'a>(hosts: impl Iterator<Item = &'a str>, port: u16) -> Item {
    let with_port = |host: &str| if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    value(hosts.map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect::<Array>())
}

/// The lines `key=value` of a block.
fn properties<'a>(keys: &'a Keys, block: &str) -> Vec<(&'a str, &'a str)> {
    let lines = text(keys, block).unwrap_or_default().lines();
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once('=').unwrap_or((line, "")))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect()
}

/// Properties of the Java clients that librdkafka has under the same name.
const SAME_NAME: [&str; 14] = [
    "acks",
    "auto.offset.reset",
    "batch.size",
    "client.rack",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
    "retries",
];

/// Properties without a counterpart that do not change what is sent: limits of the Java clients' memory and waiting.
/// The driver itself replaces `group.id` by the subscription's name, as brokermark does.
const PASSED_OVER: [&str; 10] = [
    "buffer.memory",
    "client.id",
    "default.api.timeout.ms",
    "enable.auto.commit",
    "group.id",
    "key.serializer",
    "key.deserializer",
    "max.poll.records",
    "value.serializer",
    "value.deserializer",
];

/// The highest `request.timeout.ms` of librdkafka. Java's client has no limit, and the driver's files ask for 20 minutes.
const MAX_REQUEST_TIMEOUT_MS: u64 = 900_000;

/// A property's value as librdkafka accepts it.
fn accepted(key: &str, setting: &str) -> String {
    match setting.parse::<u64>() {
        Ok(milliseconds) if key == "request.timeout.ms" => milliseconds.min(MAX_REQUEST_TIMEOUT_MS).to_string(),
        _ => setting.to_owned(),
    }
}

fn kafka(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    let known = [
        "name",
        "driverClass",
        "replicationFactor",
        "reset",
        "topicConfig",
        "commonConfig",
        "producerConfig",
        "consumerConfig",
    ];
    refusals.unknown(keys, &known);
    let broker = &mut document["broker"];
    broker["kind"] = value("kafka");
    broker["properties"] = Item::Table(Table::new());
    let consumer_only = ["auto.offset.reset"];
    for block in ["commonConfig", "producerConfig", "consumerConfig"] {
        for (key, setting) in properties(keys, block) {
            match key {
                "bootstrap.servers" => broker["addresses"] = addresses(setting.split(','), 9092),
                "max.request.size" => broker["properties"]["message.max.bytes"] = value(setting),
                // Consumers begin where the scenario's `consumers.from` says.
                _ if consumer_only.contains(&key) || PASSED_OVER.contains(&key) => {}
                _ if SAME_NAME.contains(&key) => broker["properties"][key] = value(accepted(key, setting)),
                _ if key.starts_with("sasl.") || key.starts_with("ssl.") || key == "security.protocol" => {
                    refusals.add(key, "set `broker.security` instead, as in --set broker.security.tls=true");
                }
                _ => refusals.add(key, "librdkafka has no such property: remove it"),
            }
        }
    }
    if broker.get("addresses").is_none() {
        refusals.add("commonConfig", "`bootstrap.servers` is missing");
    }
    if let Some(replication) = text(keys, "replicationFactor") {
        match replication.parse::<i64>() {
            Ok(replication) => document["topology"]["replication"] = value(replication),
            Err(_) => refusals.add("replicationFactor", "it is not a number"),
        }
    }
    let topic = properties(keys, "topicConfig");
    if !topic.is_empty() {
        document["topology"]["config"] = Item::Table(Table::new());
    }
    for (key, setting) in topic {
        document["topology"]["config"][key] = value(setting);
    }
}

/// Keys of Pulsar's client. Threads change nothing here, and topics lie in `broker.pulsar.namespace`, whose own persistence holds.
const CLIENT: [&str; 12] = [
    "authentication",
    "clusterName",
    "connectionsPerBroker",
    "httpUrl",
    "ioThreads",
    "namespacePrefix",
    "persistence",
    "serviceUrl",
    "tlsAllowInsecureConnection",
    "tlsEnableHostnameVerification",
    "tlsTrustCertsFilePath",
    "topicType",
];

fn pulsar(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    refusals.unknown(keys, &["name", "driverClass", "client", "producer", "consumer"]);
    let empty = Keys::new();
    let table = |key: &str| match keys.get(key) {
        Some(Value::Table(table)) => table,
        _ => &empty,
    };
    let (client, producer, consumer) = (table("client"), table("producer"), table("consumer"));
    refusals.unknown(client, &CLIENT);
    let authentication = match client.get("authentication") {
        Some(Value::Table(table)) => text(table, "plugin").unwrap_or_default(),
        _ => "",
    };
    if !authentication.is_empty() {
        refusals.add(
            "authentication",
            "set `broker.pulsar.token` instead, as in --set broker.pulsar.token={ env = \"TOKEN\" }",
        );
    }
    if !text(client, "tlsTrustCertsFilePath").unwrap_or_default().is_empty() {
        refusals.add("tlsTrustCertsFilePath", "set `broker.security.tls.ca` instead");
    }
    let known =
        ["batchingEnabled", "batchingMaxPublishDelayMs", "batchingMaxBytes", "blockIfQueueFull", "pendingQueueSize"];
    refusals.unknown(producer, &known);
    refusals.unknown(consumer, &["subscriptionMode", "subscriptionType", "receiverQueueSize"]);
    if text(consumer, "subscriptionMode").is_some_and(|mode| mode != "Durable") {
        refusals.add("subscriptionMode", "subscriptions are durable here: remove it, or write Durable");
    }
    pulsar_connection(client, document, refusals);
    pulsar_settings([client, producer, consumer], document);
}

fn pulsar_connection(client: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    let broker = &mut document["broker"];
    broker["kind"] = value("pulsar");
    broker["pulsar"] = Item::Table(Table::new());
    let url = text(client, "serviceUrl").unwrap_or_default();
    match url.split_once("://") {
        Some(("pulsar", hosts)) => broker["addresses"] = addresses(hosts.trim_end_matches('/').split(','), 6650),
        Some(("pulsar+ssl", hosts)) => {
            broker["addresses"] = addresses(hosts.trim_end_matches('/').split(','), 6651);
            broker["security"]["tls"] = value(true);
        }
        _ => refusals.add("serviceUrl", "it is not a URL as in pulsar://localhost:6650"),
    }
    if let Some(connections) = text(client, "connectionsPerBroker").and_then(|text| text.parse::<i64>().ok()) {
        // A connection without a producer would do nothing.
        let producers = document["producers"]["count"].as_integer().unwrap_or(1);
        document["broker"]["connections"] = value(connections.clamp(1, producers));
    }
}

/// `[broker.pulsar]`.
fn pulsar_settings([client, producer, consumer]: [&Keys; 3], document: &mut DocumentMut) {
    let own = &mut document["broker"]["pulsar"];
    if let Some(admin) = text(client, "httpUrl") {
        own["admin"] = value(admin);
    }
    if text(client, "topicType") == Some("non-persistent") {
        own["persistent"] = value(false);
    }
    own["batching"] = value(text(producer, "batchingEnabled").is_none() || is_true(producer, "batchingEnabled"));
    if let Some(delay) = text(producer, "batchingMaxPublishDelayMs").filter(|_| own["batching"].as_bool() == Some(true))
    {
        own["linger"] = value(format!("{delay}ms"));
    }
    if let Some(bytes) = text(producer, "batchingMaxBytes") {
        own["batch_bytes"] = value(format!("{bytes}B"));
    }
    if let Some(kind) = text(consumer, "subscriptionType") {
        own["subscription"] = value(kind.to_lowercase().replace('_', "-"));
    }
    if let Some(queue) = text(consumer, "receiverQueueSize").and_then(|text| text.parse::<i64>().ok()) {
        own["receiver_queue"] = value(queue);
    }
}

fn nsq(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    refusals.unknown(keys, &["name", "driverClass", "nsqdHost", "lookupHost"]);
    document["broker"]["kind"] = value("nsq");
    match text(keys, "nsqdHost") {
        // Its producers connect to this nsqd, and its consumers ask nsqlookupd for the same one.
        Some(host) => document["broker"]["addresses"] = addresses([host].into_iter(), 4150),
        None => refusals.add("nsqdHost", "it is missing"),
    }
    if document["topology"]["partitions"].as_integer().is_some_and(|partitions| partitions > 1) {
        refusals.add("driverClass", "NSQ has no partitions, and the workload's topics have several");
    }
}
