//! The part of AMQP 1.0 (OASIS, parts 1 and 3) that stream bodies and RbFly's codec benchmark need: null, integer, binary, text,
//! list and map. Values of other types can be skipped. The sections of a message are in `body`.
//!
//! Decoding copies neither text nor binaries: a [`Value`] borrows them from the bytes it was read from. `benches/amqp.rs` measures
//! the codec beside another implementation.
//!
//! ```
//! use brokermark::broker::rabbitmq_stream::codec::amqp::{Value, decode, encode};
//!
//! let value = Value::Map(vec![(Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2)]))]);
//! let mut bytes = Vec::new();
//! encode(&value, &mut bytes)?;
//! assert_eq!(decode(&bytes)?, value);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The codes that begin a value, as part 1 of the specification lists them. A code with bit 0x10 set is the wide form of the one
/// without: its size and count take four bytes instead of one.
pub mod format {
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const LIST_0: u8 = 0x45;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const INT: u8 = 0x71;
    pub const ULONG: u8 = 0x80;
    pub const BINARY_8: u8 = 0xa0;
    pub const STRING_8: u8 = 0xa1;
    pub const SYMBOL_8: u8 = 0xa3;
    pub const BINARY_32: u8 = 0xb0;
    pub const STRING_32: u8 = 0xb1;
    pub const SYMBOL_32: u8 = 0xb3;
    pub const LIST_8: u8 = 0xc0;
    pub const MAP_8: u8 = 0xc1;
    pub const LIST_32: u8 = 0xd0;
    pub const MAP_32: u8 = 0xd1;

    pub const WIDE: u8 = 0x10;
}

/// How deep values may lie in each other: deeper ones would take more stack than there is.
const MAX_DEPTH: usize = 64;

