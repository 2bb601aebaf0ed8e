//! Which fields a payload becomes, so that the same payload can be made of them again.
//!
//! A payload that is a flat JSON object of strings, written without white space and escapes, becomes a log of its fields;
//! `__topic__` and `__source__` in front become the group's. Any other payload becomes one field, `content`. No other JSON
//! is taken apart, because it could not be put together again byte by byte, and verification compares bytes.

use memchr::memchr2;

use super::CONTENT_KEY;
use crate::limits::TRACE_HEADER_NAME;

/// A key and its value, as ranges of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    key: (u32, u32),
    value: (u32, u32),
}

/// A payload as fields. Keeps its memory from one payload to the next.
#[derive(Debug, Default)]
pub struct Record {
    fields: Vec<Field>,
    topic: (u32, u32),
    source: (u32, u32),
    whole: bool,
}

impl Record {
    /// Takes `payload` apart.
    #[inline]
    pub fn read(&mut self, payload: &[u8]) {
        self.fields.clear();
        (self.topic, self.source) = ((0, 0), (0, 0));
        self.whole = !self.read_object(payload);
    }

    /// The group's topic and source: empty where the payload has none.
    #[inline]
    pub fn topic_and_source<'a>(&self, payload: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        if self.whole { (b"", b"") } else { (slice(payload, self.topic), slice(payload, self.source)) }
    }

    /// Hands each key with its value to `each`.
    #[inline]
    pub fn each<'a>(&'a self, payload: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8])) {
        if self.whole {
            each(CONTENT_KEY, payload);
        } else {
            for field in &self.fields {
                each(slice(payload, field.key), slice(payload, field.value));
            }
        }
    }

    /// Whether the payload can be restored from its fields.
    #[inline]
    fn read_object(&mut self, payload: &[u8]) -> bool {
        if payload.len() > u32::MAX as usize || !payload.starts_with(b"{\"") || !payload.ends_with(b"\"}") {
            return false;
        }
        let mut at = 1;
        loop {
            let Some(key) = text(payload, at) else { return false };
            at = key.1 as usize + 1;
            if payload.get(at) != Some(&b':') {
                return false;
            }
            let Some(value) = text(payload, at + 1) else { return false };
            at = value.1 as usize + 1;
            let name = slice(payload, key);
            if name.first() == Some(&b'_') && name == b"__topic__" {
                if value.0 == value.1 || self.topic != (0, 0) || self.source != (0, 0) || !self.fields.is_empty() {
                    return false;
                }
                self.topic = value;
            } else if name.first() == Some(&b'_') && name == b"__source__" {
                if value.0 == value.1 || self.source != (0, 0) || !self.fields.is_empty() {
                    return false;
                }
                self.source = value;
            } else if name == TRACE_HEADER_NAME.as_bytes() {
                return false;
            } else {
                self.fields.push(Field { key, value });
            }
            match payload.get(at) {
                Some(b',') => at += 1,
                Some(b'}') => break,
                _ => return false,
            }
        }
        // A payload that is not a record has a single `content`, without topic and source.
        let ambiguous = self.fields.len() == 1 && slice(payload, self.fields[0].key) == CONTENT_KEY;
        at + 1 == payload.len() && !self.fields.is_empty() && !ambiguous
    }
}

/// The string that begins with the quotation mark at `at`, without its marks.
#[inline]
fn text(payload: &[u8], at: usize) -> Option<(u32, u32)> {
    if payload.get(at) != Some(&b'"') {
        return None;
    }
    let begin = at + 1;
    let end = begin + memchr2(b'"', b'\\', &payload[begin..])?;
    (payload[end] == b'"').then_some((begin as u32, end as u32))
}

#[inline]
fn slice(payload: &[u8], (begin, end): (u32, u32)) -> &[u8] {
    &payload[begin as usize..end as usize]
}

/// Appends the payload of these fields to `into`, without the trace header.
pub fn rebuild<'a>(
    into: &mut Vec<u8>,
    topic: &'a [u8],
    source: &'a [u8],
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) {
    let mut alone = fields.clone();
    if topic.is_empty()
        && source.is_empty()
        && let (Some((CONTENT_KEY, whole)), None) = (alone.next(), alone.next())
    {
        into.extend_from_slice(whole);
        return;
    }
    let named: [(&[u8], &[u8]); 2] = [(b"__topic__", topic), (b"__source__", source)];
    let named = named.into_iter().filter(|(_, value)| !value.is_empty());
    let mut mark = b'{';
    for (key, value) in named.chain(fields) {
        into.push(mark);
        mark = b',';
        for (text, end) in [(key, b':'), (value, b' ')] {
            into.push(b'"');
            into.extend_from_slice(text);
            into.push(b'"');
            if end == b':' {
                into.push(end);
            }
        }
    }
    into.push(b'}');
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/sls/codec/record.rs"]
mod tests;
