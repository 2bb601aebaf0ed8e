//! Errors of requests, and what the error codes of Kafka's responses mean.

use std::io;
use std::time::Duration;

use kafka_protocol::error::ResponseError;
use kafka_protocol::protocol::StrBytes;

use super::codec::Malformed;
use crate::broker::{BrokerError, FailureClass};
use crate::measure::ConditionKind;
use crate::printable::printable;

/// `UNKNOWN_TOPIC_OR_PARTITION` and `LEADER_NOT_AVAILABLE`.
pub const UNKNOWN_TOPIC: i16 = 3;
pub const NO_LEADER: i16 = 5;

/// `UNSUPPORTED_VERSION`.
pub const UNSUPPORTED_VERSION: i16 = 35;

/// `NOT_CONTROLLER`, `UNKNOWN_TOPIC_ID` and `THROTTLING_QUOTA_EXCEEDED`.
pub const NOT_CONTROLLER: i16 = 41;
pub const UNKNOWN_TOPIC_ID: i16 = 100;
pub const QUOTA_EXCEEDED: i16 = 89;

/// Codes by which a group's coordinator refuses a member (`Errors.java` of Apache Kafka).
pub const ILLEGAL_GENERATION: i16 = 22;
pub const UNKNOWN_MEMBER_ID: i16 = 25;
pub const REBALANCE_IN_PROGRESS: i16 = 27;
pub const GROUP_ID_NOT_FOUND: i16 = 69;
pub const FENCED_INSTANCE_ID: i16 = 82;
pub const FENCED_MEMBER_EPOCH: i16 = 110;
pub const UNRELEASED_INSTANCE_ID: i16 = 111;
pub const UNSUPPORTED_ASSIGNOR: i16 = 112;
pub const STALE_MEMBER_EPOCH: i16 = 113;

/// Why a request has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    #[error("{0}")]
    Lost(String),
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error("malformed response: {0}")]
    Malformed(String),
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Authorisation(String),
    #[error("{}", describe(*.0, .1.as_deref()))]
    Refused(i16, Option<String>),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        CallError::Lost(error.to_string())
    }
}

impl From<Malformed> for CallError {
    fn from(error: Malformed) -> Self {
        CallError::Malformed(error.0.to_owned())
    }
}

impl CallError {
    /// Refuses a response whose error code is not 0.
    ///
    /// # Errors
    /// With the code.
    pub fn check(code: i16) -> Result<(), CallError> {
        CallError::check_told(code, None)
    }

    /// As [`CallError::check`], of a response with a message beside the code.
    ///
    /// # Errors
    /// With the code and the message.
    pub fn check_told(code: i16, message: Option<&StrBytes>) -> Result<(), CallError> {
        if code == 0 { Ok(()) } else { Err(CallError::Refused(code, message.map(|message| message.to_string()))) }
    }

    /// The class of failures that it is the reason of.
    pub fn class(&self) -> FailureClass {
        match self {
            CallError::Refused(code, _) => failure_class(*code),
            CallError::Timeout(_) => FailureClass::Timeout,
            CallError::Authorisation(_) => FailureClass::Authorisation,
            CallError::Lost(_) | CallError::Malformed(_) | CallError::Unsupported(_) => FailureClass::ConnectionLost,
        }
    }

    /// The condition that it shows; `None`: it is about one request only.
    pub fn condition(&self) -> Option<ConditionKind> {
        match self {
            CallError::Refused(code, _) => condition(*code),
            CallError::Lost(_) | CallError::Timeout(_) => Some(ConditionKind::Connecting),
            CallError::Authorisation(_) => Some(ConditionKind::Authentication),
            CallError::Malformed(_) | CallError::Unsupported(_) => None,
        }
    }

    /// With the address of the node that could not be connected to: the cluster may have named it, and not the scenario.
    pub fn at(self, address: &str) -> Self {
        match self {
            CallError::Lost(reason) => CallError::Lost(format!("{address}: {reason}")),
            CallError::Timeout(limit) => CallError::Lost(format!("{address}: no connection within {limit:?}")),
            other => other,
        }
    }

    /// The same of an address that only the cluster names: nothing in the scenario does, so it cannot be corrected there.
    pub fn named_by_broker(self) -> Self {
        match self {
            CallError::Lost(reason) => CallError::Lost(format!(
                "{reason} (the broker's metadata names this address, by its `advertised.listeners`)"
            )),
            other => other,
        }
    }

    /// The error beside its address, which it may begin with already.
    pub fn beside(&self, address: &str) -> String {
        let text = self.to_string();
        text.strip_prefix(address).and_then(|rest| rest.strip_prefix(": ")).map_or(text.clone(), str::to_owned)
    }

    /// As an error of the broker at `address`.
    pub fn into_broker_error(self, address: &str) -> BrokerError {
        let reason = self.beside(address);
        let address = address.to_owned();
        match self {
            CallError::Authorisation(reason) => BrokerError::Authorisation { address, reason },
            CallError::Unsupported(reason) => BrokerError::Client(reason),
            _ => BrokerError::Unreachable { address, reason },
        }
    }
}

