//! Commands a client writes, appended to bytes on their way out.

use super::{Malformed, Reader, key};

const VERSION: u16 = 1;

/// Bytes of a `Publish` frame besides its entries, and of an entry besides its content.
pub const PUBLISH_BYTES: usize = 4 + 2 + 2 + 1 + 4;
const PUBLISHER_AT: usize = 4 + 2 + 2;
pub const MESSAGE_BYTES: usize = 8 + 4;
pub const SUB_ENTRY_BYTES: usize = 8 + 1 + 2 + 4 + 4;

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    First,
    /// The last chunk there is.
    Last,
    Next,
    Absolute(u64),
    /// Milliseconds since 1970.
    Timestamp(i64),
}

/// A request: its key, and what follows the correlation id.
pub struct Request {
    pub key: u16,
    content: Vec<u8>,
}

impl Request {
    fn new(key: u16, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut content = Vec::new();
        write(&mut content);
        Request { key, content }
    }

    pub fn write(&self, out: &mut Vec<u8>, correlation: u32) {
        frame(out, self.key, |out| {
            out.extend_from_slice(&correlation.to_be_bytes());
            out.extend_from_slice(&self.content);
        });
    }

    pub fn peer_properties(properties: &[(&str, &str)]) -> Self {
        Request::new(key::PEER_PROPERTIES, |out| pairs(out, properties.iter().copied()))
    }

    pub fn sasl_handshake() -> Self {
        Request::new(key::SASL_HANDSHAKE, |_| {})
    }

    pub fn sasl_plain(username: &str, password: &str) -> Self {
        Request::new(key::SASL_AUTHENTICATE, |out| {
            string(out, "PLAIN");
            // RFC 4616: no authorisation identity, a zero before the name and before the password.
            let length = 2 + username.len() + password.len();
            out.extend_from_slice(&(length as u32).to_be_bytes());
            out.push(0);
            out.extend_from_slice(username.as_bytes());
            out.push(0);
            out.extend_from_slice(password.as_bytes());
        })
    }

    pub fn open(virtual_host: &str) -> Self {
        Request::new(key::OPEN, |out| string(out, virtual_host))
    }

    pub fn close(reason: &str) -> Self {
        Request::new(key::CLOSE, |out| {
            out.extend_from_slice(&super::code::OK.to_be_bytes());
            string(out, reason);
        })
    }

    pub fn declare_publisher(publisher: u8, reference: &str, stream: &str) -> Self {
        Request::new(key::DECLARE_PUBLISHER, |out| {
            out.push(publisher);
            string(out, reference);
            string(out, stream);
        })
    }

    pub fn query_publisher_sequence(reference: &str, stream: &str) -> Self {
        Request::new(key::QUERY_PUBLISHER_SEQUENCE, |out| {
            string(out, reference);
            string(out, stream);
        })
    }

    pub fn subscribe(subscription: u8, stream: &str, from: Offset, credit: u16) -> Self {
        Request::new(key::SUBSCRIBE, |out| {
            out.push(subscription);
            string(out, stream);
            let (kind, value) = match from {
                Offset::First => (1u16, None),
                Offset::Last => (2, None),
                Offset::Next => (3, None),
                Offset::Absolute(offset) => (4, Some(offset)),
                Offset::Timestamp(milliseconds) => (5, Some(milliseconds.cast_unsigned())),
            };
            out.extend_from_slice(&kind.to_be_bytes());
            if let Some(value) = value {
                out.extend_from_slice(&value.to_be_bytes());
            }
            out.extend_from_slice(&credit.to_be_bytes());
            pairs(out, [].into_iter());
        })
    }

    pub fn unsubscribe(subscription: u8) -> Self {
        Request::new(key::UNSUBSCRIBE, |out| out.push(subscription))
    }

    pub fn stream_stats(stream: &str) -> Self {
        Request::new(key::STREAM_STATS, |out| string(out, stream))
    }

