//! Payload generators: each turns its part of the scenario into the payloads of a pool.
//!
//! - Zeros, which compress to nothing; random bytes, which compress as far as asked; embedding vectors, as a vector database receives them; and
//!   random bytes as MessagePack writes them, which is what a client that serialises its messages puts on the wire.
//! - The lines of a file; whole files; the log lines of the Aliyun log service's producer benchmark, as one JSON object each, for brokers without fields; and
//!   templates, of which chance is drawn once for each payload of the pool, while counter and time stay live.
//! - Records encoded by a schema, from a file or generated.

use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rand::distr::weighted::WeightedIndex;
use rand::{Rng, RngExt};
use rand_distr::Normal;

use super::LoadError;
use super::random::{Generator, Purpose, generator};
use crate::limits::MAX_POOL_BYTES;
use crate::scenario::template::Part;
use crate::scenario::{Content, Payload, SchemaContent, SchemaId, Size};
use crate::schemas;

/// At least one payload; for files and their lines at most, for all else exactly, as many as the pool asks for.
pub(super) fn generate(payload: &Payload) -> Result<Draft, LoadError> {
    let Payload { content, pool, seed, tombstones: _ } = payload;
    let (count, seed) = ((*pool).max(1), *seed);
    match content {
        Content::Zeros { size } => zeros(size, count, seed),
        Content::Random { size, compressibility } => random(size, *compressibility, count, seed),
        Content::Lines { file } => lines(file, count),
        Content::Files { files } => whole(files, count),
        Content::Template { template: parsed } => template(&parsed.parts, count, seed),
        Content::Vector { dimension } => vectors(*dimension, count, seed),
        Content::MessagePack { size } => message_pack(size, count, seed),
        Content::Log { range } => logs(*range, count, seed),
        Content::Schema(content) => records(content, count, seed),
    }
}

/// What the pool notes of each payload.
pub const ENTRY_BYTES: usize = 24;

/// Payloads that a generator family has made so far.
#[derive(Debug, Default)]
pub struct Draft {
    pub bytes: Vec<u8>,
    /// Where each payload lies in `bytes`; payloads may share bytes.
    pub ranges: Vec<Range<usize>>,
    /// The live fields, the same number for each payload.
    pub slots: Vec<Slot>,
}

impl Draft {
    /// Capacity for payloads of `bytes` altogether.
    fn with_capacity(payloads: usize, bytes: u128) -> Result<Draft, LoadError> {
        check_limit(payloads, bytes)?;
        Ok(Draft {
            bytes: Vec::with_capacity(bytes as usize),
            ranges: Vec::with_capacity(payloads),
            ..Draft::default()
        })
    }

    /// Appends the payload that `write` appends to the bytes.
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), LoadError> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.finish(start)
    }

    /// Makes the bytes that were appended since `start` a payload.
    fn finish(&mut self, start: usize) -> Result<(), LoadError> {
        self.ranges.push(start..self.bytes.len());
        check_limit(self.ranges.len(), self.bytes.len() as u128)
    }
}

/// Counts the bookkeeping too, so that a thousand million tiny payloads are refused as well.
fn check_limit(payloads: usize, bytes: u128) -> Result<(), LoadError> {
    let bytes = bytes + (payloads as u128) * ENTRY_BYTES as u128;
    if bytes > MAX_POOL_BYTES as u128 {
        return Err(LoadError::PoolTooLarge { bytes, limit: MAX_POOL_BYTES });
    }
    Ok(())
}

/// `count` sizes in bytes.
fn draw_sizes(size: &Size, count: usize, seed: u64) -> Result<Vec<usize>, LoadError> {
    check_limit(count, 0)?;
    let mut generator = generator(seed, Purpose::Sizes, 0);
    let wrong = |reason: &dyn ToString| LoadError::Size { reason: reason.to_string() };
    Ok(match size {
        Size::Fixed(bytes) => vec![*bytes; count],
        Size::Uniform { min, max } if min > max => {
            return Err(wrong(&format!("the smallest, {min}, is above the largest, {max}")));
        }
        Size::Uniform { min, max } => {
            // Drawn as 64 bits, so that the sizes are the same where a `usize` is not.
            let (min, max) = (*min as u64, *max as u64);
            (0..count).map(|_| generator.random_range(min..=max) as usize).collect()
        }
        Size::Normal { mean, deviation, max } => {
            let normal = Normal::new(*mean, *deviation).map_err(|error| wrong(&error))?;
            (0..count).map(|_| (generator.sample(normal).round() as usize).clamp(1, (*max).max(1))).collect()
        }
        Size::Choices(choices) => {
            let weights = choices.iter().map(|(_, weight)| *weight);
            let index = WeightedIndex::new(weights).map_err(|error| wrong(&error))?;
            (0..count).map(|_| choices[generator.sample(&index)].0).collect()
        }
    })
}

/// The sum of `sizes`, which need not fit in memory.
fn total(sizes: &[usize]) -> u128 {
    sizes.iter().map(|size| *size as u128).sum()
}

