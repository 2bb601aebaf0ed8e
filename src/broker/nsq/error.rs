//! nsqd's error codes in the words that all brokers share.

use crate::broker::FailureClass;

/// The class of an error frame's data: `E_BAD_TOPIC PUB topic name "!" is not valid`.
pub fn class_of(error: &[u8]) -> FailureClass {
    let (code, said) = match error.iter().position(|byte| *byte == b' ') {
        Some(blank) => error.split_at(blank),
        None => (error, &[][..]),
    };
    match code {
        b"E_BAD_TOPIC" | b"E_BAD_CHANNEL" => FailureClass::UnknownTopic,
        b"E_BAD_MESSAGE" | b"E_BAD_BODY" if contains(said, b"too big") => FailureClass::TooLarge,
        b"E_AUTH_DISABLED" | b"E_AUTH_FAILED" | b"E_AUTH_ERROR" | b"E_AUTH_FIRST" | b"E_UNAUTHORIZED" => {
            FailureClass::Authorisation
        }
        _ => FailureClass::Refused,
    }
}

/// Errors about a single delivered message, after which the connection goes on. The message had timed out, so it is
/// delivered again, and counted there.
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
