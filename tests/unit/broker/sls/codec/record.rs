use proptest::prelude::*;

use super::*;

fn again(payload: &[u8]) -> (bool, Vec<u8>) {
    let mut record = Record::default();
    record.read(payload);
    let (topic, source) = record.topic_and_source(payload);
    let mut fields = Vec::new();
    record.each(payload, |key, value| fields.push((key, value)));
    let mut rebuilt = Vec::new();
    rebuild(&mut rebuilt, topic, source, fields.into_iter());
    (record.whole, rebuilt)
}

#[test]
fn a_flat_object_of_strings_becomes_fields() {
    let payload = br#"{"__topic__":"t","__source__":"s","a":"1","b":"","content":"x"}"#;
    let mut record = Record::default();
    record.read(payload);
    assert_eq!(record.topic_and_source(payload), (&b"t"[..], &b"s"[..]));
    let mut fields = Vec::new();
    record.each(payload, |key, value| fields.push((key, value)));
    assert_eq!(fields, [(&b"a"[..], &b"1"[..]), (b"b", b""), (b"content", b"x")]);
    assert_eq!(again(payload), (false, payload.to_vec()));
}

#[test]
fn anything_else_stays_whole() {
    for payload in [
        "",
        "{}",
        "{\"\"}",
        "text",
        "[\"a\"]",
        r#"{"a":1}"#,
        r#"{"a": "1"}"#,
        r#"{"a":"\""}"#,
        r#"{"a":"1"} "#,
        r#"{"a":"1","__topic__":"t"}"#,
        r#"{"__topic__":"","a":"1"}"#,
        r#"{"__source__":"s","__topic__":"t","a":"1"}"#,
        r#"{"__topic__":"t"}"#,
        r#"{"content":"1"}"#,
        r#"{"a":"1",}"#,
        r#"{"a":"1"}{"b":"2"}"#,
        r#"{"brokermark":"1"}"#,
    ] {
        assert_eq!(again(payload.as_bytes()), (true, payload.as_bytes().to_vec()), "{payload}");
    }
}

proptest! {
    #[test]
    fn whatever_it_is_it_comes_back(payload in "(\\{?(\"[a-c_:,]{0,3}\":?,?){0,4}\\}?)|(\\{\"__topic__\":\"t\",\"a\":\"b\"\\})|.{0,20}") {
        prop_assert_eq!(again(payload.as_bytes()).1, payload.as_bytes());
    }

    #[test]
    fn objects_come_back(fields in proptest::collection::vec(("[a-z_]{0,9}", "[^\"\\\\]{0,9}"), 1..6)) {
        let fields: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
        let payload = format!("{{{}}}", fields.join(","));
        prop_assert_eq!(again(payload.as_bytes()).1, payload.as_bytes());
    }
}
