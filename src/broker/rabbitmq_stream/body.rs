//! A message on the wire: the payload alone, or an AMQP 1.0 message (OASIS, part 3) around it.

use std::borrow::Cow;

use super::codec::amqp::{DecodeError, Decoder, TooLarge, Value, decode, encode, format};
use super::config::Body;
use crate::broker::{Details, Outgoing, TRACE_HEADER_NAME};
use crate::measure::TRACE_HEADER_BYTES;

/// The number that describes a section. Sections of other kinds are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionKind {
    Properties = 0x73,
    ApplicationProperties = 0x74,
    Data = 0x75,
    Other,
}

impl SectionKind {
    fn read(message: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let malformed = Err(DecodeError::Malformed("section of a message"));
        let [format::DESCRIBED, code] = message.array()? else { return malformed };
        let number = match code {
            format::SMALL_ULONG => u64::from(u8::from_be_bytes(message.array()?)),
            format::ULONG => u64::from_be_bytes(message.array()?),
            format::SYMBOL_8 | format::SYMBOL_32 => match message.sized(code)? {
                b"amqp:properties:list" => 0x73,
                b"amqp:application-properties:map" => 0x74,
                b"amqp:data:binary" => 0x75,
                name if name.starts_with(b"amqp:") => return Ok(SectionKind::Other),
                _ => return malformed,
            },
            _ => return malformed,
        };
        match number {
            0x73 => Ok(SectionKind::Properties),
            0x74 => Ok(SectionKind::ApplicationProperties),
            0x75 => Ok(SectionKind::Data),
            0x70..=0x78 => Ok(SectionKind::Other),
            _ => malformed,
        }
    }

    /// The bytes that begin a section.
    const fn head(self) -> [u8; 3] {
        [format::DESCRIBED, format::SMALL_ULONG, self as u8]
    }
}

/// The sections of a message: each one's kind, and the bytes of the value it holds. Ends at what is not a section.
struct Sections<'a>(Decoder<'a>);

impl<'a> Iterator for Sections<'a> {
    type Item = (SectionKind, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let kind = SectionKind::read(&mut self.0).ok()?;
        Some((kind, self.0.skip().ok()?))
    }
}

/// The pairs of an encoded map, as the bytes of their keys and values: values may be of types that [`decode`] does not read.
fn pairs(map: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let content = |map| {
        let mut decoder = Decoder::new(map);
        let [code @ (format::MAP_8 | format::MAP_32)] = decoder.array().ok()? else { return None };
        let mut content = Decoder::new(decoder.sized(code).ok()?);
        content.length(code).ok()?;
        Some(content)
    };
    let mut content = content(map);
    std::iter::from_fn(move || {
        let content = content.as_mut()?;
        Some((content.skip().ok()?, content.skip().ok()?))
    })
}

/// Writes a trial's messages. The parts that all messages share are encoded once.
pub struct Writer {
    body: Body,
    /// The application properties.
    headers: Box<[u8]>,
    /// The same, up to the bytes of the trace header at their end.
    headers_before_trace_header: Box<[u8]>,
}

impl Writer {
    /// # Errors
    /// When the body cannot carry headers.
    pub fn new(body: Body, headers: &[(String, String)]) -> Result<Self, String> {
        if body == Body::Binary && !headers.is_empty() {
            return Err("binary bodies cannot carry headers: leave `producers.headers` out, or set \
                        `broker.rabbitmq-stream.body` to \"amqp\""
                .to_owned());
        }
        let mut map: Vec<_> = headers.iter().map(|(name, value)| (Value::String(name), Value::String(value))).collect();
        let too_large = |error: TooLarge| error.to_string();
        let plain = if map.is_empty() { Vec::new() } else { application_properties(map.clone()).map_err(too_large)? };
        map.push((Value::String(TRACE_HEADER_NAME), Value::Binary(&[0; TRACE_HEADER_BYTES])));
        let mut traced = application_properties(map).map_err(too_large)?;
        traced.truncate(traced.len() - TRACE_HEADER_BYTES);
        Ok(Writer { body, headers: plain.into(), headers_before_trace_header: traced.into() })
    }

    /// Whether the body can carry the message.
    pub fn takes(&self, outgoing: &Outgoing<'_>) -> bool {
        self.body == Body::Amqp || outgoing.trace_header.is_none()
    }

    /// Bytes that [`Writer::write`] appends.
    #[inline]
    pub fn length(&self, outgoing: &Outgoing<'_>) -> usize {
        let payload = outgoing.payload.len();
        if self.body == Body::Binary {
            return payload;
        }
        let headers = match outgoing.trace_header {
            Some(trace_header) => self.headers_before_trace_header.len() + trace_header.len(),
            None => self.headers.len(),
        };
        let key = outgoing.key.map_or(0, |key| key.len() + if key.len() <= 252 { 8 } else { 17 });
        key + headers + SectionKind::Data.head().len() + if payload < 256 { 2 } else { 5 } + payload
    }

