//! Clients of the crate `rdkafka`: how each is made of librdkafka's properties, and its errors as text and as classes.

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::broker::FailureClass;

/// The crate and its version, as `Cargo.lock` has it.
const CRATE: &str = "rdkafka 0.39.0";

/// The second name of a property, and the first one (`_RK_C_ALIAS` in `rdkafka_conf.c`; those of OIDC are in no build).
const ALIASES: [(&str, &str); 9] = [
    ("bootstrap.servers", "metadata.broker.list"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("sasl.mechanism", "sasl.mechanisms"),
    ("max.partition.fetch.bytes", "fetch.message.max.bytes"),
    ("linger.ms", "queue.buffering.max.ms"),
    ("retries", "message.send.max.retries"),
    ("compression.type", "compression.codec"),
    ("acks", "request.required.acks"),
    ("delivery.timeout.ms", "message.timeout.ms"),
];

/// Secrets are not shorter than this, in bytes.
const MIN_SECRET: usize = 4;

/// What is measured, for the record: librdkafka, the crate, and which of its clients.
pub fn library() -> String {
    format!("librdkafka {} ({CRATE}: BaseProducer, BaseConsumer)", rdkafka::util::get_rdkafka_version().1)
}

/// Makes a client with `properties`, later ones overriding earlier ones, also under another name of the same property.
///
/// # Errors
/// librdkafka's sentence on the property that it does not know or whose value it refuses.
pub fn create<'p, C, T>(properties: impl IntoIterator<Item = (&'p str, &'p str)>, context: C) -> Result<T, String>
where
    C: ClientContext,
    T: FromClientConfigAndContext<C>,
{
    config(properties).create_with_context(context).map_err(|error| match error {
        KafkaError::ClientConfig(_, reason, key, value) => format!("property '{key}': {}", without(&value, reason)),
        KafkaError::ClientCreation(reason) => reason,
        KafkaError::Nul(_) => "a property contains a NUL byte".to_owned(),
        other => other.to_string(),
    })
}

/// rdkafka keeps properties without their order, so of two names of one property only the later one goes to it.
fn config<'p>(properties: impl IntoIterator<Item = (&'p str, &'p str)>) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (key, value) in properties {
        for (second, first) in ALIASES {
            if key == second {
                config.remove(first);
            } else if key == first {
                config.remove(second);
            }
        }
        config.set(key, value);
    }
    config
}

/// librdkafka's sentence quotes the value, which may be a secret. A short value is also part of other words.
fn without(value: &str, reason: String) -> String {
    let hidden = reason.replace(&format!("\"{value}\""), "\"…\"");
    if value.len() < MIN_SECRET { hidden } else { hidden.replace(value, "…") }
}

/// librdkafka's code of an error.
pub fn code(error: &KafkaError) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Fail)
}

/// librdkafka's text for a code. rdkafka writes its own name of the code around it: "MessageTimedOut (Local: Message timed out)".
pub fn describe(code: Code) -> String {
    let text = code.to_string();
    let description = text.strip_prefix(&format!("{code:?} (")).and_then(|rest| rest.strip_suffix(')'));
    description.unwrap_or(&text).to_owned()
}

/// librdkafka's text for an error, without rdkafka's words for the call that failed.
pub fn reason(error: &KafkaError) -> String {
    match error {
        KafkaError::AdminOp(code) => describe(*code),
        KafkaError::Subscription(reason) => reason.clone(),
        KafkaError::Transaction(error) => error.string(),
        _ => error.rdkafka_error_code().map_or_else(|| error.to_string(), describe),
    }
}

/// An error of a connection without what librdkafka appends for its own developers (`rd_kafka_broker_set_error` in
/// `rdkafka_broker.c`): " (after 3ms in state CONNECT, 1 identical error(s) suppressed)".
pub fn without_circumstances(reason: &str) -> String {
    let appended = reason.rfind(" (after ").filter(|begin| {
        let appended = &reason[*begin..];
        appended.contains("ms in state ") && appended.ends_with(')')
    });
    appended.map_or(reason, |begin| &reason[..begin]).to_owned()
}

/// The class of a message's error. Which codes exist: librdkafka's `rdkafka.h`, `rd_kafka_resp_err_t`.
pub fn failure_class(code: Code) -> FailureClass {
    match code {
        Code::MessageTimedOut | Code::OperationTimedOut | Code::TimedOutQueue | Code::RequestTimedOut => {
            FailureClass::Timeout
        }
        Code::QueueFull => FailureClass::QueueFull,
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => FailureClass::TooLarge,
        Code::Authentication
        | Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::SaslAuthenticationFailed => FailureClass::Authorisation,
        Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition | Code::UnknownTopicId => {
            FailureClass::UnknownTopic
        }
        Code::BrokerTransportFailure | Code::Resolve | Code::AllBrokersDown | Code::NetworkException => {
            FailureClass::ConnectionLost
        }
        Code::Fenced | Code::FencedInstanceId | Code::InvalidProducerEpoch | Code::ProducerFenced => {
            FailureClass::Fenced
        }
        code if code as i32 > 0 => FailureClass::Refused,
        _ => FailureClass::Other,
    }
}

/// Whether the broker that answered does not know of a topic, or of a partition's leader: so it is on a cluster of several
/// nodes for a moment after the topic was created.
pub fn is_unknown_topic(code: Code) -> bool {
    failure_class(code) == FailureClass::UnknownTopic
        || matches!(code, Code::LeaderNotAvailable | Code::NotLeaderForPartition)
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka/client.rs"]
mod tests;
