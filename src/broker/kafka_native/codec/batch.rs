//! Record batches of version 2, written: each record is encoded straight into its batch.
//!
//! The values of large records may stay where they are, in the trial's payloads, which never change. The batch refers to them, and is then
//! several pieces: copying them would move all bytes through memory once more.
//!
//! Source: Kafka's documentation, "Record Batch" and "Record" (<https://kafka.apache.org/documentation/#recordbatch>).
//! Integers in records are zigzag-encoded, 7 bits a byte, the lowest first: Kafka's `org.apache.kafka.common.utils.ByteUtils`, `writeVarint`.

use super::compression::{PayloadChecksums, append_checksum};
use crate::limits::{TRACE_HEADER_BYTES, TRACE_HEADER_NAME};
use crate::load::{PayloadPlace, PayloadPool};

/// The bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;

/// Where the parts of a batch's header are.
pub mod at {
    pub const BATCH_LENGTH: usize = 8;
    pub const LEADER_EPOCH: usize = 12;
    pub const MAGIC: usize = 16;
    pub const CRC: usize = 17;
    pub const ATTRIBUTES: usize = 21;
    pub const LAST_OFFSET_DELTA: usize = 23;
    pub const BASE_TIMESTAMP: usize = 27;
    pub const MAX_TIMESTAMP: usize = 35;
    pub const PRODUCER_ID: usize = 43;
    pub const PRODUCER_EPOCH: usize = 51;
    pub const BASE_SEQUENCE: usize = 53;
    pub const RECORD_COUNT: usize = 57;
}

/// The version of the format.
pub const MAGIC: u8 = 2;

/// The attribute of a batch that is part of a transaction.
pub const TRANSACTIONAL: u8 = 0x10;

/// `batchLength` counts what comes after it.
pub const BEFORE_LENGTH_ENDS: usize = 12;

/// Most bytes of an encoded integer.
pub const MAX_VARINT_BYTES: usize = 10;

/// More than what a record has beside its key, value and headers.
pub const MAX_RECORD_OVERHEAD: usize = 1 + 5 * MAX_VARINT_BYTES;

/// Who wrote a batch, where the producer is idempotent. Numbers are −1 where it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author {
    pub producer_id: i64,
    pub epoch: i16,
    /// The number of the first record among those of this producer in the partition.
    pub sequence: i32,
}

impl Author {
    /// Of producers that do not number their batches.
    pub const UNNAMED: Author = Author { producer_id: -1, epoch: -1, sequence: -1 };
}

/// The headers that many records share, encoded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// The number of headers and the headers, as they are without a trace header.
    alone: Box<[u8]>,
    /// The same with one header more, up to the bytes of the trace header, which come last.
    traced: Box<[u8]>,
}

impl Headers {
    pub fn new(headers: &[(String, String)]) -> Self {
        let mut encoded = Vec::new();
        for (name, value) in headers {
            for part in [name, value] {
                append_varint(part.len() as i64, &mut encoded);
                encoded.extend_from_slice(part.as_bytes());
            }
        }
        let counted = |count: usize| {
            let mut out = Vec::new();
            append_varint(count as i64, &mut out);
            out.extend_from_slice(&encoded);
            out
        };
        let mut traced = counted(headers.len() + 1);
        append_varint(TRACE_HEADER_NAME.len() as i64, &mut traced);
        traced.extend_from_slice(TRACE_HEADER_NAME.as_bytes());
        append_varint(TRACE_HEADER_BYTES as i64, &mut traced);
        Headers { alone: counted(headers.len()).into(), traced: traced.into() }
    }

    /// Most bytes that they take in a record.
    pub fn max_bytes(&self) -> usize {
        self.traced.len() + TRACE_HEADER_BYTES
    }
}

/// One record to write.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    /// `None`: a null value.
    pub value: Option<&'a [u8]>,
    /// The place of the value among the trial's payloads, if the batch is to refer to it. Not in batches that are compressed.
    pub shared: Option<PayloadPlace>,
    pub headers: &'a Headers,
    pub trace_header: Option<&'a [u8; TRACE_HEADER_BYTES]>,
    pub timestamp_ms: i64,
}

/// What a batch is written to.
#[derive(Debug, Default)]
pub struct Memory {
    /// The batch, and room for the next records: it is written to without a look at the capacity.
    bytes: Vec<u8>,
    shared: Vec<SharedPayload>,
}

/// A value that is not in the batch's memory.
#[derive(Debug, Clone)]
struct SharedPayload {
    /// Where it belongs: behind so many bytes of the memory.
    behind: usize,
    place: PayloadPlace,
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Self {
        Memory { bytes, shared: Vec::new() }
    }
}

impl Memory {
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.bytes.capacity() + self.shared.capacity() * size_of::<SharedPayload>()
    }

    /// For bytes that are not a batch yet.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A batch that is being written.
