use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    AddPartitionsToTxnResponse, ConsumerGroupHeartbeatResponse, CreateTopicsResponse, DeleteGroupsResponse,
    DeleteTopicsResponse, DescribeConfigsResponse, IncrementalAlterConfigsResponse, JoinGroupResponse,
    ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse, OffsetForLeaderEpochResponse,
    SaslHandshakeResponse, ShareGroupHeartbeatResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::*;

/// A message of this layout, with one letter in each text and two elements in each list.
fn example(mut layout: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    while let [what, after @ ..] = layout {
        layout = after;
        let before: &[u8] = match what {
            b'[' => &[0, 0, 0, 2],
            b'{' => &[3],
            b'(' => &[1],
            b's' => &[0, 1, b'x'],
            b'S' => &[2, b'x'],
            b'b' => &[0, 0, 0, 1, b'x'],
            b't' => &[0],
            digit => &[0; 8][..usize::from(digit - b'0')],
        };
        message.extend_from_slice(before);
        if matches!(what, b'[' | b'{' | b'(') {
            let (element, after) = list(after);
            let times = if *what == b'(' { 1 } else { 2 };
            message.extend(example(element).repeat(times));
            layout = after;
        }
    }
    message
}

/// The message, as `kafka-protocol` reads it and writes it again.
fn copied(key: i16, message: &[u8], version: i16) -> Vec<u8> {
    fn copy<T: Decodable + Encodable + Debug>(message: &[u8], version: i16) -> Vec<u8> {
        let mut rest = Bytes::copy_from_slice(message);
        let read = T::decode(&mut rest, version).unwrap();
        assert!(rest.is_empty(), "{} bytes are left after {read:?}", rest.len());
        let mut written = BytesMut::new();
        read.encode(&mut written, version).unwrap();
        written.to_vec()
    }
    let copy = match key {
        2 => copy::<ListOffsetsResponse>,
        3 => copy::<MetadataResponse>,
        8 => copy::<OffsetCommitResponse>,
        9 => copy::<OffsetFetchResponse>,
        11 => copy::<JoinGroupResponse>,
        17 => copy::<SaslHandshakeResponse>,
        19 => copy::<CreateTopicsResponse>,
        20 => copy::<DeleteTopicsResponse>,
        23 => copy::<OffsetForLeaderEpochResponse>,
        24 => copy::<AddPartitionsToTxnResponse>,
        32 => copy::<DescribeConfigsResponse>,
        42 => copy::<DeleteGroupsResponse>,
        44 => copy::<IncrementalAlterConfigsResponse>,
        68 => copy::<ConsumerGroupHeartbeatResponse>,
        76 => copy::<ShareGroupHeartbeatResponse>,
        key => panic!("no response of {key}"),
    };
    copy(message, version)
}

#[test]
fn layouts_are_those_of_the_other_decoder_in_every_version() {
    for (key, oldest, newest, layout) in RESPONSES {
        let message = example(layout.as_bytes());
        for version in oldest..=newest {
            assert_eq!(copied(key, &message, version), message, "{key} version {version}");
            assert_eq!(check(&message, key, version), Ok(()), "{key} version {version}");
            for end in 0..message.len() {
                assert!(check(&message[..end], key, version).is_err(), "{key} version {version}, {end} bytes");
            }
        }
    }
}

#[test]
fn a_list_that_is_longer_than_its_message_is_refused() {
    let announced = [&i32::MAX.to_be_bytes()[..], &[0; 64]].concat();
    assert!(walk(&announced, SUBSCRIPTIONS[0]).is_err() && walk(&announced, ASSIGNMENT).is_err());
    assert!(walk(&(-2_i32).to_be_bytes(), SUBSCRIPTIONS[0]).is_err());
    assert_eq!(versions(3), Some((5, 13)));
    assert_eq!(versions(12), None);
}

#[test]
fn optional_parts_are_walked_through_only_where_they_are() {
    assert_eq!(walk(&[0xff], "(4)"), Ok(()));
    assert!(walk(&[1], "(4)").is_err());
    // One optional field, with the number 7 and 2 bytes.
    let fields = [1, 7, 2, 0, 29];
    assert_eq!(walk(&fields, "t"), Ok(()));
    assert!((0..fields.len()).all(|end| walk(&fields[..end], "t").is_err()));
}
