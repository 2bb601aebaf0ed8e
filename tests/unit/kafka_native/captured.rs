//! Batches that other clients wrote, as a broker has stored them, and what becomes of them when bytes are changed.
//!
//! `tests/fuzz/corpus/kafka_batches` has the logs of Kafka 4.1.0 after its own `ConsoleProducer`, franz-go 1.22.2 and kafka-python 3.0.12
//! had each sent the same three messages with every compression.

use std::path::Path;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};

use crate::broker::kafka_native::codec::batch::{BEFORE_LENGTH_ENDS, HEADER_BYTES, MAGIC, at};
use crate::broker::kafka_native::codec::records::{next_batch, skip_batch};
use crate::broker::kafka_native::codec::{layout, responses};
use crate::measure::Details;

const TEXT: &str = "text text text text text text text text";

/// The inputs and their names.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/kafka_batches");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

#[test]
fn batches_of_other_clients_are_read_compression_by_compression() {
    let (mut inputs, mut compressions) = (0, Vec::new());
    for (name, bytes) in corpus() {
        let (mut rest, mut messages, mut unpacked) = (&bytes[..], 0, Vec::new());
        while let Some(batch) = next_batch(&mut rest).unwrap_or_else(|error| panic!("{name}: {error}")) {
            compressions.push(batch.compression as u8);
            let read = batch.for_each(&mut unpacked, |record| {
                assert_eq!(record.key, Some(&b"key"[..]), "{name}");
                assert_eq!(record.value, Some(TEXT.as_bytes()), "{name}");
                assert_eq!(record.headers(), [("name".to_owned(), b"value".to_vec())], "{name}");
                assert_eq!(record.offset, messages, "{name}");
                messages += 1;
            });
            assert_eq!(read, Ok(()), "{name}");
        }
        assert_eq!(messages, 3, "{name}");
        assert_eq!(rest.len(), 0, "{name}");
        inputs += 1;
    }
    compressions.sort_unstable();
    compressions.dedup();
    assert_eq!(inputs, 15);
    assert_eq!(compressions, vec![0, 1, 2, 3, 4]);
}

/// What `tests/fuzz/fuzz_targets/kafka_batches.rs` does, of the inputs that are kept for it, with some bytes changed.
#[test]
fn fuzz_inputs_with_any_change_are_read_or_refused() {
    let mut random = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(17);
    let mut messages = 0;
    for (_, input) in corpus() {
        for round in 0..150 {
            let mut changed = input.clone();
            for _ in 0..round.min(4) {
                let place = random.random_range(0..changed.len());
                changed[place] = random.random();
            }
            messages += read_everything(&mut changed);
        }
    }
    assert!(messages > 300, "{messages}");
}

/// Reads bytes as everything that they could be. Returns how many messages there were.
fn read_everything(bytes: &mut [u8]) -> usize {
    for key in [2, 3, 8, 9, 11, 17, 19, 20, 42] {
        let _ =
            layout::versions(key).map(|(oldest, newest)| [oldest, newest].map(|one| layout::check(bytes, key, one)));
    }
    let _ = responses::read_versions(bytes, 3);
    let _ = responses::read_produced(bytes, responses::NEWEST_PRODUCED, |_| {});
    let _ = responses::read_fetched(&Bytes::copy_from_slice(bytes), responses::NEWEST_FETCHED);
    let _ = skip_batch(&mut &*bytes);
    if bytes.len() < HEADER_BYTES {
        return 0;
    }
    // With the frame and the checksum of a batch, so that what is in it is looked at.
    bytes[at::MAGIC] = MAGIC;
    let length = ((bytes.len() - BEFORE_LENGTH_ENDS) as i32).to_be_bytes();
    bytes[at::BATCH_LENGTH..at::BATCH_LENGTH + 4].copy_from_slice(&length);
    let checksum = crc_fast::crc32_iscsi(&bytes[at::ATTRIBUTES..]).to_be_bytes();
    bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum);
    let (mut messages, mut unpacked) = (0, Vec::new());
    if let Ok(Some(batch)) = next_batch(&mut &*bytes) {
        let _ = batch.for_each(&mut unpacked, |record| {
            let _ = (record.headers(), record.key(), record.timestamp_unix_ns());
            messages += 1;
        });
    }
    // What a damaged header announces takes no memory: the largest input here unpacks to some hundred bytes.
    assert!(unpacked.capacity() < 1 << 20, "{} bytes", unpacked.capacity());
    messages
}
