use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection};
use amq_protocol::types::{AMQPValue, FieldTable};
use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 17;

/// What a server sends to a publisher, written by hand as the specification has it.
const CAPTURED: &[u8] = b"\x01\0\0\0\0\0\x37\0\x0a\0\x0a\0\x09\0\0\0\x12\x07versionS\0\0\0\x054.0.5\
    \0\0\0\x0eAMQPLAIN PLAIN\0\0\0\x05en_US\xce\
    \x01\0\0\0\0\0\x0c\0\x0a\0\x1e\x07\xff\0\x02\0\0\0\x3c\xce\
    \x01\0\0\0\0\0\x05\0\x0a\0\x29\0\xce\
    \x01\0\x01\0\0\0\x08\0\x14\0\x0b\0\0\0\0\xce\
    \x08\0\0\0\0\0\0\xce\
    \x01\0\x01\0\0\0\x12\0\x3c\0\x32\x01\x38\x08NO_ROUTE\0\x01a\xce\
    \x02\0\x01\0\0\0\x0f\0\x3c\0\0\0\0\0\0\0\0\0\x05\x10\0\x02\xce\
    \x03\0\x01\0\0\0\x05hello\xce\
    \x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x07\x01\xce\
    \x01\0\x01\0\0\0\x0d\0\x3c\0\x78\0\0\0\0\0\0\0\x09\0\xce\
    \x01\0\0\0\0\0\x12\0\x0a\0\x3c\x0dlow on memory\xce\
    \x01\0\0\0\0\0\x04\0\x0a\0\x3d\xce";

fn all(mut bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    while let Some((frame, length)) = decode(bytes, MOST).unwrap() {
        frames.push(frame);
        bytes = &bytes[length..];
    }
    assert_eq!(bytes, b"");
    frames
}

/// What another implementation reads.
fn read_by_another(mut bytes: &[u8]) -> Vec<AMQPFrame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (rest, frame) = parse_frame(bytes).unwrap();
        frames.push(frame);
        bytes = rest;
    }
    frames
}

#[test]
fn decode_captured_bytes_frames() {
    let expected = [
        Frame::Method(0, Method::Start { properties: b"\x07versionS\0\0\0\x054.0.5", mechanisms: b"AMQPLAIN PLAIN" }),
        Frame::Method(0, Method::Tune { channel_max: 2047, frame_max: 131_072, heartbeat_secs: 60 }),
        Frame::Method(0, Method::OpenOk),
        Frame::Method(1, Method::Other),
        Frame::Heartbeat,
        Frame::Method(1, Method::Return { text: b"NO_ROUTE" }),
        Frame::Header(1, 5, b"\x10\0\x02"),
        Frame::Body(1, b"hello"),
        Frame::Method(1, Method::Ack { delivery_tag: 7, multiple: true }),
        Frame::Method(1, Method::Nack { delivery_tag: 9, multiple: false }),
        Frame::Method(0, Method::Blocked(b"low on memory")),
        Frame::Method(0, Method::Unblocked),
    ];
    assert_eq!(all(CAPTURED), expected);
    assert_eq!(read_by_another(CAPTURED).len(), expected.len());
}

