//! The frames of AMQP 0.9.1 that are read and written (the specification, sections 2.3.5 and 4.2; rabbitmq.com/amqp-0-9-1-reference).
//! All numbers are big-endian.

use crate::net::connect::protocol_of_size;

/// What a client sends first.
pub const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";

pub const HEARTBEAT: &[u8] = &[FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END];

/// What the server may do only if the client says that it understands it.
const CAPABILITIES: [&str; 5] = [
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
];

/// Bytes of a frame beside its content: type, channel, size, end.
pub const FRAME_BYTES: usize = 8;

const FRAME_METHOD: u8 = 1;
pub const FRAME_HEADER: u8 = 2;
pub const FRAME_BODY: u8 = 3;
const FRAME_HEARTBEAT: u8 = 8;
pub const FRAME_END: u8 = 0xce;

/// What the server sent, decoded in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    Method(u16, Method<'a>),
    /// Of a message that follows its method: the bytes of its body, and its properties as they were sent.
    Header(u16, u64, &'a [u8]),
    Body(u16, &'a [u8]),
    Heartbeat,
}

/// A method of the server. Which class a `Close` is of follows from its channel: 0 is the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method<'a> {
    Start {
        properties: &'a [u8],
        mechanisms: &'a [u8],
    },
    Tune {
        channel_max: u16,
        frame_max: u32,
        heartbeat_secs: u16,
    },
    OpenOk,
    Close {
        code: u16,
        text: &'a [u8],
    },
    Blocked(&'a [u8]),
    Unblocked,
    Return {
        text: &'a [u8],
    },
    Ack {
        delivery_tag: u64,
        multiple: bool,
    },
    Nack {
        delivery_tag: u64,
        multiple: bool,
    },
    Deliver {
        delivery_tag: u64,
        redelivered: bool,
    },
    /// The server has ended the consumer.
    Cancel,
    ConsumeOk,
    /// The answer to a request about an exchange or a queue; of a queue that is declared, with its number of messages.
    Done {
        messages: u32,
    },
    CloseOk,
    /// One that a client need not look at.
    Other,
}

/// Bytes that are not AMQP 0.9.1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// The frame at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
///
/// # Errors
/// When the bytes are another protocol, or a frame is larger than `most`.
#[inline]
pub fn decode(bytes: &[u8], most: usize) -> Result<Option<(Frame<'_>, usize)>, Malformed> {
    let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
    if !matches!(kind, FRAME_METHOD | FRAME_HEADER | FRAME_BODY | FRAME_HEARTBEAT) {
        return foreign(bytes).map(|()| None);
    }
    let Some((&[high, low, size @ ..], rest)) = rest.split_first_chunk::<6>() else { return Ok(None) };
    let (channel, size) = (u16::from_be_bytes([high, low]), u32::from_be_bytes(size) as usize);
    if size > most {
        return Err(Malformed(format!("a frame of {size} bytes: at most {most} are expected")));
    }
    let Some((content, [end, ..])) = rest.split_at_checked(size) else { return Ok(None) };
    if *end != FRAME_END {
        return Err(Malformed(format!("a frame ends with the byte {end:#04x} instead of {FRAME_END:#04x}")));
    }
    let frame = match kind {
        FRAME_METHOD => Frame::Method(channel, method(Reader(content))?),
        FRAME_HEADER => {
            let mut reader = Reader(content);
            // The class and a weight, which is always 0.
            reader.bytes(4)?;
            Frame::Header(channel, u64::from_be_bytes(reader.array()?), reader.0)
        }
        FRAME_BODY => Frame::Body(channel, content),
        _ => Frame::Heartbeat,
    };
    Ok(Some((frame, size + FRAME_BYTES)))
}

/// Waits for four bytes at most.
fn foreign(bytes: &[u8]) -> Result<(), Malformed> {
    let Some(first) = bytes.first_chunk::<4>() else { return Ok(()) };
    Err(Malformed(match protocol_of_size(u32::from_be_bytes(*first)) {
        Some(protocol) => protocol.to_owned(),
        None if first == b"AMQP" => "the server does not take AMQP 0.9.1, but another version".to_owned(),
        None => format!("this is not AMQP: it begins with the bytes {first:02x?}"),
    }))
}

/// Classes and methods by their numbers: `amqp0-9-1.extended.xml` of RabbitMQ.
#[inline]
fn method(mut reader: Reader<'_>) -> Result<Method<'_>, Malformed> {
    Ok(match (reader.u16()?, reader.u16()?) {
        (60, 80) => Method::Ack { delivery_tag: u64::from_be_bytes(reader.array()?), multiple: reader.bit()? },
        (60, 120) => Method::Nack { delivery_tag: u64::from_be_bytes(reader.array()?), multiple: reader.bit()? },
        (60, 60) => {
            // The consumer's tag: a channel has one.
            reader.short()?;
            Method::Deliver { delivery_tag: u64::from_be_bytes(reader.array()?), redelivered: reader.bit()? }
        }
        (60, 21) => Method::ConsumeOk,
        (60, 30) => Method::Cancel,
        (60, 50) => {
            reader.u16()?;
            Method::Return { text: reader.short()? }
        }
        (10, 10) => {
            // The version of the protocol.
            reader.bytes(2)?;
            Method::Start { properties: reader.long()?, mechanisms: reader.long()? }
        }
        (10, 30) => Method::Tune {
            channel_max: reader.u16()?,
            frame_max: u32::from_be_bytes(reader.array()?),
            heartbeat_secs: reader.u16()?,
        },
        (10, 41) => Method::OpenOk,
        (10, 50) | (20, 40) => Method::Close { code: reader.u16()?, text: reader.short()? },
        (10, 51) => Method::CloseOk,
        (40, 11 | 21) | (50, 21 | 41) => Method::Done { messages: 0 },
        (50, 11) => {
            // The queue's name.
            reader.short()?;
            Method::Done { messages: u32::from_be_bytes(reader.array()?) }
        }
        (10, 60) => Method::Blocked(reader.short()?),
        (10, 61) => Method::Unblocked,
        _ => Method::Other,
    })
}

/// The content of a frame, from its beginning to its end.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        self.0.split_off(..count).ok_or_else(|| Malformed("a frame ends too early".to_owned()))
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn bit(&mut self) -> Result<bool, Malformed> {
        self.array().map(|[byte]| byte & 1 == 1)
    }

    pub fn short(&mut self) -> Result<&'a [u8], Malformed> {
        let [length] = self.array()?;
        self.bytes(length.into())
    }

    /// A long string, or a table.
    pub fn long(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.array().map(u32::from_be_bytes)?;
        self.bytes(length as usize)
    }
}

