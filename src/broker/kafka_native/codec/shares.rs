//! The responses to requests of members of share groups that are read where they lie.
//!
//! Source: Kafka's `ShareFetchResponse.json` and `ShareAcknowledgeResponse.json`, versions 1 and 2, and `DescribeShareGroupOffsetsResponse.json`,
//! version 1.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Malformed;
use super::responses::Reader;

/// The oldest version of both responses, and the first that tells a lock's time where an answer has renewed it.
pub const OLDEST: i16 = 1;
pub const WITH_RENEWAL: i16 = 2;

/// What was fetched and acquired of all partitions, or what became of answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShareResponse {
    pub throttled_ms: i32,
    pub code: i16,
    pub message: Option<String>,
    pub partitions: Vec<SharePartition>,
}

/// The same of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharePartition {
    pub partition: u32,
    /// Of the fetch.
    pub code: i16,
    /// Of the answers that the request had.
    pub answer_code: i16,
    pub answer_message: Option<String>,
    /// Whole batches.
    pub records: Bytes,
    /// Which of the records are the member's, in their order.
    pub acquired: Vec<Acquired>,
}

/// Successive offsets that a member has acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquired {
    pub first: i64,
    pub last: i64,
    /// Which delivery it is, from 1.
    pub deliveries: i16,
}

/// Reads a response to a fetch.
///
/// # Errors
/// When it is cut off, or a number is senseless.
pub fn read_share_fetched(body: &Bytes) -> Result<ShareResponse, Malformed> {
    read(body, true, |reader| {
        let (partition, code) = (reader.i32()? as u32, reader.i16()?);
        reader.compact_text()?;
        let (answer_code, answer_message) = (reader.i16()?, owned(reader.compact_text()?));
        skip_leader(reader)?;
        // Null is as nothing: lengths are one more than what they announce.
        let length = reader.compact_count()?;
        let records = body.slice_ref(reader.take(length)?);
        let mut acquired = Vec::new();
        for _ in 0..reader.compact_count()? {
            acquired.push(Acquired { first: reader.i64()?, last: reader.i64()?, deliveries: reader.i16()? });
            reader.skip_tags()?;
        }
        Ok(SharePartition { partition, code, answer_code, answer_message, records, acquired })
    })
}

/// Reads a response to answers, of `version`.
///
/// # Errors
/// When it is cut off, or a number is senseless.
pub fn read_share_acknowledged(body: &Bytes, version: i16) -> Result<ShareResponse, Malformed> {
    read(body, version >= WITH_RENEWAL, |reader| {
        let (partition, answer_code) = (reader.i32()? as u32, reader.i16()?);
        let answer_message = owned(reader.compact_text()?);
        skip_leader(reader)?;
        Ok(SharePartition { partition, answer_code, answer_message, ..SharePartition::default() })
    })
}

/// Reads how many messages groups have not done with, by the partition of the only topic that was asked about, from a response of version 1 to
/// `DescribeShareGroupOffsets`; below 0: the broker does not know. Also returns the error code of the last group.
///
/// # Errors
/// When it is cut off, or a number is senseless.
pub fn read_group_lags(body: &Bytes) -> Result<(i16, BTreeMap<u32, i64>), Malformed> {
    let reader = &mut Reader(body);
    reader.i32()?;
    let (mut code, mut lags) = (0, BTreeMap::new());
    for _ in 0..reader.compact_count()? {
        reader.compact_text()?;
        for _ in 0..reader.compact_count()? {
            reader.compact_text()?;
            reader.take(16)?;
            for _ in 0..reader.compact_count()? {
                let partition = reader.i32()? as u32;
                // Where the group begins, and the epoch of the leader.
                reader.take(12)?;
                let (lag, refusal) = (reader.i64()?, reader.i16()?);
                lags.insert(partition, if refusal == 0 { lag } else { -1 });
                reader.compact_text()?;
                reader.skip_tags()?;
            }
            reader.skip_tags()?;
        }
        code = reader.i16()?;
        reader.compact_text()?;
        reader.skip_tags()?;
    }
    Ok((code, lags))
}

fn read(
    body: &Bytes,
    has_lock: bool,
    partition: impl Fn(&mut Reader<'_>) -> Result<SharePartition, Malformed>,
) -> Result<ShareResponse, Malformed> {
    let reader = &mut Reader(body);
    let (throttled_ms, code, message) = (reader.i32()?, reader.i16()?, owned(reader.compact_text()?));
    // For how long messages are locked: the broker ends the lock, not the member.
    reader.take(if has_lock { 4 } else { 0 })?;
    let mut partitions = Vec::new();
    for _ in 0..reader.compact_count()? {
        // The topic's id: all partitions are of one topic.
        reader.take(16)?;
        for _ in 0..reader.compact_count()? {
            partitions.push(partition(reader)?);
            reader.skip_tags()?;
        }
        reader.skip_tags()?;
    }
    Ok(ShareResponse { throttled_ms, code, message, partitions })
}

/// The leader now, where the node is not it: metadata tells the same.
fn skip_leader(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    reader.take(8)?;
    reader.skip_tags()
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/codec/shares.rs"]
mod tests;