#[derive(Debug, Default)]
pub struct Batch {
    memory: Memory,
    /// Where the batch ends in its memory.
    end: usize,
    /// Bytes of values that are not in its memory.
    shared_bytes: usize,
    records: i32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl Batch {
    /// An empty one in the memory of another.
    pub fn in_memory_of(mut memory: Memory) -> Self {
        match memory.bytes.first_chunk_mut::<HEADER_BYTES>() {
            Some(header) => header.fill(0),
            None => memory.bytes.resize(HEADER_BYTES, 0),
        }
        memory.shared.clear();
        Batch { memory, end: HEADER_BYTES, ..Batch::default() }
    }

    /// Its bytes, with the values that it refers to.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it has a header at least")]
    pub fn len(&self) -> usize {
        self.end + self.shared_bytes
    }

    /// The header, which is zero until it is sealed, and the records; without the values that it refers to.
    #[inline]
    pub fn own_bytes(&self) -> &[u8] {
        &self.memory.bytes[..self.end]
    }

    /// How many pieces it has, of which some may be empty.
    pub fn pieces(&self) -> usize {
        2 * self.memory.shared.len() + 1
    }

    /// One of its pieces: together they are the header and the records. `payloads`: those of the trial.
    #[inline]
    pub fn piece<'a>(&'a self, index: usize, payloads: &'a PayloadPool) -> &'a [u8] {
        let shared = &self.memory.shared;
        if index % 2 == 1 {
            return payloads.at(shared[index / 2].place);
        }
        let begin = index.checked_sub(2).map_or(0, |before| shared[before / 2].behind);
        let end = shared.get(index / 2).map_or(self.end, |next| next.behind);
        &self.memory.bytes[begin..end]
    }

    /// Its memory, for another one.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Puts `bytes` in the place of its own, which are the same records, compressed. Returns the memory that it had.
    pub fn replace_bytes(&mut self, bytes: Vec<u8>) -> Memory {
        self.end = bytes.len();
        self.shared_bytes = 0;
        std::mem::replace(&mut self.memory, bytes.into())
    }

    pub fn records(&self) -> i32 {
        self.records
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, record: &Record<'_>) {
        if self.records == 0 {
            (self.base_timestamp_ms, self.max_timestamp_ms) = (record.timestamp_ms, record.timestamp_ms);
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(record.timestamp_ms);
        let (headers, trace_header) = match record.trace_header {
            None => (&record.headers.alone[..], &[][..]),
            Some(trace_header) => (&record.headers.traced[..], &trace_header[..]),
        };
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        let timestamp_delta = record.timestamp_ms - self.base_timestamp_ms;
        let numbers = [timestamp_delta, i64::from(self.records), length(record.key), length(record.value)];
        let content = key.len() + value.len() + headers.len() + trace_header.len();
        let is_short = content < SHORT && timestamp_delta.unsigned_abs() < SHORT as u64 && self.records < SHORT as i32;
        let (end, copied) = (self.end, if record.shared.is_some() { &[] } else { value });
        let out = self.room(MAX_RECORD_OVERHEAD + content - value.len() + copied.len());
        let mut at = if is_short { begin(numbers, key, content, out) } else { begin_long(numbers, key, content, out) };
        out[at..at + copied.len()].copy_from_slice(copied);
        at += copied.len();
        let behind = end + at;
        match (headers, trace_header) {
            // A record without headers says so in one byte, written without a call.
            ([none], []) => {
                out[at] = *none;
                at += 1;
            }
            _ => {
                out[at..at + headers.len()].copy_from_slice(headers);
                at += headers.len();
                out[at..at + trace_header.len()].copy_from_slice(trace_header);
                at += trace_header.len();
            }
        }
        self.end = end + at;
        self.records += 1;
        if let Some(place) = record.shared {
            self.memory.shared.push(SharedPayload { behind, place });
            self.shared_bytes += place.size();
        }
    }

    /// The memory after its end, of so many bytes at least.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.bytes.len() - self.end < bytes {
            self.grow(bytes);
        }
        &mut self.memory.bytes[self.end..]
    }

    /// A little more than is asked, so that memory which is not used is not touched.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        const MORE: usize = 4096;
        self.memory.bytes.resize(self.end + bytes + MORE, 0);
    }

    /// Fills in the header. `attributes` are the number of what the records were compressed with since, and [`TRANSACTIONAL`].
    /// `payloads`: those of the trial, with what is known of them.
    pub fn seal(&mut self, attributes: u8, author: Author, payloads: &PayloadPool, checksums: &PayloadChecksums) {
        let length = (self.len() - BEFORE_LENGTH_ENDS) as i32;
        let header = &mut self.memory.bytes[..HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| header[at..at + value.len()].copy_from_slice(value);
        put(at::BATCH_LENGTH, &length.to_be_bytes());
        // The leader fills in its epoch.
        put(at::BATCH_LENGTH + 4, &(-1_i32).to_be_bytes());
        put(at::MAGIC, &[MAGIC]);
        put(at::ATTRIBUTES, &u16::from(attributes).to_be_bytes());
        put(at::LAST_OFFSET_DELTA, &(self.records - 1).to_be_bytes());
        put(at::BASE_TIMESTAMP, &self.base_timestamp_ms.to_be_bytes());
        put(at::MAX_TIMESTAMP, &self.max_timestamp_ms.to_be_bytes());
        put(at::PRODUCER_ID, &author.producer_id.to_be_bytes());
        put(at::PRODUCER_EPOCH, &author.epoch.to_be_bytes());
        put(at::BASE_SEQUENCE, &author.sequence.to_be_bytes());
        put(at::RECORD_COUNT, &self.records.to_be_bytes());
        let checksum = self.checksum(payloads, checksums);
        self.memory.bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum.to_be_bytes());
    }

    /// CRC-32C of all that comes after it.
    fn checksum(&self, payloads: &PayloadPool, checksums: &PayloadChecksums) -> u32 {
        let (mut checksum, mut begin) = (0, at::ATTRIBUTES);
        for SharedPayload { behind, place } in &self.memory.shared {
            checksum = append_checksum(checksum, &self.memory.bytes[begin..*behind]);
            checksum = checksums.append(checksum, *place, payloads);
            begin = *behind;
        }
        append_checksum(checksum, &self.memory.bytes[begin..self.end])
    }
}

