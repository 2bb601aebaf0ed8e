//! Logs on the wire: protobuf, written straight into a batch's buffer and read without a tree.
//!
//! The service's messages, as its API reference describes them:
//!
//! ```text
//! LogGroup     { 1: repeated Log, 3: topic, 4: source, 6: repeated LogTag }
//! Log          { 1: uint32 time, 2: repeated Content, 4: fixed32 time_ns }
//! Content, LogTag { 1: key, 2: value }
//! LogGroupList { 1: repeated LogGroup }
//! ```
//!
//! `record`: which fields a payload becomes, and back. This file writes logs and what closes a group, and reads what consumers receive:
//! values are borrowed from the response, and no announced length is trusted for an allocation.

mod record;

pub use self::record::{Record, rebuild};

use crate::limits::{TRACE_HEADER_BYTES, TRACE_HEADER_NAME};

/// The key of a payload that is not a record of fields.
pub const CONTENT_KEY: &[u8] = b"content";

/// Names the stretch of logs within which order is kept, followed by `-` and the batch's number: what the service's own
/// producers write for its view of a log's surroundings.
pub const PACK_TAG: &[u8] = b"__pack_id__";

/// A key and a value that all logs of a group share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Appends one log to the group being written in `into`, and returns its size as the service's producers count it: 4, and
/// the lengths of all keys and values.
#[inline]
pub fn write_log(
    into: &mut Vec<u8>,
    record: &Record,
    payload: &[u8],
    trace_header: Option<&[u8; TRACE_HEADER_BYTES]>,
    unix_seconds: u32,
) -> usize {
    let (mut raw, mut length) = (4, 1 + varint_length(unix_seconds as usize));
    let trace_header = trace_header.map(hex);
    let mut count = |key: &[u8], value: &[u8]| {
        raw += key.len() + value.len();
        length += framed_length(pair_length(key, value));
    };
    record.each(payload, &mut count);
    if let Some(trace_header) = &trace_header {
        count(TRACE_HEADER_NAME.as_bytes(), trace_header);
    }
    into.reserve(length + 16);
    into.push(0x0a);
    write_varint(into, length);
    into.push(0x08);
    write_varint(into, unix_seconds as usize);
    record.each(payload, |key, value| write_pair(into, 0x12, key, value));
    if let Some(trace_header) = &trace_header {
        write_pair(into, 0x12, TRACE_HEADER_NAME.as_bytes(), trace_header);
    }
    raw
}

/// Appends what all logs of the group share.
pub fn close_group<'a>(
    into: &mut Vec<u8>,
    topic: &[u8],
    source: &[u8],
    tags: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    for (mark, text) in [(0x1a, topic), (0x22, source)] {
        if !text.is_empty() {
            into.push(mark);
            write_text(into, text);
        }
    }
    for (key, value) in tags {
        write_pair(into, 0x32, key, value);
    }
}

/// A nested message of two texts, under the field whose mark is given.
#[inline]
fn write_pair(into: &mut Vec<u8>, mark: u8, key: &[u8], value: &[u8]) {
    into.push(mark);
    write_varint(into, pair_length(key, value));
    into.push(0x0a);
    write_text(into, key);
    into.push(0x12);
    write_text(into, value);
}

#[inline]
fn write_text(into: &mut Vec<u8>, text: &[u8]) {
    write_varint(into, text.len());
    into.extend_from_slice(text);
}

#[inline]
fn pair_length(key: &[u8], value: &[u8]) -> usize {
    framed_length(key.len()) + framed_length(value.len())
}

/// Bytes of a field of that length, with its mark.
#[inline]
fn framed_length(length: usize) -> usize {
    1 + varint_length(length) + length
}

#[inline]
fn varint_length(value: usize) -> usize {
    // 7 bits a byte; 0 takes one.
    (value | 1).ilog2() as usize / 7 + 1
}

#[inline]
fn write_varint(into: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// The engine's own header as text, which is what the service keeps.
#[inline]
fn hex(trace_header: &[u8; TRACE_HEADER_BYTES]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; 64];
    for (place, byte) in text.chunks_exact_mut(2).zip(trace_header) {
        place[0] = DIGITS[usize::from(byte >> 4)];
        place[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// The response is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response holds malformed protobuf: {0}")]
pub struct Malformed(&'static str);

/// A field of a message: its number and what it holds.
enum Held<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
#[derive(Clone)]
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Held<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mark = self.varint()?;
        let held = match mark & 7 {
            0 => {
                self.varint()?;
                Held::Number
            }
            1 => Held::Bytes(self.bytes(8)?),
            2 => {
                let length = self.varint()?;
                Held::Bytes(self.bytes(length)?)
            }
            5 => Held::Bytes(self.bytes(4)?),
            _ => return Err(Malformed("a field of an unknown type")),
        };
        Ok(Some((mark >> 3, held)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed("a number without an end"))?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number of more than ten bytes"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed("a field longer than its message"))?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// What all logs of a group share.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogGroup<'a> {
    bytes: &'a [u8],
    pub topic: &'a [u8],
    pub source: &'a [u8],
    /// The value of the tag `__pack_id__`, empty without one.
    pub pack: &'a [u8],
}

/// Hands each group of a list to `each`.
///
/// # Errors
/// When the list is malformed; groups before the error were handed over.
pub fn groups<'a>(
    list: &'a [u8],
    mut each: impl FnMut(LogGroup<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut fields = Fields { rest: list };
    while let Some((number, held)) = fields.next()? {
        if let (1, Held::Bytes(bytes)) = (number, held) {
            each(group(bytes)?)?;
        }
    }
    Ok(())
}

fn group(bytes: &[u8]) -> Result<LogGroup<'_>, Malformed> {
    let mut group = LogGroup { bytes, ..LogGroup::default() };
    let mut fields = Fields { rest: bytes };
    while let Some((number, held)) = fields.next()? {
        match (number, held) {
            (3, Held::Bytes(topic)) => group.topic = topic,
            (4, Held::Bytes(source)) => group.source = source,
            (6, Held::Bytes(tag)) => {
                let (key, value) = pair(tag)?;
                if key == PACK_TAG {
                    group.pack = value;
                }
            }
            _ => {}
        }
    }
    Ok(group)
}

/// Hands the keys and values of each log of a group to `each`; the slice is reused.
///
/// # Errors
/// When a log is malformed; logs before it have been handed over.
pub fn logs<'a>(group: &LogGroup<'a>, mut each: impl FnMut(&[(&'a [u8], &'a [u8])])) -> Result<(), Malformed> {
    let mut contents = Vec::new();
    let mut fields = Fields { rest: group.bytes };
    while let Some((number, held)) = fields.next()? {
        let (1, Held::Bytes(log)) = (number, held) else { continue };
        contents.clear();
        let mut parts = Fields { rest: log };
        while let Some((number, held)) = parts.next()? {
            if let (2, Held::Bytes(content)) = (number, held) {
                contents.push(pair(content)?);
            }
        }
        each(&contents);
    }
    Ok(())
}

fn pair(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value): (&[u8], &[u8]) = (b"", b"");
    let mut fields = Fields { rest: bytes };
    while let Some((number, held)) = fields.next()? {
        match (number, held) {
            (1, Held::Bytes(bytes)) => key = bytes,
            (2, Held::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/sls/codec/mod.rs"]
mod tests;
