//! Why a broker could not be used, a message was not taken, or receiving failed.

use crate::measure::FailureClass;

/// A message the client would not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SubmitError {
    pub class: FailureClass,
    pub message: String,
}

/// Receiving failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReceiveError {
    pub class: FailureClass,
    pub message: String,
}

/// Why a broker could not be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    #[error("{broker} at {address} cannot be reached: {reason}")]
    Unreachable { broker: &'static str, address: String, reason: String },
    #[error("{broker} at {address} refused the credentials: {reason}")]
    Authorisation { broker: &'static str, address: String, reason: String },
    #[error("{broker} does not accept this configuration: {reason}")]
    Configuration { broker: &'static str, reason: String },
    #[error(
        "topic '{topic}' exists with {found}, but the scenario asks for {wanted}: change `topology`, or name another topic"
    )]
    TopicMismatch { topic: String, found: String, wanted: String },
    #[error("topic '{topic}' cannot be {action}: {reason}")]
    Topic { topic: String, action: &'static str, reason: String },
    #[error("{broker}: {reason}")]
    Client { broker: &'static str, reason: String },
}
