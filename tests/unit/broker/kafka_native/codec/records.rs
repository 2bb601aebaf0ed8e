use proptest::prelude::*;

use super::*;
use crate::broker::kafka_native::codec::batch::{Author, Batch, Headers, Memory, Record, append_varint, varint_size};
use crate::broker::kafka_native::codec::compression::{Compressor, PayloadChecksums};
use crate::broker::kafka_native::tests::payloads;
use crate::limits::{MAX_UNPACKED_KEPT_BYTES, TRACE_HEADER_BYTES};

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

type Written = (Option<Vec<u8>>, Option<Vec<u8>>, bool, i64);

fn write(records: &[Written], headers: &Headers, compression: Compression) -> Vec<u8> {
    let mut batch = Batch::in_memory_of(Memory::from(vec![7; 100]));
    for (key, value, is_traced, timestamp_ms) in records {
        batch.push(&Record {
            key: key.as_deref(),
            value: value.as_deref(),
            shared: None,
            headers,
            trace_header: is_traced.then_some(&[5; TRACE_HEADER_BYTES]),
            timestamp_ms: *timestamp_ms,
        });
    }
    if compression != Compression::None {
        let mut packed = vec![0; HEADER_BYTES];
        Compressor::new(compression).unwrap().compress(&batch.own_bytes()[HEADER_BYTES..], &mut packed).unwrap();
        batch.replace_bytes(packed);
    }
    batch.seal(
        compression as u8,
        Author { producer_id: 9, epoch: 1, sequence: 3 },
        &payloads(),
        &PayloadChecksums::new(&payloads(), 0),
    );
    batch.own_bytes().to_vec()
}

fn records() -> impl Strategy<Value = Vec<Written>> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200));
    proptest::collection::vec((bytes(), bytes(), any::<bool>(), 0..1_i64 << 41), 1..20)
}

