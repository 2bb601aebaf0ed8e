//! Payloads of text: the lines of a file, the log lines of the Aliyun log service's producer benchmark (as one JSON object each, for brokers
//! without fields), and templates, of which chance is drawn once for each payload of the pool, while counter and time stay live.

use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use rand::RngExt;

use super::draft::{Draft, check_limit};
use crate::limits::MAX_POOL_BYTES;
use crate::load::LoadError;
use crate::load::live::{Field, Slot};
use crate::load::random::{Generator, Purpose, generator};
use crate::scenario::template::Part;

/// The first `count` lines that are not empty, without `\n` or `\r\n`. The rest of the file is never read, and a file
/// without line ends not beyond what a pool may hold.
pub(super) fn lines(file: &Path, count: usize) -> Result<Draft, LoadError> {
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

const KEYS: usize = 8;
const BODY: &str = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*()";

/// Topic, source and all eight values come from one random number below `range`: independent ones would change how far
/// a log compresses.
pub(super) fn logs(range: u64, count: usize, seed: u64) -> Result<Draft, LoadError> {
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

pub(super) fn template(parts: &[Part], count: usize, seed: u64) -> Result<Draft, LoadError> {
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

#[cfg(test)]
#[path = "../../../tests/unit/load/payload/text.rs"]
mod tests;