/// All payloads are the beginning of the same stretch of zeros.
fn zeros(size: &Size, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = draw_sizes(size, count, seed)?;
    let largest = sizes.iter().copied().max().unwrap_or(0);
    check_limit(count, largest as u128)?;
    Ok(Draft { bytes: vec![0; largest], ranges: sizes.into_iter().map(|size| 0..size).collect(), ..Draft::default() })
}

/// The run of one byte comes last, so that a trace header written over the beginning changes little of what a compressor
/// finds.
fn random(size: &Size, compressibility: f64, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = draw_sizes(size, count, seed)?;
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, total(&sizes))?;
    for size in sizes {
        let repeated = ((size as f64 * compressibility).round() as usize).min(size);
        let byte: u8 = generator.random();
        draft.push(|bytes| {
            let start = bytes.len();
            bytes.resize(start + size, byte);
            generator.fill_bytes(&mut bytes[start..start + size - repeated]);
        })?;
    }
    Ok(draft)
}

/// `dimension` little-endian 32-bit floats each, uniform in [0, 1).
fn vectors(dimension: usize, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, dimension as u128 * count as u128 * size_of::<f32>() as u128)?;
    for _ in 0..count {
        draft.push(|bytes| {
            for _ in 0..dimension {
                bytes.extend_from_slice(&generator.random::<f32>().to_le_bytes());
            }
        })?;
    }
    Ok(draft)
}

/// The longest head of a `bin`: its mark and a length of 32 bits.
const MAX_HEAD: usize = 5;

/// Each payload is one value of the type `bin` with as many random bytes as the size asks for.
fn message_pack(size: &Size, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = draw_sizes(size, count, seed)?;
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, total(&sizes) + (count * MAX_HEAD) as u128)?;
    for size in sizes {
        let length = u32::try_from(size).unwrap_or(u32::MAX);
        draft.push(|bytes| {
            // Writing to memory cannot fail.
            let _ = rmp::encode::write_bin_len(bytes, length);
            let start = bytes.len();
            bytes.resize(start + length as usize, 0);
            generator.fill_bytes(&mut bytes[start..]);
        })?;
    }
    Ok(draft)
}

/// The first `count` lines that are not empty, without `\n` or `\r\n`. The rest of the file is never read, and a file
/// without line ends not beyond what a pool may hold.
fn lines(file: &Path, count: usize) -> Result<Draft, LoadError> {
    let unreadable = |reason| LoadError::Unreadable { file: file.to_owned(), reason };
    let mut reader = BufReader::new(File::open(file).map_err(unreadable)?);
    let mut draft = Draft::default();
    let mut line = Vec::new();
    while draft.ranges.len() < count {
        line.clear();
        let room = (MAX_POOL_BYTES - draft.bytes.len()) as u64 + 1;
        let read = reader.by_ref().take(room).read_until(b'\n', &mut line).map_err(unreadable)?;
        check_limit(draft.ranges.len(), (draft.bytes.len() + read) as u128)?;
        if read == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if !text.is_empty() {
            draft.push(|bytes| bytes.extend_from_slice(text))?;
        }
    }
    if draft.ranges.is_empty() {
        return Err(LoadError::NoLines { file: file.to_owned() });
    }
    Ok(draft)
}

/// The first `count` files as they are.
fn whole(files: &[PathBuf], count: usize) -> Result<Draft, LoadError> {
    let mut draft = Draft::default();
    for file in files.iter().take(count) {
        let unreadable = |reason| LoadError::Unreadable { file: file.clone(), reason };
        let contents = std::fs::read(file).map_err(unreadable)?;
        draft.push(|bytes| bytes.extend_from_slice(&contents))?;
    }
    Ok(draft)
}

/// The first `count` records of a file, or as many generated ones, each behind the head that names the schema.
fn records(content: &SchemaContent, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let SchemaContent { codec, records, id } = content;
    let SchemaId::Known(id) = id else {
        return Err(LoadError::Schema { reason: "its id is not known".to_owned() });
    };
    let head = schemas::head(*id);
    let mut draft = Draft::default();
    let mut push = |record: &[u8]| {
        draft.push(|bytes| {
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(record);
        })
    };
    match records {
        Some(file) => codec.encode_lines(file, count, push)?,
        None => {
            let mut generator = generator(seed, Purpose::Content, 0);
            for _ in 0..count {
                push(&codec.generate(&mut generator).map_err(LoadError::from)?)?;
            }
        }
    }
    Ok(draft)
}

const KEYS: usize = 8;
const BODY: &str = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*()";

/// Topic, source and all eight values come from one random number below `range`: independent ones would change how far
/// a log compresses.
fn logs(range: u64, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::default();
    let mut text = String::new();
    for _ in 0..count {
        text.clear();
        write_log(&mut text, generator.random_range(0..range.max(1)));
        draft.push(|bytes| bytes.extend_from_slice(text.as_bytes()))?;
    }
    Ok(draft)
}

