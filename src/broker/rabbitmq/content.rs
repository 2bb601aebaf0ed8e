//! The content of messages: what precedes a body that is published, and a message that arrives in several frames, with its properties (the
//! specification, section 4.2.6.1 and the class `basic`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::codec::{
    FRAME_BODY, FRAME_BYTES, FRAME_END, FRAME_HEADER, Frame, Malformed, Method, Reader, TooLong, append_frame,
    append_method, append_short,
};
use crate::broker::{Details, TRACE_HEADER_NAME};
use crate::limits::TRACE_HEADER_BYTES;

/// Bits of the properties that are there: section 4.2.6.1, in the order of the class `basic`.
const HAS_HEADERS: u16 = 1 << 13;
const HAS_DELIVERY_MODE: u16 = 1 << 12;
const HAS_PRIORITY: u16 = 1 << 11;

/// Bytes of a trace header as text in base64.
const TRACE_TEXT_BYTES: usize = TRACE_HEADER_BYTES.div_ceil(3) * 4;

/// What precedes this text in the table of headers: its name, the type of a long string, and its length.
const TRACE_ENTRY: &[u8] = b"\x0abrokermarkS\0\0\0\x2c";

const _: () = assert!(TRACE_HEADER_NAME.len() == 0x0a && TRACE_TEXT_BYTES == 0x2c, "as in `TRACE_ENTRY`");

/// What precedes the body of a message, for messages that have everything in common but their payloads and trace headers.
pub struct Preamble {
    channel: u16,
    /// The method and the header of an empty message.
    bytes: Vec<u8>,
    /// Where the bytes of the method end.
    header_begin: usize,
    /// Entries of the table of headers.
    headers: Vec<u8>,
    properties: MessageProperties,
}

/// Properties that all messages have.
#[derive(Debug, Clone, Copy)]
pub struct MessageProperties {
    pub persistent: bool,
    pub priority: Option<u8>,
}

impl Preamble {
    /// # Errors
    /// When the name of the exchange or the routing key is too long.
    pub fn new(
        channel: u16,
        (exchange, routing_key): (&str, &str),
        mandatory: bool,
        headers: Vec<u8>,
        properties: MessageProperties,
    ) -> Result<Self, TooLong> {
        let mut arguments = vec![0, 0];
        append_short(&mut arguments, exchange)?;
        append_short(&mut arguments, routing_key)?;
        arguments.push(mandatory.into());
        let mut bytes = Vec::new();
        append_method(&mut bytes, channel, (60, 40), &arguments);
        let preamble = Preamble { channel, header_begin: bytes.len(), bytes: Vec::new(), headers, properties };
        preamble.append_header(&mut bytes, 0, None);
        Ok(Preamble { bytes, ..preamble })
    }

    /// Appends a message, in frames of at most `frame_max` bytes.
    #[inline]
    pub fn append_message(
        &self,
        out: &mut Vec<u8>,
        trace_header: Option<&[u8; TRACE_HEADER_BYTES]>,
        payload: &[u8],
        frame_max: usize,
    ) {
        out.reserve(self.bytes.len() + payload.len() + FRAME_BYTES);
        if trace_header.is_some() {
            out.extend_from_slice(&self.bytes[..self.header_begin]);
            self.append_header(out, payload.len(), trace_header);
        } else {
            // Behind the beginning of the frame, the class and a weight.
            let at = out.len() + self.header_begin + FRAME_BYTES - 1 + 4;
            out.extend_from_slice(&self.bytes);
            out[at..at + 8].copy_from_slice(&(payload.len() as u64).to_be_bytes());
        }
        for part in payload.chunks(frame_max - FRAME_BYTES) {
            append_frame(out, FRAME_BODY, self.channel, part);
        }
    }

    fn append_header(&self, out: &mut Vec<u8>, payload_bytes: usize, trace_header: Option<&[u8; TRACE_HEADER_BYTES]>) {
        let MessageProperties { persistent, priority } = self.properties;
        let begin = out.len();
        append_frame(out, FRAME_HEADER, self.channel, &[0, 60, 0, 0]);
        out.pop();
        out.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        let has_headers = trace_header.is_some() || !self.headers.is_empty();
        let has = |flag: u16, is_there: bool| if is_there { flag } else { 0 };
        let flags = HAS_DELIVERY_MODE | has(HAS_HEADERS, has_headers) | has(HAS_PRIORITY, priority.is_some());
        out.extend_from_slice(&flags.to_be_bytes());
        if has_headers {
            let trace_bytes = trace_header.map_or(0, |_| TRACE_ENTRY.len() + TRACE_TEXT_BYTES);
            out.extend_from_slice(&((self.headers.len() + trace_bytes) as u32).to_be_bytes());
            out.extend_from_slice(&self.headers);
        }
        if let Some(trace_header) = trace_header {
            out.extend_from_slice(TRACE_ENTRY);
            let text = out.len();
            out.resize(text + TRACE_TEXT_BYTES, 0);
            // The text has exactly this length.
            let _ = BASE64.encode_slice(trace_header, &mut out[text..]);
        }
        // `delivery-mode`: 1 is transient, 2 persistent.
        out.push(if persistent { 2 } else { 1 });
        out.extend(priority);
        let size = (out.len() - begin - FRAME_BYTES + 1) as u32;
        out[begin + 3..begin + 7].copy_from_slice(&size.to_be_bytes());
        out.push(FRAME_END);
    }
}

