//! Replies to what members of groups ask for, decoded in place.

use std::collections::VecDeque;

use super::codec::{Malformed, Token, decode, integer};
use super::connect::refusal;
use super::publish::PAYLOAD_FIELD;
use crate::broker::{ClientError, Details, TRACE_HEADER_NAME};

/// What the server is to reply to, and how far its reply was read.
#[derive(Default)]
pub struct Replies {
    pub expected: VecDeque<Expected>,
    pub reading: Reading,
    /// The reply that is read has as many messages as were asked for, and no more were asked for yet.
    pub is_full: bool,
    /// Whether the member first reads what it was given over an earlier connection and has not acknowledged: a reply may have been lost.
    pub reads_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Messages,
    /// Entries of other members.
    Claimed,
    /// What this member was given over an earlier connection.
    Pending,
    /// A reply that says nothing else than that the command was executed.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    #[default]
    Begin,
    Messages(Messages),
}

/// The messages of a reply that were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Messages {
    pub left: usize,
    /// Whether they were delivered before.
    pub redelivered: bool,
    /// Whether the ids of entries that are gone follow them.
    pub behind: bool,
}

impl Replies {
    /// Of a connection in the place of one that was lost.
    pub fn after_loss() -> Self {
        Replies { reads_own: true, ..Replies::default() }
    }

    /// The reply begins with this.
    pub fn begin(&mut self, head: &Head) {
        let is_empty = matches!(head, Head::Done | Head::Messages(Messages { left: 0, .. }));
        if is_empty && self.expected.front() == Some(&Expected::Pending) {
            self.reads_own = false;
        }
    }

    /// The reply ends here.
    pub fn done(&mut self) {
        self.expected.pop_front();
        self.reading = Reading::Begin;
    }
}

/// The values at the beginning of some bytes, one after another.
struct Tokens<'a> {
    bytes: &'a [u8],
    read: usize,
    most: usize,
}

impl<'a> Tokens<'a> {
    fn new(bytes: &'a [u8], most: usize) -> Self {
        Tokens { bytes, read: 0, most }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Token<'a>>, Malformed> {
        let Some((token, length)) = decode(&self.bytes[self.read..], self.most)? else { return Ok(None) };
        self.read += length;
        Ok(Some(token))
    }
}

/// What a reply begins with.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// It has no messages.
    Done,
    Refused(ClientError),
    Messages(Messages),
}

/// The head of the reply to what is `expected`, and its length. `None`: it has not arrived completely.
pub fn head(bytes: &[u8], most: usize, expected: Expected) -> Result<Option<(Head, usize)>, Malformed> {
    let mut tokens = Tokens::new(bytes, most);
    let Some(first) = tokens.next()? else { return Ok(None) };
    let redelivered = matches!(expected, Expected::Claimed | Expected::Pending);
    let messages = |left| Messages { left, redelivered, behind: first == Token::Array(3) };
    match (first, expected) {
        (Token::Error(text), _) => return Ok(Some((Head::Refused(refusal(text)), tokens.read))),
        (Token::Null, _) | (_, Expected::Done) => return Ok(Some((Head::Done, tokens.read))),
        // The message itself, which is not read here.
        (Token::Bulk(_), _) => return Ok(Some((Head::Messages(messages(1)), 0))),
        // `XREADGROUP` replies with streams, each of which is an array of its name and its entries, or a pair of them.
        (Token::Array(1), _) if tokens.next()?.is_none() => return Ok(None),
        _ => {}
    }
    // The name of the stream or the list; of a claim, where the next one begins.
    if tokens.next()?.is_none() {
        return Ok(None);
    }
    let behind_name = tokens.read;
    match tokens.next()? {
        None => Ok(None),
        // `BRPOP` replies with the message itself, which is not read here.
        Some(Token::Bulk(_)) => Ok(Some((Head::Messages(messages(1)), behind_name))),
        Some(Token::Array(left)) => Ok(Some((Head::Messages(messages(left)), tokens.read))),
        Some(other) => Err(unexpected(other)),
    }
}

