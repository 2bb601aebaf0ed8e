//! RabbitMQ's stream protocol, version 1, as its reference describes it (`deps/rabbitmq_stream/docs/PROTOCOL.adoc` of the
//! server), and its errors by class. All numbers are big-endian; a frame is its size, a key, a version, and the content that the key defines.
//!
//! - [`command`], [`publish`]: what a client writes.
//! - [`amqp`]: values of AMQP 1.0, of which messages consist.
//! - [`frame`]: frames of the server, decoded in place, and what follows the code of a response.
//! - [`chunk`]: the messages in a delivery; the compression of sub-entries, as other clients read and write them.

pub mod amqp;
pub mod chunk;
pub mod command;
pub mod frame;
pub mod publish;

pub use self::frame::Reader;

use std::fmt;

use crate::broker::{BrokerError, FailureClass};
use crate::net::connect;

/// The bytes are not the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0}")]
    Foreign(&'static str),
    #[error("a frame of {size} bytes is larger than the maximum of {most}")]
    TooLarge { size: usize, most: usize },
    #[error("a {what} ends too early")]
    Short { what: &'static str },
    #[error("a {what} is malformed")]
    Senseless { what: &'static str },
}

/// The version of all commands but `Publish` with filters.
pub const VERSION: u16 = 1;

/// The version of `Publish` frames whose messages have values to filter by (RabbitMQ 3.13).
pub const FILTERED: u16 = 2;

/// Keys of commands. A response has that of its request with [`key::RESPONSE`] set.
pub mod key {
    pub const DECLARE_PUBLISHER: u16 = 0x01;
    pub const PUBLISH: u16 = 0x02;
    pub const PUBLISH_CONFIRM: u16 = 0x03;
    pub const PUBLISH_ERROR: u16 = 0x04;
    pub const QUERY_PUBLISHER_SEQUENCE: u16 = 0x05;
    pub const SUBSCRIBE: u16 = 0x07;
    pub const DELIVER: u16 = 0x08;
    pub const CREDIT: u16 = 0x09;
    pub const STORE_OFFSET: u16 = 0x0a;
    pub const QUERY_OFFSET: u16 = 0x0b;
    pub const UNSUBSCRIBE: u16 = 0x0c;
    pub const CREATE: u16 = 0x0d;
    pub const DELETE: u16 = 0x0e;
    pub const METADATA: u16 = 0x0f;
    pub const METADATA_UPDATE: u16 = 0x10;
    pub const PEER_PROPERTIES: u16 = 0x11;
    pub const SASL_HANDSHAKE: u16 = 0x12;
    pub const SASL_AUTHENTICATE: u16 = 0x13;
    pub const TUNE: u16 = 0x14;
    pub const OPEN: u16 = 0x15;
    pub const CLOSE: u16 = 0x16;
    pub const HEARTBEAT: u16 = 0x17;
    pub const PARTITIONS: u16 = 0x19;
    pub const CONSUMER_UPDATE: u16 = 0x1a;
    pub const EXCHANGE_COMMAND_VERSIONS: u16 = 0x1b;
    pub const STREAM_STATS: u16 = 0x1c;
    pub const CREATE_SUPER_STREAM: u16 = 0x1d;
    pub const DELETE_SUPER_STREAM: u16 = 0x1e;

    pub const RESPONSE: u16 = 0x8000;
    pub const CREDIT_RESPONSE: u16 = RESPONSE | CREDIT;
    pub const METADATA_RESPONSE: u16 = RESPONSE | METADATA;
    pub const TUNE_RESPONSE: u16 = RESPONSE | TUNE;
}

/// Codes of responses and errors.
pub mod code {
    pub const OK: u16 = 0x01;
    pub const STREAM_DOES_NOT_EXIST: u16 = 0x02;
    pub const STREAM_ALREADY_EXISTS: u16 = 0x05;
    pub const STREAM_NOT_AVAILABLE: u16 = 0x06;
    pub const AUTHENTICATION_FAILURE: u16 = 0x08;
    pub const AUTHENTICATION_FAILURE_LOOPBACK: u16 = 0x0b;
    pub const VIRTUAL_HOST_ACCESS_FAILURE: u16 = 0x0c;
    pub const FRAME_TOO_LARGE: u16 = 0x0e;
    pub const ACCESS_REFUSED: u16 = 0x10;
    pub const PRECONDITION_FAILED: u16 = 0x11;
    pub const PUBLISHER_DOES_NOT_EXIST: u16 = 0x12;
    pub const NO_OFFSET: u16 = 0x13;

    /// In the words of the protocol's reference.
    pub fn name(code: u16) -> String {
        let name = match code {
            OK => "OK",
            STREAM_DOES_NOT_EXIST => "stream does not exist",
            0x03 => "subscription id already exists",
            0x04 => "subscription id does not exist",
            STREAM_ALREADY_EXISTS => "stream already exists",
            STREAM_NOT_AVAILABLE => "stream not available",
            0x07 => "SASL mechanism not supported",
            AUTHENTICATION_FAILURE => "authentication failure",
            0x09 => "SASL error",
            0x0a => "SASL challenge",
            AUTHENTICATION_FAILURE_LOOPBACK => {
                "authentication failure: this user may connect from the server's own host only"
            }
            VIRTUAL_HOST_ACCESS_FAILURE => "virtual host access failure",
            0x0d => "unknown frame",
            FRAME_TOO_LARGE => "frame too large",
            0x0f => "internal error",
            ACCESS_REFUSED => "access refused",
            PRECONDITION_FAILED => "precondition failed",
            PUBLISHER_DOES_NOT_EXIST => "publisher does not exist",
            NO_OFFSET => "no offset",
            _ => return format!("code {code}"),
        };
        name.to_owned()
    }
}

/// Why there is no connection, or no response.
pub type ConnectError = connect::ConnectError<Refusal>;

/// A request that the server refused.
#[derive(Debug)]
pub struct Refusal {
    pub what: &'static str,
    /// One of the protocol's codes.
    pub code: u16,
}

/// What a declaration of a publisher is called.
pub const PUBLISHER: &str = "the publisher";

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, code::name(self.code))?;
        // `rabbit_stream_reader.erl`: as while an alarm is set, or where the name is too long.
        match (self.what, self.code) {
            (PUBLISHER, code::PRECONDITION_FAILED) => formatter.write_str(
                ", as while an alarm of memory or disk is set on the node: `rabbitmq-diagnostics alarms` lists them",
            ),
            _ => Ok(()),
        }
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
