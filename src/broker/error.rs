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

impl ReceiveError {
    /// The first of these errors, as one with all others of its class: a consumer pauses after each error that it reports.
    pub fn take_joined(errors: &mut Vec<ReceiveError>) -> Option<ReceiveError> {
        let class = errors.first()?.class;
        let (of_class, others): (Vec<_>, Vec<_>) =
            std::mem::take(errors).into_iter().partition(|error| error.class == class);
        *errors = others;
        let count = of_class.len();
        let mut messages: Vec<String> = of_class.into_iter().map(|error| error.message).collect();
        messages.dedup();
        let joined = messages.join("; ");
        Some(ReceiveError { class, message: if count == 1 { joined } else { format!("{count} errors: {joined}") } })
    }
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

/// Why something failed at a client, and whether trying again may help. Clients turn their own errors into it, and it becomes each of the
/// above.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    pub class: FailureClass,
    pub message: String,
    /// Another attempt cannot succeed: the topic is gone, the credentials are wrong, another producer has taken over.
    pub lasting: bool,
}

impl ClientError {
    /// A failure that may pass.
    pub fn passing(class: FailureClass, message: impl Into<String>) -> Self {
        ClientError { class, message: message.into(), lasting: false }
    }

    /// A failure that every later attempt would meet.
    pub fn lasting(class: FailureClass, message: impl Into<String>) -> Self {
        ClientError { class, message: message.into(), lasting: true }
    }

    /// The connection could not be made, or broke.
    pub fn lost(message: impl Into<String>) -> Self {
        Self::passing(FailureClass::ConnectionLost, message)
    }

    /// The broker did not respond in time.
    pub fn late(message: impl Into<String>) -> Self {
        Self::passing(FailureClass::Timeout, message)
    }

    /// As a reason why `address` cannot be used.
    pub fn at(self, address: &str) -> BrokerError {
        let address = address.to_owned();
        match self.class {
            FailureClass::Authorisation => BrokerError::Authorisation { address, reason: self.message },
            _ => BrokerError::Unreachable { address, reason: self.message },
        }
    }

    /// As a reason why `topic` cannot be used.
    pub fn for_topic(self, topic: &str, action: &'static str) -> BrokerError {
        BrokerError::Topic { topic: topic.to_owned(), action, reason: self.message }
    }

    pub fn submitting(&self) -> SubmitError {
        SubmitError { class: self.class, message: self.message.clone() }
    }

    pub fn receiving(&self) -> ReceiveError {
        ReceiveError { class: self.class, message: self.message.clone() }
    }
}
