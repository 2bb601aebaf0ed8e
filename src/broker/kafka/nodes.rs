//! What librdkafka does not tell of nodes: brokermark asks them itself.

#[cfg(feature = "kafka-native")]
use std::time::Duration;

use crate::broker::BrokerError;
#[cfg(feature = "kafka-native")]
use crate::broker::kafka_native;
use crate::scenario::BrokerConfig;

/// How long nodes may take to answer brokermark's own client: one that expects TLS by `broker.properties` may say nothing.
#[cfg(feature = "kafka-native")]
const ANSWER: Duration = Duration::from_secs(3);

/// How the names of properties begin that say how clients log in.
#[cfg(feature = "kafka-native")]
const OF_LOGINS: [&str; 3] = ["security.", "ssl.", "sasl."];

/// The results, with what brokermark's own client finds where no answer came, as from a node that cannot be connected to.
pub async fn late_explained<T>(
    results: Vec<Result<T, BrokerError>>,
    config: &BrokerConfig,
) -> Vec<Result<T, BrokerError>> {
    let is_late = |result: &Result<T, BrokerError>| match result {
        Err(BrokerError::Topic { reason, .. } | BrokerError::Client(reason)) => reason.contains("Timed out"),
        _ => false,
    };
    if !results.iter().any(is_late) {
        return results;
    }
    let found = refusal(config).await;
    let told = |result| if is_late(&result) { result.map_err(|error| found.clone().unwrap_or(error)) } else { result };
    results.into_iter().map(told).collect()
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

/// librdkafka does not tell what a port speaks, that it wants a login, or who named a node that it cannot connect to. brokermark's own client does,
/// where the build has it.
#[cfg(feature = "kafka-native")]
pub async fn refusal(config: &BrokerConfig) -> Option<BrokerError> {
    let is_of_login = |(key, _): &(String, String)| OF_LOGINS.iter().any(|begin| key.starts_with(begin));
    if config.is_embedded() || config.properties.iter().any(is_of_login) {
        return None;
    }
    kafka_native::refusal(&config.addresses, &config.security, ANSWER).await
}

#[cfg(not(feature = "kafka-native"))]
pub async fn refusal(_: &BrokerConfig) -> Option<BrokerError> {
    None
}

/// The error of a cluster that does not answer librdkafka.
pub async fn explained(error: BrokerError, config: &BrokerConfig) -> BrokerError {
    match (refusal(config).await, error) {
        // librdkafka says of a token what is wrong with it.
        (Some(BrokerError::Authorisation { .. }), error @ BrokerError::Authorisation { .. })
            if config.security.bearer.is_some() =>
        {
            error
        }
        (Some(found @ (BrokerError::Unreachable { .. } | BrokerError::Authorisation { .. })), _) => found,
        // OpenSSL's words for the alert with which Java refuses the name that librdkafka indicates (`SNIHostName.java`).
        (_, BrokerError::Unreachable { address, reason })
            if address.contains('_') && reason.contains("illegal parameter") =>
        {
            let advice = "servers in Java take no host with `_` from this client: write `client = \"native\"`, or name the host otherwise";
            BrokerError::Unreachable { address, reason: format!("{reason}: {advice}") }
        }
        (_, error) => error,
    }
}
