//! A message on the wire: the payload alone, or an AMQP 1.0 message around it.

use std::borrow::Cow;

use super::amqp::{Body as AmqpBody, Message, SectionKind, Sections, Value};
use super::config::Body;
use crate::broker::{Details, Outgoing, TRACE_HEADER_NAME};
use crate::measure::TRACE_HEADER_BYTES;

/// `00 53 75`: a described value whose descriptor is the small number of the data section.
const DATA: [u8; 3] = [0x00, 0x53, 0x75];
/// The same for the properties.
const PROPERTIES: [u8; 3] = [0x00, 0x53, 0x73];

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
        let plain = if map.is_empty() { Vec::new() } else { application_properties(map.clone())? };
        map.push((Value::String(TRACE_HEADER_NAME), Value::Binary(&[0; TRACE_HEADER_BYTES])));
        let mut traced = application_properties(map)?;
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
        key + headers + DATA.len() + if payload < 256 { 2 } else { 5 } + payload
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
            let [begin, number, kind] = DATA;
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
    let [begin, number, kind] = PROPERTIES;
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

fn application_properties(map: Vec<(Value<'_>, Value<'_>)>) -> Result<Vec<u8>, String> {
    let mut message = Message::new(AmqpBody::Data(Vec::new()));
    message.application_properties = Some(map);
    let mut bytes = Vec::new();
    message.encode(&mut bytes).map_err(|error| error.to_string())?;
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
    for section in Sections::new(message) {
        let Ok(section) = section else { break };
        match section.kind {
            SectionKind::ApplicationProperties => {
                if let Ok(Some(Value::Binary(trace_header))) = section.find(TRACE_HEADER_NAME) {
                    opened.trace_header = Some(trace_header);
                }
            }
            SectionKind::Data => {
                if let Ok(payload) = section.binary() {
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
    fn section(&self, kind: SectionKind) -> Option<Value<'_>> {
        if self.body == Body::Binary {
            return None;
        }
        let mut sections = Sections::new(self.message).map_while(Result::ok);
        sections.find(|section| section.kind == kind)?.decode().ok()
    }
}

impl MessageDetails<'_> {
    /// Whether the key, by which messages are filtered, is one of `values`, or the message has no key and that `matches_unfiltered`.
    pub fn has_one_of(&self, values: &[String], matches_unfiltered: bool) -> bool {
        match self.key() {
            Some(key) => values.iter().any(|value| value.as_bytes() == &*key),
            None => matches_unfiltered,
        }
    }
}

impl Details for MessageDetails<'_> {
    /// The message's id, which carries the key (see [`write_key`]).
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        let Value::List(properties) = self.section(SectionKind::Properties)? else { return None };
        match properties.first()? {
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
        let Some(Value::Map(properties)) = self.section(SectionKind::ApplicationProperties) else { return Vec::new() };
        let header = |(name, value): &(Value<'_>, Value<'_>)| match (name, value) {
            (Value::String(TRACE_HEADER_NAME), _) => None,
            (Value::String(name), Value::String(value)) => Some(((*name).to_owned(), value.as_bytes().to_vec())),
            (Value::String(name), Value::Binary(value)) => Some(((*name).to_owned(), value.to_vec())),
            _ => None,
        };
        properties.iter().filter_map(header).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::SendTag;
    use proptest::prelude::*;

    #[test]
    fn ten_bytes_take_fifteen() {
        let outgoing = Outgoing {
            payload: b"0000001357",
            key: None,
            trace_header: None,
            attributes: None,
            send_tag: SendTag::new(0, 0, 0, 0, true),
        };
        let mut out = Vec::new();
        Writer::new(Body::Amqp, &[]).unwrap().write(&outgoing, &mut out);
        assert_eq!(out, b"\0Su\xa0\x0a0000001357");
    }

    #[test]
    fn headers_have_no_place_beside_a_binary_body() {
        let headers = [("trace".to_owned(), "abc".to_owned())];
        assert!(Writer::new(Body::Binary, &headers).is_err_and(|reason| reason.contains("producers.headers")));
    }

    proptest! {
        #[test]
        fn what_was_written_is_opened(
            payload in proptest::collection::vec(any::<u8>(), 0..600),
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
            trace_header: Option<[u8; TRACE_HEADER_BYTES]>,
            headers in proptest::collection::vec(("[a-z]{1,100}", ".{0,100}"), 0..4),
        ) {
            let (key, trace_header) = (key.as_deref(), trace_header.as_ref());
            let send_tag = SendTag::new(0, 0, 0, 0, true);
            let outgoing = Outgoing { payload: &payload, key, trace_header, attributes: None, send_tag };
            let writer = Writer::new(Body::Amqp, &headers).unwrap();
            let mut out = Vec::new();
            writer.write(&outgoing, &mut out);
            prop_assert_eq!(out.len(), writer.length(&outgoing));
            prop_assert_eq!(open(Body::Amqp, &out), Opened { payload: &payload, trace_header: trace_header.map(<[u8; TRACE_HEADER_BYTES]>::as_slice) });
            let message = Message::decode(&out).unwrap();
            prop_assert_eq!(message.body, AmqpBody::Data(vec![&payload]));
            prop_assert_eq!(message.properties.and_then(|found| found.message_id), key.map(Value::Binary));
            let found = message.application_properties.unwrap_or_default().len();
            prop_assert_eq!(found, headers.len() + usize::from(trace_header.is_some()));
            let details = MessageDetails { body: Body::Amqp, message: &out, timestamp_ms: 1_700_000_000_123 };
            let found = details.key();
            prop_assert_eq!(found.as_deref(), key);
            prop_assert_eq!(details.timestamp_unix_ns(), Some(1_700_000_000_123_000_000));
            let texts = headers.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes()));
            prop_assert_eq!(details.headers(), texts.collect::<Vec<_>>());
        }

        #[test]
        fn nothing_panics(message in proptest::collection::vec(any::<u8>(), 0..100)) {
            open(Body::Amqp, &message);
        }
    }
}
