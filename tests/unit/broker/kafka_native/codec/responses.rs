use bytes::BytesMut;
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ApiVersionsResponse, FetchResponse as Fetch, ProduceResponse, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use proptest::prelude::*;

use super::*;

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn encoded(message: &impl Encodable, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).unwrap();
    bytes.freeze()
}

fn produced(version: i16) -> Bytes {
    let mut refused = PartitionProduceResponse::default().with_index(3).with_error_code(10);
    if version >= 8 {
        let record = BatchIndexAndErrorMessage::default().with_batch_index_error_message(Some(text("large")));
        refused = refused.with_record_errors(vec![record]).with_error_message(Some(text("too large")));
    }
    let mut taken = PartitionProduceResponse::default().with_index(4);
    if version >= 10 {
        taken.current_leader.leader_id = 2.into();
    }
    let topic = TopicProduceResponse::default()
        .with_name(TopicName(text("topic")))
        .with_partition_responses(vec![refused, taken]);
    encoded(&ProduceResponse::default().with_responses(vec![topic]).with_throttle_time_ms(12), version)
}

fn fetched(version: i16) -> Bytes {
    let aborted = AbortedTransaction::default().with_producer_id(7.into()).with_first_offset(5);
    let full = PartitionData::default()
        .with_partition_index(1)
        .with_aborted_transactions(Some(vec![aborted]))
        .with_records(Some(Bytes::from_static(b"records")));
    let refused = PartitionData::default().with_partition_index(2).with_error_code(6);
    let topic =
        FetchableTopicResponse::default().with_topic(TopicName(text("topic"))).with_partitions(vec![full, refused]);
    let mut response = Fetch::default().with_responses(vec![topic]).with_throttle_time_ms(12);
    if version >= 7 {
        response = response.with_session_id(9);
    }
    encoded(&response, version)
}

#[test]
fn what_another_encoder_writes_is_read_in_every_version() {
    for version in 3..=NEWEST_PRODUCED {
        let (body, mut found) = (produced(version), Vec::new());
        assert_eq!(read_produced(&body, version, |one| found.push(one)), Ok(12), "version {version}");
        let message = (version >= 8).then_some("too large");
        let of = |partition, code, message| Produced { topic: "topic", partition, code, message };
        assert_eq!(found, [of(3, 10, message), of(4, 0, None)], "version {version}");
    }
    for version in 4..=NEWEST_FETCHED {
        let records = Bytes::from_static(b"records");
        let full = FetchedPartition { partition: 1, code: 0, aborted: vec![(5, 7)], records };
        let refused = FetchedPartition { partition: 2, code: 6, aborted: Vec::new(), records: Bytes::new() };
        let session_id = if version >= 7 { 9 } else { 0 };
        let expected = FetchResponse { throttled_ms: 12, code: 0, session_id, partitions: vec![full, refused] };
        assert_eq!(read_fetched(&fetched(version), version), Ok(expected), "version {version}");
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    for version in [8, NEWEST_PRODUCED] {
        let of_produce = produced(version);
        // What comes after the time of throttling is not read.
        let end = of_produce.len() - usize::from(version >= FLEXIBLE_PRODUCED);
        for end in 0..end {
            assert!(read_produced(&of_produce[..end], version, |_| {}).is_err(), "{end}");
        }
    }
    let of_fetch = fetched(11);
    for end in 0..of_fetch.len() {
        assert!(read_fetched(&of_fetch.slice(..end), 11).is_err(), "{end}");
    }
}

proptest! {
    #[test]
    fn nonsense_is_refused_or_read_without_panic(body: Vec<u8>, version in 3..13_i16) {
        let _ = read_produced(&body, version, |_| {});
        let _ = read_fetched(&body.into(), version.min(NEWEST_FETCHED));
    }

    #[test]
    fn a_byte_that_is_wrong_is_refused_or_read_without_panic(place: proptest::sample::Index, byte: u8) {
        for (body, is_fetch) in [(produced(8), false), (produced(NEWEST_PRODUCED), false), (fetched(11), true)] {
            let mut body = body.to_vec();
            let place = place.index(body.len());
            body[place] = byte;
            if is_fetch {
                let _ = read_fetched(&body.into(), 11);
            } else {
                let _ = read_produced(&body, 8, |_| {});
                let _ = read_produced(&body, NEWEST_PRODUCED, |_| {});
            }
        }
    }
}

fn api(key: i16, newest: i16) -> ApiVersion {
    ApiVersion::default().with_api_key(key).with_min_version(1).with_max_version(newest)
}

fn with_features() -> ApiVersionsResponse {
    let supported = |name, newest| {
        let name = StrBytes::from_static_str(name);
        SupportedFeatureKey::default().with_name(name).with_min_version(7).with_max_version(newest)
    };
    let finalized = |name, newest| {
        let name = StrBytes::from_static_str(name);
        FinalizedFeatureKey::default().with_name(name).with_max_version_level(newest).with_min_version_level(newest)
    };
    ApiVersionsResponse::default()
        .with_api_keys(vec![api(0, 8)])
        .with_supported_features(vec![supported("group.version", 1), supported(METADATA, 27)])
        .with_finalized_features_epoch(12)
        .with_finalized_features(vec![finalized(METADATA, 21), finalized("group.version", 1)])
}

#[test]
fn versions_are_read_as_another_encoder_writes_them() {
    let mut tagged = api(3, 13);
    tagged.unknown_tagged_fields.insert(200, Bytes::from_static(b"later"));
    for (number, keys) in [(0, vec![api(0, 8), api(3, 13)]), (3, vec![api(0, 8), tagged])] {
        let body = encoded(&ApiVersionsResponse::default().with_error_code(35).with_api_keys(keys), number);
        let requests = vec![(0, 1, 8), (3, 1, 13)];
        let expected = NodeVersions { code: 35, requests, metadata: MetadataLevels::default() };
        assert_eq!(read_versions(&body, number), Ok(expected), "version {number}");
        assert!(read_versions(&body[..body.len() / 2], number).is_err());
    }
    assert!(read_versions(&[0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0], 3).is_err());
    assert!(read_versions(&[0, 0, 0x7f, 0xff, 0xff, 0xff, 0], 0).is_err());
}

#[test]
fn levels_are_read_as_another_encoder_writes_them() {
    let body = encoded(&with_features(), 3);
    let expected = MetadataLevels { supported: Some(27), finalized: Some(21) };
    assert_eq!(read_versions(&body, 3).unwrap().metadata, expected);
    // Features that are cut off are as if they were not told.
    let cut = read_versions(&body[..body.len() - 4], 3).unwrap();
    assert_eq!((cut.requests.len(), cut.metadata), (1, MetadataLevels::default()));
}

proptest! {
    #[test]
    fn nonsense_of_versions_is_refused_or_read(body: Vec<u8>, version in 0..5_i16) {
        let _ = read_versions(&body, version);
    }

    #[test]
    fn a_wrong_byte_of_versions_is_refused_or_read(place: proptest::sample::Index, byte: u8) {
        let mut body = encoded(&with_features(), 3).to_vec();
        let place = place.index(body.len());
        body[place] = byte;
        let _ = read_versions(&body, 3);
    }
}