/// Writes what a record has before its value, whose `numbers` are its timestamp and its offset in the batch, and the lengths of its key
/// and value, all short. `content`: the bytes of its key, value and headers. Returns where it ends in `out`.
#[inline(always)]
fn begin(numbers: [i64; 4], key: &[u8], content: usize, out: &mut [u8]) -> usize {
    // One by one: an array's `map` is a call for each of them where nothing optimises across crates.
    let [timestamp_delta, offset_delta, key_length, value_length] = numbers;
    // The record's attributes are 0, as Kafka defines no bit of them.
    let first = Short { word: 0, bits: u8::BITS }.then(short(timestamp_delta));
    let second = short(offset_delta).then(short(key_length));
    let value_length = short(value_length);
    let length = (first.bits + second.bits + value_length.bits) as usize / 8 + content;
    let at = put(short(length as i64).then(first), 0, out);
    if key.is_empty() {
        return put(second.then(value_length), at, out);
    }
    let at = put(second, at, out);
    out[at..at + key.len()].copy_from_slice(key);
    put(value_length, at + key.len(), out)
}

/// The same with numbers that are not short.
#[cold]
fn begin_long(numbers: [i64; 4], key: &[u8], content: usize, out: &mut [u8]) -> usize {
    let length = 1 + numbers.iter().map(|number| varint_size(*number)).sum::<usize>() + content;
    let mut at = write_varint(length as i64, out);
    out[at] = 0;
    at += 1;
    let [before_key @ .., value_length] = numbers;
    for number in before_key {
        at += write_varint(number, &mut out[at..]);
    }
    out[at..at + key.len()].copy_from_slice(key);
    at += key.len();
    at + write_varint(value_length, &mut out[at..])
}

/// Writes numbers with a single store, which takes more bytes than they have: there is room for them. Returns where they end.
#[inline(always)]
fn put(numbers: Short, at: usize, out: &mut [u8]) -> usize {
    if let Some(place) = out[at..].first_chunk_mut() {
        *place = numbers.word.to_le_bytes();
    }
    at + numbers.bits as usize / 8
}

/// A length as it is written: −1 for null.
#[inline]
fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

/// The bytes that `value` takes.
#[inline]
pub(super) fn varint_size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Writes `value` at the beginning of `out`, and returns how many bytes it took.
#[inline]
fn write_varint(value: i64, out: &mut [u8]) -> usize {
    let mut rest = zigzag(value);
    let mut length = 0;
    while rest >= 0x80 {
        out[length] = rest as u8 | 0x80;
        rest >>= 7;
        length += 1;
    }
    out[length] = rest as u8;
    length + 1
}

/// Numbers below this one, positive or negative, take 3 bytes at most, and so does their sum with a few smaller ones.
const SHORT: usize = (1 << 20) - 64;

/// Encoded integers of 8 bytes at most together, in a register.
#[derive(Debug, Clone, Copy)]
struct Short {
    /// The lowest byte is the first.
    word: u64,
    bits: u32,
}

impl Short {
    #[inline(always)]
    fn then(self, next: Short) -> Short {
        Short { word: self.word | next.word << self.bits, bits: self.bits + next.bits }
    }
}

/// Encodes a `value` below [`SHORT`].
#[inline(always)]
fn short(value: i64) -> Short {
    let value = zigzag(value);
    if value < 1 << 7 {
        Short { word: value, bits: 8 }
    } else if value < 1 << 14 {
        Short { word: value & 0x7f | 0x80 | value >> 7 << 8, bits: 16 }
    } else {
        Short { word: value & 0x7f | 0x80 | (value >> 7 & 0x7f | 0x80) << 8 | value >> 14 << 16, bits: 24 }
    }
}

/// Appends `value`.
pub(super) fn append_varint(value: i64, out: &mut Vec<u8>) {
    let mut bytes = [0; MAX_VARINT_BYTES];
    let length = write_varint(value, &mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

#[inline]
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
