//! Arbitrary bytes from the network, read as responses, lists and batches of records: reading must not panic, and takes no more memory
//! than what is there needs.
#![no_main]

use brokermark::broker::kafka_native::codec::batch::{BEFORE_LENGTH_ENDS, HEADER_BYTES, MAGIC, at};
use brokermark::broker::kafka_native::codec::records::{next_batch, skip_batch};
use brokermark::broker::kafka_native::codec::{layout, responses};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for key in 0..64 {
        if let Some((oldest, newest)) = layout::versions(key) {
            (oldest..=newest).for_each(|version| drop(layout::check(bytes, key, version)));
        }
    }
    for version in 3..=responses::NEWEST_FETCHED {
        let _ = responses::read_versions(bytes, version - 3);
        let _ = responses::read_produced(bytes, version.min(responses::NEWEST_PRODUCED), |_| {});
        let _ = responses::read_fetched(&bytes.to_vec().into(), version);
    }
    let _ = skip_batch(&mut &*bytes);
    if bytes.len() < HEADER_BYTES {
        return;
    }
    // With the frame and the checksum of a batch, so that what is in it is looked at.
    let mut batch = bytes.to_vec();
    batch[at::MAGIC] = MAGIC;
    let length = ((batch.len() - BEFORE_LENGTH_ENDS) as i32).to_be_bytes();
    batch[at::BATCH_LENGTH..at::BATCH_LENGTH + 4].copy_from_slice(&length);
    let checksum = crc32c::crc32c(&batch[at::ATTRIBUTES..]).to_be_bytes();
    batch[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum);
    if let Ok(Some(batch)) = next_batch(&mut &batch[..]) {
        let _ = batch.for_each(&mut Vec::new(), |record| {
            let _ = (record.key, record.value, record.trace_header);
        });
    }
});
