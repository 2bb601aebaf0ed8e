//! From values to bytes, each in the smallest way there is.

use super::{Value, format};

/// Why a value has no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("elements of an array are of different types")]
    MixedArray,
    #[error("a symbol with characters that are not ASCII")]
    Symbol,
    #[error("a value of more than 4 GiB")]
    TooLarge,
}

/// A compound's code, size and count in their narrow form.
const NARROW_HEAD: usize = 3;

/// Appends `value` to `out`. After an error `out` may hold a part of it.
///
/// # Errors
/// When the value cannot be written as AMQP.
pub fn encode(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match value {
        Value::Null => out.push(format::NULL),
        Value::Boolean(true) => out.push(format::TRUE),
        Value::Boolean(false) => out.push(format::FALSE),
        Value::Ubyte(number) => out.extend_from_slice(&[format::UBYTE, *number]),
        Value::Uint(0) => out.push(format::UINT_0),
        Value::Uint(number @ 1..=255) => out.extend_from_slice(&[format::SMALL_UINT, *number as u8]),
        Value::Ulong(0) => out.push(format::ULONG_0),
        Value::Ulong(number @ 1..=255) => out.extend_from_slice(&[format::SMALL_ULONG, *number as u8]),
        Value::Byte(number) => out.extend_from_slice(&[format::BYTE, number.cast_unsigned()]),
        Value::Int(number @ -128..=127) => out.extend_from_slice(&[format::SMALL_INT, *number as u8]),
        Value::Long(number @ -128..=127) => out.extend_from_slice(&[format::SMALL_LONG, *number as u8]),
        Value::Binary(bytes) => narrow_or_wide(format::BINARY_8, bytes, out)?,
        Value::String(text) => narrow_or_wide(format::STRING_8, text.as_bytes(), out)?,
        Value::Symbol(text) => {
            check_symbol(text)?;
            narrow_or_wide(format::SYMBOL_8, text.as_bytes(), out)?;
        }
        Value::List(values) => list(values, out)?,
        Value::Map(entries) => map(entries, out)?,
        Value::Array(elements) => compound(format::ARRAY_8, elements.len(), out, |out| array(elements, out))?,
        Value::Described(described) => {
            out.push(format::DESCRIBED);
            encode(&described.0, out)?;
            encode(&described.1, out)?;
        }
        value => {
            out.push(wide_code(value));
            wide_content(value, out)?;
        }
    }
    Ok(())
}

pub(super) fn list(list: &[Value<'_>], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if list.is_empty() {
        out.push(format::LIST_0);
        return Ok(());
    }
    compound(format::LIST_8, list.len(), out, |out| all(list, out))
}

pub(super) fn map(map: &[(Value<'_>, Value<'_>)], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    compound(format::MAP_8, map.len() * 2, out, |out| pairs(map, out))
}

