use rdkafka::producer::{BaseProducer, DefaultProducerContext};

use super::*;

fn refusal(key: &str, value: &str) -> String {
    create::<_, BaseProducer>([(key, value)], DefaultProducerContext).err().unwrap()
}

#[test]
fn unknown_property_is_named_and_bad_value_is_hidden() {
    let unknown = refusal("linger.mss", "5");
    assert!(unknown.contains("linger.mss"), "{unknown}");
    let bad = refusal("linger.ms", "hunter2");
    assert!(bad.contains("linger.ms") && !bad.contains("hunter2"), "{bad}");
    for short in ["", "e"] {
        let bad = refusal("linger.ms", short);
        assert!(bad.contains("configuration property \"queue.buffering.max.ms\""), "{bad}");
    }
}

#[test]
fn later_property_wins_under_either_name() {
    for (second, first) in ALIASES {
        // Each of them takes one of these values.
        let values = ["all", "zstd", "5", "PLAIN"];
        let accepted = |value: &&&str| config([(second, **value)]).create_native_config().is_ok();
        let value = values.iter().find(accepted).unwrap_or_else(|| panic!("{second}"));
        let native = config([(second, *value)]).create_native_config().unwrap();
        assert_eq!(native.get(first), native.get(second), "two names of one property");
        for (earlier, later) in [(first, second), (second, first)] {
            let config = config([(earlier, "x"), (later, *value)]);
            assert_eq!((config.get(earlier), config.get(later)), (None, Some(*value)));
        }
    }
}

#[test]
fn the_record_names_the_crate_that_is_linked() {
    let lock = include_str!("../../../../Cargo.lock");
    let (name, version) = CRATE.split_once(' ').unwrap();
    assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "correct CRATE");
    assert!(library().starts_with("librdkafka "), "{}", library());
}

#[test]
fn connection_error_is_told_without_librdkafkas_circumstances() {
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
fn codes_have_librdkafkas_words_and_a_class() {
    assert_eq!(describe(Code::MessageTimedOut), "Local: Message timed out");
    assert_eq!(failure_class(Code::MessageTimedOut), FailureClass::Timeout);
    assert_eq!(failure_class(Code::MessageSizeTooLarge), FailureClass::TooLarge);
    assert_eq!(failure_class(Code::NotEnoughReplicas), FailureClass::Refused);
    assert_eq!(failure_class(Code::Fatal), FailureClass::Other);
}

fn read(text: &str) -> Result<Token, String> {
    Token::read(&Secret::Inline(text.to_owned()))
}

#[test]
fn a_web_token_says_whom_it_names_and_when_it_expires() {
    let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"load","exp":1767225600.5,"scope":["a"]}"#);
    let token = read(&format!("eyJhbGciOiJub25lIn0.{claims}.")).unwrap();
    assert_eq!((token.principal.as_str(), token.expires_unix_ms), ("load", 1_767_225_600_500));
}

#[test]
fn other_token_is_taken_and_no_error_repeats_it() {
    let token = read("opaque").unwrap();
    assert_eq!((token.value.as_str(), token.principal.as_str()), ("opaque", "brokermark"));
    let error = read("hunter 2").err().unwrap();
    assert!(error.contains("broker.security.sasl") && !error.contains("hunter"), "{error}");
}