    pub fn create(stream: &str, arguments: &[(&'static str, String)]) -> Self {
        Request::new(key::CREATE, |out| {
            string(out, stream);
            pairs(out, arguments.iter().map(|(key, value)| (*key, value.as_str())));
        })
    }

    pub fn delete(stream: &str) -> Self {
        Request::new(key::DELETE, |out| string(out, stream))
    }

    /// `partitions` are streams with the routing key each is bound by.
    pub fn create_super_stream(
        name: &str,
        partitions: &[(String, String)],
        arguments: &[(&'static str, String)],
    ) -> Self {
        Request::new(key::CREATE_SUPER_STREAM, |out| {
            string(out, name);
            strings(out, partitions.iter().map(|(partition, _)| partition.as_str()));
            strings(out, partitions.iter().map(|(_, routing_key)| routing_key.as_str()));
            pairs(out, arguments.iter().map(|(key, value)| (*key, value.as_str())));
        })
    }

    pub fn delete_super_stream(name: &str) -> Self {
        Request::new(key::DELETE_SUPER_STREAM, |out| string(out, name))
    }

    pub fn partitions(super_stream: &str) -> Self {
        Request::new(key::PARTITIONS, |out| string(out, super_stream))
    }

    pub fn metadata(streams: &[&str]) -> Self {
        Request::new(key::METADATA, |out| strings(out, streams.iter().copied()))
    }
}

/// Responds to the server's `Tune`, itself a request without a correlation and without a response.
pub fn tune(out: &mut Vec<u8>, frame_max: u32, heartbeat: u32) {
    frame(out, key::TUNE, |out| {
        out.extend_from_slice(&frame_max.to_be_bytes());
        out.extend_from_slice(&heartbeat.to_be_bytes());
    });
}

pub fn heartbeat(out: &mut Vec<u8>) {
    frame(out, key::HEARTBEAT, |_| {});
}

/// Lets the server send `chunks` more of a subscription.
pub fn credit(out: &mut Vec<u8>, subscription: u8, chunks: u16) {
    frame(out, key::CREDIT, |out| {
        out.push(subscription);
        out.extend_from_slice(&chunks.to_be_bytes());
    });
}

/// Answers the server's `Close`.
pub fn close_response(out: &mut Vec<u8>, correlation: u32) {
    frame(out, key::RESPONSE | key::CLOSE, |out| {
        out.extend_from_slice(&correlation.to_be_bytes());
        out.extend_from_slice(&super::code::OK.to_be_bytes());
    });
}

/// A `Publish` frame in the making.
pub struct Publish {
    start: usize,
    entries: u32,
}

impl Publish {
    #[inline]
    pub fn begin(out: &mut Vec<u8>, publisher: u8) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&key::PUBLISH.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(publisher);
        out.extend_from_slice(&[0; 4]);
        Publish { start, entries: 0 }
    }

    /// Bytes so far.
    #[inline]
    pub fn bytes(&self, out: &[u8]) -> usize {
        out.len() - self.start
    }

    /// A message of exactly `length` bytes, which `body` appends.
    #[inline]
    pub fn message(&mut self, out: &mut Vec<u8>, id: u64, length: usize, body: impl FnOnce(&mut Vec<u8>)) {
        let mut head = [0; MESSAGE_BYTES];
        head[..8].copy_from_slice(&id.to_be_bytes());
        head[8..].copy_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&head);
        let begin = out.len();
        body(out);
        debug_assert_eq!(out.len() - begin, length);
        self.entries += 1;
    }

    /// `count` messages as one entry with one id; `content` holds them as [`record`] wrote them, then compressed by what
    /// `compression` numbers.
    pub fn sub_entry(
        &mut self,
        out: &mut Vec<u8>,
        id: u64,
        compression: u8,
        count: u16,
        uncompressed: usize,
        content: &[u8],
    ) {
        out.extend_from_slice(&id.to_be_bytes());
        out.push(0x80 | compression << 4);
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&(uncompressed as u32).to_be_bytes());
        out.extend_from_slice(&(content.len() as u32).to_be_bytes());
        out.extend_from_slice(content);
        self.entries += 1;
    }

    /// Completes the frame and returns it.
    #[inline]
    pub fn end(self, out: &mut [u8]) -> &[u8] {
        let frame = &mut out[self.start..];
        let size = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        frame[9..13].copy_from_slice(&self.entries.to_be_bytes());
        frame
    }
}

/// Appends a `Publish` frame once more, for a publisher that has another number now.
pub fn publish_again(out: &mut Vec<u8>, frame: &[u8], publisher: u8) {
    let begin = out.len();
    out.extend_from_slice(frame);
    out[begin + PUBLISHER_AT] = publisher;
}

/// A message in a sub-entry.
pub fn record(out: &mut Vec<u8>, length: usize, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&(length as u32).to_be_bytes());
    body(out);
}