#[test]
fn decode_other_protocols_refused() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 400 Bad Request"[..], "HTTP"),
        (&[0x15, 3, 3, 0, 2, 2, 80], "broker.security.tls"),
        (b"AMQP\x03\x01\0\0", "another version"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not AMQP"),
        (b"\x01\0\0\xff\xff\xff\xff", "at most"),
        (b"\x08\0\0\0\0\0\0\x00", "ends with the byte"),
        (b"\x01\0\0\0\0\0\x05\0\x0a\0\x3c\x09\xce", "too early"),
    ] {
        let error = decode(bytes, MOST).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn handshake_read_by_another_implementation() {
    let mut out = Vec::new();
    append_start_ok(&mut out, "run-producer", "PLAIN", b"\0me\0secret").unwrap();
    append_tune_ok(&mut out, 100, 4096, 7);
    append_open(&mut out, "/here").unwrap();
    append_channel_open(&mut out, 3, true);
    append_channel_close_ok(&mut out, 3);
    append_close(&mut out);
    out.extend_from_slice(HEARTBEAT);
    let frames = read_by_another(&out);
    let AMQPFrame::Method(0, AMQPClass::Connection(connection::AMQPMethod::StartOk(start))) = &frames[0] else {
        panic!("{:?}", frames[0]);
    };
    assert_eq!((start.mechanism.as_str(), start.response.as_bytes()), ("PLAIN", &b"\0me\0secret"[..]));
    let properties = start.client_properties.inner();
    assert_eq!(properties["connection_name"], AMQPValue::LongString("run-producer".into()));
    let AMQPValue::FieldTable(capabilities) = &properties["capabilities"] else { panic!("{properties:?}") };
    assert_eq!(capabilities.inner()["connection.blocked"], AMQPValue::Boolean(true));
    let connection = |method| AMQPFrame::Method(0, AMQPClass::Connection(method));
    let tune = connection::TuneOk { channel_max: 100, frame_max: 4096, heartbeat: 7 };
    let close = connection::Close { reply_code: 200, reply_text: "".into(), class_id: 0, method_id: 0 };
    let expected = [
        connection(connection::AMQPMethod::TuneOk(tune)),
        connection(connection::AMQPMethod::Open(connection::Open { virtual_host: "/here".into() })),
        AMQPFrame::Method(3, AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))),
        AMQPFrame::Method(3, AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select { nowait: true }))),
        AMQPFrame::Method(3, AMQPClass::Channel(channel::AMQPMethod::CloseOk(channel::CloseOk {}))),
        connection(connection::AMQPMethod::Close(close)),
        AMQPFrame::Heartbeat,
    ];
    assert_eq!(frames[1..], expected);
}

#[test]
fn message_read_by_another_implementation() {
    let trace = [7; TRACE_HEADER_BYTES];
    let headers = [("kind".to_owned(), "order".to_owned())];
    let properties = MessageProperties { persistent: true, priority: Some(5) };
    let entries = table_entries(&headers).unwrap();
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
    let [.., Frame::Header(2, 5000, returned), _, _] = all(&out)[..] else { panic!() };
    assert_eq!(trace_header(returned), Some(trace));
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
fn text_beyond_255_bytes_refused() {
    let long = "x".repeat(256);
    assert!(table_entries(&[(long.clone(), String::new())]).is_err());
    assert!(append_open(&mut Vec::new(), &long).is_err());
    assert!(table_entries(&[("name".to_owned(), long)]).is_ok());
}

proptest! {
    #[test]
    fn decode_any_bytes_no_panic(kind in 0_u8..10, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, MOST);
        // As a whole frame, its content is read.
        let mut frame = Vec::new();
        append_frame(&mut frame, kind, 1, &bytes);
        let _ = decode(&frame, MOST);
        for method in [[0, 60, 0, 80], [0, 60, 0, 50], [0, 10, 0, 10], [0, 10, 0, 30], [0, 20, 0, 40]] {
            frame.clear();
            append_frame(&mut frame, FRAME_METHOD, 1, &[&method, &bytes[..]].concat());
            let _ = decode(&frame, MOST);
        }
        let _ = trace_header(&[TRACE_ENTRY, &bytes].concat());
    }

    #[test]
    fn decode_part_of_frames_waits(cut in 0_usize..CAPTURED.len()) {
        // Nothing of a frame is read before it is there, and nothing is refused.
        let mut rest = &CAPTURED[..cut];
        while let Some((_, length)) = decode(rest, MOST).unwrap() {
            rest = &rest[length..];
        }
        prop_assert!(rest.len() < 100);
    }
}
