//! nsqd's errors, and the failure classes they belong to.

use std::fmt;

use super::codec::Malformed;
use crate::broker::{BrokerError, FailureClass};
use crate::measure::ConditionKind;
use crate::net::connect;
use crate::printable::printable;

/// Why there is no connection to nsqd.
pub type ConnectError = connect::ConnectError<Refusal>;

/// A command that nsqd refused.
#[derive(Debug)]
pub struct Refusal {
    pub class: FailureClass,
    pub message: String,
}

impl Refusal {
    /// Reads the data of an error frame.
    pub fn new(error: &[u8]) -> Self {
        Refusal { class: class_of(error), message: text(error) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

impl ConnectError {
    /// The condition that it shows.
    pub fn condition(&self) -> ConditionKind {
        match self {
            ConnectError::Refused(Refusal { class, .. }) => ConditionKind::from_failure(*class),
            ConnectError::Incompatible(_) => ConditionKind::Refused,
            ConnectError::Io(_) | ConnectError::Timeout(_) | ConnectError::Malformed(_) => ConditionKind::Connecting,
        }
    }

    /// The error of a trial that cannot run without this connection.
    pub fn into_broker_error(self, address: &str) -> BrokerError {
        let (address, reason) = (address.to_owned(), self.to_string());
        match self {
            ConnectError::Refused(Refusal { class: FailureClass::Authorisation, .. }) => {
                BrokerError::Authorisation { address, reason }
            }
            ConnectError::Incompatible(_) => BrokerError::Configuration(format!("{address}: {reason}")),
            ConnectError::Refused(_) => BrokerError::Client(format!("{address}: {reason}")),
            ConnectError::Io(_) | ConnectError::Timeout(_) | ConnectError::Malformed(_) => {
                BrokerError::Unreachable { address, reason }
            }
        }
    }
}

/// nsqd's words, shortened.
pub fn text(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).chars().take(500).collect()
}

/// The class of an error frame's data: `E_BAD_TOPIC PUB topic name "!" is not valid`.
pub fn class_of(error: &[u8]) -> FailureClass {
    let (code, detail) = match error.iter().position(|byte| *byte == b' ') {
        Some(blank) => error.split_at(blank),
        None => (error, &[][..]),
    };
    match code {
        b"E_BAD_TOPIC" | b"E_BAD_CHANNEL" => FailureClass::UnknownTopic,
        b"E_BAD_MESSAGE" | b"E_BAD_BODY" if contains(detail, b"too big") => FailureClass::TooLarge,
        b"E_AUTH_DISABLED" | b"E_AUTH_FAILED" | b"E_AUTH_ERROR" | b"E_AUTH_FIRST" | b"E_UNAUTHORIZED" => {
            FailureClass::Authorisation
        }
        _ => FailureClass::Refused,
    }
}

/// Whether an error is about one delivered message, so that the connection continues. The message timed out; nsqd delivers
/// it again, and that delivery is counted.
pub fn is_about_a_delivery(error: &[u8]) -> bool {
    [&b"E_FIN_FAILED"[..], b"E_REQ_FAILED", b"E_TOUCH_FAILED"].iter().any(|code| error.starts_with(code))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_classes() {
        for (error, class) in [
            ("E_BAD_TOPIC PUB topic name \"!\" is not valid", FailureClass::UnknownTopic),
            ("E_BAD_MESSAGE MPUB message too big 2000 > 1000", FailureClass::TooLarge),
            ("E_BAD_BODY MPUB body too big 2000 > 1000", FailureClass::TooLarge),
            ("E_BAD_MESSAGE PUB invalid message body size 0", FailureClass::Refused),
            ("E_UNAUTHORIZED AUTH failed for PUB on \"a\" \"\"", FailureClass::Authorisation),
            ("E_INVALID", FailureClass::Refused),
        ] {
            assert_eq!(class_of(error.as_bytes()), class, "{error}");
        }
        assert!(is_about_a_delivery(b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"));
    }
}