pub fn unexpected(token: Token<'_>) -> Malformed {
    Malformed(format!("the server replies with something else than messages: {token:?}"))
}

/// An entry of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    pub id: &'a [u8],
    /// The fields and values in turn, as they arrived; none: it was deleted.
    fields: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
    #[inline]
    pub fn decode(bytes: &'a [u8], most: usize) -> Result<Option<(Self, usize)>, Malformed> {
        let mut tokens = Tokens::new(bytes, most);
        let (Some(first), Some(id)) = (tokens.next()?, tokens.next()?) else { return Ok(None) };
        let (Token::Array(2), Token::Bulk(id)) = (first, id) else { return Err(unexpected(first)) };
        let count = match tokens.next()? {
            None => return Ok(None),
            Some(Token::Array(count)) => count,
            Some(Token::Null) => 0,
            Some(other) => return Err(unexpected(other)),
        };
        let begin = tokens.read;
        for _ in 0..count {
            match tokens.next()? {
                None => return Ok(None),
                Some(Token::Bulk(_)) => {}
                Some(other) => return Err(unexpected(other)),
            }
        }
        Ok(Some((Entry { id, fields: &bytes[begin..tokens.read] }, tokens.read)))
    }

    /// It was deleted after it had been given to the member: every other entry has a field.
    pub fn is_deleted(&self) -> bool {
        self.fields.is_empty()
    }

    fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut tokens = Tokens::new(self.fields, self.fields.len());
        std::iter::from_fn(move || match (tokens.next(), tokens.next()) {
            (Ok(Some(Token::Bulk(field))), Ok(Some(Token::Bulk(value)))) => Some((field, value)),
            _ => None,
        })
    }

    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// brokermark's own field, or the first one that another program has written.
    pub fn payload(&self) -> &'a [u8] {
        let own = self.field(PAYLOAD_FIELD);
        own.or_else(|| self.fields().next().map(|(_, value)| value)).unwrap_or_default()
    }
}

impl Details for Entry<'_> {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        let milliseconds = self.id.split(|byte| *byte == b'-').next().and_then(integer)?;
        Some(milliseconds as u64 * 1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let is_own = |name: &[u8]| name != PAYLOAD_FIELD && name != TRACE_HEADER_NAME.as_bytes();
        let own = self.fields().filter(|(name, _)| is_own(name));
        own.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect()
    }
}

/// An entry's id, `milliseconds-sequence`, as one number that grows with it.
pub fn offset(id: &[u8]) -> Option<u64> {
    let dash = memchr::memchr(b'-', id)?;
    let (milliseconds, sequence) = (integer(&id[..dash])?, integer(&id[dash + 1..])?);
    // No server adds 2^20 entries in a millisecond, and 44 bits of milliseconds end in 2527.
    Some((milliseconds as u64) << 20 | (sequence as u64).min((1 << 20) - 1))
}

/// What a listening connection has received, with its length: the payload of a message to a channel; `None` for everything else.
pub type Heard<'a> = (Option<&'a [u8]>, usize);

/// `None`: it has not arrived completely.
///
/// # Errors
/// When it is not a reply, or an error.
pub fn published(bytes: &[u8], most: usize) -> Result<Option<Heard<'_>>, Malformed> {
    let mut tokens = Tokens::new(bytes, most);
    let Some(first) = tokens.next()? else { return Ok(None) };
    let count = match first {
        Token::Array(count) => count,
        Token::Error(text) => return Err(Malformed(refusal(text).message)),
        // The reply to a `PING` of RESP 3.
        _ => return Ok(Some((None, tokens.read))),
    };
    let (mut kind, mut last) = (None, None);
    for _ in 0..count {
        let Some(token) = tokens.next()? else { return Ok(None) };
        kind = kind.or(Some(token));
        last = Some(token);
    }
    let is_message =
        [&b"message"[..], b"pmessage", b"smessage"].map(Token::Bulk).contains(&kind.unwrap_or(Token::Null));
    let payload = match last {
        Some(Token::Bulk(payload)) if is_message => Some(payload),
        _ => None,
    };
    Ok(Some((payload, tokens.read)))
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/redis/reply.rs"]
mod tests;