/// What an error code is called, with what the broker says beside it.
pub fn describe(code: i16, message: Option<&str>) -> String {
    let name = match ResponseError::try_from_code(code) {
        Some(error) => format!("{error:?}"),
        None => "no error".to_owned(),
    };
    match message {
        Some(message) => format!("{name} (error {code}): {}", printable(message)),
        None => format!("{name} (error {code})"),
    }
}

/// Whether the same request may succeed later.
pub fn is_retriable(code: i16) -> bool {
    ResponseError::try_from_code(code).is_some_and(|error| error.is_retriable())
}

/// Whether the partition may have another leader now.
pub fn is_stale_metadata(code: i16) -> bool {
    use ResponseError::{
        FencedLeaderEpoch, KafkaStorageError, LeaderNotAvailable, NotLeaderOrFollower, ReplicaNotAvailable,
        UnknownLeaderEpoch, UnknownTopicOrPartition,
    };
    ResponseError::try_from_code(code).is_some_and(|error| {
        matches!(
            error,
            FencedLeaderEpoch
                | KafkaStorageError
                | LeaderNotAvailable
                | NotLeaderOrFollower
                | ReplicaNotAvailable
                | UnknownLeaderEpoch
                | UnknownTopicOrPartition
        )
    })
}

/// The condition that an error code shows; `None`: it is about one request only.
pub fn condition(code: i16) -> Option<ConditionKind> {
    use ResponseError::{
        ClusterAuthorizationFailed, FencedInstanceId, GroupAuthorizationFailed, InvalidProducerEpoch,
        NotEnoughReplicas, NotEnoughReplicasAfterAppend, ProducerFenced, RebalanceInProgress, SaslAuthenticationFailed,
        ThrottlingQuotaExceeded, TopicAuthorizationFailed, TransactionalIdAuthorizationFailed, UnknownTopicId,
        UnknownTopicOrPartition,
    };
    let error = ResponseError::try_from_code(code)?;
    Some(match error {
        NotEnoughReplicas | NotEnoughReplicasAfterAppend => ConditionKind::NotEnoughReplicas,
        UnknownTopicOrPartition | UnknownTopicId => ConditionKind::TopicGone,
        TopicAuthorizationFailed
        | ClusterAuthorizationFailed
        | GroupAuthorizationFailed
        | TransactionalIdAuthorizationFailed => ConditionKind::Denied,
        ThrottlingQuotaExceeded => ConditionKind::Throttled,
        RebalanceInProgress => ConditionKind::Rebalancing,
        ProducerFenced | InvalidProducerEpoch | FencedInstanceId => ConditionKind::Fenced,
        SaslAuthenticationFailed => ConditionKind::Authentication,
        _ if is_stale_metadata(code) => ConditionKind::WaitingForLeader,
        _ if error.is_retriable() => ConditionKind::Refused,
        _ => return None,
    })
}

/// The class of a message's failure.
pub fn failure_class(code: i16) -> FailureClass {
    use ResponseError::{
        ClusterAuthorizationFailed, FencedInstanceId, GroupAuthorizationFailed, InvalidProducerEpoch,
        InvalidTopicException, MessageTooLarge, ProducerFenced, RecordListTooLarge, RequestTimedOut,
        SaslAuthenticationFailed, TopicAuthorizationFailed, TransactionalIdAuthorizationFailed,
        UnknownTopicOrPartition,
    };
    match ResponseError::try_from_code(code) {
        Some(RequestTimedOut) => FailureClass::Timeout,
        Some(MessageTooLarge | RecordListTooLarge) => FailureClass::TooLarge,
        Some(
            TopicAuthorizationFailed
            | TransactionalIdAuthorizationFailed
            | ClusterAuthorizationFailed
            | GroupAuthorizationFailed
            | SaslAuthenticationFailed,
        ) => FailureClass::Authorisation,
        Some(UnknownTopicOrPartition | InvalidTopicException) => FailureClass::UnknownTopic,
        Some(InvalidProducerEpoch | ProducerFenced | FencedInstanceId) => FailureClass::Fenced,
        _ => FailureClass::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_connecting_names_the_node_once() {
        let error = || CallError::Lost("refused".to_owned()).at("inner:9092");
        let told = |address: &str| error().into_broker_error(address).to_string();
        assert_eq!(told("inner:9092"), "inner:9092 cannot be reached: refused");
        assert_eq!(told("given:1"), "given:1 cannot be reached: inner:9092: refused");
        let named = error().named_by_broker().into_broker_error("inner:9092").to_string();
        assert!(named.starts_with("inner:9092 cannot be reached: refused (the broker's metadata names"), "{named}");
    }

    #[test]
    fn escapes_of_a_broker_do_not_get_into_its_errors() {
        let text = describe(36, Some("\u{1b}]0;pwned\u{7} exists"));
        assert_eq!(text, "TopicAlreadyExists (error 36): \u{fffd}]0;pwned\u{fffd} exists");
    }
}
