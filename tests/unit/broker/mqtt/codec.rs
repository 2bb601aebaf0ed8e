use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 20;

/// What mosquitto 2.0.11 sent to a subscriber of QoS 2 and to a publisher, from its socket.
const CAPTURED: &[u8] = b" \t\0\0\x06\"\0\n!\x03\xe8\x90\x04\0\x01\0\x02\
    4\"\0\x06orders\0\x02\x11&\0\x01k\0\x01v\t\0\x02cd\x02\0\0\0<hello2\
    b\x02\0\x02@\x02\0\x01P\x02\0\x01p\x02\0\x01";

fn all(mut bytes: &[u8], version: Version) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    while let Some((packet, length)) = decode(bytes, MOST, version).unwrap() {
        packets.push(packet);
        bytes = &bytes[length..];
    }
    assert_eq!(bytes, b"");
    packets
}

fn ack(kind: Ack, packet_id: u16) -> Packet<'static> {
    Packet::Ack { kind, packet_id, code: 0, properties: Properties::default() }
}

#[test]
fn decode_captured_bytes_packets() {
    let packets = all(CAPTURED, Version::V5);
    let Packet::Connack { session_present: false, code: 0, properties } = packets[0] else { panic!("{packets:?}") };
    assert_eq!(properties.number(property::RECEIVE_MAXIMUM), Some(1000));
    assert_eq!(properties.number(property::TOPIC_ALIAS_MAXIMUM), Some(10));
    assert_eq!(packets[1], Packet::Suback { properties: Properties::default(), codes: &[2] });
    let Packet::Publish(message) = packets[2] else { panic!("{packets:?}") };
    assert_eq!((message.topic, message.payload, message.packet_id), (&b"orders"[..], &b"hello2"[..], 2));
    assert_eq!((message.qos, message.dup, message.retain), (2, false, false));
    let expected = [
        (property::USER, Value::Pair(b"k", b"v")),
        (property::CORRELATION_DATA, Value::Bytes(b"cd")),
        (property::MESSAGE_EXPIRY, Value::Number(60)),
    ];
    assert_eq!(message.properties.collect::<Vec<_>>(), expected);
    let acks = [ack(Ack::Pubrel, 2), ack(Ack::Puback, 1), ack(Ack::Pubrec, 1), ack(Ack::Pubcomp, 1)];
    assert_eq!(packets[3..], acks);
}

#[test]
fn decode_version_3_1_1_packets_without_properties() {
    // What mosquitto 2.0.11 sent; and a message as it comes back with DUP and RETAIN.
    let packets = all(b" \x02\0\0@\x02\0\x01\x90\x03\0\x01\x01;\x0d\0\x06orders\0\x01old\xd0\0", Version::V311);
    assert!(matches!(packets[0], Packet::Connack { session_present: false, code: 0, .. }));
    assert_eq!(packets[1], ack(Ack::Puback, 1));
    assert_eq!(packets[2], Packet::Suback { properties: Properties::default(), codes: &[1] });
    let Packet::Publish(message) = packets[3] else { panic!("{packets:?}") };
    assert_eq!((message.dup, message.retain, message.payload), (true, true, &b"old"[..]));
    assert_eq!(packets[4], Packet::Pingresp);
}

#[test]
fn decode_codes_and_reasons() {
    let packets = all(b"@\x09\0\x07\x97\x05\x1f\0\x02no\xe0\x01\x8b\xe0\0", Version::V5);
    let Packet::Ack { packet_id: 7, code: 0x97, properties, .. } = packets[0] else { panic!("{packets:?}") };
    assert_eq!(properties.bytes(property::REASON), Some(&b"no"[..]));
    assert!(matches!(packets[1], Packet::Disconnect { code: 0x8b, .. }));
    assert!(matches!(packets[2], Packet::Disconnect { code: 0, .. }));
}

#[test]
fn decode_other_protocols_refused() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 400 Bad Request"[..], "HTTP"),
        (&[0x15, 3, 3, 0, 2, 2, 80], "broker.security.tls"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not MQTT"),
        (b"0\xff\xff\xff\x7f", "at most"),
        (b"0\xff\xff\xff\xff\x01", "more than four bytes"),
        (b"0\x02\0\x06", "ends too early"),
        (b"2\x03\0\x01a", "ends too early"),
        (b"0\x05\0\x01a\x09x", "ends too early"),
    ] {
        let error = decode(bytes, MOST, Version::V5).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    /// What comes from the network is not trusted.
    #[test]
    fn decode_any_bytes_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), first in 0x20_u8..0xf0) {
        for version in [Version::V5, Version::V311] {
            for bytes in [&bytes[..], &[&[first], &bytes[..]].concat()] {
                if let Ok(Some((Packet::Publish(message), length))) = decode(bytes, MOST, version) {
                    prop_assert!(length <= bytes.len());
                    prop_assert!(message.properties.count() <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn decode_beginnings_wait_for_the_rest(cut in 0..CAPTURED.len()) {
        let mut bytes = &CAPTURED[..cut];
        while let Some((_, length)) = decode(bytes, MOST, Version::V5).unwrap() {
            bytes = &bytes[length..];
        }
        prop_assert!(bytes.len() < 36);
    }
}