/// A `Metadata` response: brokers by reference, and streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub brokers: Vec<(u16, String, u32)>,
    pub streams: Vec<StreamMetadata>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamMetadata {
    pub name: String,
    pub code: u16,
    /// References of brokers; the leader is not among the replicas.
    pub leader: u16,
    pub replicas: Vec<u16>,
}

impl Metadata {
    /// # Errors
    /// When `rest` is something else.
    pub fn read(rest: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(rest, "metadata response");
        let brokers = reader.many(|reader| Ok((reader.u16()?, reader.string()?.to_owned(), reader.u32()?)))?;
        let streams = reader.many(|reader| {
            Ok(StreamMetadata {
                name: reader.string()?.to_owned(),
                code: reader.u16()?,
                leader: reader.u16()?,
                replicas: reader.many(Reader::u16)?,
            })
        })?;
        Ok(Metadata { brokers, streams })
    }
}

/// An array of strings, as in the responses to `Partitions` and `SaslHandshake`.
///
/// # Errors
/// When `rest` is something else.
pub fn read_strings(rest: &[u8]) -> Result<Vec<String>, Malformed> {
    Reader::new(rest, "list of names").many(|reader| reader.string().map(str::to_owned))
}

/// A map of strings, as in the responses to `PeerProperties` and `Open`. Nothing at all is an empty one.
///
/// # Errors
/// When `rest` is something else.
pub fn read_pairs(rest: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    Reader::new(rest, "map of properties").many(|reader| Ok((reader.string()?.to_owned(), reader.string()?.to_owned())))
}

/// A map of numbers, as in the response to `StreamStats`.
///
/// # Errors
/// When `rest` is something else.
pub fn read_numbers(rest: &[u8]) -> Result<Vec<(String, i64)>, Malformed> {
    let mut reader = Reader::new(rest, "map of numbers");
    reader.many(|reader| Ok((reader.string()?.to_owned(), reader.u64()?.cast_signed())))
}

fn frame(out: &mut Vec<u8>, key: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&VERSION.to_be_bytes());
    content(out);
    let size = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Names and the like are checked to be short where they come from: see `config`.
fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn strings<'a>(out: &mut Vec<u8>, all: impl ExactSizeIterator<Item = &'a str>) {
    out.extend_from_slice(&(all.len() as u32).to_be_bytes());
    all.for_each(|one| string(out, one));
}

fn pairs<'a>(out: &mut Vec<u8>, all: impl ExactSizeIterator<Item = (&'a str, &'a str)>) {
    out.extend_from_slice(&(all.len() as u32).to_be_bytes());
    for (key, value) in all {
        string(out, key);
        string(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_publish_frame_is_as_the_reference_has_it() {
        let mut out = vec![99];
        let mut publish = Publish::begin(&mut out, 7);
        publish.message(&mut out, 5, 2, |out| out.extend_from_slice(b"ab"));
        publish.message(&mut out, 6, 0, |_| {});
        assert_eq!(publish.bytes(&out), out.len() - 1);
        let frame = publish.end(&mut out).to_vec();
        assert_eq!(frame, out[1..]);
        #[rustfmt::skip]
        let expected = [
            99,
            0, 0, 0, 35, 0, 2, 0, 1, 7, 0, 0, 0, 2,
            0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, b'a', b'b',
            0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0,
        ];
        assert_eq!(out, expected);
        let mut again = Vec::new();
        publish_again(&mut again, &frame, 9);
        assert_eq!((again[8], &again[..8], &again[9..]), (9, &frame[..8], &frame[9..]));
    }

    #[test]
    fn a_login_holds_zeros_before_name_and_password() {
        let mut out = Vec::new();
        Request::sasl_plain("me", "it").write(&mut out, 3);
        let mut expected = vec![0, 0, 0, 25, 0, 0x13, 0, 1, 0, 0, 0, 3, 0, 5];
        expected.extend(b"PLAIN\0\0\0\x06\0me\0it");
        assert_eq!(out, expected);
    }

    proptest! {
        #[test]
        fn reading_answers_never_panics(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Metadata::read(&rest);
            let _ = read_strings(&rest);
            let _ = read_pairs(&rest);
            let _ = read_numbers(&rest);
        }
    }
}
