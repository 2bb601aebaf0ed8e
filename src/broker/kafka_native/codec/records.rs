//! Record batches, read where they lie: nothing is copied unless a batch is compressed.

use std::borrow::Cow;

use bytes::Bytes;

use super::Malformed;
use super::batch::{BEFORE_LENGTH_ENDS, HEADER_BYTES, MAGIC, MAX_VARINT_BYTES, at};
use super::compression::Compression;
use crate::limits::{TRACE_HEADER_NAME, shrink_unpacked};
use crate::measure::Details;

/// A batch, whose checksum was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBatch<'a> {
    pub base_offset: i64,
    pub last_offset_delta: i32,
    pub compression: Compression,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
    /// Whether it marks the end of a transaction, and holds no messages.
    pub is_control: bool,
    pub producer_id: i64,
    pub base_timestamp_ms: i64,
    /// When the broker stored it, which is then the time of all its records (`message.timestamp.type=LogAppendTime`).
    pub append_time_ms: Option<i64>,
    pub record_count: i32,
    /// The records, as they are compressed.
    pub body: &'a [u8],
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRecord<'a> {
    pub offset: i64,
    pub timestamp_ms: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    /// The headers one after the other, as they are encoded.
    headers: &'a [u8],
    /// The value of the trace header.
    pub trace_header: Option<&'a [u8]>,
}

/// Takes the next batch from `bytes`. `None`: it has not arrived completely. A broker cuts off what does not fit its response.
///
/// # Errors
/// When the batch is of another version, damaged, or senseless.
pub fn next_batch<'a>(bytes: &mut &'a [u8]) -> Result<Option<ReadBatch<'a>>, Malformed> {
    let Some((batch, rest)) = split_batch(bytes)? else { return Ok(None) };
    if crc_fast::crc32_iscsi(&batch[at::ATTRIBUTES..]) != u32::from_be_bytes(number(batch, at::CRC)) {
        return Err(Malformed("a batch has a wrong checksum"));
    }
    *bytes = rest;
    let attributes = i16::from_be_bytes(number(batch, at::ATTRIBUTES));
    let compression =
        Compression::from_number((attributes & 7) as u8).ok_or(Malformed("a batch has an unknown compression"))?;
    Ok(Some(ReadBatch {
        base_offset: i64::from_be_bytes(number(batch, 0)),
        last_offset_delta: i32::from_be_bytes(number(batch, at::LAST_OFFSET_DELTA)),
        compression,
        is_transactional: attributes & 0x10 != 0,
        is_control: attributes & 0x20 != 0,
        producer_id: i64::from_be_bytes(number(batch, at::PRODUCER_ID)),
        base_timestamp_ms: i64::from_be_bytes(number(batch, at::BASE_TIMESTAMP)),
        append_time_ms: (attributes & 0x08 != 0).then(|| i64::from_be_bytes(number(batch, at::MAX_TIMESTAMP))),
        record_count: i32::from_be_bytes(number(batch, at::RECORD_COUNT)),
        body: &batch[HEADER_BYTES..],
    }))
}

/// A batch that was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedBatch {
    /// The offset after it.
    pub next_offset: i64,
    /// How often the partition had got another leader when one wrote it.
    pub leader_epoch: i32,
}

/// Takes the next batch from `bytes` unread. `None`: it has not arrived completely.
///
/// # Errors
/// When its length is senseless.
pub fn skip_batch(bytes: &mut &[u8]) -> Result<Option<SkippedBatch>, Malformed> {
    let Some((batch, rest)) = split_batch(bytes)? else { return Ok(None) };
    *bytes = rest;
    let base_offset = i64::from_be_bytes(number(batch, 0));
    let last_offset_delta = i32::from_be_bytes(number(batch, at::LAST_OFFSET_DELTA));
    Ok(Some(SkippedBatch {
        next_offset: base_offset.saturating_add(i64::from(last_offset_delta)).saturating_add(1),
        leader_epoch: i32::from_be_bytes(number(batch, at::LEADER_EPOCH)),
    }))
}

/// A batch and what comes after it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// The next whole batch.
fn split_batch(bytes: &[u8]) -> Result<Option<Split<'_>>, Malformed> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let length = i32::from_be_bytes(number(bytes, at::BATCH_LENGTH));
    let length = usize::try_from(length).map_err(|_| Malformed("a batch has a negative length"))? + BEFORE_LENGTH_ENDS;
    if bytes[at::MAGIC] != MAGIC {
        return Err(Malformed("a batch is of another version than 2"));
    }
    if length < HEADER_BYTES {
        return Err(Malformed("a batch is shorter than its header"));
    }
    Ok(bytes.split_at_checked(length))
}

/// A batch of which some records have been handed over. What was compressed has been decompressed once.
#[derive(Debug, Clone)]
pub struct OpenBatch {
    records: Bytes,
    left: i32,
    base_offset: i64,
    base_timestamp_ms: i64,
    append_time_ms: Option<i64>,
    next_offset: i64,
}

