//! The responses that are read where they lie: those that come for every batch of messages, to produce requests and to fetches, and the one to the first
//! request on a connection, with the requests that a node supports and the levels of its features.
//!
//! Source: Kafka's `ProduceResponse.json`, `FetchResponse.json` and `ApiVersionsResponse.json`. What a response announces takes no memory before it is
//! there.

use bytes::Bytes;

use super::Malformed;
use crate::broker::kafka_cluster::MetadataLevels;

/// The newest versions that are read here. A later produce request names topics by their ids, and a later fetch encodes lengths in
/// another way.
pub const NEWEST_PRODUCED: i16 = 12;
pub const NEWEST_FETCHED: i16 = 11;

/// The first flexible version (KIP-482) of a produce request and its response.
pub const FLEXIBLE_PRODUCED: i16 = 9;

/// What became of the batch of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub code: i16,
    pub message: Option<&'a str>,
}

/// What was fetched of all partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FetchResponse {
    pub throttled_ms: i32,
    pub code: i16,
    pub session_id: i32,
    pub partitions: Vec<FetchedPartition>,
}

/// What was fetched of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPartition {
    pub partition: i32,
    pub code: i16,
    /// The first offset and the producer of each aborted transaction among the records.
    pub aborted: Vec<(i64, i64)>,
    /// Batches, of which the last one may be cut off.
    pub records: Bytes,
}

/// Reads a response to a produce request of `version`, from 3 on. Returns for how many milliseconds the broker asks the client to wait.
///
/// # Errors
/// When it is cut off, or a number is senseless. What was handed to `each` before may be wrong as well.
pub fn read_produced<'a>(body: &'a [u8], version: i16, mut each: impl FnMut(Produced<'a>)) -> Result<i32, Malformed> {
    let mut reader = Reader(body);
    let is_flexible = version >= FLEXIBLE_PRODUCED;
    for _ in 0..reader.any_count(is_flexible)? {
        let topic = reader.any_text(is_flexible)?.ok_or(Malformed("a topic has no name"))?;
        for _ in 0..reader.any_count(is_flexible)? {
            each(produced_partition(&mut reader, topic, version)?);
        }
        reader.end(is_flexible)?;
    }
    reader.i32()
}

fn produced_partition<'a>(reader: &mut Reader<'a>, topic: &'a str, version: i16) -> Result<Produced<'a>, Malformed> {
    let is_flexible = version >= FLEXIBLE_PRODUCED;
    let (partition, code) = (reader.i32()?, reader.i16()?);
    // The first offset and the time of the broker's log, and the first offset of the log.
    reader.take(if version >= 5 { 24 } else { 16 })?;
    let mut message = None;
    if version >= 8 {
        for _ in 0..reader.any_count(is_flexible)? {
            // A record of the batch, and what is wrong with it.
            reader.take(4)?;
            reader.any_text(is_flexible)?;
            reader.end(is_flexible)?;
        }
        message = reader.any_text(is_flexible)?;
    }
    reader.end(is_flexible)?;
    Ok(Produced { topic, partition, code, message })
}

/// Reads a response to a fetch of `version`, from 4 on. The records stay where they are.
///
/// # Errors
/// When it is cut off, or a number is senseless.
pub fn read_fetched(body: &Bytes, version: i16) -> Result<FetchResponse, Malformed> {
    let mut reader = Reader(body);
    let mut response = FetchResponse { throttled_ms: reader.i32()?, ..FetchResponse::default() };
    if version >= 7 {
        (response.code, response.session_id) = (reader.i16()?, reader.i32()?);
    }
    for _ in 0..reader.count()? {
        reader.text()?;
        for _ in 0..reader.count()? {
            response.partitions.push(fetched_partition(&mut reader, body, version)?);
        }
    }
    Ok(response)
}