/// A value; text and binaries are borrowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i32),
    Binary(&'a [u8]),
    /// A string, or a symbol that was read.
    String(&'a str),
    List(Vec<Value<'a>>),
    /// Pairs in the order in which they were written.
    Map(Vec<(Value<'a>, Value<'a>)>),
}

/// A value of more than 4 GiB, which AMQP cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a value of more than 4 GiB cannot be written as AMQP")]
pub struct TooLarge;

/// Why bytes are not a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the bytes end within a value")]
    Short,
    #[error("{0} bytes are left behind the value")]
    Left(usize),
    #[error("values that begin with {0:#04x} are not read")]
    UnknownType(u8),
    #[error("malformed {0}")]
    Malformed(&'static str),
    #[error("values are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("lists and maps claim more elements than the message can contain")]
    TooManyElements,
}

/// Appends `value` to `out` in its smallest form. After an error `out` may hold a part of it.
///
/// # Errors
/// When the value cannot be written as AMQP.
pub fn encode(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
    match value {
        Value::Null => out.push(format::NULL),
        Value::Int(number) => match i8::try_from(*number) {
            Ok(small) => out.extend_from_slice(&[format::SMALL_INT, small.cast_unsigned()]),
            Err(_) => {
                out.push(format::INT);
                out.extend_from_slice(&number.to_be_bytes());
            }
        },
        Value::Binary(bytes) => encode_bytes(format::BINARY_8, bytes, out)?,
        Value::String(text) => encode_bytes(format::STRING_8, text.as_bytes(), out)?,
        Value::List(values) if values.is_empty() => out.push(format::LIST_0),
        Value::List(values) => encode_compound(format::LIST_8, values.len(), out, |out| {
            values.iter().try_for_each(|value| encode(value, out))
        })?,
        Value::Map(pairs) => encode_compound(format::MAP_8, pairs.len() * 2, out, |out| {
            pairs.iter().try_for_each(|(key, value)| {
                encode(key, out)?;
                encode(value, out)
            })
        })?,
    }
    Ok(())
}

#[inline]
fn encode_bytes(narrow_code: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TooLarge> {
    if let Ok(length) = u8::try_from(bytes.len()) {
        out.extend_from_slice(&[narrow_code, length]);
    } else {
        out.push(narrow_code | format::WIDE);
        out.extend_from_slice(&u32::try_from(bytes.len()).map_err(|_| TooLarge)?.to_be_bytes());
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Writes a value with a size and a count. The narrow head is written first, and what turns out not to fit moves back: that is
/// less work than to go through the value twice.
fn encode_compound(
    narrow_code: u8,
    count: usize,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), TooLarge>,
) -> Result<(), TooLarge> {
    const NARROW_HEAD_BYTES: usize = 3;
    let begin = out.len();
    out.extend_from_slice(&[narrow_code, 0, 0]);
    content(out)?;
    let length = out.len() - begin - NARROW_HEAD_BYTES;
    if let (Ok(narrow_size), Ok(narrow_count)) = (u8::try_from(length + 1), u8::try_from(count)) {
        out[begin + 1] = narrow_size;
        out[begin + 2] = narrow_count;
        return Ok(());
    }
    let size = u32::try_from(length + 4).map_err(|_| TooLarge)?.to_be_bytes();
    let count = u32::try_from(count).map_err(|_| TooLarge)?.to_be_bytes();
    let code = narrow_code | format::WIDE;
    let head = [code, size[0], size[1], size[2], size[3], count[0], count[1], count[2], count[3]];
    out.splice(begin..begin + NARROW_HEAD_BYTES, head);
    Ok(())
}

/// Reads one value that takes all of `bytes`.
///
/// # Errors
/// When they are something else.
pub fn decode(bytes: &[u8]) -> Result<Value<'_>, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let value = decoder.value()?;
    decoder.end()?;
    Ok(value)
}

/// What is left of some bytes.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    depth: usize,
    /// How many elements lists and maps may still have, all together. Each takes a byte at least, so that this bounds the memory
    /// that a message takes.
    elements_left: usize,
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes, depth: 0, elements_left: bytes.len() }
    }

    fn end(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::Left(left)),
        }
    }

    pub fn value(&mut self) -> Result<Value<'a>, DecodeError> {
        let mut value = Value::Null;
        self.read(&mut value)?;
        Ok(value)
    }

    /// Reads a value to where it is to be, in the place of a null: returned, each would be copied several times.
    #[inline]
    fn read(&mut self, into: &mut Value<'a>) -> Result<(), DecodeError> {
        let [code] = self.array()?;
        match code {
            format::NULL => {}
            format::INT => *into = Value::Int(i32::from_be_bytes(self.array()?)),
            format::SMALL_INT => *into = Value::Int(i32::from(i8::from_be_bytes(self.array()?))),
            format::BINARY_8 | format::BINARY_32 => *into = Value::Binary(self.sized(code)?),
            format::STRING_8 | format::STRING_32 | format::SYMBOL_8 | format::SYMBOL_32 => {
                *into = Value::String(text(self.sized(code)?)?);
            }
            format::LIST_0 => *into = Value::List(Vec::new()),
            format::LIST_8 | format::LIST_32 => *into = Value::List(self.compound(code, Self::list)?),
            format::MAP_8 | format::MAP_32 => *into = Value::Map(self.compound(code, Self::map)?),
            code => return Err(DecodeError::UnknownType(code)),
        }
        Ok(())
    }

    /// Reads the bytes of the next value, of any type, without looking into it.
    pub fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let begin = self.rest;
        // A described value is two, and its descriptor may be one again.
        let mut left = 1;
        while left > 0 {
            left -= 1;
            let [code] = self.array()?;
            // The first half of a code is the length of what follows (part 1, 1.2).
            let length = match code >> 4 {
                0x0 if code == format::DESCRIBED => {
                    left += 2;
                    0
                }
                0x4 => 0,
                0x5 => 1,
                0x6 => 2,
                0x7 => 4,
                0x8 => 8,
                0x9 => 16,
                0xa..=0xf => self.length(code)?,
                _ => return Err(DecodeError::UnknownType(code)),
            };
            self.bytes(length)?;
        }
        Ok(&begin[..begin.len() - self.rest.len()])
    }

    /// Reads the size and the count of a list or map, and its content by `read`, which gets the count.
    fn compound<T>(
        &mut self,
        code: u8,
        read: impl FnOnce(&mut Self, usize) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let bytes = self.sized(code)?;
        if self.depth == MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        let mut inner = Decoder { rest: bytes, depth: self.depth + 1, ..*self };
        let count = inner.length(code)?;
        inner.elements_left = inner.elements_left.checked_sub(count).ok_or(DecodeError::TooManyElements)?;
        let read = read(&mut inner, count)?;
        inner.end()?;
        self.elements_left = inner.elements_left;
        Ok(read)
    }

    fn list(&mut self, count: usize) -> Result<Vec<Value<'a>>, DecodeError> {
        let mut list = Vec::with_capacity(count);
        list.resize_with(count, || Value::Null);
        for value in &mut list {
            self.read(value)?;
        }
        Ok(list)
    }

    fn map(&mut self, count: usize) -> Result<Vec<(Value<'a>, Value<'a>)>, DecodeError> {
        if !count.is_multiple_of(2) {
            return Err(DecodeError::Malformed("map"));
        }
        let mut map = Vec::with_capacity(count / 2);
        map.resize_with(count / 2, || (Value::Null, Value::Null));
        for (key, value) in &mut map {
            self.read(key)?;
            self.read(value)?;
        }
        Ok(map)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a size or count, as wide as `code` says.
    #[inline]
    pub fn length(&mut self, code: u8) -> Result<usize, DecodeError> {
        if code & format::WIDE == 0 {
            let [length] = self.array()?;
            Ok(usize::from(length))
        } else {
            Ok(self.array().map(u32::from_be_bytes)? as usize)
        }
    }

    #[inline]
    pub fn sized(&mut self, code: u8) -> Result<&'a [u8], DecodeError> {
        let length = self.length(code)?;
        self.bytes(length)
    }
}

/// Whether short text is ASCII is known long before `from_utf8` has gone through it byte by byte.
#[inline]
fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Malformed("string"))
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/rabbitmq_stream/codec/amqp.rs"]
mod tests;
