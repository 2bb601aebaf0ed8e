//! The protocol's codes in the words that all brokers share.

use super::codec::code;
use crate::broker::FailureClass;

/// The class of what a message, a publisher or a subscription was refused with.
pub fn class_of(refusal: u16) -> FailureClass {
    match refusal {
        // A stream whose leader is gone, or that was deleted a moment ago, has lost its publishers first.
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
