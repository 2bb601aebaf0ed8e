use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame};
use amq_protocol::protocol::{AMQPClass, basic};
use amq_protocol::types::{AMQPValue, FieldTable};
use proptest::prelude::*;

use super::*;
use crate::broker::rabbitmq::codec::tests::read_by_another;
use crate::broker::rabbitmq::codec::{Value, append_entry, decode};

const MOST: usize = 1 << 17;

#[test]
fn message_read_by_another_implementation() {
    let trace = [7; TRACE_HEADER_BYTES];
    let properties = MessageProperties { persistent: true, priority: Some(5) };
    let mut entries = Vec::new();
    append_entry(&mut entries, "kind", Value::Text("order")).unwrap();
    let preamble = Preamble::new(2, ("exchange", "key"), true, entries, properties).unwrap();
    let mut out = Vec::new();
    preamble.append_message(&mut out, None, b"hello", 4096);
    preamble.append_message(&mut out, Some(&trace), &[9; 5000], 4096);
    let frames = read_by_another(&out);
    let publish =
        basic::Publish { exchange: "exchange".into(), routing_key: "key".into(), mandatory: true, immediate: false };
    let publish = AMQPFrame::Method(2, AMQPClass::Basic(basic::AMQPMethod::Publish(publish)));
    assert_eq!([&frames[0], &frames[3]], [&publish, &publish]);
    let mut table = FieldTable::default();
    table.insert("kind".into(), AMQPValue::LongString("order".into()));
    let expected = basic::AMQPProperties::default().with_delivery_mode(2).with_priority(5);
    let AMQPFrame::Header(2, first) = &frames[1] else { panic!("{:?}", frames[1]) };
    assert_eq!((first.body_size, &first.properties), (5, &expected.clone().with_headers(table.clone())));
    assert_eq!(frames[2], AMQPFrame::Body(2, b"hello".to_vec()));
    let AMQPFrame::Header(2, second) = &frames[4] else { panic!("{:?}", frames[4]) };
    table.insert(TRACE_HEADER_NAME.into(), AMQPValue::LongString(BASE64.encode(trace).into()));
    assert_eq!((second.body_size, &second.properties), (5000, &expected.with_headers(table)));
    // What is larger than a frame is divided.
    assert_eq!(frames[5..], [AMQPFrame::Body(2, vec![9; 4088]), AMQPFrame::Body(2, vec![9; 912])]);
    let header = out.windows(TRACE_ENTRY.len()).position(|bytes| bytes == TRACE_ENTRY).unwrap();
    assert_eq!(trace_header(&out[header..]), Some(trace));
}

#[test]
fn message_without_headers_and_priority_is_small() {
    let properties = MessageProperties { persistent: false, priority: None };
    let preamble = Preamble::new(1, ("", "q"), false, Vec::new(), properties).unwrap();
    let mut out = Vec::new();
    preamble.append_message(&mut out, None, b"", 4096);
    let expected = b"\x01\0\x01\0\0\0\x0a\0\x3c\0\x28\0\0\0\x01q\0\xce\x02\0\x01\0\0\0\x0f\0\x3c\0\0\0\0\0\0\0\0\0\0\x10\0\x01\xce";
    assert_eq!(out, expected);
}

#[test]
fn details_of_every_property_read() {
    let mut headers = FieldTable::default();
    headers.insert("count".into(), AMQPValue::LongLongInt(7));
    headers.insert("kind".into(), AMQPValue::LongString("order".into()));
    headers.insert("nested".into(), AMQPValue::FieldTable(FieldTable::default()));
    headers.insert("true".into(), AMQPValue::Boolean(true));
    headers.insert(TRACE_HEADER_NAME.into(), AMQPValue::LongString("sealed".into()));
    headers.insert("zone".into(), AMQPValue::LongString("a".into()));
    let properties = basic::AMQPProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_headers(headers)
        .with_delivery_mode(2)
        .with_priority(3)
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_expiration("1000".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000);
    let content = AMQPContentHeader { class_id: 60, body_size: 5, properties };
    let header = gen_frame(&AMQPFrame::Header(1, content))(Vec::new().into()).unwrap().write;
    let Some((Frame::Header(1, 5, properties), _)) = decode(&header, MOST).unwrap() else { panic!("{header:?}") };
    let details = MessageDetails(properties);
    assert_eq!(details.timestamp_unix_ns(), Some(1_700_000_000_000_000_000));
    let expected = [("kind".to_owned(), b"order".to_vec()), ("zone".to_owned(), b"a".to_vec())];
    assert_eq!(details.headers(), expected);
    // Without any.
    let details = MessageDetails(b"\x10\0\x02");
    assert_eq!((details.timestamp_unix_ns(), details.headers()), (None, vec![]));
}