/// The code and head of a binary of `length` bytes, which are to follow.
pub(super) fn binary_head(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short) => out.extend_from_slice(&[format::BINARY_8, short]),
        Err(_) => {
            out.push(format::BINARY_32);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

#[inline]
fn narrow_or_wide(narrow_code: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend_from_slice(&[narrow_code, length]),
        Err(_) => {
            out.push(narrow_code | 0x10);
            wide(bytes.len(), out)?;
        }
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Writes what has a size and a count. The narrow head is written first, and what turns out not to fit moves back: that is
/// less work than to go through the value twice.
fn compound(
    narrow_code: u8,
    count: usize,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let begin = out.len();
    out.extend_from_slice(&[narrow_code, 0, 0]);
    content(out)?;
    let length = out.len() - begin - NARROW_HEAD;
    if let (Ok(narrow_size), Ok(narrow_count)) = (u8::try_from(length + 1), u8::try_from(count)) {
        out[begin + 1] = narrow_size;
        out[begin + 2] = narrow_count;
        return Ok(());
    }
    let size = u32::try_from(length + 4).map_err(|_| EncodeError::TooLarge)?.to_be_bytes();
    let count = u32::try_from(count).map_err(|_| EncodeError::TooLarge)?.to_be_bytes();
    let code = narrow_code | 0x10;
    let head = [code, size[0], size[1], size[2], size[3], count[0], count[1], count[2], count[3]];
    out.splice(begin..begin + NARROW_HEAD, head);
    Ok(())
}

fn all(list: &[Value<'_>], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    list.iter().try_for_each(|value| encode(value, out))
}

fn pairs(map: &[(Value<'_>, Value<'_>)], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    map.iter().try_for_each(|(key, value)| {
        encode(key, out)?;
        encode(value, out)
    })
}

/// The constructor that all elements share, and their contents.
fn array(elements: &[Value<'_>], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match elements.first() {
        None => out.push(format::NULL),
        Some(Value::Described(first)) => {
            out.push(format::DESCRIBED);
            encode(&first.0, out)?;
            let code = wide_code(&first.1);
            if code == format::DESCRIBED {
                return Err(EncodeError::MixedArray);
            }
            out.push(code);
            for element in elements {
                match element {
                    Value::Described(other) if other.0 == first.0 && wide_code(&other.1) == code => {
                        wide_content(&other.1, out)?;
                    }
                    _ => return Err(EncodeError::MixedArray),
                }
            }
        }
        Some(first) => {
            let code = wide_code(first);
            out.push(code);
            for element in elements {
                if wide_code(element) != code {
                    return Err(EncodeError::MixedArray);
                }
                wide_content(element, out)?;
            }
        }
    }
    Ok(())
}

/// The code of the form that holds every value of a type.
fn wide_code(value: &Value<'_>) -> u8 {
    match value {
        Value::Null => format::NULL,
        Value::Boolean(_) => format::BOOLEAN,
        Value::Ubyte(_) => format::UBYTE,
        Value::Ushort(_) => format::USHORT,
        Value::Uint(_) => format::UINT,
        Value::Ulong(_) => format::ULONG,
        Value::Byte(_) => format::BYTE,
        Value::Short(_) => format::SHORT,
        Value::Int(_) => format::INT,
        Value::Long(_) => format::LONG,
        Value::Float(_) => format::FLOAT,
        Value::Double(_) => format::DOUBLE,
        Value::Decimal32(_) => format::DECIMAL_32,
        Value::Decimal64(_) => format::DECIMAL_64,
        Value::Decimal128(_) => format::DECIMAL_128,
        Value::Char(_) => format::CHAR,
        Value::Timestamp(_) => format::TIMESTAMP,
        Value::Uuid(_) => format::UUID,
        Value::Binary(_) => format::BINARY_32,
        Value::String(_) => format::STRING_32,
        Value::Symbol(_) => format::SYMBOL_32,
        Value::List(_) => format::LIST_32,
        Value::Map(_) => format::MAP_32,
        Value::Array(_) => format::ARRAY_32,
        Value::Described(_) => format::DESCRIBED,
    }
}

/// What follows [`wide_code`].
fn wide_content(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match value {
        Value::Null => {}
        Value::Boolean(boolean) => out.push(u8::from(*boolean)),
        Value::Ubyte(number) => out.push(*number),
        Value::Ushort(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Uint(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Ulong(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Byte(number) => out.push(number.cast_unsigned()),
        Value::Short(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Int(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Long(number) | Value::Timestamp(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Float(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Double(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Decimal32(bytes) => out.extend_from_slice(bytes),
        Value::Decimal64(bytes) => out.extend_from_slice(bytes),
        Value::Decimal128(bytes) | Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Char(character) => out.extend_from_slice(&u32::from(*character).to_be_bytes()),
        Value::Binary(bytes) => sized(bytes, out)?,
        Value::String(text) => sized(text.as_bytes(), out)?,
        Value::Symbol(text) => {
            check_symbol(text)?;
            sized(text.as_bytes(), out)?;
        }
        Value::List(list) => wide_compound(list.len(), out, |out| all(list, out))?,
        Value::Map(map) => wide_compound(map.len() * 2, out, |out| pairs(map, out))?,
        Value::Array(elements) => wide_compound(elements.len(), out, |out| array(elements, out))?,
        Value::Described(described) => {
            encode(&described.0, out)?;
            encode(&described.1, out)?;
        }
    }
    Ok(())
}

fn wide_compound(
    count: usize,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    wide(count, out)?;
    content(out)?;
    let size = u32::try_from(out.len() - begin - 4).map_err(|_| EncodeError::TooLarge)?;
    out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    wide(bytes.len(), out)?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn wide(number: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let number = u32::try_from(number).map_err(|_| EncodeError::TooLarge)?;
    out.extend_from_slice(&number.to_be_bytes());
    Ok(())
}

fn check_symbol(text: &str) -> Result<(), EncodeError> {
    if text.is_ascii() { Ok(()) } else { Err(EncodeError::Symbol) }
}
