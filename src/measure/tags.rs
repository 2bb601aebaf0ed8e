//! What tells a message's story: a tag that goes with it through a client library and comes back with its outcome, in two machine words; and the
//! engine's own header in the message, which a consumer reads.
//!
//! Messages that were sent together take one entry, a [`SendRun`]: what is known of each of them follows from the first one.
//!
//! The header overlays the first 32 bytes of a payload that is free to carry it, or travels as a message header beside a payload
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

pub use crate::limits::{MAX_PRODUCERS, TRACE_HEADER_BYTES};

/// Ticks per microsecond: a tick is 100 ns.
pub const TICK_NS: u64 = 100;

/// The sequence of a message whose number is not known: it is never marked as acknowledged.
pub const UNKNOWN_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

const PRODUCER_INDEX_BITS: u32 = MAX_PRODUCERS.trailing_zeros();
const DELAY_MANTISSA_BITS: u32 = 12;
const DELAY_EXPONENT_BITS: u32 = 5;
const DELAY_BITS: u32 = DELAY_MANTISSA_BITS + DELAY_EXPONENT_BITS;
const SEQUENCE_BITS: u32 = 48;

/// Nanoseconds after which the 32-bit tick counter of a word begins again.
const TURN_NS: u64 = (1 << 32) * TICK_NS;

/// When a message was sent, how late that was, whose it is, which, and whether it counts: all that its outcome needs.
///
/// The first word is all that a client library with one opaque value of 64 bits can carry; [`SendTag::from_word`] restores the
/// second one.
///
/// | bits | field |
/// |---|---|
/// | 32 | sent, in ticks of 100 ns since the trial's epoch: the lower bits |
/// | 17 | schedule delay in ticks, as a 12-bit mantissa and a 5-bit exponent: exact below 819 µs, then within 0.025 % (a histogram of 3 digits rounds four times as coarsely) |
/// | 1 | whether the message is measured, decided by its intended time |
/// | 14 | the producer's index |
/// | 16 | sent: the upper bits, which end after 325 days |
/// | 48 | the message's number among its producer's, from 0 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendTag {
    word: u64,
    rest: u64,
}

impl SendTag {
    /// `sent_ns` counts from the trial's epoch; `producer_index` is below [`MAX_PRODUCERS`].
    #[inline]
    pub fn new(producer_index: usize, sequence: u64, sent_ns: u64, schedule_delay_ns: u64, measured: bool) -> Self {
        debug_assert!(producer_index < MAX_PRODUCERS);
        let ticks = sent_ns / TICK_NS;
        let delay = encode_delay(schedule_delay_ns / TICK_NS);
        let word = (ticks & u64::from(u32::MAX)) << (DELAY_BITS + 1 + PRODUCER_INDEX_BITS)
            | delay << (1 + PRODUCER_INDEX_BITS)
            | (measured as u64) << PRODUCER_INDEX_BITS
            | producer_index as u64;
        SendTag { word, rest: rest(ticks, sequence) }
    }

    /// The first word, to be carried as a client library's opaque value.
    #[inline]
    pub fn to_word(self) -> u64 {
        self.word
    }

    /// The send tag whose [`SendTag::to_word`] gave `word`, of a message that was sent at `sent_by_ns` since the trial's epoch or
    /// before that, by less than the 429 s after which the word's counter begins again.
    #[inline]
    pub fn from_word(word: u64, sequence: u64, sent_by_ns: u64) -> Self {
        let low = word >> (DELAY_BITS + 1 + PRODUCER_INDEX_BITS);
        let sent_by = sent_by_ns / TICK_NS;
        let before = (sent_by as u32).wrapping_sub(low as u32);
        // Nothing was sent before the epoch: in the first turn the lower bits are all.
        let ticks = sent_by.checked_sub(u64::from(before)).unwrap_or(low);
        SendTag { word, rest: rest(ticks, sequence) }
    }

    /// Whether a word is unambiguous without knowing about when its message was sent.
    #[inline]
    pub fn is_first_turn(now_ns: u64) -> bool {
        now_ns < TURN_NS
    }

    #[inline]
    pub fn producer_index(self) -> usize {
        (self.word & ((1 << PRODUCER_INDEX_BITS) - 1)) as usize
    }

    /// Whether two messages have everything in common but their numbers: producer, time, delay, and whether they count.
    #[inline]
    pub fn was_sent_with(self, other: SendTag) -> bool {
        self.word == other.word && (self.rest ^ other.rest) >> SEQUENCE_BITS == 0
    }

    /// Whether two messages are of the same producer, and both of them measured or neither.
    #[inline]
    pub fn is_counted_with(self, other: SendTag) -> bool {
        (self.word ^ other.word) & ((1 << (PRODUCER_INDEX_BITS + 1)) - 1) == 0
    }

    /// The message's number among its producer's, from 0; [`UNKNOWN_SEQUENCE`] where it is not known.
    #[inline]
    pub fn sequence(self) -> u64 {
        self.rest & UNKNOWN_SEQUENCE
    }

