use proptest::prelude::*;

use super::*;
use crate::broker::kafka_native::codec::batch::{Author, Headers, Record};
use crate::broker::kafka_native::codec::compression::PayloadChecksums;
use crate::broker::kafka_native::produce::producer_batch::BufferPool;
use crate::broker::kafka_native::tests::payloads;
use crate::measure::SendTag;

/// Of three partitions of two topics, with so many records each.
fn request(records: [u64; 3], payloads: &PayloadPool) -> ProduceRequest {
    let (headers, buffers) = (Headers::new(&[]), BufferPool::default());
    let batches = [("orders", 0), ("orders", 1), ("returns", 0)].into_iter().zip(records);
    let batches = batches.map(|((topic, index), records)| {
        let mut batch = buffers.allocate(0);
        for number in 0..records {
            let value = payloads.get(number);
            let shared = payloads.place(value).filter(|_| value.len() >= 512);
            let record = Record {
                key: None,
                value: Some(value),
                shared,
                headers: &headers,
                trace_header: None,
                timestamp_ms: 0,
            };
            batch.push(&record, SendTag::new(0, number, 0, 0, true), value.len());
        }
        batch.encoded.seal(0, Author::UNNAMED, payloads, &PayloadChecksums::new(payloads, 0));
        (Arc::new(Partition::new(topic.into(), index, None, usize::MAX)), batch)
    });
    let envelope = Envelope { version: 9, client_id: "test".into(), transactional_id: None, acks: 1, timeout_ms: 1 };
    ProduceRequest::new(&envelope, 7, batches.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A socket accepts what it has room for, which ends anywhere.
    #[test]
    fn a_request_is_written_whole_in_whatever_steps_it_is_accepted(
        records in proptest::array::uniform3(1..700_u64),
        steps in proptest::collection::vec(1..100_000_usize, 1..50),
    ) {
        let payloads = payloads();
        let mut request = request(records, &payloads);
        let (mut written, mut steps) = (Vec::new(), steps.into_iter().cycle());
        loop {
            let slices = request.unwritten(&payloads);
            prop_assert!(!slices.is_empty() && slices.len() <= MAX_SLICES);
            let mut room = steps.next().unwrap();
            let before = written.len();
            for slice in slices {
                let accepted = slice.len().min(room);
                written.extend_from_slice(&slice[..accepted]);
                room -= accepted;
            }
            if request.advance(written.len() - before, &payloads) {
                break;
            }
        }
        prop_assert_eq!(written.len(), request.length);
        prop_assert_eq!(u32::from_be_bytes(written[..4].try_into().unwrap()) as usize + 4, written.len());
        let mut at = 0;
        for (number, (_, batch)) in request.batches.iter().enumerate() {
            let begin = number.checked_sub(1).map_or(0, |before| request.head_ends[before]);
            let head = &request.heads[begin..request.head_ends[number]];
            prop_assert!(&written[at..at + head.len()] == head);
            at += head.len();
            let mut bytes = &written[at..at + batch.encoded.len()];
            let read = crate::broker::kafka_native::codec::records::next_batch(&mut bytes);
            prop_assert_eq!(read.unwrap().unwrap().record_count, batch.encoded.records());
            at += batch.encoded.len();
        }
    }
}
