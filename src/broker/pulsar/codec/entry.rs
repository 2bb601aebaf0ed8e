//! Entries: what is behind a `Send` command, and behind a `Message` one. Either one message, or a batch of them:
//!
//! ```text
//! one    MessageMetadata, payload
//! batch  MessageMetadata, [size: 4] SingleMessageMetadata payload, [size: 4] SingleMessageMetadata payload, …
//! ```
//!
//! The metadata is written and read field by field, by the numbers of `PulsarApi.proto`: a generated type would take an
//! allocation for each string of each message.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

use super::compression::Compression;
use super::frame::{FrameError, put_sized, split_message, split_sized};
use crate::broker::{Details, Outgoing, Received, TRACE_HEADER_NAME};
use crate::measure::TRACE_HEADER_BYTES;

/// Fields of `MessageMetadata`.
mod metadata {
    pub const PRODUCER_NAME: u32 = 1;
    pub const SEQUENCE_ID: u32 = 2;
    pub const PUBLISH_TIME: u32 = 3;
    pub const PROPERTIES: u32 = 4;
    pub const PARTITION_KEY: u32 = 6;
    pub const COMPRESSION: u32 = 8;
    pub const UNCOMPRESSED_SIZE: u32 = 9;
    pub const NUM_MESSAGES_IN_BATCH: u32 = 11;
    pub const DELIVER_AT_TIME: u32 = 19;
    pub const HIGHEST_SEQUENCE_ID: u32 = 24;
}

/// Fields of `SingleMessageMetadata`.
mod single {
    pub const PROPERTIES: u32 = 1;
    pub const PARTITION_KEY: u32 = 2;
    pub const PAYLOAD_SIZE: u32 = 3;
    pub const SEQUENCE_ID: u32 = 8;
}

/// Fields of `KeyValue`.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// Characters of a trace header as a property, whose values are text.
const TRACE_HEADER_TEXT: usize = TRACE_HEADER_BYTES.div_ceil(3) * 4;

/// What all entries of a trial have in common, encoded once.
#[derive(Debug, Default)]
pub struct EntryTemplate {
    pub compression: Compression,
    /// The scenario's headers, as fields of the metadata of one message and of a message within a batch.
    one_properties: Vec<u8>,
    single_properties: Vec<u8>,
}

impl EntryTemplate {
    pub fn new(compression: Compression, headers: &[(String, String)]) -> Self {
        let mut template = EntryTemplate { compression, ..EntryTemplate::default() };
        for (name, value) in headers {
            put_property(&mut template.one_properties, metadata::PROPERTIES, name, value.as_bytes());
            put_property(&mut template.single_properties, single::PROPERTIES, name, value.as_bytes());
        }
        template
    }
}

/// The metadata of an entry, apart from its messages.
#[derive(Debug, Clone, Copy)]
pub struct Heading<'a> {
    pub producer_name: &'a str,
    pub sequence_id: u64,
    pub publish_time_ms: u64,
    /// When the message is to be delivered, if not at once.
    pub deliver_at_ms: Option<u64>,
    /// `Some` where the payload is compressed.
    pub uncompressed_size: Option<usize>,
}

/// Appends the metadata of `message` sent alone.
pub fn put_one(out: &mut Vec<u8>, template: &EntryTemplate, heading: Heading<'_>, message: &Outgoing<'_>) {
    put_heading(out, template, heading, message.key);
    out.extend_from_slice(&template.one_properties);
    put_trace_header(out, metadata::PROPERTIES, message.trace_header);
}

/// Appends the metadata of a batch of `count` messages, whose first has `key`.
pub fn put_batch(out: &mut Vec<u8>, template: &EntryTemplate, heading: Heading<'_>, count: usize, key: Option<&[u8]>) {
    put_heading(out, template, heading, key);
    put_number(out, metadata::NUM_MESSAGES_IN_BATCH, count as u64);
    put_number(out, metadata::HIGHEST_SEQUENCE_ID, heading.sequence_id + count as u64 - 1);
}

/// Appends one message of a batch.
pub fn put_single(out: &mut Vec<u8>, template: &EntryTemplate, sequence_id: u64, message: &Outgoing<'_>) {
    put_sized(out, |out| {
        out.extend_from_slice(&template.single_properties);
        put_trace_header(out, single::PROPERTIES, message.trace_header);
        if let Some(key) = message.key {
            put_bytes(out, single::PARTITION_KEY, key);
        }
        put_number(out, single::PAYLOAD_SIZE, message.payload.len() as u64);
        put_number(out, single::SEQUENCE_ID, sequence_id);
    });
    out.extend_from_slice(message.payload);
}

