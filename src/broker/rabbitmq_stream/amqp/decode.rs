//! From bytes to values.

use super::{Value, format};

/// How deep values may lie in each other: deeper ones would take more stack than there is.
const MAX_DEPTH: usize = 64;

/// Elements that arrays may have beyond the number of bytes: elements of some types, such as null, take none.
const MAX_EMPTY_ELEMENTS: usize = 1 << 12;

/// Why bytes are not a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the bytes end within a value")]
    Short,
    #[error("{0} bytes are left behind the value")]
    Left(usize),
    #[error("no type begins with {0:#04x}")]
    UnknownType(u8),
    #[error("a {0} that cannot be one")]
    Senseless(&'static str),
    #[error("values are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("compound values claim more elements than the message can contain")]
    TooManyElements,
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
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    depth: usize,
    /// How many elements compound values may still have, all together: it bounds the memory that a message takes.
    elements_left: usize,
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes, depth: 0, elements_left: bytes.len().saturating_add(MAX_EMPTY_ELEMENTS) }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn end(&self) -> Result<(), DecodeError> {
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
        self.content(code, into)
    }

    /// The bytes of the next value, which is not looked into.
    pub fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let begin = self.rest;
        // A described value is two, and its descriptor may be one again.
        let mut left = 1;
        while left > 0 {
            left -= 1;
            let [code] = self.array()?;
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
                0xa | 0xc | 0xe => self.narrow()?,
                0xb | 0xd | 0xf => self.wide()?,
                _ => return Err(DecodeError::UnknownType(code)),
            };
            self.bytes(length)?;
        }
        Ok(&begin[..begin.len() - self.rest.len()])
    }

    #[inline]
    fn content(&mut self, code: u8, into: &mut Value<'a>) -> Result<(), DecodeError> {
        // Each arm puts its value there itself: gathered behind them, all would take the way of the largest.
        match code {
            format::NULL => Ok(()),
            format::TRUE => self.fixed(into, |[]| Value::Boolean(true)),
            format::FALSE => self.fixed(into, |[]| Value::Boolean(false)),
            format::BOOLEAN => match self.array()? {
                [0] => self.fixed(into, |[]| Value::Boolean(false)),
                [1] => self.fixed(into, |[]| Value::Boolean(true)),
                _ => Err(DecodeError::Senseless("boolean")),
            },
            format::UBYTE => self.fixed(into, |bytes| Value::Ubyte(u8::from_be_bytes(bytes))),
            format::USHORT => self.fixed(into, |bytes| Value::Ushort(u16::from_be_bytes(bytes))),
            format::UINT => self.fixed(into, |bytes| Value::Uint(u32::from_be_bytes(bytes))),
            format::SMALL_UINT => self.fixed(into, |[byte]| Value::Uint(u32::from(byte))),
            format::UINT_0 => self.fixed(into, |[]| Value::Uint(0)),
            format::ULONG => self.fixed(into, |bytes| Value::Ulong(u64::from_be_bytes(bytes))),
            format::SMALL_ULONG => self.fixed(into, |[byte]| Value::Ulong(u64::from(byte))),
            format::ULONG_0 => self.fixed(into, |[]| Value::Ulong(0)),
            format::BYTE => self.fixed(into, |bytes| Value::Byte(i8::from_be_bytes(bytes))),
            format::SHORT => self.fixed(into, |bytes| Value::Short(i16::from_be_bytes(bytes))),
            format::INT => self.fixed(into, |bytes| Value::Int(i32::from_be_bytes(bytes))),
            format::SMALL_INT => self.fixed(into, |bytes| Value::Int(i32::from(i8::from_be_bytes(bytes)))),
            format::LONG => self.fixed(into, |bytes| Value::Long(i64::from_be_bytes(bytes))),
            format::SMALL_LONG => self.fixed(into, |bytes| Value::Long(i64::from(i8::from_be_bytes(bytes)))),
            format::FLOAT => self.fixed(into, |bytes| Value::Float(f32::from_be_bytes(bytes))),
            format::DOUBLE => self.fixed(into, |bytes| Value::Double(f64::from_be_bytes(bytes))),
            format::DECIMAL_32 => self.fixed(into, Value::Decimal32),
            format::DECIMAL_64 => self.fixed(into, Value::Decimal64),
            format::DECIMAL_128 => self.fixed(into, Value::Decimal128),
            format::CHAR => {
                let number = self.array().map(u32::from_be_bytes)?;
                let character = char::from_u32(number).ok_or(DecodeError::Senseless("character"))?;
                put(Value::Char(character), into)
            }
            format::TIMESTAMP => self.fixed(into, |bytes| Value::Timestamp(i64::from_be_bytes(bytes))),
            format::UUID => self.fixed(into, Value::Uuid),
            format::BINARY_8 => put(Value::Binary(self.narrow().and_then(|length| self.bytes(length))?), into),
            format::BINARY_32 => put(Value::Binary(self.wide().and_then(|length| self.bytes(length))?), into),
            format::STRING_8 => put(Value::String(self.narrow().and_then(|length| self.text(length))?), into),
            format::STRING_32 => put(Value::String(self.wide().and_then(|length| self.text(length))?), into),
            format::SYMBOL_8 => put(Value::Symbol(self.narrow().and_then(|length| self.symbol(length))?), into),
            format::SYMBOL_32 => put(Value::Symbol(self.wide().and_then(|length| self.symbol(length))?), into),
            code => self.values(code, into),
        }
    }

    /// A value of a fixed number of bytes.
    #[inline]
    fn fixed<const N: usize>(
        &mut self,
        into: &mut Value<'a>,
        make: impl FnOnce([u8; N]) -> Value<'a>,
    ) -> Result<(), DecodeError> {
        put(make(self.array()?), into)
    }

    /// What has values in it. Apart from the others, which are read with less ado so.
    #[inline(never)]
    fn values(&mut self, code: u8, into: &mut Value<'a>) -> Result<(), DecodeError> {
        let value = match code {
            format::DESCRIBED => {
                let (descriptor, value) = self.deeper(|decoder| Ok((decoder.value()?, decoder.value()?)))?;
                Value::Described(Box::new((descriptor, value)))
            }
            format::LIST_0 => Value::List(Vec::new()),
            format::LIST_8 | format::LIST_32 => Value::List(self.compound(code == format::LIST_8, Self::list)?),
            format::MAP_8 | format::MAP_32 => Value::Map(self.compound(code == format::MAP_8, Self::map)?),
            format::ARRAY_8 | format::ARRAY_32 => Value::Array(self.compound(code == format::ARRAY_8, Self::elements)?),
            code => return Err(DecodeError::UnknownType(code)),
        };
        put(value, into)
    }

    /// A value with a size and a count: `read` gets `size` bytes and the count.
    pub fn compound<T>(
        &mut self,
        narrow: bool,
        read: impl FnOnce(&mut Self, usize) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let size = if narrow { self.narrow()? } else { self.wide()? };
        let bytes = self.bytes(size)?;
        let mut inner = Decoder { rest: bytes, ..*self };
        let count = if narrow { inner.narrow()? } else { inner.wide()? };
        inner.elements_left = inner.elements_left.checked_sub(count).ok_or(DecodeError::TooManyElements)?;
        let read = inner.deeper(|inner| read(inner, count))?;
        inner.end()?;
        self.elements_left = inner.elements_left;
        Ok(read)
    }

    fn list(&mut self, count: usize) -> Result<Vec<Value<'a>>, DecodeError> {
        // Each element takes a byte at least.
        if count > self.rest.len() {
            return Err(DecodeError::Short);
        }
        let mut list = Vec::with_capacity(count);
        list.resize_with(count, || Value::Null);
        for value in &mut list {
            self.read(value)?;
        }
        Ok(list)
    }

    fn map(&mut self, count: usize) -> Result<Vec<(Value<'a>, Value<'a>)>, DecodeError> {
        if count > self.rest.len() {
            return Err(DecodeError::Short);
        }
        if !count.is_multiple_of(2) {
            return Err(DecodeError::Senseless("map"));
        }
        let mut map = Vec::with_capacity(count / 2);
        map.resize_with(count / 2, || (Value::Null, Value::Null));
        for (key, value) in &mut map {
            self.read(key)?;
            self.read(value)?;
        }
        Ok(map)
    }

    fn elements(&mut self, count: usize) -> Result<Vec<Value<'a>>, DecodeError> {
        let [mut code] = self.array()?;
        let mut descriptor = None;
        if code == format::DESCRIBED {
            // Each element gets a copy of the descriptor: only the two types that the specification defines for descriptors
            // (part 1, 1.5) are small enough.
            match self.value()? {
                small @ (Value::Ulong(_) | Value::Symbol(_)) => descriptor = Some(small),
                _ => return Err(DecodeError::Senseless("array")),
            }
            [code] = self.array()?;
            if code == format::DESCRIBED {
                return Err(DecodeError::Senseless("array"));
            }
        }
        let most = if code >> 4 == 0x4 { MAX_EMPTY_ELEMENTS } else { self.rest.len() };
        if count > most {
            return Err(DecodeError::Short);
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            let mut element = Value::Null;
            self.content(code, &mut element)?;
            elements.push(match &descriptor {
                None => element,
                Some(descriptor) => Value::Described(Box::new((descriptor.clone(), element))),
            });
        }
        Ok(elements)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        if self.depth == MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
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

    #[inline]
    fn narrow(&mut self) -> Result<usize, DecodeError> {
        let [length] = self.array()?;
        Ok(usize::from(length))
    }

    #[inline]
    fn wide(&mut self) -> Result<usize, DecodeError> {
        Ok(self.array().map(u32::from_be_bytes)? as usize)
    }

    #[inline]
    fn text(&mut self, length: usize) -> Result<&'a str, DecodeError> {
        let bytes = self.bytes(length)?;
        match ascii(bytes) {
            Some(text) => Ok(text),
            None => std::str::from_utf8(bytes).map_err(|_| DecodeError::Senseless("string")),
        }
    }

    fn symbol(&mut self, length: usize) -> Result<&'a str, DecodeError> {
        ascii(self.bytes(length)?).ok_or(DecodeError::Senseless("symbol"))
    }
}

/// Puts `value` in the place of a null, of which there is nothing to drop.
#[inline]
fn put<'a>(value: Value<'a>, into: &mut Value<'a>) -> Result<(), DecodeError> {
    debug_assert_eq!(*into, Value::Null);
    std::mem::forget(std::mem::replace(into, value));
    Ok(())
}

/// The text, if it is of ASCII alone: of short texts that is known long before `from_utf8` has gone through them byte by
/// byte.
#[inline]
fn ascii(bytes: &[u8]) -> Option<&str> {
    // SAFETY: ASCII is UTF-8.
    bytes.is_ascii().then(|| unsafe { std::str::from_utf8_unchecked(bytes) })
}
