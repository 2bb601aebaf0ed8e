use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection};
use amq_protocol::types::{AMQPValue, FieldTable};
use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 17;

/// What a server sends, written by hand as the specification has it.
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
    \x01\0\0\0\0\0\x04\0\x0a\0\x3d\xce\
    \x01\0\x01\0\0\0\x24\0\x3c\0\x15\x1famq.ctag-5X1mJYLu0jBWmLXiEwMXWQ\xce\
    \x01\0\x01\0\0\0\x13\0\x3c\0\x3c\x02ct\0\0\0\0\0\0\0\x03\x01\0\x01q\xce\
    \x01\0\x01\0\0\0\x13\0\x32\0\x0b\x06orders\0\0\0\x09\0\0\0\x02\xce\
    \x01\0\x01\0\0\0\x04\0\x32\0\x15\xce\
    \x01\0\x01\0\0\0\x08\0\x32\0\x29\0\0\0\x09\xce\
    \x01\0\x01\0\0\0\x04\0\x28\0\x0b\xce";

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
pub(in crate::broker::rabbitmq) fn read_by_another(mut bytes: &[u8]) -> Vec<AMQPFrame> {
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
        Frame::Method(1, Method::ConsumeOk),
        Frame::Method(1, Method::Deliver { delivery_tag: 3, redelivered: true }),
        Frame::Method(1, Method::Done { messages: 9 }),
        Frame::Method(1, Method::Done { messages: 0 }),
        Frame::Method(1, Method::Done { messages: 0 }),
        Frame::Method(1, Method::Done { messages: 0 }),
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
fn consuming_read_by_another_implementation() {
    let mut out = Vec::new();
    append_consume(&mut out, 1, "orders", 300, true).unwrap();
    append_acknowledgement(&mut out, 1, 7, true);
    append_requeue(&mut out, 1, 9);
    let qos = basic::Qos { prefetch_count: 300, global: false };
    let consume = basic::Consume {
        queue: "orders".into(),
        consumer_tag: "".into(),
        no_local: false,
        no_ack: true,
        exclusive: false,
        nowait: false,
        arguments: FieldTable::default(),
    };
    let methods = [
        basic::AMQPMethod::Qos(qos),
        basic::AMQPMethod::Consume(consume),
        basic::AMQPMethod::Ack(basic::Ack { delivery_tag: 7, multiple: true }),
        basic::AMQPMethod::Reject(basic::Reject { delivery_tag: 9, requeue: true }),
    ];
    assert_eq!(read_by_another(&out), methods.map(|method| AMQPFrame::Method(1, AMQPClass::Basic(method))));
}

#[test]
fn text_beyond_255_bytes_refused() {
    let long = "x".repeat(256);
    assert!(append_entry(&mut Vec::new(), &long, Value::True).is_err());
    assert!(append_open(&mut Vec::new(), &long).is_err());
    assert!(append_entry(&mut Vec::new(), "name", Value::Text(&long)).is_ok());
}

proptest! {
    #[test]
    fn decode_any_bytes_no_panic(kind in 0_u8..10, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, MOST);
        // As a whole frame, its content is read.
        let mut frame = Vec::new();
        append_frame(&mut frame, kind, 1, &bytes);
        let _ = decode(&frame, MOST);
        for (class, method) in [(60, 80), (60, 60), (60, 50), (10, 10), (10, 30), (20, 40), (50, 11)] {
            frame.clear();
            append_method(&mut frame, 1, (class, method), &bytes);
            let _ = decode(&frame, MOST);
        }
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