impl OpenBatch {
    /// Hands over the next records, up to `most` of those that are not before the offset `from`. Returns how many.
    ///
    /// # Errors
    /// When the records after those that were handed over are malformed.
    pub fn take(&mut self, from: i64, most: usize, mut each: impl FnMut(ReadRecord<'_>)) -> Result<usize, Malformed> {
        let mut rest = &self.records[..];
        let mut taken = 0;
        while taken < most && self.left > 0 {
            let record = next_record(&mut rest, self.base_offset, self.base_timestamp_ms, self.append_time_ms)?;
            self.left -= 1;
            if record.offset >= from {
                taken += 1;
                each(record);
            }
        }
        self.records = self.records.slice_ref(rest);
        Ok(taken)
    }

    pub fn is_finished(&self) -> bool {
        self.left <= 0
    }

    /// The offset of the next batch.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }
}

impl ReadBatch<'_> {
    /// The same, to hand over a few records at a time. `all`: the bytes that it was read from.
    ///
    /// # Errors
    /// When it cannot be decompressed.
    pub fn open(&self, all: &Bytes, unpacked: &mut Vec<u8>) -> Result<OpenBatch, Malformed> {
        let records = match self.compression {
            Compression::None => all.slice_ref(self.body),
            compression => {
                let decompressed = compression.decompress(self.body, unpacked);
                let records = decompressed.map(|()| Bytes::copy_from_slice(unpacked));
                shrink_unpacked(unpacked);
                records?
            }
        };
        Ok(OpenBatch {
            records,
            left: self.record_count,
            base_offset: self.base_offset,
            base_timestamp_ms: self.base_timestamp_ms,
            append_time_ms: self.append_time_ms,
            next_offset: self.next_offset(),
        })
    }

    /// The offset of the next batch.
    pub fn next_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta)).saturating_add(1)
    }

    /// Hands over the records. `unpacked` is memory for those of a compressed batch.
    ///
    /// # Errors
    /// When the records after those that were handed over are malformed.
    #[inline]
    pub fn for_each(&self, unpacked: &mut Vec<u8>, mut each: impl FnMut(ReadRecord<'_>)) -> Result<(), Malformed> {
        let mut hand_over = |mut records: &[u8]| -> Result<(), Malformed> {
            for _ in 0..self.record_count {
                each(next_record(&mut records, self.base_offset, self.base_timestamp_ms, self.append_time_ms)?);
            }
            Ok(())
        };
        match self.compression {
            Compression::None => hand_over(self.body),
            compression => {
                let read = compression.decompress(self.body, unpacked).and_then(|()| hand_over(unpacked));
                shrink_unpacked(unpacked);
                read
            }
        }
    }
}

impl Details for ReadRecord<'_> {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.key.map(Cow::Borrowed)
    }

    fn timestamp_unix_ns(&self) -> Option<u64> {
        u64::try_from(self.timestamp_ms).ok()?.checked_mul(1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut rest = self.headers;
        let mut headers = Vec::new();
        // They were read once, so they can be read again.
        while let Ok((name, value)) = next_header(&mut rest) {
            if name != TRACE_HEADER_NAME.as_bytes() {
                headers.push((String::from_utf8_lossy(name).into_owned(), value.unwrap_or_default().to_vec()));
            }
        }
        headers
    }
}

#[inline]
fn next_record<'a>(
    bytes: &mut &'a [u8],
    base_offset: i64,
    base_timestamp_ms: i64,
    append_time_ms: Option<i64>,
) -> Result<ReadRecord<'a>, Malformed> {
    let length = length(bytes)?.ok_or(Malformed("a record has a negative length"))?;
    let mut record = take(bytes, length)?;
    let record = &mut record;
    // The record's attributes: none are defined.
    take(record, 1)?;
    let created_ms = base_timestamp_ms.wrapping_add(read_varint(record)?);
    let timestamp_ms = append_time_ms.unwrap_or(created_ms);
    let offset = base_offset.wrapping_add(read_varint(record)?);
    let key = field(record)?;
    let value = field(record)?;
    let count = read_varint(record)?;
    let headers = *record;
    let mut trace_header = None;
    for _ in 0..count {
        let (name, content) = next_header(record)?;
        if name == TRACE_HEADER_NAME.as_bytes() {
            trace_header = content;
        }
    }
    Ok(ReadRecord { offset, timestamp_ms, key, value, headers, trace_header })
}

#[inline]
fn next_header<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), Malformed> {
    let name = field(bytes)?.ok_or(Malformed("a header has no name"))?;
    Ok((name, field(bytes)?))
}

/// Bytes with their length before them; `None`: null.
#[inline]
fn field<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    match length(bytes)? {
        None => Ok(None),
        Some(length) => take(bytes, length).map(Some),
    }
}

#[inline]
fn length(bytes: &mut &[u8]) -> Result<Option<usize>, Malformed> {
    match read_varint(bytes)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| Malformed("a length is negative")),
    }
}

#[inline]
fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Malformed("a record ends too early"))?;
    *bytes = rest;
    Ok(taken)
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut number = [0; BYTES];
    number.copy_from_slice(&bytes[at..at + BYTES]);
    number
}

/// Takes a zigzag-encoded integer from the beginning of `bytes`: Kafka's `ByteUtils.readVarlong`.
#[inline]
fn read_varint(bytes: &mut &[u8]) -> Result<i64, Malformed> {
    match *bytes {
        [byte @ ..0x80, rest @ ..] => {
            *bytes = rest;
            Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1))
        }
        _ => read_long(bytes),
    }
}

/// Of more bytes than one, or none.
fn read_long(bytes: &mut &[u8]) -> Result<i64, Malformed> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == MAX_VARINT_BYTES - 1 && bits > 1 {
            break;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(Malformed("an integer does not end"))
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/codec/records.rs"]
mod tests;
