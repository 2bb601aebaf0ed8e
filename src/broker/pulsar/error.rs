//! What goes wrong on the wire, in classes that mean the same for every broker.

use super::codec::proto::ServerError;
use crate::broker::{BrokerError, FailureClass, ReceiveError, SubmitError};
use crate::measure::ConditionKind;
use crate::printable::printable;

/// Why something failed, and whether trying again may help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    pub class: FailureClass,
    pub message: String,
    /// Another attempt cannot succeed: the topic is gone, the credentials are wrong, another producer has taken over.
    pub lasting: bool,
}

impl RequestError {
    /// The connection could not be made, or broke.
    pub fn lost(message: impl Into<String>) -> Self {
        RequestError { class: FailureClass::ConnectionLost, message: message.into(), lasting: false }
    }

    /// The broker did not respond in time.
    pub fn late(message: impl Into<String>) -> Self {
        RequestError { class: FailureClass::Timeout, message: message.into(), lasting: false }
    }

    /// The broker refused with `number`, one of [`ServerError`], and a description.
    pub fn refused(number: i32, words: &str) -> Self {
        use ServerError::{
            AuthenticationError, AuthorizationError, IncompatibleSchema, InvalidTopicName, NotAllowedError,
            ProducerBusy, ProducerFenced, TopicNotFound, TopicTerminatedError, UnsupportedVersionError,
        };
        let error = ServerError::try_from(number).ok();
        let class = match error {
            Some(AuthenticationError | AuthorizationError) => FailureClass::Authorisation,
            Some(TopicNotFound | InvalidTopicName) => FailureClass::UnknownTopic,
            Some(ProducerBusy | ProducerFenced) => FailureClass::Fenced,
            _ => FailureClass::Refused,
        };
        let lasting = matches!(
            error,
            Some(
                AuthenticationError
                    | AuthorizationError
                    | TopicNotFound
                    | InvalidTopicName
                    | ProducerFenced
                    | TopicTerminatedError
                    | NotAllowedError
                    | IncompatibleSchema
                    | UnsupportedVersionError
            )
        );
        let name = error.map_or_else(|| format!("error {number}"), |error| format!("{error:?}"));
        // The description may be the stack trace of an exception; its first line is the message.
        let words = printable(words.lines().next().unwrap_or_default());
        RequestError { class, message: format!("{name}: {words}"), lasting }
    }

    /// The condition that it shows.
    pub fn condition(&self) -> ConditionKind {
        // Named after `ServerError`: of the policies `producer_request_hold` and `producer_exception`.
        let is_quota = self.message.starts_with("ProducerBlockedQuotaExceeded");
        if is_quota { ConditionKind::BacklogQuota } else { ConditionKind::from_failure(self.class) }
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
    pub fn of_topic(self, topic: &str, action: &'static str) -> BrokerError {
        BrokerError::Topic { topic: topic.to_owned(), action, reason: self.message }
    }

    pub fn submitting(&self) -> SubmitError {
        SubmitError { class: self.class, message: self.message.clone() }
    }

    pub fn receiving(&self) -> ReceiveError {
        ReceiveError { class: self.class, message: self.message.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_classes_and_keep_the_first_line() {
        let fenced = RequestError::refused(25, "Producer fenced\n\tat java.lang.Thread");
        assert_eq!((fenced.class, fenced.lasting), (FailureClass::Fenced, true));
        assert_eq!(fenced.message, "ProducerFenced: Producer fenced");
        assert_eq!(RequestError::refused(15, "").class, FailureClass::Refused);
        assert!(!RequestError::refused(6, "not ready").lasting);
        assert_eq!(RequestError::refused(99, "news").message, "error 99: news");
    }
}
