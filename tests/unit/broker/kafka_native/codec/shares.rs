use bytes::BytesMut;
use kafka_protocol::messages::share_acknowledge_response::{PartitionData as Answered, ShareAcknowledgeTopicResponse};
use kafka_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData, ShareFetchableTopicResponse};
use kafka_protocol::messages::{ShareAcknowledgeResponse, ShareFetchResponse};
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::*;

fn encoded(response: &impl Encodable) -> Bytes {
    let mut body = BytesMut::new();
    response.encode(&mut body, OLDEST).unwrap();
    body.freeze()
}

fn fetched() -> Bytes {
    let acquired = |first, last, deliveries| {
        AcquiredRecords::default().with_first_offset(first).with_last_offset(last).with_delivery_count(deliveries)
    };
    let partition = PartitionData::default()
        .with_partition_index(3)
        .with_acknowledge_error_code(121)
        .with_acknowledge_error_message(Some(StrBytes::from_static_str("late")))
        .with_records(Some(Bytes::from_static(b"batches")))
        .with_acquired_records(vec![acquired(5, 9, 1), acquired(10, 10, 2)]);
    let without = PartitionData::default().with_partition_index(4).with_error_code(6).with_records(None);
    let topic = ShareFetchableTopicResponse::default().with_partitions(vec![partition, without]);
    encoded(&ShareFetchResponse::default().with_throttle_time_ms(7).with_responses(vec![topic]))
}

#[test]
fn fetched_messages_and_whose_they_are() {
    let response = read_share_fetched(&fetched()).unwrap();
    assert_eq!((response.throttled_ms, response.code, response.message), (7, 0, None));
    let [found, without] = &response.partitions[..] else { panic!("{:?}", response.partitions) };
    assert_eq!((found.partition, found.code, found.answer_code), (3, 0, 121));
    assert_eq!((found.answer_message.as_deref(), &found.records[..]), (Some("late"), &b"batches"[..]));
    let acquired = |first, last, deliveries| Acquired { first, last, deliveries };
    assert_eq!(found.acquired, [acquired(5, 9, 1), acquired(10, 10, 2)]);
    assert_eq!((without.partition, without.code, without.records.len(), without.acquired.len()), (4, 6, 0, 0));
}

#[test]
fn answers_of_both_versions() {
    let partition = Answered::default().with_partition_index(2).with_error_code(121);
    let topic = ShareAcknowledgeTopicResponse::default().with_partitions(vec![partition]);
    let body = encoded(&ShareAcknowledgeResponse::default().with_responses(vec![topic]));
    // Version 2 has the lock's time behind the throttle, the code and the message.
    let newer = [&body[..7], &30_000_i32.to_be_bytes(), &body[7..]].concat();
    for (body, version) in [(body, OLDEST), (Bytes::from(newer), WITH_RENEWAL)] {
        let response = read_share_acknowledged(&body, version).unwrap();
        let told: Vec<_> = response.partitions.iter().map(|told| (told.partition, told.answer_code)).collect();
        assert_eq!(told, [(2, 121)], "version {version}");
    }
}

#[test]
fn responses_that_are_cut_off_are_malformed() {
    let body = fetched();
    // The last two bytes, which are not read, say that there are no addresses of leaders, and no optional fields.
    for length in 0..body.len() - 2 {
        assert!(read_share_fetched(&body.slice(..length)).is_err(), "{length} bytes");
    }
}

#[test]
fn lags_of_a_group() {
    // Throttle; a group 'g' with a topic 't', its id, and two partitions: number, begin, leader's epoch, lag, error, no message, no tags.
    let partition = |number: u8, lag: i64, code: u8| {
        [&[0, 0, 0, number][..], &[0; 12], &lag.to_be_bytes(), &[0, code, 0, 0]].concat()
    };
    let topic = [&[2, b't'][..], &[0; 16], &[3], &partition(0, 0, 0), &partition(1, 5, 3), &[0]].concat();
    let body = [&[0, 0, 0, 0, 2, 2, b'g', 2][..], &topic, &[0, 69, 0, 0, 0]].concat();
    assert_eq!(read_group_lags(&Bytes::from(body)), Ok((69, BTreeMap::from([(0, 0), (1, -1)]))));
}
