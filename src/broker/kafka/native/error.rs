//! librdkafka's error codes as text and as the classes that are common to all brokers.

use std::ffi::{CStr, c_char};

use rdkafka::bindings::{rd_kafka_err2str, rd_kafka_resp_err_t};

use crate::broker::FailureClass;

/// librdkafka's text for an error code.
pub fn name_of(code: rd_kafka_resp_err_t) -> String {
    // SAFETY: takes any code and returns a static, terminated string.
    unsafe { CStr::from_ptr(rd_kafka_err2str(code)) }.to_string_lossy().into_owned()
}

/// The text that librdkafka has written into a buffer.
pub(super) fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An error of a connection without what librdkafka appends for its own developers (`rd_kafka_broker_set_error` in
/// `rdkafka_broker.c`): " (after 3ms in state CONNECT, 1 identical error(s) suppressed)".
pub fn without_circumstances(reason: &str) -> String {
    let appended = reason.rfind(" (after ").filter(|begin| {
        let appended = &reason[*begin..];
        appended.contains("ms in state ") && appended.ends_with(')')
    });
    appended.map_or(reason, |begin| &reason[..begin]).to_owned()
}

/// The class of a message's error. Which codes exist: librdkafka's `rdkafka.h`, `rd_kafka_resp_err_t`.
pub fn class_of(code: rd_kafka_resp_err_t) -> FailureClass {
    use rd_kafka_resp_err_t::*;
    match code {
        RD_KAFKA_RESP_ERR__MSG_TIMED_OUT
        | RD_KAFKA_RESP_ERR__TIMED_OUT
        | RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE
        | RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT => FailureClass::Timeout,
        RD_KAFKA_RESP_ERR__QUEUE_FULL => FailureClass::QueueFull,
        RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE
        | RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE
        | RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE => FailureClass::TooLarge,
        RD_KAFKA_RESP_ERR__AUTHENTICATION
        | RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
        | RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED
        | RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED
        | RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        | RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED => FailureClass::Authorisation,
        RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC
        | RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION
        | RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
        | RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID => FailureClass::UnknownTopic,
        RD_KAFKA_RESP_ERR__TRANSPORT
        | RD_KAFKA_RESP_ERR__RESOLVE
        | RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN
        | RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION => FailureClass::ConnectionLost,
        RD_KAFKA_RESP_ERR__FENCED
        | RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID
        | RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH
        | RD_KAFKA_RESP_ERR_PRODUCER_FENCED => FailureClass::Fenced,
        code if code as i32 > 0 => FailureClass::Refused,
        _ => FailureClass::Other,
    }
}

/// Whether the broker that answered does not know of a topic, or of a partition's leader: so it is on a cluster of several
/// nodes for a moment after the topic was created.
pub fn is_unknown_topic(code: rd_kafka_resp_err_t) -> bool {
    use rd_kafka_resp_err_t::*;
    matches!(
        code,
        RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC
            | RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION
            | RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
            | RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID
            | RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE
            | RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rd_kafka_resp_err_t::*;

    #[test]
    fn an_error_of_a_connection_is_told_without_librdkafka_s_own_circumstances() {
        let reason = "10.0.0.1:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused";
        for appended in [
            " (after 0ms in state CONNECT, 1 identical error(s) suppressed)",
            " (after 12ms in state APIVERSION_QUERY)",
            "",
        ] {
            assert_eq!(without_circumstances(&format!("{reason}{appended}")), reason);
        }
        assert_eq!(without_circumstances("x (after all)"), "x (after all)");
    }

    #[test]
    fn codes_have_words_and_classes() {
        assert!(name_of(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT).contains("timed out"));
        assert_eq!(class_of(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT), FailureClass::Timeout);
        assert_eq!(class_of(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE), FailureClass::TooLarge);
        assert_eq!(class_of(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS), FailureClass::Refused);
        assert_eq!(class_of(RD_KAFKA_RESP_ERR__FATAL), FailureClass::Other);
    }
}
