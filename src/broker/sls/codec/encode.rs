//! Writes logs into a batch's buffer, and what closes the group around them.

use super::record::Record;
use crate::limits::{TRACE_HEADER_BYTES, TRACE_HEADER_NAME};

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

#[cfg(test)]
#[path = "../../../../tests/unit/broker/sls/codec/encode.rs"]
mod tests;
