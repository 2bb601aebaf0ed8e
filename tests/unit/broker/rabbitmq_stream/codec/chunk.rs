use proptest::prelude::*;

use super::*;
use crate::broker::Details;
use crate::broker::rabbitmq_stream::Body;
use crate::broker::rabbitmq_stream::body::{MessageDetails, open};
use crate::broker::rabbitmq_stream::codec::chunk::compress;

fn chunk(entries: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![MAGIC_AND_VERSION, USER];
    bytes.extend(entries.to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend([0; 16]);
    bytes.extend(1000u64.to_be_bytes());
    bytes.extend(crc32fast::hash(data).to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(data);
    bytes
}

fn messages(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Malformed> {
    let mut all = Vec::new();
    Chunk::parse(bytes)?.messages(&mut Vec::new(), |offset, message| all.push((offset, message.to_vec())))?;
    Ok(all)
}

#[test]
fn messages_and_sub_entries_are_numbered_through() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let mut inner = Vec::new();
        for message in [&b"b"[..], b"cc"] {
            inner.extend((message.len() as u32).to_be_bytes());
            inner.extend(message);
        }
        let mut compressed = Vec::new();
        compress(compression, &inner, &mut compressed).unwrap();
        let mut data = vec![0, 0, 0, 1, b'a', SUB_ENTRY | (compression as u8) << 4, 0, 2];
        data.extend((inner.len() as u32).to_be_bytes());
        data.extend((compressed.len() as u32).to_be_bytes());
        data.extend(compressed);
        data.extend([0, 0, 0, 1, b'd']);
        let bytes = chunk(3, &data);
        assert!(Chunk::parse(&bytes).unwrap().is_intact());
        let expected = [(1000, "a"), (1001, "b"), (1002, "cc"), (1003, "d")];
        let found = messages(&bytes).unwrap();
        assert_eq!(found, expected.map(|(offset, message)| (offset, message.as_bytes().to_vec())));
    }
}

/// Chunks as RabbitMQ 4.0.5 delivered them, of messages that its Java client 1.2.0 wrote in sub-entries of up to three.
#[test]
fn sub_entries_of_the_java_client_are_read() {
    for line in include_str!("../../../../../src/broker/rabbitmq_stream/codec/captured.txt").lines() {
        let (compression, hex) = line.split_once(' ').unwrap();
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
        let chunk = Chunk::parse(&bytes).unwrap();
        assert!(chunk.is_intact(), "{compression}");
        let found = messages(&bytes).unwrap();
        assert_eq!(found.len() as u32, chunk.records, "{compression}");
        for (number, (offset, message)) in found.iter().enumerate() {
            assert_eq!(*offset, number as u64, "{compression}");
            let body = format!("body of message {number} {}", ".".repeat(32));
            assert_eq!(open(Body::Amqp, message).payload, body.as_bytes(), "{compression}");
            let details = MessageDetails { body: Body::Amqp, message, timestamp_ms: 0 };
            assert_eq!(details.key().as_deref(), Some(format!("m-{number}").as_bytes()), "{compression}");
        }
    }
}

#[test]
fn an_offset_beyond_all_numbers_is_refused() {
    let mut bytes = chunk(1, &[0, 0, 0, 1, b'a']);
    bytes[4..8].copy_from_slice(&2u32.to_be_bytes());
    bytes[24..32].copy_from_slice(&(u64::MAX - 2).to_be_bytes());
    assert_eq!(Chunk::parse(&bytes).unwrap().next_offset(), Ok(u64::MAX));
    bytes[24..32].copy_from_slice(&(u64::MAX - 1).to_be_bytes());
    assert!(Chunk::parse(&bytes).unwrap().next_offset().is_err());
}

#[test]
fn a_changed_bit_is_noticed() {
    let mut bytes = chunk(1, &[0, 0, 0, 1, b'a']);
    *bytes.last_mut().unwrap() ^= 1;
    assert!(!Chunk::parse(&bytes).unwrap().is_intact());
}

proptest! {
    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100),
                      entries: u16, data in proptest::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..100)) {
        let _ = messages(&bytes);
        let _ = messages(&chunk(entries, &data));
    }
}

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

proptest! {
    #[test]
    fn what_was_compressed_comes_back(content in proptest::collection::vec(0..4u8, 0..5000)) {
        for compression in ALL {
            let mut compressed = vec![1, 2, 3];
            compress(compression, &content, &mut compressed).unwrap();
            let mut back = Vec::new();
            decompress(compression, &compressed[3..], content.len(), &mut back).unwrap();
            prop_assert_eq!(&back, &content);
            prop_assert_eq!(Compression::from_number(compression as u8), Some(compression));
            if !content.is_empty() {
                let too_little = content.len() - 1;
                prop_assert!(decompress(compression, &compressed[3..], too_little, &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn decompression_of_anything_is_bounded(content in proptest::collection::vec(any::<u8>(), 0..300)) {
        for compression in ALL {
            let mut out = Vec::new();
            let _ = decompress(compression, &content, 10_000, &mut out);
            prop_assert!(out.len() <= 10_001);
        }
    }
}
