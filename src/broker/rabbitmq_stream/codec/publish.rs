//! `Publish` frames, and the messages and sub-entries in them.

use super::{FILTERED, VERSION, key};

/// Bytes of a `Publish` frame besides its entries, and of an entry besides its content.
pub const PUBLISH_BYTES: usize = 4 + 2 + 2 + 1 + 4;
const PUBLISHER_AT: usize = 4 + 2 + 2;
pub const MESSAGE_BYTES: usize = 8 + 4;
pub const SUB_ENTRY_BYTES: usize = 8 + 1 + 2 + 4 + 4;

/// A `Publish` frame in the making.
pub struct Publish {
    start: usize,
    entries: u32,
}

const VERSION_AT: usize = 4 + 2;

/// Bytes of a message's value to filter by.
#[inline]
pub fn filter_bytes(value: Option<&[u8]>) -> usize {
    2 + short(value).map_or(0, <[u8]>::len)
}

/// A value whose length fits into the protocol's 16 bits.
#[inline]
fn short(value: Option<&[u8]>) -> Option<&[u8]> {
    value.filter(|value| value.len() <= usize::from(i16::MAX.unsigned_abs()))
}

impl Publish {
    #[inline]
    pub fn begin(out: &mut Vec<u8>, publisher: u8) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&key::PUBLISH.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(publisher);
        out.extend_from_slice(&[0; 4]);
        Publish { start, entries: 0 }
    }

    /// As [`Publish::begin`], for messages of [`Publish::filtered_message`].
    pub fn begin_filtered(out: &mut Vec<u8>, publisher: u8) -> Self {
        let publish = Publish::begin(out, publisher);
        out[publish.start + VERSION_AT..][..2].copy_from_slice(&FILTERED.to_be_bytes());
        publish
    }

    /// Bytes so far.
    #[inline]
    pub fn bytes(&self, out: &[u8]) -> usize {
        out.len() - self.start
    }

    /// A message of exactly `length` bytes, which `body` appends.
    #[inline]
    pub fn message(&mut self, out: &mut Vec<u8>, id: u64, length: usize, body: impl FnOnce(&mut Vec<u8>)) {
        let mut head = [0; MESSAGE_BYTES];
        head[..8].copy_from_slice(&id.to_be_bytes());
        head[8..].copy_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&head);
        let begin = out.len();
        body(out);
        debug_assert_eq!(out.len() - begin, length);
        self.entries += 1;
    }

    /// As [`Publish::message`], with a value to filter by. One without it has the length -1.
    pub fn filtered_message(
        &mut self,
        out: &mut Vec<u8>,
        id: u64,
        value: Option<&[u8]>,
        length: usize,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        out.extend_from_slice(&id.to_be_bytes());
        match short(value) {
            Some(value) => {
                out.extend_from_slice(&(value.len() as u16).to_be_bytes());
                out.extend_from_slice(value);
            }
            None => out.extend_from_slice(&u16::MAX.to_be_bytes()),
        }
        out.extend_from_slice(&(length as u32).to_be_bytes());
        body(out);
        self.entries += 1;
    }

    /// `count` messages as one entry with one id; `content` holds them as [`record`] wrote them, then compressed by what
    /// `compression` numbers.
    pub fn sub_entry(
        &mut self,
        out: &mut Vec<u8>,
        id: u64,
        compression: u8,
        count: u16,
        uncompressed: usize,
        content: &[u8],
    ) {
        out.extend_from_slice(&id.to_be_bytes());
        out.push(0x80 | compression << 4);
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&(uncompressed as u32).to_be_bytes());
        out.extend_from_slice(&(content.len() as u32).to_be_bytes());
        out.extend_from_slice(content);
        self.entries += 1;
    }

    /// Completes the frame and returns it.
    #[inline]
    pub fn end(self, out: &mut [u8]) -> &[u8] {
        let frame = &mut out[self.start..];
        let size = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        frame[9..13].copy_from_slice(&self.entries.to_be_bytes());
        frame
    }
}

/// Appends a `Publish` frame once more, for a publisher that has another number now.
pub fn publish_again(out: &mut Vec<u8>, frame: &[u8], publisher: u8) {
    let begin = out.len();
    out.extend_from_slice(frame);
    out[begin + PUBLISHER_AT] = publisher;
}

/// A message in a sub-entry.
pub fn record(out: &mut Vec<u8>, length: usize, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&(length as u32).to_be_bytes());
    body(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_values_to_filter_by_in_frames_of_version_2() {
        let mut out = vec![99];
        let mut publish = Publish::begin_filtered(&mut out, 7);
        publish.filtered_message(&mut out, 5, Some(b"key"), 1, |out| out.push(b'a'));
        publish.filtered_message(&mut out, 6, None, 0, |_| {});
        let bytes = publish.bytes(&out);
        assert_eq!(bytes, PUBLISH_BYTES + 2 * MESSAGE_BYTES + filter_bytes(Some(b"key")) + filter_bytes(None) + 1);
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 41, 0, 2, 0, 2, 7, 0, 0, 0, 2,
            0, 0, 0, 0, 0, 0, 0, 5, 0, 3, b'k', b'e', b'y', 0, 0, 0, 1, b'a',
            0, 0, 0, 0, 0, 0, 0, 6, 255, 255, 0, 0, 0, 0,
        ];
        assert_eq!(publish.end(&mut out), expected);
    }

    #[test]
    fn a_publish_frame_is_as_the_reference_has_it() {
        let mut out = vec![99];
        let mut publish = Publish::begin(&mut out, 7);
        publish.message(&mut out, 5, 2, |out| out.extend_from_slice(b"ab"));
        publish.message(&mut out, 6, 0, |_| {});
        assert_eq!(publish.bytes(&out), out.len() - 1);
        let frame = publish.end(&mut out).to_vec();
        assert_eq!(frame, out[1..]);
        #[rustfmt::skip]
        let expected = [
            99,
            0, 0, 0, 35, 0, 2, 0, 1, 7, 0, 0, 0, 2,
            0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, b'a', b'b',
            0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0,
        ];
        assert_eq!(out, expected);
        let mut again = Vec::new();
        publish_again(&mut again, &frame, 9);
        assert_eq!(again[8], 9);
        assert_eq!(&again[..8], &frame[..8]);
        assert_eq!(&again[9..], &frame[9..]);
    }
}