/// Why a text cannot be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is longer than the 255 bytes that AMQP has for it")]
pub struct TooLong(String);

/// Appends a text of at most 255 bytes.
pub fn append_short(out: &mut Vec<u8>, text: &str) -> Result<(), TooLong> {
    out.push(u8::try_from(text.len()).map_err(|_| TooLong(text.to_owned()))?);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

pub fn append_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

pub fn append_frame(out: &mut Vec<u8>, kind: u8, channel: u16, content: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    append_long(out, content);
    out.push(FRAME_END);
}

pub fn append_method(out: &mut Vec<u8>, channel: u16, (class, method): (u16, u16), arguments: &[u8]) {
    let content = [&class.to_be_bytes(), &method.to_be_bytes(), arguments].concat();
    append_frame(out, FRAME_METHOD, channel, &content);
}

/// A value in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Text(&'a str),
    Number(u64),
    True,
}

/// Appends an entry of a table.
///
/// # Errors
/// When the name is too long.
pub fn append_entry(out: &mut Vec<u8>, name: &str, value: Value<'_>) -> Result<(), TooLong> {
    append_short(out, name)?;
    match value {
        Value::Text(text) => {
            out.push(b'S');
            append_long(out, text.as_bytes());
        }
        Value::Number(number) => {
            out.push(b'l');
            out.extend_from_slice(&i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes());
        }
        Value::True => out.extend_from_slice(b"t\x01"),
    }
    Ok(())
}