fn put_heading(out: &mut Vec<u8>, template: &EntryTemplate, heading: Heading<'_>, key: Option<&[u8]>) {
    put_bytes(out, metadata::PRODUCER_NAME, heading.producer_name.as_bytes());
    put_number(out, metadata::SEQUENCE_ID, heading.sequence_id);
    put_number(out, metadata::PUBLISH_TIME, heading.publish_time_ms);
    if let Some(key) = key {
        put_bytes(out, metadata::PARTITION_KEY, key);
    }
    if let Some(deliver_at_ms) = heading.deliver_at_ms {
        put_number(out, metadata::DELIVER_AT_TIME, deliver_at_ms);
    }
    if let Some(size) = heading.uncompressed_size {
        put_number(out, metadata::COMPRESSION, template.compression as u64);
        put_number(out, metadata::UNCOMPRESSED_SIZE, size as u64);
    }
}

fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    encode_key(field, WireType::Varint, out);
    encode_varint(number, out);
}

fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_property(out: &mut Vec<u8>, field: u32, name: &str, value: &[u8]) {
    let length = |bytes: &[u8]| 1 + prost::length_delimiter_len(bytes.len()) + bytes.len();
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint((length(name.as_bytes()) + length(value)) as u64, out);
    put_bytes(out, KEY, name.as_bytes());
    put_bytes(out, VALUE, value);
}

fn put_trace_header(out: &mut Vec<u8>, field: u32, trace_header: Option<&[u8; TRACE_HEADER_BYTES]>) {
    let Some(trace_header) = trace_header else { return };
    let mut text = [0; TRACE_HEADER_TEXT];
    // A trace header always fits.
    let length = BASE64.encode_slice(trace_header, &mut text).unwrap_or(0);
    put_property(out, field, TRACE_HEADER_NAME, &text[..length]);
}

/// Hands the messages of the entry that follows a `Message` command to `each`, and returns how many there were.
/// `unpacked` is memory for decompression.
///
/// # Errors
/// When the entry is damaged; messages before the damage were handed over.
pub fn read(
    rest: &[u8],
    partition: u32,
    redelivered: bool,
    unpacked: &mut Vec<u8>,
    each: &mut impl FnMut(Received<'_>),
) -> Result<usize, FrameError> {
    let (metadata, mut payload) = split_message(rest)?;
    let head = Head::read(metadata)?;
    if head.compression != 0 {
        let compression = Compression::from_number(head.compression as i32);
        let compression = compression.ok_or(FrameError::Entry("its compression is unknown"))?;
        compression.decompress(payload, head.uncompressed_size as usize, unpacked).map_err(FrameError::Entry)?;
        payload = unpacked;
    }
    let mut hand_over = |payload: &[u8], head: &Head, single: Option<&[u8]>| {
        each(Received {
            payload,
            trace_header: head.trace_header.as_ref().map(<[u8; TRACE_HEADER_BYTES]>::as_slice),
            partition,
            offset: 0,
            redelivered,
            details: &MessageDetails { metadata, single },
        });
    };
    let Some(count) = head.batched else {
        hand_over(payload, &head, None);
        return Ok(1);
    };
    for _ in 0..count {
        let (inner, behind) = split_sized(payload).ok_or(FrameError::Entry("its batch ends too soon"))?;
        let head = Head::read(inner)?;
        let (content, behind) =
            behind.split_at_checked(head.payload_size as usize).ok_or(FrameError::Entry("its batch ends too soon"))?;
        hand_over(content, &head, Some(inner));
        payload = behind;
    }
    Ok(count as usize)
}

/// How many messages an entry counts for among a consumer's permits, also if it cannot be read further.
pub fn count(rest: &[u8]) -> usize {
    let head = split_message(rest).and_then(|(head, _)| Head::read(head));
    head.ok().and_then(|head| head.batched).map_or(1, |count| count as usize)
}

/// What is of interest in either kind of metadata.
#[derive(Default)]
struct Head {
    compression: u64,
    uncompressed_size: u64,
    batched: Option<u64>,
    payload_size: u64,
    trace_header: Option<[u8; TRACE_HEADER_BYTES]>,
}

impl Head {
    /// Reads `MessageMetadata` or `SingleMessageMetadata`. Where a number has two meanings, the reader of one
    /// kind ignores the other's; a producer's name (1) is not a property with the trace header's name.
    fn read(mut bytes: &[u8]) -> Result<Head, FrameError> {
        let mut head = Head::default();
        while !bytes.is_empty() {
            match field(&mut bytes)? {
                (metadata::COMPRESSION, Value::Number(number)) => head.compression = number,
                (metadata::UNCOMPRESSED_SIZE, Value::Number(number)) => head.uncompressed_size = number,
                (metadata::NUM_MESSAGES_IN_BATCH, Value::Number(number)) => head.batched = Some(number),
                (single::PAYLOAD_SIZE, Value::Number(number)) => head.payload_size = number,
                (metadata::PROPERTIES | single::PROPERTIES, Value::Bytes(property)) => {
                    if let Some(trace_header) = trace_header(property) {
                        head.trace_header = Some(trace_header);
                    }
                }
                _ => {}
            }
        }
        Ok(head)
    }
}

/// The encoded metadata of a message, and, within a batch, what it has of its own.
#[derive(Debug)]
struct MessageDetails<'a> {
    metadata: &'a [u8],
    single: Option<&'a [u8]>,
}

