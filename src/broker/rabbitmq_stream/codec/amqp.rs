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

/// Writes what has a size and a count. The narrow head is written first, and what turns out not to fit moves back: that is
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::broker::rabbitmq_stream::Body;
    use crate::broker::rabbitmq_stream::body::open;

    #[test]
    fn values_are_encoded_in_their_smallest_form() {
        for (value, expected) in [
            (Value::Null, &[0x40][..]),
            (Value::Int(-128), &[0x54, 0x80]),
            (Value::Int(128), &[0x71, 0, 0, 0, 128]),
            (Value::String("a"), &[0xa1, 1, b'a']),
            (Value::List(Vec::new()), &[0x45]),
            (Value::List(vec![Value::Null]), &[0xc0, 2, 1, 0x40]),
            (Value::Map(Vec::new()), &[0xc1, 1, 0]),
        ] {
            let mut out = Vec::new();
            encode(&value, &mut out).unwrap();
            assert_eq!(out, expected);
        }
    }

    /// RbFly 0.10 writes the dictionary of its benchmark so, with wide sizes and numbers.
    #[test]
    fn dictionary_of_rbfly_is_read() {
        let theirs =
            b"\xd1\0\0\0\x49\0\0\0\x06\xa1\x09large-int\x71\x7f\xff\xff\xff\xa1\x0asmall-list\xd0\0\0\0\x13\0\0\0\x03\
                       \x71\0\0\0\x01\x71\0\0\0\x02\x71\0\0\0\x03\xa1\x0abin-string\xa0\x03abc";
        let dictionary = Value::Map(vec![
            (Value::String("large-int"), Value::Int(i32::MAX)),
            (Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2), Value::Int(3)])),
            (Value::String("bin-string"), Value::Binary(b"abc")),
        ]);
        assert_eq!(decode(theirs), Ok(dictionary));
    }

    #[test]
    fn elements_that_bytes_cannot_contain_are_refused() {
        assert_eq!(decode(&[0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]), Err(DecodeError::TooManyElements));
        // Each list claims as many elements as there are bytes: memory would grow with the depth.
        let mut lists = vec![format::NULL; 1000];
        for _ in 0..60 {
            let head = [(lists.len() as u32 + 4).to_be_bytes(), (lists.len() as u32).to_be_bytes()].concat();
            lists.splice(0..0, [&[format::LIST_32], &head[..]].concat());
        }
        assert_eq!(decode(&lists), Err(DecodeError::TooManyElements));
    }

    #[test]
    fn values_nested_too_deeply_are_refused() {
        let mut lists = vec![format::NULL];
        for _ in 0..=MAX_DEPTH {
            lists.splice(
                0..0,
                [[format::LIST_32].as_slice(), &(lists.len() as u32 + 4).to_be_bytes(), &[0, 0, 0, 1]].concat(),
            );
        }
        assert_eq!(decode(&lists), Err(DecodeError::TooDeep));
    }

    /// The inputs of the fuzz target of the same name, and what it asserts of them. A published package comes without them.
    #[test]
    fn fuzzing_corpus_is_stable() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/amqp");
        for file in std::fs::read_dir(corpus).into_iter().flatten() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            open(Body::Amqp, &bytes);
            let mut again = Vec::new();
            if let Ok(value) = decode(&bytes) {
                encode(&value, &mut again).unwrap();
                assert_eq!(decode(&again), Ok(value));
            }
        }
    }

    fn value() -> impl Strategy<Value = Value<'static>> {
        // Texts outlive the test, so that values can borrow from them.
        let scalar = prop_oneof![
            Just(Value::Null),
            prop_oneof![-150..150i32, any::<i32>()].prop_map(Value::Int),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Binary(bytes.leak())),
            ".{0,300}".prop_map(|text: String| Value::String(text.leak())),
        ];
        scalar.prop_recursive(4, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
                proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn encoded_value_is_decoded_and_skipped_whole(value in value()) {
            let mut out = vec![1, 2, 3];
            encode(&value, &mut out).unwrap();
            let bytes = &out[3..];
            prop_assert_eq!(decode(bytes), Ok(value));
            prop_assert_eq!(Decoder::new(bytes).skip(), Ok(bytes));
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 50) {
                prop_assert!(decode(&bytes[..end]).is_err());
            }
        }
    }
}
