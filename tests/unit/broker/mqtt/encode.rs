use proptest::prelude::*;

use super::super::codec::{Packet, Value, decode};
use super::*;

#[test]
fn connect_bytes_are_those_of_mosquitto_clients() {
    let encoded = |connect: Connect<'_>| {
        let mut out = Vec::new();
        connect.append_to(&mut out);
        out
    };
    let kept = Connect {
        version: Version::V5,
        client_id: "sub",
        clean_start: false,
        keep_alive_s: 5,
        session_expiry_s: 60,
        receive_maximum: 20,
        will: None,
        login: None,
    };
    assert_eq!(encoded(kept), b"\x10\x18\0\x04MQTT\x05\0\0\x05\x08\x11\0\0\0<!\0\x14\0\x03sub");
    let old = Connect {
        version: Version::V311,
        client_id: "pub",
        clean_start: true,
        keep_alive_s: 60,
        session_expiry_s: 0,
        receive_maximum: 20,
        will: None,
        login: Some(("me", "pw")),
    };
    assert_eq!(encoded(old), b"\x10\x17\0\x04MQTT\x04\xc2\0<\0\x03pub\0\x02me\0\x02pw");
}

#[test]
fn wills_are_those_of_mosquitto_clients() {
    let delay = std::time::Duration::from_secs(5);
    let will = Will { topic: "gone".to_owned(), payload: "bye".to_owned(), qos: 1, retain: true, delay };
    let mut out = Vec::new();
    let latest = Connect {
        version: Version::V5,
        client_id: "w",
        clean_start: false,
        keep_alive_s: 60,
        session_expiry_s: 5,
        receive_maximum: 20,
        will: Some(&will),
        login: None,
    };
    latest.append_to(&mut out);
    let properties = b"\x08\x11\0\0\0\x05!\0\x14\0\x01w\x05\x18\0\0\0\x05\0\x04gone\0\x03bye";
    assert_eq!(out, [&b"\x10'\0\x04MQTT\x05,\0<"[..], properties].concat());
    out.clear();
    Connect { version: Version::V311, clean_start: true, login: Some(("me", "pw")), ..latest }.append_to(&mut out);
    assert_eq!(out, b"\x10 \0\x04MQTT\x04\xee\0<\0\x01w\0\x04gone\0\x03bye\0\x02me\0\x02pw");
}

#[test]
fn subscribe_bytes_are_those_of_mosquitto_clients() {
    let mut out = Vec::new();
    append_subscribe(&mut out, Version::V5, "$share/g/orders", 2, true);
    assert_eq!(out, b"\x82\x15\0\x01\0\0\x0f$share/g/orders\x02");
    out.clear();
    append_subscribe(&mut out, Version::V5, "orders", 2, false);
    assert_eq!(out, b"\x82\x0c\0\x01\0\0\x06orders\x22", "without retained messages");
    out.clear();
    append_subscribe(&mut out, Version::V311, "orders", 1, false);
    assert_eq!(out, b"\x82\x0b\0\x01\0\x06orders\x01");
}

#[test]
fn publish_bytes_are_those_of_mosquitto_clients() {
    let mut headers = Vec::new();
    append_headers(&mut headers, &[("k".to_owned(), "v".to_owned())]);
    let publish = Publish {
        version: Version::V5,
        qos: 2,
        retain: false,
        topic: b"orders",
        packet_id: 1,
        properties: [&headers, b"\x02\0\0\0<", b"\x09\0\x02cd", &[]],
        payload: b"hello2",
    };
    let mut out = Vec::new();
    publish.append_to(&mut out);
    assert_eq!(out, b"4\"\0\x06orders\0\x01\x11&\0\x01k\0\x01v\x02\0\0\0<\t\0\x02cdhello2");
    assert_eq!(publish.size(), out.len());
    out.clear();
    Publish { version: Version::V311, qos: 1, payload: b"old", ..publish }.append_to(&mut out);
    assert_eq!(out, b"2\r\0\x06orders\0\x01old");
}

#[test]
fn acknowledgements_have_their_flags() {
    let mut out = Vec::new();
    for kind in [Ack::Puback, Ack::Pubrec, Ack::Pubrel, Ack::Pubcomp] {
        append_ack(&mut out, kind, 258);
    }
    assert_eq!(out, b"@\x02\x01\x02P\x02\x01\x02b\x02\x01\x02p\x02\x01\x02");
}

proptest! {
    /// By our own decoder, and by the codec of another client, which writes the same bytes.
    #[test]
    fn publish_is_read_as_it_was_written(
        qos in 0_u8..3,
        retain: bool,
        topic in "[a-z/]{1,200}",
        packet_id in 1_u16..,
        expiry: Option<u32>,
        headers in proptest::collection::vec(("[a-z]{0,20}", "[a-z]{0,200}"), 0..5),
        payload in proptest::collection::vec(any::<u8>(), 0..20_000),
    ) {
        let (mut encoded, mut out) = (Vec::new(), Vec::new());
        let expiry_bytes = expiry.map(|s| [&[property::MESSAGE_EXPIRY][..], &s.to_be_bytes()].concat());
        append_headers(&mut encoded, &headers);
        let publish = Publish {
            version: Version::V5,
            qos,
            retain,
            topic: topic.as_bytes(),
            packet_id,
            properties: [expiry_bytes.as_deref().unwrap_or_default(), &[], &[], &encoded],
            payload: &payload,
        };
        publish.append_to(&mut out);
        prop_assert_eq!(publish.size(), out.len());
        let (packet, length) = decode(&out, 1 << 20, Version::V5).unwrap().unwrap();
        prop_assert_eq!(length, out.len());
        let Packet::Publish(message) = packet else { panic!("{packet:?}") };
        prop_assert_eq!((message.qos, message.retain, message.dup), (qos, retain, false));
        prop_assert_eq!((message.topic, message.payload), (topic.as_bytes(), &payload[..]));
        prop_assert_eq!(message.packet_id, if qos > 0 { packet_id } else { 0 });
        prop_assert_eq!(message.properties.number(property::MESSAGE_EXPIRY), expiry);
        let read = message.properties.filter(|(id, _)| *id == property::USER).map(|(_, value)| value);
        let written = headers.iter().map(|(name, value)| Value::Pair(name.as_bytes(), value.as_bytes()));
        prop_assert!(read.eq(written));

        let mut stream = bytes::BytesMut::from(&out[..]);
        let theirs = mqttbytes::v5::read(&mut stream, 1 << 20).unwrap();
        let mqttbytes::v5::Packet::Publish(theirs) = theirs else { panic!("{theirs:?}") };
        prop_assert_eq!((theirs.qos as u8, theirs.retain, theirs.pkid), (qos, retain, message.packet_id));
        prop_assert_eq!((theirs.topic.as_str(), &theirs.payload[..]), (topic.as_str(), &payload[..]));
        let properties = theirs.properties.clone();
        prop_assert_eq!(properties.as_ref().and_then(|one| one.message_expiry_interval), expiry);
        prop_assert_eq!(properties.map(|one| one.user_properties).unwrap_or_default(), headers);
        let mut again = bytes::BytesMut::new();
        theirs.write(&mut again).unwrap();
        let (packet, _) = decode(&again, 1 << 20, Version::V5).unwrap().unwrap();
        prop_assert_eq!(packet, Packet::Publish(message));
    }
}