/// What a server sends of a message: its method, its header and its body in parts of these lengths.
fn delivered(
    out: &mut Vec<u8>,
    delivery_tag: u64,
    redelivered: bool,
    (properties, body): (&[u8], &[u8]),
    parts: &[usize],
) {
    let tag = delivery_tag.to_be_bytes();
    append_method(out, 1, (60, 60), &[b"\x02ct", &tag[..], &[redelivered.into()], b"\0\x01q"].concat());
    append_frame(out, FRAME_HEADER, 1, &[b"\0\x3c\0\0", &(body.len() as u64).to_be_bytes()[..], properties].concat());
    let mut rest = body;
    for part in parts {
        append_frame(out, FRAME_BODY, 1, rest.split_off(..(*part).min(rest.len())).unwrap());
    }
    if !rest.is_empty() {
        append_frame(out, FRAME_BODY, 1, rest);
    }
}

#[test]
fn body_longer_than_its_header_says_refused() {
    let mut arriving = Arriving::default();
    for (frame, whole) in [
        (Frame::Header(1, 5, b"\0\0"), false),
        (Frame::Body(1, b"hel"), false),
        (Frame::Heartbeat, false),
        (Frame::Body(1, b"lo"), true),
    ] {
        assert_eq!(arriving.take(frame).unwrap().is_some(), whole, "{frame:?}");
    }
    assert!(arriving.take(Frame::Body(1, b"!")).unwrap_err().to_string().contains("6 bytes"));
    assert!(Arriving::default().take(Frame::Body(1, b"hello")).is_err(), "without a header");
}

type Message = (bool, Vec<u8>, Vec<u8>, Vec<usize>);

fn any_message() -> impl Strategy<Value = Message> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    (any::<bool>(), bytes(20), bytes(300), prop::collection::vec(0_usize..100, 0..5))
}

proptest! {
    #[test]
    fn messages_in_any_frames_and_reads_arrive_whole(messages in prop::collection::vec(any_message(), 1..6), cut in any::<prop::sample::Index>()) {
        let mut sent = Vec::new();
        for ((redelivered, properties, body, parts), tag) in messages.iter().zip(1..) {
            delivered(&mut sent, tag, *redelivered, (properties, body), parts);
        }
        // What is read at once ends anywhere, also within a frame.
        let (mut arriving, mut begin, mut tag) = (Arriving::default(), 0, 0);
        for end in [cut.index(sent.len() + 1), sent.len()] {
            while let Some((frame, length)) = decode(&sent[begin..end], MOST).unwrap() {
                begin += length;
                if let Some(arrived) = arriving.take(frame).unwrap() {
                    let (redelivered, properties, body, _) = &messages[tag as usize];
                    tag += 1;
                    prop_assert_eq!(arrived, Arrived { delivery_tag: tag, redelivered: *redelivered, properties, body });
                }
            }
        }
        prop_assert_eq!((begin, tag), (sent.len(), messages.len() as u64));
    }

    #[test]
    fn properties_of_any_bytes_no_panic(flags in any::<[u8; 2]>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let properties = [&flags, &bytes[..]].concat();
        let details = MessageDetails(&properties);
        let _ = (details.headers(), details.timestamp_unix_ns());
        let _ = trace_header(&[TRACE_ENTRY, &bytes].concat());
    }
}
