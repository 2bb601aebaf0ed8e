//! Values of generated records: the same for the same state of the generator.

use rand::{Rng, RngExt};

/// Items of a generated list, where the schema leaves that open.
pub const ITEMS: std::ops::RangeInclusive<usize> = 1..=3;
/// Characters of a generated text.
const TEXT: std::ops::RangeInclusive<usize> = 8..=16;
/// Bytes of generated binary data.
pub const BYTES: usize = 16;
/// Below it lie generated numbers of 32 bits, so that all types of them can hold them.
pub const SMALL: i64 = 1_000_000;
/// Below it lie those of 64 bits: they are exact as floating-point numbers as well.
pub const LARGE: i64 = 1_000_000_000_000;
/// Generated times lie in the year after it, which is in November 2023, in seconds since 1970.
const BEGIN: i64 = 1_700_000_000;
const YEAR: i64 = 365 * 24 * 3600;
/// Records within records: a schema that contains itself is cut off here, where it allows that.
pub const DEPTH: usize = 4;
/// A record that cannot be cut off there has no end.
pub const MAX_DEPTH: usize = 40;

/// A text of letters and digits, of this many characters.
pub fn text_of(random: &mut dyn Rng, length: usize) -> String {
    const CHARACTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..length).map(|_| char::from(CHARACTERS[random.random_range(0..CHARACTERS.len())])).collect()
}

/// A text of 8 to 16 characters.
pub fn text(random: &mut dyn Rng) -> String {
    let length = random.random_range(TEXT);
    text_of(random, length)
}

/// Random bytes.
pub fn bytes(random: &mut dyn Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Seconds since 1970.
pub fn seconds(random: &mut dyn Rng) -> i64 {
    random.random_range(BEGIN..BEGIN + YEAR)
}

/// As RFC 3339 has it.
pub fn date_time(random: &mut dyn Rng) -> String {
    jiff::Timestamp::from_second(seconds(random)).unwrap_or_default().to_string()
}

/// A UUID of version 4 (RFC 9562, section 5.4).
pub fn uuid(random: &mut dyn Rng) -> String {
    let mut bytes = bytes(random, 16);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
