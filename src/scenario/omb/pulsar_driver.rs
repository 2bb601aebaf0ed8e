//! A driver's file for Pulsar.

use toml_edit::{DocumentMut, InlineTable, Item, Table, value};

use super::{Keys, Untranslated, Value, addresses, is_true, number_if_set, text};

pub(super) const KEYS: [&str; 5] = ["name", "driverClass", "client", "producer", "consumer"];

/// Keys of Pulsar's client.
pub(super) const CLIENT: [&str; 12] = [
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

pub(super) const PRODUCER: [&str; 5] =
    ["batchingEnabled", "batchingMaxPublishDelayMs", "batchingMaxBytes", "blockIfQueueFull", "pendingQueueSize"];

pub(super) const CONSUMER: [&str; 3] = ["subscriptionMode", "subscriptionType", "receiverQueueSize"];

const CLIENT_LEFT_OUT: [(&str, &str); 4] = [
    ("clusterName", "namespaces are not created here, so no cluster is named for one"),
    ("ioThreads", "a run has `run.threads`, for all of its clients"),
    ("namespacePrefix", "topics lie in `broker.pulsar.namespace`, which must exist"),
    ("persistence", "the namespace's own persistence and deduplication hold: set them with Pulsar's own tools"),
];

const PRODUCER_LEFT_OUT: [(&str, &str); 2] = [
    ("blockIfQueueFull", "producers wait when their window, `producers.in_flight`, is full"),
    ("pendingQueueSize", "the window of a producer is `producers.in_flight`"),
];

pub(super) fn convert(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &KEYS);
    let empty = Keys::new();
    let table = |key: &str| match keys.get(key) {
        Some(Value::Table(table)) => table,
        _ => &empty,
    };
    let (client, producer, consumer) = (table("client"), table("producer"), table("consumer"));
    untranslated.refuse_unknown(client, &CLIENT);
    let authentication = match client.get("authentication") {
        Some(Value::Table(table)) => text(table, "plugin").unwrap_or_default(),
        _ => "",
    };
    if !authentication.is_empty() {
        untranslated.refuse(
            "authentication",
            "set `broker.pulsar.token` instead, as in --set broker.pulsar.token={ env = \"TOKEN\" }",
        );
    }
    if !text(client, "tlsTrustCertsFilePath").unwrap_or_default().is_empty() {
        untranslated.refuse("tlsTrustCertsFilePath", "set `broker.security.tls.ca` instead");
    }
    untranslated.refuse_unknown(producer, &PRODUCER);
    untranslated.refuse_unknown(consumer, &CONSUMER);
    if text(consumer, "subscriptionMode").is_some_and(|mode| mode != "Durable") {
        untranslated.refuse("subscriptionMode", "subscriptions are durable here: remove it, or write Durable");
    }
    untranslated.leave_out_each(client, &CLIENT_LEFT_OUT);
    untranslated.leave_out_each(producer, &PRODUCER_LEFT_OUT);
    connection(client, document, untranslated);
    settings([client, producer, consumer], document, untranslated);
}

fn connection(client: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let broker = &mut document["broker"];
    broker["kind"] = value("pulsar");
    broker["pulsar"] = Item::Table(Table::new());
    let url = text(client, "serviceUrl").unwrap_or_default();
    match url.split_once("://") {
        Some(("pulsar", hosts)) => {
            broker["addresses"] = addresses(hosts.trim_end_matches('/').split(','), 6650);
            let reason = "the connection has no TLS";
            untranslated.leave_out_each(client, &[("tlsEnableHostnameVerification", reason)]);
        }
        Some(("pulsar+ssl", hosts)) => {
            broker["addresses"] = addresses(hosts.trim_end_matches('/').split(','), 6651);
            let mut tls = InlineTable::new();
            if !is_true(client, "tlsEnableHostnameVerification", true, untranslated) {
                tls.insert("verify_host", false.into());
            }
            broker["security"]["tls"] = value(tls);
        }
        _ => untranslated.refuse("serviceUrl", "it is not a URL as in pulsar://localhost:6650"),
    }
    if is_true(client, "tlsAllowInsecureConnection", false, untranslated) {
        untranslated.refuse(
            "tlsAllowInsecureConnection",
            "certificates are always verified here: write false, and set `broker.security.tls.ca`",
        );
    }
    if let Some(connections) = number_if_set(client, "connectionsPerBroker", untranslated) {
        // A connection without a producer would do nothing.
        let producers = document["producers"]["count"].as_integer().unwrap_or(1).max(1);
        let connections = connections as i64;
        let taken = connections.clamp(1, producers);
        if taken != connections {
            let reason = format!("{taken}, not {connections}: each connection has a producer at least");
            untranslated.leave_out("connectionsPerBroker", &reason);
        }
        document["broker"]["connections"] = value(taken);
    }
}

/// `[broker.pulsar]`.
fn settings([client, producer, consumer]: [&Keys; 3], document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let own = &mut document["broker"]["pulsar"];
    if let Some(admin) = text(client, "httpUrl") {
        own["admin"] = value(admin);
    }
    match text(client, "topicType") {
        None | Some("persistent") => {}
        Some("non_persistent" | "non-persistent") => own["persistent"] = value(false),
        Some(_) => untranslated.refuse("topicType", "write persistent or non_persistent"),
    }
    let batching = is_true(producer, "batchingEnabled", true, untranslated);
    own["batching"] = value(batching);
    if let Some(delay) = number_if_set(producer, "batchingMaxPublishDelayMs", untranslated).filter(|_| batching) {
        own["linger"] = value(format!("{delay}ms"));
    }
    if let Some(bytes) = number_if_set(producer, "batchingMaxBytes", untranslated).filter(|_| batching) {
        own["batch_bytes"] = value(format!("{bytes}B"));
    }
    if let Some(kind) = text(consumer, "subscriptionType") {
        own["subscription"] = value(kind.to_lowercase().replace('_', "-"));
    }
    if let Some(queue) = number_if_set(consumer, "receiverQueueSize", untranslated) {
        own["receiver_queue"] = value(queue as i64);
    }
}
