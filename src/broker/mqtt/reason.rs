//! Why a server refuses: reason codes in words, and as failures.

use super::codec::{Properties, property};
use super::config::Version;
use crate::broker::{ClientError, FailureClass};
use crate::printable::printable;

/// Codes from this one on are failures.
pub const FAILURE: u8 = 0x80;

/// What the code means (MQTT 5, table 2-6).
fn words(code: u8) -> &'static str {
    match code {
        0x00 => "normal disconnection",
        0x04 => "disconnect with will message",
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x83 => "implementation specific error",
        0x84 => "unsupported protocol version",
        0x85 => "client identifier not valid",
        0x86 => "bad user name or password",
        0x87 => "not authorized",
        0x88 => "server unavailable",
        0x89 => "server busy",
        0x8a => "banned",
        0x8b => "server shutting down",
        0x8c => "bad authentication method",
        0x8d => "keep alive timeout",
        0x8e => "session taken over",
        0x8f => "topic filter invalid",
        0x90 => "topic name invalid",
        0x91 => "packet identifier in use",
        0x92 => "packet identifier not found",
        0x93 => "receive maximum exceeded",
        0x94 => "topic alias invalid",
        0x95 => "packet too large",
        0x96 => "message rate too high",
        0x97 => "quota exceeded",
        0x98 => "administrative action",
        0x99 => "payload format invalid",
        0x9a => "retain not supported",
        0x9b => "QoS not supported",
        0x9c => "use another server",
        0x9d => "server moved",
        0x9e => "shared subscriptions not supported",
        0x9f => "connection rate exceeded",
        0xa0 => "maximum connect time",
        0xa1 => "subscription identifiers not supported",
        0xa2 => "wildcard subscriptions not supported",
        _ => "unknown reason",
    }
}

/// The code and the server's own words.
pub fn told(code: u8, properties: Properties<'_>) -> String {
    let own = properties.bytes(property::REASON).map(String::from_utf8_lossy);
    let own: String = own.map(|own| printable(&own).chars().take(500).collect()).unwrap_or_default();
    let separator = if own.is_empty() { "" } else { ": " };
    format!("{} (0x{code:02x}){separator}{own}", words(code))
}

/// The refusal of a message or of a subscription.
pub fn refusal(code: u8, properties: Properties<'_>) -> ClientError {
    let class = match code {
        0x86 | 0x87 | 0x8a | 0x8c => FailureClass::Authorisation,
        0x88 | 0x89 | 0x8b => FailureClass::Unavailable,
        0x8e => FailureClass::Fenced,
        0x95 => FailureClass::TooLarge,
        0x97 => FailureClass::Full,
        _ => FailureClass::Refused,
    };
    ClientError::passing(class, told(code, properties))
}

/// The refusal of a connection. Version 3.1.1 numbers them from 1 (its table 3.1).
pub fn connection_refusal(code: u8, properties: Properties<'_>, version: Version) -> ClientError {
    let code = match code {
        1 => 0x84,
        2 => 0x85,
        3 => 0x88,
        4 => 0x86,
        5 => 0x87,
        code => code,
    };
    let refusal = refusal(code, properties);
    let lasting = refusal.class == FailureClass::Authorisation;
    let advice = match (code, version) {
        (0x84, Version::V5) => ": set `broker.mqtt.version` to \"3.1.1\"",
        _ => "",
    };
    ClientError { message: format!("{}{advice}", refusal.message), lasting, ..refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_classes() {
        let reason = Properties(b"\x1f\0\x04full");
        let full = refusal(0x97, reason);
        assert_eq!((full.class, &*full.message), (FailureClass::Full, "quota exceeded (0x97): full"));
        for (code, class) in [
            (0x87, FailureClass::Authorisation),
            (0x89, FailureClass::Unavailable),
            (0x95, FailureClass::TooLarge),
            (0x90, FailureClass::Refused),
        ] {
            assert_eq!(refusal(code, Properties::default()).class, class, "{code:#x}");
        }
    }

    #[test]
    fn connections_are_refused_alike_by_both_versions() {
        for (code, version) in [(4, Version::V311), (0x86, Version::V5)] {
            let refused = connection_refusal(code, Properties::default(), version);
            assert_eq!((refused.class, refused.lasting), (FailureClass::Authorisation, true));
            assert_eq!(refused.message, "bad user name or password (0x86)");
        }
        let old = connection_refusal(1, Properties::default(), Version::V5);
        assert!(old.message.contains("broker.mqtt.version"), "{old}");
    }
}