    #[inline]
    pub fn write(&self, outgoing: &Outgoing<'_>, out: &mut Vec<u8>) {
        let payload = outgoing.payload;
        if self.body == Body::Amqp {
            if let Some(key) = outgoing.key {
                write_key(key, out);
            }
            match outgoing.trace_header {
                Some(trace_header) => {
                    out.extend_from_slice(&self.headers_before_trace_header);
                    out.extend_from_slice(trace_header);
                }
                None => out.extend_from_slice(&self.headers),
            }
            let [begin, number, kind] = SectionKind::Data.head();
            match u8::try_from(payload.len()) {
                Ok(length) => out.extend_from_slice(&[begin, number, kind, 0xa0, length]),
                Err(_) => {
                    out.extend_from_slice(&[begin, number, kind, 0xb0]);
                    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
                }
            }
        }
        out.extend_from_slice(payload);
    }
}

/// A key travels as the message's id: a list of properties with its first field only.
fn write_key(key: &[u8], out: &mut Vec<u8>) {
    let [begin, number, kind] = SectionKind::Properties.head();
    match u8::try_from(key.len() + 3) {
        Ok(size) => out.extend_from_slice(&[begin, number, kind, 0xc0, size, 1, 0xa0, key.len() as u8]),
        Err(_) => {
            out.extend_from_slice(&[begin, number, kind, 0xd0]);
            out.extend_from_slice(&(key.len() as u32 + 9).to_be_bytes());
            out.extend_from_slice(&[0, 0, 0, 1, 0xb0]);
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(key);
}

fn application_properties(map: Vec<(Value<'_>, Value<'_>)>) -> Result<Vec<u8>, TooLarge> {
    let mut bytes = SectionKind::ApplicationProperties.head().to_vec();
    encode(&Value::Map(map), &mut bytes)?;
    Ok(bytes)
}

/// A message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened<'a> {
    pub payload: &'a [u8],
    pub trace_header: Option<&'a [u8]>,
}

/// Splits a message. Bytes that are not an AMQP message, or have no data, are payload as a whole: the check of the trace
/// header counts them as foreign.
#[inline]
pub fn open(body: Body, message: &[u8]) -> Opened<'_> {
    let mut opened = Opened { payload: message, trace_header: None };
    if body == Body::Binary {
        return opened;
    }
    for (kind, value) in Sections(Decoder::new(message)) {
        match kind {
            SectionKind::ApplicationProperties => {
                let is_trace_header = |(name, _): &(&[u8], _)| decode(name) == Ok(Value::String(TRACE_HEADER_NAME));
                if let Some((_, value)) = pairs(value).find(is_trace_header)
                    && let Ok(Value::Binary(trace_header)) = decode(value)
                {
                    opened.trace_header = Some(trace_header);
                }
            }
            SectionKind::Data => {
                if let Ok(Value::Binary(payload)) = decode(value) {
                    opened.payload = payload;
                }
                break;
            }
            _ => {}
        }
    }
    opened
}

/// The details of a message with the time of its chunk.
#[derive(Debug)]
pub struct MessageDetails<'a> {
    pub body: Body,
    pub message: &'a [u8],
    pub timestamp_ms: i64,
}

impl MessageDetails<'_> {
    fn section(&self, kind: SectionKind) -> Option<&[u8]> {
        if self.body == Body::Binary {
            return None;
        }
        Sections(Decoder::new(self.message)).find(|section| section.0 == kind).map(|(_, value)| value)
    }

    /// Whether the key, by which messages are filtered, is one of `values`, or the message has no key and that `matches_unfiltered`.
    pub fn has_one_of(&self, values: &[String], matches_unfiltered: bool) -> bool {
        match self.key() {
            Some(key) => values.iter().any(|value| value.as_bytes() == &*key),
            None => matches_unfiltered,
        }
    }
}

impl Details for MessageDetails<'_> {
    /// The message's id, which carries the key (see `write_key`): the first of the properties.
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        let mut properties = Decoder::new(self.section(SectionKind::Properties)?);
        let [code @ (format::LIST_8 | format::LIST_32)] = properties.array().ok()? else { return None };
        let mut properties = Decoder::new(properties.sized(code).ok()?);
        properties.length(code).ok()?;
        match properties.value().ok()? {
            Value::Binary(id) => Some(Cow::Borrowed(id)),
            Value::String(id) => Some(Cow::Borrowed(id.as_bytes())),
            _ => None,
        }
    }

    fn timestamp_unix_ns(&self) -> Option<u64> {
        u64::try_from(self.timestamp_ms).ok()?.checked_mul(1_000_000)
    }

    /// Those of the application properties that are text or bytes.
    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let header = |(name, value): (&[u8], &[u8])| match (decode(name).ok()?, decode(value).ok()?) {
            (Value::String(TRACE_HEADER_NAME), _) => None,
            (Value::String(name), Value::String(value)) => Some((name.to_owned(), value.as_bytes().to_vec())),
            (Value::String(name), Value::Binary(value)) => Some((name.to_owned(), value.to_vec())),
            _ => None,
        };
        let section = self.section(SectionKind::ApplicationProperties);
        section.into_iter().flat_map(pairs).filter_map(header).collect()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq_stream/body.rs"]
mod tests;
