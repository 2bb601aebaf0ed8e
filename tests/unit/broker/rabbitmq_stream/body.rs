use super::*;
use crate::measure::SendTag;
use proptest::prelude::*;

#[test]
fn ten_bytes_become_fifteen() {
    let outgoing = Outgoing {
        payload: b"0000001357",
        key: None,
        trace_header: None,
        attributes: None,
        send_tag: SendTag::new(0, 0, 0, 0, true),
    };
    let mut out = Vec::new();
    Writer::new(Body::Amqp, &[]).unwrap().write(&outgoing, &mut out);
    assert_eq!(out, b"\0Su\xa0\x0a0000001357");
}

#[test]
fn headers_with_a_binary_body_are_refused() {
    let headers = [("trace".to_owned(), "abc".to_owned())];
    assert!(Writer::new(Body::Binary, &headers).is_err_and(|reason| reason.contains("producers.headers")));
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What RbFly 0.10 writes: data, and data behind application properties of which one is a number.
#[test]
fn messages_of_rbfly_are_opened() {
    let plain = bytes("005375a00a30303030303031333537");
    assert_eq!(open(Body::Amqp, &plain), Opened { payload: b"0000001357", trace_header: None });
    let message = bytes("005374d10000001800000004a1057472616365a103616263a1016e7100000005005375a003616263");
    assert_eq!(open(Body::Amqp, &message), Opened { payload: b"abc", trace_header: None });
    let details = MessageDetails { body: Body::Amqp, message: &message, timestamp_ms: 0 };
    assert_eq!(details.headers(), [("trace".to_owned(), b"abc".to_vec())]);
    assert_eq!(details.key(), None);
}

/// What rstream 1.1 writes, whose encoder is that of Microsoft's `uamqp`: properties with a symbol and a time among them.
#[test]
fn message_of_rstream_is_opened() {
    let message = bytes(
        "005373c0280da1036d2d314040a101734040a30a746578742f706c61696e40408300000000695735a540520940005374c10802a1026964\
             a10137005375a00568656c6c6f",
    );
    assert_eq!(open(Body::Amqp, &message), Opened { payload: b"hello", trace_header: None });
    let details = MessageDetails { body: Body::Amqp, message: &message, timestamp_ms: 0 };
    assert_eq!(details.key().as_deref(), Some(&b"m-1"[..]));
    assert_eq!(details.headers(), [("id".to_owned(), b"7".to_vec())]);
}

#[test]
fn sections_described_by_names_are_read() {
    let message = [b"\0\xa3\x10amqp:footer:list\x45".as_slice(), b"\0\xa3\x10amqp:data:binary\xa0\x01a"].concat();
    assert_eq!(open(Body::Amqp, &message).payload, b"a");
}

proptest! {
    #[test]
    fn written_message_is_opened(
        payload in proptest::collection::vec(any::<u8>(), 0..600),
        key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
        trace_header: Option<[u8; TRACE_HEADER_BYTES]>,
        headers in proptest::collection::vec(("[a-z]{1,100}", ".{0,100}"), 0..4),
    ) {
        let (key, trace_header) = (key.as_deref(), trace_header.as_ref());
        let send_tag = SendTag::new(0, 0, 0, 0, true);
        let outgoing = Outgoing { payload: &payload, key, trace_header, attributes: None, send_tag };
        let writer = Writer::new(Body::Amqp, &headers).unwrap();
        let mut out = Vec::new();
        writer.write(&outgoing, &mut out);
        prop_assert_eq!(out.len(), writer.length(&outgoing));
        prop_assert_eq!(open(Body::Amqp, &out), Opened { payload: &payload, trace_header: trace_header.map(<[u8; TRACE_HEADER_BYTES]>::as_slice) });
        let details = MessageDetails { body: Body::Amqp, message: &out, timestamp_ms: 1_700_000_000_123 };
        let found = details.key();
        prop_assert_eq!(found.as_deref(), key);
        prop_assert_eq!(details.timestamp_unix_ns(), Some(1_700_000_000_123_000_000));
        let texts = headers.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes()));
        prop_assert_eq!(details.headers(), texts.collect::<Vec<_>>());
    }
}