/// Logs in. `name`: what the server shows of the connection. `response`: the mechanism's.
///
/// # Errors
/// When the name is too long.
pub fn append_start_ok(out: &mut Vec<u8>, name: &str, mechanism: &str, response: &[u8]) -> Result<(), TooLong> {
    let mut properties = Vec::new();
    let own = [("product", "brokermark"), ("version", env!("CARGO_PKG_VERSION")), ("connection_name", name)];
    for (name, value) in own {
        append_entry(&mut properties, name, Value::Text(value))?;
    }
    let mut capabilities = Vec::new();
    for capability in CAPABILITIES {
        append_entry(&mut capabilities, capability, Value::True)?;
    }
    append_short(&mut properties, "capabilities")?;
    properties.push(b'F');
    append_long(&mut properties, &capabilities);
    let mut arguments = Vec::new();
    append_long(&mut arguments, &properties);
    append_short(&mut arguments, mechanism)?;
    append_long(&mut arguments, response);
    append_short(&mut arguments, "en_US")?;
    append_method(out, 0, (10, 11), &arguments);
    Ok(())
}

pub fn append_tune_ok(out: &mut Vec<u8>, channel_max: u16, frame_max: u32, heartbeat_secs: u16) {
    let arguments = [&channel_max.to_be_bytes()[..], &frame_max.to_be_bytes(), &heartbeat_secs.to_be_bytes()].concat();
    append_method(out, 0, (10, 31), &arguments);
}

/// # Errors
/// When the virtual host's name is too long.
pub fn append_open(out: &mut Vec<u8>, virtual_host: &str) -> Result<(), TooLong> {
    let mut arguments = Vec::new();
    append_short(&mut arguments, virtual_host)?;
    // Two arguments that are not used any more.
    arguments.extend_from_slice(&[0, 0]);
    append_method(out, 0, (10, 40), &arguments);
    Ok(())
}

/// Ends the connection. No answer need be waited for.
pub fn append_close(out: &mut Vec<u8>) {
    // 200: without an error; an empty text; no method is the cause.
    append_method(out, 0, (10, 50), &[0, 200, 0, 0, 0, 0, 0]);
}

/// Confirms that the server has closed a channel.
pub fn append_channel_close_ok(out: &mut Vec<u8>, channel: u16) {
    append_method(out, channel, (20, 41), &[]);
}

/// Opens a channel. With `confirms`, the server confirms the messages on it, and does not answer that it will.
pub fn append_channel_open(out: &mut Vec<u8>, channel: u16, confirms: bool) {
    append_method(out, channel, (20, 10), &[0]);
    if confirms {
        append_method(out, channel, (85, 10), &[1]);
    }
}

/// Asks for the messages of a queue, at most `prefetch` of them without an acknowledgement. With `no_ack` none is awaited.
///
/// # Errors
/// When the queue's name is too long.
pub fn append_consume(
    out: &mut Vec<u8>,
    channel: u16,
    queue: &str,
    prefetch: u16,
    no_ack: bool,
) -> Result<(), TooLong> {
    // No limit of bytes; for each consumer.
    let [high, low] = prefetch.to_be_bytes();
    append_method(out, channel, (60, 10), &[0, 0, 0, 0, high, low, 0]);
    let mut arguments = vec![0, 0];
    append_short(&mut arguments, queue)?;
    // The server chooses the tag. The second bit of the flags; no further arguments.
    arguments.extend_from_slice(&[0, if no_ack { 2 } else { 0 }, 0, 0, 0, 0]);
    append_method(out, channel, (60, 20), &arguments);
    Ok(())
}

/// Acknowledges a message; with `multiple`, also those before it.
#[inline]
pub fn append_acknowledgement(out: &mut Vec<u8>, channel: u16, delivery_tag: u64, multiple: bool) {
    append_outcome(out, channel, 80, delivery_tag, multiple.into());
}

/// Gives a message back to its queue.
pub fn append_requeue(out: &mut Vec<u8>, channel: u16, delivery_tag: u64) {
    append_outcome(out, channel, 90, delivery_tag, 1);
}

#[inline]
fn append_outcome(out: &mut Vec<u8>, channel: u16, method: u8, delivery_tag: u64, bits: u8) {
    let mut content = [0, 60, 0, method, 0, 0, 0, 0, 0, 0, 0, 0, bits];
    content[4..12].copy_from_slice(&delivery_tag.to_be_bytes());
    append_frame(out, FRAME_METHOD, channel, &content);
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq/codec.rs"]
pub(super) mod tests;