/// One large batch does not hold its memory until the run ends, whether it can be read or not.
#[test]
fn memory_for_unpacking_shrinks_after_a_large_batch() {
    let value = Some(vec![0; MAX_UNPACKED_KEPT_BYTES + 1]);
    let bytes = write(&[(None, value, false, 0)], &Headers::new(&[]), Compression::Zstd);
    let batch = next_batch(&mut &bytes[..]).unwrap().unwrap();
    for batch in [batch, ReadBatch { record_count: 2, ..batch }] {
        let (mut unpacked, mut taken) = (Vec::new(), 0);
        let read = batch.for_each(&mut unpacked, |record| taken += record.value.unwrap_or_default().len());
        assert_eq!((read.is_ok(), taken), (batch.record_count == 1, MAX_UNPACKED_KEPT_BYTES + 1));
        assert!(unpacked.capacity() <= MAX_UNPACKED_KEPT_BYTES);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_written_is_read(records in records(), names in proptest::collection::vec("[a-z]{0,20}", 0..4)) {
        let own: Vec<(String, String)> = names.iter().map(|name| (name.clone(), format!("{name}!"))).collect();
        let headers = Headers::new(&own);
        for compression in ALL {
            let bytes = write(&records, &headers, compression);
            let mut rest = &bytes[..];
            let batch = next_batch(&mut rest).unwrap().unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!((batch.producer_id, batch.next_offset()), (9, records.len() as i64));
            let mut found = Vec::new();
            batch.for_each(&mut Vec::new(), |record| {
                let own: Vec<_> = own.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
                assert_eq!((record.headers(), record.offset), (own, found.len() as i64));
                let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
                found.push((key, value, record.trace_header.is_some(), record.timestamp_ms));
            }).unwrap();
            prop_assert_eq!(&found, &records);
        }
    }

    /// Where values lie makes no difference to what is sent.
    #[test]
    fn a_batch_that_refers_to_values_has_the_same_bytes(
        records in proptest::collection::vec((any::<bool>(), 0..16_u64, any::<bool>(), 0..1_i64 << 30), 1..40),
        is_traced: bool,
    ) {
        let (payloads, headers) = (payloads(), Headers::new(&[("tenant".to_owned(), "orders".to_owned())]));
        let whole = |shares: bool| {
            let mut batch = Batch::in_memory_of(Memory::default());
            for (is_shared, index, has_key, timestamp_ms) in &records {
                let value = payloads.get(*index);
                batch.push(&Record {
                    key: has_key.then_some(b"key"),
                    value: Some(value),
                    shared: payloads.place(value).filter(|_| shares && *is_shared),
                    headers: &headers,
                    trace_header: is_traced.then_some(&[5; TRACE_HEADER_BYTES]),
                    timestamp_ms: *timestamp_ms,
                });
            }
            batch.seal(0, Author::UNNAMED, &payloads, &PayloadChecksums::new(&payloads, 0));
            let bytes = (0..batch.pieces()).flat_map(|piece| batch.piece(piece, &payloads)).copied();
            let bytes: Vec<u8> = bytes.collect();
            assert_eq!(bytes.len(), batch.len());
            bytes
        };
        let copied = whole(false);
        prop_assert!(next_batch(&mut &copied[..]).unwrap().is_some());
        prop_assert!(whole(true) == copied);
    }

    #[test]
    fn a_batch_that_is_cut_off_is_not_there_yet(records in records()) {
        let bytes = write(&records, &Headers::new(&[]), Compression::None);
        for end in 0..bytes.len() {
            prop_assert_eq!(next_batch(&mut &bytes[..end]), Ok(None));
        }
    }

    #[test]
    fn damage_is_noticed(records in records(), place in any::<proptest::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = write(&records, &Headers::new(&[]), Compression::None);
        // What comes before the checksum is the broker's.
        let place = at::CRC + place.index(bytes.len() - at::CRC);
        bytes[place] ^= 1 << bit;
        prop_assert_eq!(next_batch(&mut &bytes[..]), Err(Malformed("a batch has a wrong checksum")));
    }

    #[test]
    fn nonsense_with_right_checksum_is_refused_or_read(body: Vec<u8>, count: i32, attributes: u8) {
        let mut bytes = write(&[(None, None, false, 0)], &Headers::new(&[]), Compression::None);
        bytes.truncate(HEADER_BYTES);
        bytes.extend_from_slice(&body);
        let length = (bytes.len() - BEFORE_LENGTH_ENDS) as i32;
        bytes[at::BATCH_LENGTH..at::BATCH_LENGTH + 4].copy_from_slice(&length.to_be_bytes());
        bytes[at::ATTRIBUTES + 1] = attributes;
        bytes[at::RECORD_COUNT..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
        let checksum = crc_fast::crc32_iscsi(&bytes[at::ATTRIBUTES..]);
        bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum.to_be_bytes());
        if let Ok(Some(batch)) = next_batch(&mut &bytes[..]) {
            let _ = batch.for_each(&mut Vec::new(), |_| {});
        }
    }
}

/// Around the largest numbers that are written in a register, and beyond them.
#[test]
fn large_records_and_distant_timestamps_round_trip() {
    const NEAR: i64 = 1 << 20;
    let headers = Headers::new(&[]);
    for delta in [-NEAR - 1, -NEAR, 0, NEAR - 65, NEAR - 64, NEAR - 1, NEAR, 1 << 40] {
        for (key, value) in [(0, 1 << 20), ((1 << 20) - 70, 5), (1 << 20, 0), (3, (1 << 20) - 72), (1 << 22, 1 << 22)] {
            let (key, value) = ((key > 0).then(|| vec![1; key]), Some(vec![2; value]));
            let base = 1 << 41;
            let written: [Written; 2] = [(None, None, false, base), (key, value, true, base + delta)];
            let bytes = write(&written, &headers, Compression::None);
            let (mut found, mut rest) = (Vec::new(), &bytes[..]);
            let batch = next_batch(&mut rest).unwrap().unwrap();
            let read = batch.for_each(&mut Vec::new(), |record| {
                let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
                found.push((key, value, record.trace_header.is_some(), record.timestamp_ms));
            });
            assert_eq!(read, Ok(()));
            assert!(found == written, "{delta}");
        }
    }
}

/// With `message.timestamp.type=LogAppendTime`, the broker changes only the header.
#[test]
fn the_time_of_the_brokers_log_is_that_of_each_record() {
    let records: [Written; 2] = [1000, 1007].map(|created_ms| (None, Some(b"x".to_vec()), false, created_ms));
    let mut bytes = write(&records, &Headers::new(&[]), Compression::None);
    bytes[at::ATTRIBUTES + 1] |= 0x08;
    bytes[at::MAX_TIMESTAMP..at::PRODUCER_ID].copy_from_slice(&5000_i64.to_be_bytes());
    let checksum = crc_fast::crc32_iscsi(&bytes[at::ATTRIBUTES..]);
    bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum.to_be_bytes());
    let bytes = Bytes::from(bytes);
    let batch = next_batch(&mut &bytes[..]).unwrap().unwrap();
    let mut times = Vec::new();
    batch.for_each(&mut Vec::new(), |record| times.push(record.timestamp_ms)).unwrap();
    let mut open = batch.open(&bytes, &mut Vec::new()).unwrap();
    open.take(0, 2, |record| times.push(record.timestamp_ms)).unwrap();
    assert_eq!(times, [5000; 4]);
}

#[test]
fn an_old_version_and_a_senseless_length_are_refused() {
    let bytes = write(&[(None, Some(b"x".to_vec()), false, 0)], &Headers::new(&[]), Compression::None);
    let with = |place: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[place..place + value.len()].copy_from_slice(value);
        next_batch(&mut &bytes[..]).unwrap_err().to_string()
    };
    assert!(with(at::MAGIC, &[1]).contains("version"));
    assert!(with(at::BATCH_LENGTH, &(-1_i32).to_be_bytes()).contains("negative"));
    assert!(with(at::BATCH_LENGTH, &10_i32.to_be_bytes()).contains("shorter"));
}

#[test]
fn integers_are_encoded_as_protocol_buffers_encode_them() {
    for (value, bytes) in [
        (0, &[0][..]),
        (-1, &[1]),
        (1, &[2]),
        (63, &[0x7e]),
        (-64, &[0x7f]),
        (64, &[0x80, 1]),
        (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ] {
        let mut out = Vec::new();
        append_varint(value, &mut out);
        assert_eq!((out.as_slice(), varint_size(value)), (bytes, bytes.len()), "{value}");
    }
}

#[test]
fn an_integer_that_does_not_end_is_refused() {
    for bytes in [&[][..], &[0x80], &[0xff; 9], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
    {
        assert!(read_varint(&mut &bytes[..]).is_err(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn integer_that_is_written_is_read(value: i64, rest: Vec<u8>) {
        let mut bytes = Vec::new();
        append_varint(value, &mut bytes);
        prop_assert_eq!(bytes.len(), varint_size(value));
        bytes.extend_from_slice(&rest);
        let mut left = &bytes[..];
        prop_assert_eq!(read_varint(&mut left), Ok(value));
        prop_assert_eq!(left, &rest[..]);
    }
}