fn fetched_partition(reader: &mut Reader<'_>, body: &Bytes, version: i16) -> Result<FetchedPartition, Malformed> {
    let (partition, code) = (reader.i32()?, reader.i16()?);
    // The ends of what is replicated and of what is committed, and where the log begins.
    reader.take(if version >= 5 { 24 } else { 16 })?;
    let mut aborted = Vec::new();
    for _ in 0..reader.count()? {
        let (producer, first_offset) = (reader.i64()?, reader.i64()?);
        aborted.push((first_offset, producer));
    }
    if version >= 11 {
        // A replica that is nearer.
        reader.take(4)?;
    }
    let length = usize::try_from(reader.i32()?).unwrap_or(0);
    let records = body.slice_ref(reader.take(length)?);
    Ok(FetchedPartition { partition, code, aborted, records })
}

/// The feature whose levels name Kafka's releases.
const METADATA: &str = "metadata.version";

/// The first version of the response that has features (KIP-584), as fields that are optional.
const WITH_FEATURES: i16 = 3;

/// The optional fields with the features that the node supports, and that its cluster has agreed on.
const SUPPORTED: u32 = 0;
const FINALIZED: u32 = 2;

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeVersions {
    pub code: i16,
    /// Numbers of requests, each with the oldest and the newest version that the node supports.
    pub requests: Vec<(i16, i16, i16)>,
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
    let mut requests = Vec::new();
    for _ in 0..reader.any_count(is_compact)? {
        requests.push((reader.i16()?, reader.i16()?, reader.i16()?));
        reader.end(is_compact)?;
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

/// What is left of a response.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*number)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        self.number().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.number().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.number().map(i64::from_be_bytes)
    }

    /// A number of a flexible version (KIP-482), 7 bits a byte.
    fn unsigned(&mut self) -> Result<u32, Malformed> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let [byte] = self.number()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| Malformed("a number is too large"));
            }
        }
        Err(Malformed("a number does not end"))
    }

    /// How many elements follow in a list of a flexible version.
    pub(super) fn compact_count(&mut self) -> Result<usize, Malformed> {
        let count = self.unsigned()?.saturating_sub(1) as usize;
        // Each takes a byte at least.
        if count <= self.0.len() { Ok(count) } else { Err(Malformed("it announces more than it has")) }
    }

    pub(super) fn compact_text(&mut self) -> Result<Option<&'a str>, Malformed> {
        match self.unsigned()? {
            0 => Ok(None),
            length => text(self.take(length as usize - 1)?).map(Some),
        }
    }

    fn any_count(&mut self, is_flexible: bool) -> Result<usize, Malformed> {
        if is_flexible { self.compact_count() } else { self.count() }
    }

    fn any_text(&mut self, is_flexible: bool) -> Result<Option<&'a str>, Malformed> {
        if is_flexible { self.compact_text() } else { self.text() }
    }

    /// The end of an element: in flexible versions, fields that are optional.
    fn end(&mut self, is_flexible: bool) -> Result<(), Malformed> {
        if is_flexible { self.skip_tags() } else { Ok(()) }
    }

    /// Fields that are optional, none of which is read.
    pub(super) fn skip_tags(&mut self) -> Result<(), Malformed> {
        for _ in 0..self.unsigned()? {
            self.unsigned()?;
            let length = self.unsigned()? as usize;
            self.take(length)?;
        }
        Ok(())
    }

    /// How many elements follow. A null list has none.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        match self.i32()? {
            -1 => Ok(0),
            count => match usize::try_from(count) {
                // Each takes a byte at least.
                Ok(count) if count <= self.0.len() => Ok(count),
                _ => Err(Malformed("it announces more than it has")),
            },
        }
    }

    fn text(&mut self) -> Result<Option<&'a str>, Malformed> {
        self.text_bytes()?.map(text).transpose()
    }

    /// A text as it came; `None`: null.
    pub(super) fn text_bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i16()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("a length is negative"))?;
                self.take(length).map(Some)
            }
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/codec/responses.rs"]
mod tests;
