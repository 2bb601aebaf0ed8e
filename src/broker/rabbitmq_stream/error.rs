//! The protocol's errors, and the failure classes they belong to.

use std::fmt;

use super::codec::{Malformed, code};
use crate::broker::{BrokerError, FailureClass};
use crate::net::connect;

/// Why there is no connection, or no response.
pub type ConnectError = connect::ConnectError<Refusal>;

/// A request that the server refused.
#[derive(Debug)]
pub struct Refusal {
    pub what: &'static str,
    /// One of the protocol's codes.
    pub code: u16,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, code::name(self.code))
    }
}

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

impl ConnectError {
    pub fn class(&self) -> FailureClass {
        match self {
            ConnectError::Io(_) => FailureClass::ConnectionLost,
            ConnectError::Timeout(_) => FailureClass::Timeout,
            ConnectError::Refused(refusal) => class_of(refusal.code),
            ConnectError::Malformed(_) | ConnectError::Incompatible(_) => FailureClass::Other,
        }
    }

    /// The error of a trial that cannot run without this connection.
    pub fn into_broker_error(self, address: &str) -> BrokerError {
        let (address, reason) = (address.to_owned(), self.to_string());
        match self {
            _ if self.class() == FailureClass::Authorisation => BrokerError::Authorisation { address, reason },
            ConnectError::Incompatible(_) | ConnectError::Refused(_) => {
                BrokerError::Client(format!("{address}: {reason}"))
            }
            ConnectError::Io(_) | ConnectError::Timeout(_) | ConnectError::Malformed(_) => {
                BrokerError::Unreachable { address, reason }
            }
        }
    }
}

/// Whether the server will refuse a publisher again and again: its stream is gone, or its user may not do it.
pub fn is_final(refusal: u16) -> bool {
    let is_refused = class_of(refusal) == FailureClass::Authorisation;
    // A virtual host may be down for a while.
    refusal == code::STREAM_DOES_NOT_EXIST || (is_refused && refusal != code::VIRTUAL_HOST_ACCESS_FAILURE)
}

/// The class of the code with which a message, a publisher or a subscription was refused.
pub fn class_of(refusal: u16) -> FailureClass {
    match refusal {
        // Publishers of a stream that was deleted, or whose leader is down, disappear before the stream does.
        code::STREAM_DOES_NOT_EXIST | code::STREAM_NOT_AVAILABLE | code::PUBLISHER_DOES_NOT_EXIST => {
            FailureClass::UnknownTopic
        }
        code::FRAME_TOO_LARGE => FailureClass::TooLarge,
        code::ACCESS_REFUSED
        | code::AUTHENTICATION_FAILURE
        | code::AUTHENTICATION_FAILURE_LOOPBACK
        | code::VIRTUAL_HOST_ACCESS_FAILURE => FailureClass::Authorisation,
        _ => FailureClass::Refused,
    }
}
