//! What librdkafka does not tell of nodes: brokermark asks them itself.

#[cfg(feature = "kafka-native")]
use std::time::Duration;

use rdkafka::producer::Producer as _;

use super::METADATA_TRY;
use super::producer::Connection;
#[cfg(feature = "kafka-native")]
use crate::broker::kafka_native;
use crate::broker::{BrokerError, Created};
use crate::net::{address, tcp};
use crate::scenario::BrokerConfig;

/// How long nodes may take to answer brokermark's own client: one that expects TLS by `broker.properties` may say nothing.
#[cfg(feature = "kafka-native")]
const ANSWER: Duration = Duration::from_secs(3);

/// How the names of properties begin that say how clients log in.
#[cfg(feature = "kafka-native")]
const OF_LOGINS: [&str; 3] = ["security.", "ssl.", "sasl."];

/// The nodes that only the cluster names, and that cannot be connected to, as the end of a sentence.
pub async fn unreachable_nodes(connection: &Connection, config: &BrokerConfig) -> String {
    let client = connection.producer.client();
    let metadata = tokio::task::block_in_place(|| client.fetch_metadata(None, METADATA_TRY));
    let nodes = metadata.iter().flat_map(|metadata| metadata.brokers());
    let mut told = String::new();
    for address in nodes.map(|node| address::joined(node.host(), node.port())).collect::<Vec<_>>() {
        if config.addresses.contains(&address) {
            continue;
        }
        if let Ok(Err(error)) = tokio::time::timeout(METADATA_TRY, tcp::reach(&address)).await {
            told += &format!(
                "; {address}: {error} (the broker's metadata names this address, by its `advertised.listeners`)"
            );
        }
    }
    told
}

/// Whether no answer came, as from a node that cannot be connected to.
pub fn is_late(created: &Result<Created, BrokerError>) -> bool {
    matches!(created, Err(BrokerError::Topic { reason, .. }) if reason.contains("Timed out"))
}

pub fn with_nodes(error: BrokerError, named: &str) -> BrokerError {
    match error {
        BrokerError::Topic { topic, action, reason } => BrokerError::Topic { topic, action, reason: reason + named },
        other => other,
    }
}

/// librdkafka does not tell what nodes say of their release. brokermark's own client asks them, where the build has it.
#[cfg(feature = "kafka-native")]
pub async fn release(config: &BrokerConfig) -> Option<String> {
    kafka_native::release(&config.addresses, &config.security, ANSWER).await
}

#[cfg(not(feature = "kafka-native"))]
pub async fn release(_: &BrokerConfig) -> Option<String> {
    None
}

/// librdkafka does not tell what a port speaks, or that it wants a login. brokermark's own client does, where the build has it.
#[cfg(feature = "kafka-native")]
pub async fn explained(error: BrokerError, config: &BrokerConfig) -> BrokerError {
    let is_of_login = |(key, _): &(String, String)| OF_LOGINS.iter().any(|begin| key.starts_with(begin));
    if config.is_embedded() || config.properties.iter().any(is_of_login) {
        return error;
    }
    let found = kafka_native::refusal(&config.addresses, &config.security, ANSWER).await;
    match (found, error) {
        // librdkafka says of a token what is wrong with it.
        (Some(BrokerError::Authorisation { .. }), error @ BrokerError::Authorisation { .. }) => error,
        (Some(found @ (BrokerError::Unreachable { .. } | BrokerError::Authorisation { .. })), _) => found,
        (_, error) => error,
    }
}

#[cfg(not(feature = "kafka-native"))]
pub async fn explained(error: BrokerError, _: &BrokerConfig) -> BrokerError {
    error
}
