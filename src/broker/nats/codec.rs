//! The lines of the NATS client protocol that a publisher reads and writes (docs.nats.io, "NATS client protocol").

use crate::net::connect::protocol_of_size;

/// Longest line that is read: a server sends its information in one.
const MAX_LINE_BYTES: usize = 64 << 10;

/// What begins the headers of a message, also of one from the server.
pub const HEADERS: &[u8] = b"NATS/1.0";

/// What the server sent, decoded in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The server itself, as JSON.
    Info(&'a [u8]),
    Message(Answer<'a>),
    Ping,
    Pong,
    Ok,
    /// Its text, without quotes.
    Error(&'a [u8]),
}

/// A message to the inbox of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    pub subject: &'a [u8],
    /// Subject of its own answer; empty: it wants none.
    pub reply: &'a [u8],
    /// Empty: it has none.
    pub headers: &'a [u8],
    pub payload: &'a [u8],
}

/// Bytes that are not NATS.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// The frame at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
///
/// # Errors
/// When the bytes are another protocol, a message is larger than `most`, or its headers have another beginning than [`HEADERS`].
#[inline]
pub fn decode(bytes: &[u8], most: usize) -> Result<Option<(Frame<'_>, usize)>, Malformed> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        if let Some(first) = bytes.first_chunk()
            && let Some(protocol) = protocol_of_size(u32::from_be_bytes(*first))
        {
            return Err(Malformed(protocol.to_owned()));
        }
        return if bytes.len() > MAX_LINE_BYTES { Err(unknown(bytes)) } else { Ok(None) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let begin = end + 1;
    if let Some(fields) = line.strip_prefix(b"MSG ") {
        return message(bytes, fields, begin, most, false);
    }
    let frame = match line {
        b"PONG" => Frame::Pong,
        b"PING" => Frame::Ping,
        b"+OK" => Frame::Ok,
        _ => {
            if let Some(fields) = line.strip_prefix(b"HMSG ") {
                return message(bytes, fields, begin, most, true);
            }
            if let Some(text) = line.strip_prefix(b"-ERR ") {
                Frame::Error(text.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'")).unwrap_or(text))
            } else if let Some(json) = line.strip_prefix(b"INFO ") {
                Frame::Info(json)
            } else {
                return Err(unknown(line));
            }
        }
    };
    Ok(Some((frame, begin)))
}

/// `subject sid [reply] [header bytes] bytes`, and behind the line the headers and the payload.
#[inline]
fn message<'a>(
    bytes: &'a [u8],
    fields: &'a [u8],
    begin: usize,
    most: usize,
    has_headers: bool,
) -> Result<Option<(Frame<'a>, usize)>, Malformed> {
    let (fields, size) = last_number(fields).ok_or_else(|| unknown(fields))?;
    let (fields, header_bytes) = match has_headers {
        true => last_number(fields).filter(|(_, bytes)| *bytes <= size).ok_or_else(|| unknown(fields))?,
        false => (fields, 0),
    };
    if size > most {
        return Err(Malformed(format!("a message of {size} bytes: at most {most} are expected")));
    }
    let Some(body) = bytes.get(begin..begin + size + 2) else { return Ok(None) };
    let mut fields = fields.splitn(3, |byte| *byte == b' ');
    let subject = fields.next().unwrap_or_default();
    let reply = fields.nth(1).unwrap_or_default();
    let (headers, payload) = body[..size].split_at(header_bytes);
    if header_bytes > 0 && !headers.starts_with(HEADERS) {
        return Err(Malformed("the headers of a message do not begin with NATS/1.0".to_owned()));
    }
    Ok(Some((Frame::Message(Answer { subject, reply, headers, payload }), begin + size + 2)))
}

/// The last field, a number, and the fields before it.
#[inline]
fn last_number(fields: &[u8]) -> Option<(&[u8], usize)> {
    let space = memchr::memrchr(b' ', fields)?;
    Some((&fields[..space], number(&fields[space + 1..])? as usize))
}

/// The lines of headers behind the first, each a name and a value.
pub fn header_fields(headers: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = headers.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// A number in decimal digits.
#[inline]
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

fn unknown(bytes: &[u8]) -> Malformed {
    let text: String = String::from_utf8_lossy(bytes).chars().take(80).collect();
    Malformed(format!("this is not NATS: {}", crate::printable::printable(&text)))
}

/// What a message is written with.
#[derive(Debug, Clone, Copy)]
pub struct Publish<'a> {
    pub subject: &'a [u8],
    /// The inbox with a dot behind it, and the number of the message in it.
    pub reply: Option<(&'a [u8], u64)>,
    /// The place of the message in a fast batch, and of how many.
    pub fast: Option<(usize, usize)>,
    /// Lines of headers, the first and the last included; empty: none.
    pub headers: &'a [u8],
    pub payload: &'a [u8],
}

impl Publish<'_> {
    /// What the server compares with its `max_payload`.
    pub fn size(&self) -> usize {
        self.headers.len() + self.payload.len()
    }

    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut decimal = itoa::Buffer::new();
        out.reserve(64 + self.subject.len() + self.size());
        out.extend_from_slice(if self.headers.is_empty() { b"PUB " } else { b"HPUB " });
        out.extend_from_slice(self.subject);
        if let Some((inbox, number)) = self.reply {
            out.push(b' ');
            out.extend_from_slice(inbox);
            out.extend_from_slice(decimal.format(number).as_bytes());
            if let Some((index, of)) = self.fast {
                append_place(out, inbox, index, of);
            }
        }
        if !self.headers.is_empty() {
            out.push(b' ');
            out.extend_from_slice(decimal.format(self.headers.len()).as_bytes());
        }
        out.push(b' ');
        out.extend_from_slice(decimal.format(self.size()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.headers);
        out.extend_from_slice(self.payload);
        out.extend_from_slice(b"\r\n");
    }
}

/// What makes a reply subject that of a message in a fast batch (nats-server, `getFastBatch`), which has its identifier, how many messages
/// may be without an answer, that one must not be stored without those before it, its place from 1, and whether it begins or ends the batch.
fn append_place(out: &mut Vec<u8>, inbox: &[u8], index: usize, of: usize) {
    let mut decimal = itoa::Buffer::new();
    let operation = match index + 1 {
        last if last == of => b".2.$FI",
        1 => b".0.$FI",
        _ => b".1.$FI",
    };
    // The number alone is in use on other connections.
    let own = inbox.strip_suffix(b".").unwrap_or(inbox).rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    out.extend_from_slice(b"-");
    out.extend_from_slice(own);
    out.extend_from_slice(b".65535.fail.");
    out.extend_from_slice(decimal.format(index + 1).as_bytes());
    out.extend_from_slice(operation);
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/nats/codec.rs"]
mod tests;