    /// That of the message which is `messages` later among its producer's and has everything else in common.
    #[inline]
    pub fn plus(self, messages: u32) -> Self {
        SendTag { rest: self.rest.wrapping_add(u64::from(messages)), ..self }
    }

    #[inline]
    pub fn measured(self) -> bool {
        self.word >> PRODUCER_INDEX_BITS & 1 == 1
    }

    /// How long after its intended time the message was sent.
    #[inline]
    pub fn schedule_delay_ns(self) -> u64 {
        decode_delay(self.word >> (1 + PRODUCER_INDEX_BITS) & ((1 << DELAY_BITS) - 1)) * TICK_NS
    }

    /// When the message was sent, since the trial's epoch.
    #[inline]
    pub fn sent_ns(self) -> u64 {
        self.sent_ticks() * TICK_NS
    }

    /// Time from sent to `now_ns` (since the same epoch).
    #[inline]
    pub fn service_ns(self, now_ns: u64) -> u64 {
        (now_ns / TICK_NS).saturating_sub(self.sent_ticks()) * TICK_NS
    }

    #[inline]
    fn sent_ticks(self) -> u64 {
        self.rest >> SEQUENCE_BITS << 32 | self.word >> (DELAY_BITS + 1 + PRODUCER_INDEX_BITS)
    }
}

/// The second word.
#[inline]
fn rest(ticks: u64, sequence: u64) -> u64 {
    ticks >> 32 << SEQUENCE_BITS | sequence & UNKNOWN_SEQUENCE
}

/// A small floating-point number: values below 2^13 exactly, larger ones with 13 significant bits (the first implied).
#[inline]
fn encode_delay(ticks: u64) -> u64 {
    const IMPLIED: u64 = 1 << DELAY_MANTISSA_BITS;
    const MAX_EXPONENT: u64 = (1 << DELAY_EXPONENT_BITS) - 1;
    if ticks < IMPLIED {
        return ticks;
    }
    let shift = u64::from(63 - ticks.leading_zeros()) - u64::from(DELAY_MANTISSA_BITS);
    let exponent = shift + 1;
    if exponent > MAX_EXPONENT {
        return (1 << DELAY_BITS) - 1;
    }
    exponent << DELAY_MANTISSA_BITS | (ticks >> shift & (IMPLIED - 1))
}

#[inline]
fn decode_delay(code: u64) -> u64 {
    const IMPLIED: u64 = 1 << DELAY_MANTISSA_BITS;
    let exponent = code >> DELAY_MANTISSA_BITS;
    let mantissa = code & (IMPLIED - 1);
    if exponent == 0 { mantissa } else { (IMPLIED | mantissa) << (exponent - 1) }
}

/// Messages of one producer with consecutive numbers that were sent at the same moment, as late as each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRun {
    pub first: SendTag,
    /// How many messages they are, at least 1.
    pub messages: u32,
    /// Payload of all of them.
    pub payload_bytes: u32,
}

impl SendRun {
    /// Adds a message, if it is the next one. Returns whether it is.
    #[inline]
    fn takes(&mut self, send_tag: SendTag, payload_bytes: u32) -> bool {
        if send_tag != self.first.plus(self.messages) {
            return false;
        }
        let Some(all_bytes) = self.payload_bytes.checked_add(payload_bytes) else { return false };
        self.messages += 1;
        self.payload_bytes = all_bytes;
        true
    }

    /// Those of its messages.
    pub fn send_tags(self) -> impl Iterator<Item = SendTag> {
        (0..self.messages).map(move |number| self.first.plus(number))
    }
}

/// Messages in the order in which they were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendRuns {
    runs: Vec<SendRun>,
    messages: usize,
}

impl SendRuns {
    #[inline]
    pub fn push(&mut self, send_tag: SendTag, payload_bytes: u32) {
        self.messages += 1;
        if self.runs.last_mut().is_none_or(|last| !last.takes(send_tag, payload_bytes)) {
            self.runs.push(SendRun { first: send_tag, messages: 1, payload_bytes });
        }
    }

    /// Appends all of `others`.
    pub fn append(&mut self, others: &SendRuns) {
        self.messages += others.messages;
        self.runs.extend_from_slice(&others.runs);
    }

    /// How many messages they are.
    #[inline]
    pub fn messages(&self) -> usize {
        self.messages
    }

    #[inline]
    pub fn runs(&self) -> &[SendRun] {
        &self.runs
    }

    /// Those of all messages.
    pub fn send_tags(&self) -> impl Iterator<Item = SendTag> {
        self.runs.iter().flat_map(|run| run.send_tags())
    }

    pub fn clear(&mut self) {
        self.runs.clear();
        self.messages = 0;
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<SendRun>()
    }
}

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
#[path = "../../tests/unit/measure/tags.rs"]
mod tests;
