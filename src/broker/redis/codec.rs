//! RESP, the protocol of Redis and Valkey: commands as they are sent, and replies, decoded in place (redis.io, "Redis serialization protocol
//! specification").

use crate::net::connect::protocol_of_size;
use crate::printable::printable;

/// Longest line that is read: an error of the server.
const MAX_LINE_BYTES: usize = 64 << 10;

/// How deep values may be in one another.
const MAX_DEPTH: usize = 8;

/// A value, or the beginning of one that has others in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    Null,
    /// So many values follow. A set and a push are arrays as well.
    Array(usize),
    /// So many pairs of values follow.
    Map(usize),
}

/// A whole value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(Vec<u8>),
    Error(String),
    Integer(i64),
    Null,
    /// The keys and values of a map are in turn.
    List(Vec<Value>),
}

/// Bytes that are not RESP.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// The token at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
///
/// # Errors
/// When the bytes are another protocol, or a value is larger than `most`.
#[inline]
pub fn decode(bytes: &[u8], most: usize) -> Result<Option<(Token<'_>, usize)>, Malformed> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        let other = bytes.first_chunk().and_then(|first| protocol_of_size(u32::from_be_bytes(*first)));
        return match other {
            Some(protocol) => Err(Malformed(protocol.to_owned())),
            None if bytes.len() > MAX_LINE_BYTES => Err(unknown(bytes)),
            None => Ok(None),
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or_else(|| unknown(&bytes[..end]))?;
    let (kind, text) = line.split_first().ok_or_else(|| unknown(line))?;
    let begin = end + 1;
    let length = || integer(text).ok_or_else(|| unknown(line));
    let token = match kind {
        b'$' | b'!' | b'=' => {
            let Ok(length) = usize::try_from(length()?) else { return Ok(Some((Token::Null, begin))) };
            if length > most {
                return Err(Malformed(format!("a value of {length} bytes: at most {most} are expected")));
            }
            let Some(body) = bytes.get(begin..begin + length + 2) else { return Ok(None) };
            let text = &body[..length];
            let token = match kind {
                b'!' => Token::Error(text),
                // What kind of text it is stands before it: "txt:".
                b'=' => Token::Bulk(text.get(4..).unwrap_or_default()),
                _ => Token::Bulk(text),
            };
            return Ok(Some((token, begin + length + 2)));
        }
        b'*' | b'~' | b'>' => usize::try_from(length()?).map_or(Token::Null, Token::Array),
        b'%' => Token::Map(usize::try_from(length()?).map_err(|_| unknown(line))?),
        b':' => Token::Integer(length()?),
        b'+' | b',' | b'(' | b'#' => Token::Simple(text),
        b'-' => Token::Error(text),
        b'_' => Token::Null,
        _ => return Err(unknown(line)),
    };
    Ok(Some((token, begin)))
}

/// The whole value at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
///
/// # Errors
/// As [`decode`]; or values are too deep in one another.
pub fn value(bytes: &[u8], most: usize) -> Result<Option<(Value, usize)>, Malformed> {
    value_within(bytes, most, MAX_DEPTH)
}

fn value_within(bytes: &[u8], most: usize, depth: usize) -> Result<Option<(Value, usize)>, Malformed> {
    let Some((token, mut length)) = decode(bytes, most)? else { return Ok(None) };
    let values = match token {
        Token::Simple(text) | Token::Bulk(text) => return Ok(Some((Value::Text(text.to_vec()), length))),
        Token::Error(text) => return Ok(Some((Value::Error(shown(text)), length))),
        Token::Integer(number) => return Ok(Some((Value::Integer(number), length))),
        Token::Null => return Ok(Some((Value::Null, length))),
        Token::Array(values) => values,
        Token::Map(pairs) => pairs.saturating_mul(2),
    };
    if depth == 0 {
        return Err(Malformed("values are too deep in one another".to_owned()));
    }
    let mut list = Vec::new();
    for _ in 0..values {
        let Some((value, bytes)) = value_within(&bytes[length..], most, depth - 1)? else { return Ok(None) };
        list.push(value);
        length += bytes;
    }
    Ok(Some((Value::List(list), length)))
}

/// A number in decimal digits, maybe negative.
#[inline]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let add = |number: i64, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'));
    let number = digits.iter().try_fold(0, add)?;
    Some(if is_negative { -number } else { number })
}

impl Value {
    /// What it says under a name, if it is a map.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Value::List(list) = self else { return None };
        list.chunks_exact(2).find(|pair| pair[0].text() == Some(name)).map(|pair| &pair[1])
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    pub fn integer(&self) -> Option<u64> {
        match self {
            Value::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

/// Appends a command with its arguments.
pub fn append_command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    append_count(out, b'*', arguments.len());
    arguments.iter().for_each(|argument| append_bulk(out, argument));
}

/// Appends one argument of a command.
#[inline]
pub fn append_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    append_count(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends how many arguments a command has (`*`), or how many bytes an argument (`$`).
#[inline]
pub fn append_count(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Text of the server, shortened.
pub fn shown(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).chars().take(500).collect()
}

fn unknown(bytes: &[u8]) -> Malformed {
    let text: String = String::from_utf8_lossy(bytes).chars().take(80).collect();
    Malformed(format!("this is not Redis: {}", printable(&text)))
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/redis/codec.rs"]
mod tests;
