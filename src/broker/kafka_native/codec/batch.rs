//! Record batches of version 2, written: each record is encoded straight into its batch.
//!
//! Source: Kafka's documentation, "Record Batch" and "Record" (<https://kafka.apache.org/documentation/#recordbatch>).

use super::varint;
use crate::limits::{TRACE_HEADER_BYTES, TRACE_HEADER_NAME};

/// The bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;

/// Where the parts of a batch's header are.
pub mod at {
    pub const BATCH_LENGTH: usize = 8;
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

/// More than what a record has beside its key, value and headers.
pub const MOST_RECORD_OVERHEAD: usize = 1 + 5 * varint::MOST_BYTES;

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
                varint::append(part.len() as i64, &mut encoded);
                encoded.extend_from_slice(part.as_bytes());
            }
        }
        let counted = |count: usize| {
            let mut out = Vec::new();
            varint::append(count as i64, &mut out);
            out.extend_from_slice(&encoded);
            out
        };
        let mut traced = counted(headers.len() + 1);
        varint::append(TRACE_HEADER_NAME.len() as i64, &mut traced);
        traced.extend_from_slice(TRACE_HEADER_NAME.as_bytes());
        varint::append(TRACE_HEADER_BYTES as i64, &mut traced);
        Headers { alone: counted(headers.len()).into(), traced: traced.into() }
    }

    /// Most bytes that they take in a record.
    pub fn most_bytes(&self) -> usize {
        self.traced.len() + TRACE_HEADER_BYTES
    }
}

/// One record to write.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    /// `None`: a null value.
    pub value: Option<&'a [u8]>,
    pub headers: &'a Headers,
    pub trace_header: Option<&'a [u8; TRACE_HEADER_BYTES]>,
    pub timestamp_ms: i64,
}

/// A batch that is being written.
#[derive(Debug, Default)]
pub struct Batch {
    /// The header, which is zero until it is sealed, and the records.
    pub bytes: Vec<u8>,
    records: i32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl Batch {
    /// An empty one in the memory of `bytes`.
    pub fn in_memory_of(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(HEADER_BYTES, 0);
        Batch { bytes, ..Batch::default() }
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
        let (key_length, value_length) = (length(record.key), length(record.value));
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        let timestamp_delta = record.timestamp_ms - self.base_timestamp_ms;
        let offset_delta = i64::from(self.records);
        let numbers = [timestamp_delta, offset_delta, key_length];
        let rest = value.len() + headers.len() + trace_header.len();
        let after_key = key.len() + varint::size(value_length) + rest;
        self.bytes.reserve(MOST_RECORD_OVERHEAD + after_key);
        let is_short =
            after_key < Start::MOST && numbers.iter().all(|number| number.unsigned_abs() < Start::MOST as u64);
        match (is_short, key.is_empty()) {
            (true, true) => Start::of(numbers).then(value_length).with_length(rest).append_to(&mut self.bytes),
            (true, false) => Start::of(numbers).with_length(after_key).append_to(&mut self.bytes),
            (false, _) => self.begin_long(numbers, after_key),
        }
        if !(is_short && key.is_empty()) {
            self.bytes.extend_from_slice(key);
            varint::append(value_length, &mut self.bytes);
        }
        self.bytes.extend_from_slice(value);
        match (headers, trace_header) {
            // A record without headers says so in one byte, written without a call.
            ([none], []) => self.bytes.push(*none),
            _ => {
                self.bytes.extend_from_slice(headers);
                self.bytes.extend_from_slice(trace_header);
            }
        }
        self.records += 1;
    }

    /// Begins a record whose numbers are too large for a [`Start`].
    #[cold]
    fn begin_long(&mut self, numbers: [i64; 3], after_key: usize) {
        let length = 1 + numbers.iter().map(|number| varint::size(*number)).sum::<usize>() + after_key;
        varint::append(length as i64, &mut self.bytes);
        self.bytes.push(0);
        numbers.iter().for_each(|number| varint::append(*number, &mut self.bytes));
    }

    /// Fills in the header. `attributes` are the number of what the records were compressed with since, and [`TRANSACTIONAL`].
    pub fn seal(&mut self, attributes: u8, author: Author) {
        let length = (self.bytes.len() - BEFORE_LENGTH_ENDS) as i32;
        let header = &mut self.bytes[..HEADER_BYTES];
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
        let checksum = crc32c::crc32c(&self.bytes[at::ATTRIBUTES..]);
        self.bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The numbers at the start of a record, in a register: written to memory once, as a whole.
#[derive(Clone, Copy)]
struct Start {
    word: u128,
    bytes: usize,
}

impl Start {
    /// Numbers below this one take 3 bytes at most, so that the length and four others, with the attributes, take 16.
    const MOST: usize = (1 << 20) - 64;

    /// The record's attributes, which are 0, as Kafka defines no bit of them, and these numbers.
    #[inline]
    fn of([timestamp_delta, offset_delta, key_length]: [i64; 3]) -> Start {
        Start { word: 0, bytes: 1 }.then(timestamp_delta).then(offset_delta).then(key_length)
    }

    #[inline]
    fn then(self, value: i64) -> Start {
        let (bytes, length) = varint::short(value);
        Start { word: self.word | u128::from(bytes) << (8 * self.bytes), bytes: self.bytes + length }
    }

    /// With the length of the record before it, which has so many bytes after the start.
    #[inline]
    fn with_length(self, after: usize) -> Start {
        let (bytes, length) = varint::short((self.bytes + after) as i64);
        Start { word: self.word << (8 * length) | u128::from(bytes), bytes: self.bytes + length }
    }

    #[inline]
    fn append_to(self, out: &mut Vec<u8>) {
        let after = out.len() + self.bytes;
        out.extend_from_slice(&self.word.to_le_bytes());
        out.truncate(after);
    }
}

/// A length as it is written: −1 for null.
#[inline]
fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}
