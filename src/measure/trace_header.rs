//! The engine's own header in a message: whose it is, which, when it was intended, and a checksum.
//!
//! It overlays the first 32 bytes of a payload that is free to carry it, or travels as a message header beside a payload
//! that is not (JSON, lines, log records). Little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 0–3 | magic `BMK1` |
//! | 4–7 | tag of the run |
//! | 8–11 | producer; bit 31: measured |
//! | 12–15 | CRC-32 over the rest of the payload, continued over the header's other fields |
//! | 16–23 | sequence, from 0 per producer |
//! | 24–31 | intended time, in ns since the trial's epoch |

pub use crate::limits::TRACE_HEADER_BYTES;

const _: () = assert!(TRACE_HEADER_BYTES == 32, "the fields below take exactly 32 bytes");

const MAGIC: [u8; 4] = *b"BMK1";
const MEASURED_BIT: u32 = 1 << 31;

/// The engine's own header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceHeader {
    /// Tells this trial's messages from all others.
    pub run_tag: u32,
    /// The producer's index.
    pub producer: u32,
    pub measured: bool,
    pub sequence: u64,
    pub intended_ns: u64,
}

/// How an arrived message reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    Intact(TraceHeader),
    /// A message of this run by its tag, with another checksum.
    Corrupt,
    /// Not of this run.
    Foreign,
}

impl TraceHeader {
    /// Writes the header over `target`'s first [`TRACE_HEADER_BYTES`]. `content_checksum` is the CRC-32 of the bytes it
    /// vouches for besides itself.
    #[inline]
    pub fn seal(&self, target: &mut [u8], content_checksum: u32) {
        let producer = self.producer | if self.measured { MEASURED_BIT } else { 0 };
        target[0..4].copy_from_slice(&MAGIC);
        target[4..8].copy_from_slice(&self.run_tag.to_le_bytes());
        target[8..12].copy_from_slice(&producer.to_le_bytes());
        target[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        target[24..32].copy_from_slice(&self.intended_ns.to_le_bytes());
        let checksum = checksum(target, content_checksum);
        target[12..16].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The sequence in `sealed`, which this process sealed itself, if it is a trace header.
    #[inline]
    pub fn sequence_of(sealed: &[u8]) -> Option<u64> {
        let sealed = sealed.first_chunk::<TRACE_HEADER_BYTES>()?;
        (sealed[0..4] == MAGIC).then(|| long(sealed, 16))
    }

    /// Reads `sealed`, whose first [`TRACE_HEADER_BYTES`] are a trace header if the message is of run `run_tag`; `content` is what
    /// its checksum vouches for besides.
    #[inline]
    pub fn open(sealed: &[u8], content: &[u8], run_tag: u32) -> Opened {
        let Some(sealed) = sealed.first_chunk::<TRACE_HEADER_BYTES>() else { return Opened::Foreign };
        if sealed[0..4] != MAGIC || word(sealed, 4) != run_tag {
            return Opened::Foreign;
        }
        if word(sealed, 12) != checksum(sealed, crc32fast::hash(content)) {
            return Opened::Corrupt;
        }
        let producer = word(sealed, 8);
        Opened::Intact(TraceHeader {
            run_tag,
            producer: producer & !MEASURED_BIT,
            measured: producer & MEASURED_BIT != 0,
            sequence: long(sealed, 16),
            intended_ns: long(sealed, 24),
        })
    }
}

#[inline]
fn checksum(sealed: &[u8], content_checksum: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(content_checksum);
    hasher.update(&sealed[0..12]);
    hasher.update(&sealed[16..TRACE_HEADER_BYTES]);
    hasher.finalize()
}

#[inline]
fn word(sealed: &[u8; TRACE_HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([sealed[at], sealed[at + 1], sealed[at + 2], sealed[at + 3]])
}

#[inline]
fn long(sealed: &[u8; TRACE_HEADER_BYTES], at: usize) -> u64 {
    u64::from(word(sealed, at)) | u64::from(word(sealed, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_sealed_is_opened_and_any_flipped_bit_is_noticed(
            producer in 0..1u32 << 14, sequence: u64, intended_ns: u64, measured: bool, run_tag: u32,
            content in proptest::collection::vec(any::<u8>(), 0..100), flip in 0..8 * 132usize,
        ) {
            let trace_header = TraceHeader { run_tag, producer, measured, sequence, intended_ns };
            let mut message = vec![0; TRACE_HEADER_BYTES];
            message.extend(&content);
            trace_header.seal(&mut message, crc32fast::hash(&content));
            prop_assert_eq!(TraceHeader::open(&message, &message[TRACE_HEADER_BYTES..], run_tag), Opened::Intact(trace_header));
            prop_assert_eq!(TraceHeader::open(&message, &content, run_tag ^ 1), Opened::Foreign);
            prop_assert_eq!(TraceHeader::sequence_of(&message), Some(sequence));
            let flip = flip % (message.len() * 8);
            message[flip / 8] ^= 1 << (flip % 8);
            let expected = if flip < 64 { Opened::Foreign } else { Opened::Corrupt };
            prop_assert_eq!(TraceHeader::open(&message, &message[TRACE_HEADER_BYTES..], run_tag), expected);
        }
    }

    #[test]
    fn a_short_message_is_foreign() {
        assert_eq!(TraceHeader::open(b"BMK1", b"", 0), Opened::Foreign);
        assert_eq!(TraceHeader::sequence_of(b"BMK1"), None);
    }
}