fn write_log(text: &mut String, random: u64) {
    // Writing to a string cannot fail, so neither can this; and no character of the body needs escaping in JSON.
    let _ = write!(text, r#"{{"__topic__":"topic-{}","__source__":"source-{}""#, random % 5, random % 10);
    for key in 1..=KEYS {
        let _ = write!(text, r#","content_key_{key}":"{key}{BODY}_{random}""#);
    }
    text.push('}');
}

fn template(parts: &[Part], count: usize, seed: u64) -> Result<Draft, LoadError> {
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::default();
    let mut text = String::new();
    for _ in 0..count {
        text.clear();
        let first = draft.slots.len();
        for part in parts {
            write_part(part, &mut text, &mut draft.slots, &mut generator);
        }
        let slots = &draft.slots[first..];
        let start = draft.bytes.len();
        draft.bytes.extend_from_slice(text.as_bytes());
        for Slot { offset, field } in slots {
            let offset = start + offset;
            field.write(&mut draft.bytes[offset..offset + field.columns()], 0, 0);
        }
        draft.finish(start)?;
    }
    Ok(draft)
}

fn write_part(part: &Part, text: &mut String, slots: &mut Vec<Slot>, generator: &mut Generator) {
    let field = match part {
        Part::Literal(literal) => return text.push_str(literal),
        Part::Choice(choices) => return text.push_str(&choices[generator.random_range(0..choices.len())]),
        // Writing to a string cannot fail.
        Part::RandomInteger { low, high } => {
            let _ = write!(text, "{}", generator.random_range(*low..*high));
            return;
        }
        Part::RandomFloat { low, high } => {
            // Weighted ends rather than `low + share * (high - low)`, for a difference may be too large for an `f64`.
            let share: f64 = generator.random();
            let number = (low * (1.0 - share) + high * share).clamp(*low, high.next_down());
            let _ = write!(text, "{number}");
            return;
        }
        Part::Counter { width: 0 } => Field::Counter,
        Part::Counter { width } => Field::PaddedCounter(*width),
        Part::Timestamp => Field::Timestamp,
        Part::TimestampMilliseconds => Field::TimestampMs,
    };
    slots.push(Slot { offset: text.len(), field });
    text.extend(std::iter::repeat_n(' ', field.columns()));
}

/// Columns of a counter without a stated width: 10^12 messages are six days at two million a second.
const COUNTER_COLUMNS: usize = 12;

/// `1700000000.123456`: ten digits of seconds last until the year 2286.
const TIMESTAMP_COLUMNS: usize = SECONDS_COLUMNS + 1 + MICROSECONDS_COLUMNS;
const SECONDS_COLUMNS: usize = 10;
const MICROSECONDS_COLUMNS: usize = 6;

/// `1700000000123`.
const TIMESTAMP_MS_COLUMNS: usize = 13;

/// What a live field shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// Padded on the left with spaces to [`COUNTER_COLUMNS`]: a JSON number must not begin with zeros, while spaces
    /// before it mean nothing.
    Counter,
    /// Padded on the left with zeros to this many columns.
    PaddedCounter(usize),
    /// Unix seconds with six decimals.
    Timestamp,
    /// Unix milliseconds.
    TimestampMs,
}

impl Field {
    /// Its width never changes, so neither do a payload's size and the place of what follows.
    pub(super) fn columns(self) -> usize {
        match self {
            Field::Counter => COUNTER_COLUMNS,
            Field::PaddedCounter(columns) => columns,
            Field::Timestamp => TIMESTAMP_COLUMNS,
            Field::TimestampMs => TIMESTAMP_MS_COLUMNS,
        }
    }

    #[inline]
    pub(super) fn write(self, into: &mut [u8], counter: u64, now_unix_ns: u64) {
        match self {
            Field::Counter => write_right_aligned(into, counter, b' '),
            Field::PaddedCounter(_) => write_right_aligned(into, counter, b'0'),
            Field::Timestamp => {
                let (seconds, rest) = into.split_at_mut(SECONDS_COLUMNS);
                let (point, microseconds) = rest.split_at_mut(1);
                write_right_aligned(seconds, now_unix_ns / 1_000_000_000, b' ');
                point[0] = b'.';
                write_right_aligned(microseconds, now_unix_ns / 1_000 % 1_000_000, b'0');
            }
            Field::TimestampMs => write_right_aligned(into, now_unix_ns / 1_000_000, b' '),
        }
    }
}

/// Where a live field lies in its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) offset: usize,
    pub(super) field: Field,
}

/// Two digits at a time halve the number of divisions.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Writes `value` right-aligned into `field`, with `padding` on its left. Of a value with more digits than the field
/// is wide, the lowest remain, as on a mechanical counter.
#[inline]
pub(super) fn write_right_aligned(field: &mut [u8], mut value: u64, padding: u8) {
    let mut end = field.len();
    while value >= 10 && end >= 2 {
        field[end - 2..end].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
        end -= 2;
        if value == 0 {
            field[..end].fill(padding);
            return;
        }
    }
    if end > 0 {
        end -= 1;
        field[end] = b'0' + (value % 10) as u8;
    }
    field[..end].fill(padding);
}

#[cfg(test)]
#[path = "../../tests/unit/load/payload.rs"]
mod tests;
