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
#[path = "../../../../tests/unit/broker/kafka_native/codec/versions.rs"]
mod tests;
