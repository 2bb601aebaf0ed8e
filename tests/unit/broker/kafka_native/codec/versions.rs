use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::protocol::{Encodable, StrBytes};
use proptest::prelude::*;

use super::*;

fn encoded(response: &ApiVersionsResponse, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    response.encode(&mut bytes, version).unwrap();
    bytes.freeze()
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
    fn nonsense_is_refused_or_read_without_panic(body: Vec<u8>, version in 0..5_i16) {
        let _ = read_versions(&body, version);
    }

    #[test]
    fn a_byte_that_is_wrong_is_refused_or_read_without_panic(place: proptest::sample::Index, byte: u8) {
        let mut body = encoded(&with_features(), 3).to_vec();
        let place = place.index(body.len());
        body[place] = byte;
        let _ = read_versions(&body, 3);
    }
}
