//! Clients of the crate `rdkafka`: how each is made of librdkafka's properties, its errors as text and as classes, and the token of SASL
//! OAUTHBEARER, which librdkafka asks for at first, and again before it expires.

use std::error::Error;
use std::ffi::{CString, c_char};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use rdkafka::bindings::rd_kafka_oauthbearer_set_token;
use rdkafka::client::{ClientContext, DefaultClientContext, OAuthToken};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use serde::Deserialize;

use crate::broker::FailureClass;
use crate::scenario::Secret;

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
    format!(
        "librdkafka {} ({CRATE}: BaseProducer with rd_kafka_produce_batch, BaseConsumer)",
        rdkafka::util::get_rdkafka_version().1
    )
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

/// After so long, a token that does not say when it expires is read again.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(3600);

/// A token as it is now: a file or variable may hold another one later.
pub struct Token {
    pub value: String,
    /// When it expires, in milliseconds since 1970. librdkafka asks for another one when four fifths of the time are over.
    pub expires_unix_ms: i64,
    /// Whom it names.
    pub principal: String,
}

/// What a JSON Web Token says of itself (RFC 7519, section 4.1).
#[derive(Debug, Default, Deserialize)]
struct Claims {
    sub: Option<String>,
    /// Seconds since 1970.
    exp: Option<f64>,
}

impl Token {
    /// Reads the token from where the scenario keeps it.
    ///
    /// # Errors
    /// A sentence that does not contain it.
    pub fn read(secret: &Secret) -> Result<Self, String> {
        let value = secret.reveal()?;
        if value.is_empty() || value.contains(char::is_whitespace) || value.contains('\0') {
            return Err("the token of `broker.security.sasl` is empty or contains a space".to_owned());
        }
        let Claims { sub, exp } = claims(&value).unwrap_or_default();
        let otherwise = SystemTime::now() + UNKNOWN_LIFETIME;
        let otherwise = otherwise.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        Ok(Token {
            value,
            expires_unix_ms: exp.map_or(otherwise, |seconds| (seconds * 1e3) as i64),
            principal: sub.unwrap_or_else(|| "brokermark".to_owned()),
        })
    }
}

/// The answer to rdkafka, which asks for a token whenever librdkafka needs one.
///
/// # Errors
/// When the scenario has no token, or it cannot be read. librdkafka asks again later.
pub fn oauth_token(secret: Option<&Secret>) -> Result<OAuthToken, Box<dyn Error>> {
    let Token { value, principal, expires_unix_ms } = Token::read(secret.ok_or("the scenario has no token")?)?;
    Ok(OAuthToken { token: value, principal_name: principal, lifetime_ms: expires_unix_ms })
}

/// Gives rdkafka's administrator a token, before its requests: rdkafka 0.39 does not poll the queue in which librdkafka asks for it, and
/// has no other way to set it. Without a valid token the requests fail, and say so.
pub fn set_admin_token(admin: &AdminClient<DefaultClientContext>, secret: &Secret) {
    let Ok(token) = Token::read(secret) else { return };
    let (Ok(value), Ok(principal)) = (CString::new(token.value), CString::new(token.principal)) else { return };
    let mut reason = [0 as c_char; 512];
    // SAFETY: the administrator's client is valid as long as the administrator is. The strings are terminated, there are no
    // extensions, and the buffer is as long as it says. librdkafka keeps none of the pointers.
    unsafe {
        rd_kafka_oauthbearer_set_token(
            admin.inner().native_ptr(),
            value.as_ptr(),
            token.expires_unix_ms,
            principal.as_ptr(),
            std::ptr::null_mut(),
            0,
            reason.as_mut_ptr(),
            reason.len(),
        );
    }
}

/// `None`: it is not a JSON Web Token.
fn claims(token: &str) -> Option<Claims> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka/client.rs"]
mod tests;