impl<'a> MessageDetails<'a> {
    /// The values of a field, in the metadata of the message itself.
    fn own(&self, one_properties: u32, single_properties: u32) -> impl Iterator<Item = &'a [u8]> {
        let (bytes, wanted) = match self.single {
            Some(single) => (single, single_properties),
            None => (self.metadata, one_properties),
        };
        fields(bytes).filter_map(move |(field, value)| match value {
            Value::Bytes(bytes) if field == wanted => Some(bytes),
            _ => None,
        })
    }
}

impl Details for MessageDetails<'_> {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.own(metadata::PARTITION_KEY, single::PARTITION_KEY).next().map(Cow::Borrowed)
    }

    /// When the producer's client made the entry.
    fn timestamp_unix_ns(&self) -> Option<u64> {
        fields(self.metadata).find_map(|(field, value)| match value {
            Value::Number(ms) if field == metadata::PUBLISH_TIME => ms.checked_mul(1_000_000),
            _ => None,
        })
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let properties = self.own(metadata::PROPERTIES, single::PROPERTIES).filter_map(property);
        let headers = properties.filter(|(name, _)| *name != TRACE_HEADER_NAME.as_bytes());
        headers.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect()
    }
}

/// The fields of an encoded message, until one is damaged.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Value<'_>)> {
    std::iter::from_fn(move || if bytes.is_empty() { None } else { field(&mut bytes).ok() })
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// The next field of an encoded message, which is taken from `bytes`.
fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u32, Value<'a>), FrameError> {
    let (field, wire_type) = decode_key(bytes)?;
    let length = match wire_type {
        WireType::Varint => return Ok((field, Value::Number(decode_varint(bytes)?))),
        WireType::LengthDelimited => decode_varint(bytes)? as usize,
        WireType::ThirtyTwoBit => 4,
        WireType::SixtyFourBit => 8,
        WireType::StartGroup | WireType::EndGroup => return Err(FrameError::Entry("its metadata has groups")),
    };
    let (taken, behind) = bytes.split_at_checked(length).ok_or(FrameError::Entry("its metadata ends too soon"))?;
    *bytes = behind;
    Ok((field, if wire_type == WireType::LengthDelimited { Value::Bytes(taken) } else { Value::Fixed }))
}

/// A property's name and value.
fn property(mut encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    while !encoded.is_empty() {
        match field(&mut encoded).ok()? {
            (KEY, Value::Bytes(bytes)) => name = bytes,
            (VALUE, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Some((name, value))
}

/// The trace header in a property, if it is that property.
fn trace_header(encoded: &[u8]) -> Option<[u8; TRACE_HEADER_BYTES]> {
    let (name, text) = property(encoded)?;
    if name != TRACE_HEADER_NAME.as_bytes() {
        return None;
    }
    trace_header_from(text)
}

/// A trace header as the value of a property.
pub fn trace_header_text(trace_header: &[u8; TRACE_HEADER_BYTES]) -> String {
    BASE64.encode(trace_header)
}

/// The trace header that a property's value holds.
pub fn trace_header_from(text: &[u8]) -> Option<[u8; TRACE_HEADER_BYTES]> {
    // Decoding needs space for whole groups of three bytes.
    let mut decoded = [0; TRACE_HEADER_TEXT];
    let length = BASE64.decode_slice(text, &mut decoded).ok()?;
    decoded[..length].try_into().ok()
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/pulsar/codec/entry.rs"]
mod tests;
