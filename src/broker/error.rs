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

/// Why a broker could not be used at all. The engine adds which kind of broker it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    #[error("{address} cannot be reached: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("{address} refused the credentials: {reason}")]
    Authorisation { address: String, reason: String },
    #[error("this configuration is not accepted: {0}")]
    Configuration(String),
    #[error(
        "topic '{topic}' exists with {found}, but the scenario asks for {wanted}: change `topology`, or name another topic"
    )]
    TopicMismatch { topic: String, found: String, wanted: String },
    #[error("topic '{topic}' cannot be {action}: {reason}")]
    Topic { topic: String, action: &'static str, reason: String },
    #[error("{0}")]
    Client(String),
}