/// The message of a consumer's channel whose frames arrive.
#[derive(Debug, Default)]
pub struct Arriving {
    delivery_tag: u64,
    redelivered: bool,
    properties: Vec<u8>,
    body_bytes: u64,
    /// The parts of a body of several frames.
    body: Vec<u8>,
}

/// A message that has arrived completely.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrived<'a> {
    pub delivery_tag: u64,
    pub redelivered: bool,
    pub properties: &'a [u8],
    pub body: &'a [u8],
}

impl Arriving {
    /// Takes the next frame. Returns the message that it completes.
    ///
    /// # Errors
    /// When a body is longer than its header says.
    pub fn take<'a>(&'a mut self, frame: Frame<'a>) -> Result<Option<Arrived<'a>>, Malformed> {
        let body = match frame {
            Frame::Method(_, Method::Deliver { delivery_tag, redelivered }) => {
                (self.delivery_tag, self.redelivered) = (delivery_tag, redelivered);
                return Ok(None);
            }
            Frame::Header(_, body_bytes, properties) => {
                self.body_bytes = body_bytes;
                self.body.clear();
                self.properties.clear();
                self.properties.extend_from_slice(properties);
                if body_bytes > 0 {
                    return Ok(None);
                }
                &[]
            }
            Frame::Body(_, []) => return Ok(None),
            // Of one frame: it is not copied.
            Frame::Body(_, part) if self.body.is_empty() && part.len() as u64 == self.body_bytes => part,
            Frame::Body(_, part) => {
                self.body.extend_from_slice(part);
                let (bytes, expected) = (self.body.len() as u64, self.body_bytes);
                if bytes > expected {
                    return Err(Malformed(format!("a body of {bytes} bytes: its header says {expected}")));
                }
                if bytes < expected {
                    return Ok(None);
                }
                &self.body[..]
            }
            _ => return Ok(None),
        };
        let Arriving { delivery_tag, redelivered, .. } = *self;
        Ok(Some(Arrived { delivery_tag, redelivered, properties: &self.properties, body }))
    }
}

/// The trace header among the properties of a message.
pub fn trace_header(properties: &[u8]) -> Option<[u8; TRACE_HEADER_BYTES]> {
    let begin = properties.windows(TRACE_ENTRY.len()).position(|bytes| bytes == TRACE_ENTRY)? + TRACE_ENTRY.len();
    BASE64.decode(properties.get(begin..begin + TRACE_TEXT_BYTES)?).ok()?.try_into().ok()
}

/// Properties as they were sent. What cannot be read is not there.
#[derive(Debug)]
pub struct MessageDetails<'a>(pub &'a [u8]);

impl<'a> MessageDetails<'a> {
    /// The table of headers, and the timestamp in seconds since 1970.
    fn read(&self) -> Result<(&'a [u8], Option<u64>), Malformed> {
        let mut reader = Reader(self.0);
        let flags = reader.u16()?;
        let has = |bit: u16| flags >> bit & 1 == 1;
        // The type of the content, and its encoding.
        for bit in [15, 14] {
            if has(bit) {
                reader.short()?;
            }
        }
        let headers = if has(13) { reader.long()? } else { &[] };
        // The delivery mode, and the priority.
        for bit in [12, 11] {
            if has(bit) {
                reader.bytes(1)?;
            }
        }
        // The correlation id, the queue to reply to, the expiration, the message id.
        for bit in [10, 9, 8, 7] {
            if has(bit) {
                reader.short()?;
            }
        }
        let timestamp = has(6).then(|| reader.array().map(u64::from_be_bytes)).transpose()?;
        Ok((headers, timestamp))
    }
}

impl Details for MessageDetails<'_> {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        self.read().ok()?.1?.checked_mul(1_000_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let mut table = Reader(self.read().map_or(&[], |(headers, _)| headers));
        while let Ok(Some((name, value))) = next_text(&mut table) {
            if let Some(value) = value.filter(|_| name != TRACE_HEADER_NAME.as_bytes()) {
                all.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
            }
        }
        all
    }
}

/// The name of a table's entry, and its value if that is a text.
type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

/// The next entry of a table. `None`: there is none.
fn next_text<'a>(table: &mut Reader<'a>) -> Result<Option<Entry<'a>>, Malformed> {
    if table.0.is_empty() {
        return Ok(None);
    }
    let name = table.short()?;
    let [kind] = table.array()?;
    // rabbitmq.com/amqp-0-9-1-errata, section 3.
    let bytes = match kind {
        b'S' => return Ok(Some((name, Some(table.long()?)))),
        b'F' | b'A' | b'x' => {
            table.long()?;
            0
        }
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'l' | b'd' | b'T' => 8,
        _ => return Err(Malformed(format!("a value of the unknown type {kind:#04x}"))),
    };
    table.bytes(bytes)?;
    Ok(Some((name, None)))
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq/content.rs"]
mod tests;
