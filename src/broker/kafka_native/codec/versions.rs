//! The response to the first request on a connection: which requests a node supports, and the levels of its features.
//!
//! Source: Kafka's `ApiVersionsResponse.json`.

use super::Malformed;
use super::responses::Reader;
use crate::broker::kafka_cluster::MetadataLevels;

/// The feature whose levels name Kafka's releases.
const METADATA: &str = "metadata.version";

/// The first version of the response that has features (KIP-584), as fields that are optional.
const WITH_FEATURES: i16 = 3;

/// The optional fields with the features that the node supports, and that its cluster has agreed on.
const SUPPORTED: u32 = 0;
const FINALIZED: u32 = 2;

/// Numbers of requests, each with the oldest and the newest version that a node supports.
pub type Supported = Vec<(i16, i16, i16)>;

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeVersions {
    pub code: i16,
    pub requests: Supported,
    pub metadata: MetadataLevels,
}

/// Reads the response in `version`.
///
/// # Errors
/// When the list of requests is cut off, or a number in it is senseless. Features that cannot be read count as left out: no request
/// depends on them.
pub fn read_versions(body: &[u8], version: i16) -> Result<NodeVersions, Malformed> {
    let mut reader = Reader(body);
    let code = reader.i16()?;
    // Since version 3 (KIP-482), one more than the number, in 7 bits a byte, and each element ends with fields that are optional.
    let is_compact = version >= WITH_FEATURES;
    let count = if is_compact { reader.unsigned()?.saturating_sub(1) as usize } else { reader.count()? };
    let mut requests = Vec::new();
    for _ in 0..count {
        requests.push((reader.i16()?, reader.i16()?, reader.i16()?));
        if is_compact {
            reader.skip_tags()?;
        }
    }
    let metadata = if is_compact { read_levels(&mut reader).unwrap_or_default() } else { MetadataLevels::default() };
    Ok(NodeVersions { code, requests, metadata })
}

fn read_levels(reader: &mut Reader<'_>) -> Result<MetadataLevels, Malformed> {
    // For how long the broker asks the client to wait.
    reader.i32()?;
    let mut levels = MetadataLevels::default();
    for _ in 0..reader.unsigned()? {
        let tag = reader.unsigned()?;
        let length = reader.unsigned()? as usize;
        let mut field = Reader(reader.take(length)?);
        match tag {
            SUPPORTED => levels.supported = read_feature(&mut field)?.map(|(_, newest)| newest),
            FINALIZED => levels.finalized = read_feature(&mut field)?.map(|(newest, _)| newest),
            _ => {}
        }
    }
    Ok(levels)
}

/// The two levels of [`METADATA`] in a list of features, in the order in which the list has them.
fn read_feature(reader: &mut Reader<'_>) -> Result<Option<(i16, i16)>, Malformed> {
    let mut found = None;
    for _ in 0..reader.compact_count()? {
        let name = reader.compact_text()?;
        let levels = (reader.i16()?, reader.i16()?);
        reader.skip_tags()?;
        if name == Some(METADATA) {
            found = Some(levels);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
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
}
