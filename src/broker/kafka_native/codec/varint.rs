//! Variable-length integers of records: zigzag-encoded, 7 bits a byte, the lowest first.
//!
//! Source: Kafka's `org.apache.kafka.common.utils.ByteUtils`, `writeVarint` and `readVarlong`.

use super::Malformed;

/// Most bytes of an encoded integer.
pub const MAX_BYTES: usize = 10;

/// The bytes that `value` takes.
#[inline]
pub fn size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Writes `value` at the beginning of `out`, and returns how many bytes it took.
#[inline]
pub fn write(value: i64, out: &mut [u8]) -> usize {
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
pub const SHORT: usize = (1 << 20) - 64;

/// Encoded integers of 8 bytes at most together, in a register.
#[derive(Debug, Clone, Copy)]
pub struct Short {
    /// The lowest byte is the first.
    pub word: u64,
    pub bits: u32,
}

impl Short {
    #[inline(always)]
    pub fn then(self, next: Short) -> Short {
        Short { word: self.word | next.word << self.bits, bits: self.bits + next.bits }
    }
}

/// Encodes a `value` below [`SHORT`].
#[inline(always)]
pub fn short(value: i64) -> Short {
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
pub fn append(value: i64, out: &mut Vec<u8>) {
    let mut bytes = [0; MAX_BYTES];
    let length = write(value, &mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

/// Takes an integer from the beginning of `bytes`.
///
/// # Errors
/// When it does not end, or has more than 64 bits.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Result<i64, Malformed> {
    match *bytes {
        [byte @ ..0x80, rest @ ..] => {
            *bytes = rest;
            Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1))
        }
        _ => read_long(bytes),
    }
}

/// Appends a number of the protocol's flexible versions (KIP-482), which is not zigzag-encoded.
pub fn append_unsigned(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes such a number from the beginning of `bytes`.
///
/// # Errors
/// When it does not end, or has more than 32 bits.
pub fn read_unsigned(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Malformed("it ends too early"))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| Malformed("a number is too large"));
        }
    }
    Err(Malformed("a number does not end"))
}

/// Of more bytes than one, or none.
fn read_long(bytes: &mut &[u8]) -> Result<i64, Malformed> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(MAX_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == MAX_BYTES - 1 && bits > 1 {
            break;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(Malformed("an integer does not end"))
}

#[inline]
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_are_encoded_as_protocol_buffers_encode_them() {
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut out = Vec::new();
            append(value, &mut out);
            assert_eq!((out.as_slice(), size(value)), (bytes, bytes.len()), "{value}");
        }
    }

    #[test]
    fn an_integer_that_does_not_end_is_refused() {
        for bytes in
            [&[][..], &[0x80], &[0xff; 9], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert!(read(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: i64, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            append(value, &mut bytes);
            prop_assert_eq!(bytes.len(), size(value));
            bytes.extend_from_slice(&rest);
            let mut left = &bytes[..];
            prop_assert_eq!(read(&mut left), Ok(value));
            prop_assert_eq!(left, &rest[..]);
        }
    }
}
