use proptest::prelude::*;
use prost::Message;

use super::*;

/// The service's messages, for another implementation of protobuf to read.
#[derive(Message)]
struct LogGroup {
    #[prost(message, repeated, tag = "1")]
    logs: Vec<Log>,
    #[prost(bytes, tag = "3")]
    topic: Vec<u8>,
    #[prost(bytes, tag = "4")]
    source: Vec<u8>,
    #[prost(message, repeated, tag = "6")]
    tags: Vec<Pair>,
}

#[derive(Message)]
struct Log {
    #[prost(uint32, tag = "1")]
    time: u32,
    #[prost(message, repeated, tag = "2")]
    contents: Vec<Pair>,
    #[prost(fixed32, optional, tag = "4")]
    time_ns: Option<u32>,
}

#[derive(Message)]
struct Pair {
    #[prost(bytes, tag = "1")]
    key: Vec<u8>,
    #[prost(bytes, tag = "2")]
    value: Vec<u8>,
}

proptest! {
    #[test]
    fn another_implementation_reads_what_was_written(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..5),
        topic in "[a-z]{0,200}", source in "[a-z]{0,9}", time: u32, trace_header in any::<Option<[u8; 32]>>(),
    ) {
        let mut body = Vec::new();
        let mut record = Record::default();
        for payload in &payloads {
            record.read(payload);
            let raw = write_log(&mut body, &record, payload, trace_header.as_ref(), time);
            let own = if trace_header.is_some() { TRACE_HEADER_NAME.len() + 64 } else { 0 };
            prop_assert_eq!(raw, 4 + "content".len() + payload.len() + own);
        }
        close_group(&mut body, topic.as_bytes(), source.as_bytes(), [(&b"k"[..], &b"v"[..])].into_iter());
        let group = LogGroup::decode(&body[..]).unwrap();
        prop_assert_eq!(group.logs.len(), payloads.len());
        for (log, payload) in group.logs.iter().zip(&payloads) {
            prop_assert_eq!((log.time, log.time_ns), (time, None));
            prop_assert_eq!(&log.contents[0].key, b"content");
            prop_assert_eq!(&log.contents[0].value, payload);
            prop_assert_eq!(log.contents.len(), 1 + usize::from(trace_header.is_some()));
        }
        prop_assert_eq!((&group.topic[..], &group.source[..]), (topic.as_bytes(), source.as_bytes()));
        prop_assert_eq!(&group.tags[0].value, b"v");
    }
}

#[test]
fn a_record_of_fields_is_counted_as_the_service_does() {
    let payload = br#"{"__topic__":"topic-1","__source__":"source-1","key":"value","k":"v"}"#;
    let mut record = Record::default();
    record.read(payload);
    let mut body = Vec::new();
    assert_eq!(write_log(&mut body, &record, payload, None, 1), 4 + 3 + 5 + 1 + 1);
    let group = LogGroup::decode(&body[..]).unwrap();
    assert_eq!(group.logs[0].contents[1].value, b"v");
}

proptest! {
    #[test]
    fn nothing_a_server_sends_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = groups(&bytes, |group| logs(&group, |_| {}));
    }
}

#[test]
fn a_length_that_is_claimed_is_not_believed() {
    let endless = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert_eq!(groups(&endless, |_| Ok(())), Err(Malformed("a field longer than its message")));
}
