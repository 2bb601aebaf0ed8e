//! MQTT on the wire: packets that a server sends, decoded in place (OASIS, "MQTT Version 5.0", sections 2 and 3; "MQTT Version 3.1.1").

use super::config::Version;
use crate::net::connect::protocol_of_size;

/// A packet of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    Connack {
        session_present: bool,
        code: u8,
        properties: Properties<'a>,
    },
    Publish(Published<'a>),
    /// `code`: 0 where the packet has none.
    Ack {
        kind: Ack,
        packet_id: u16,
        code: u8,
        properties: Properties<'a>,
    },
    /// With a code for each filter.
    Suback {
        properties: Properties<'a>,
        codes: &'a [u8],
    },
    Pingresp,
    Disconnect {
        code: u8,
        properties: Properties<'a>,
    },
}

/// What follows a `PUBLISH`. The numbers are the types of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    Puback = 4,
    Pubrec = 5,
    Pubrel = 6,
    Pubcomp = 7,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published<'a> {
    pub dup: bool,
    pub qos: u8,
    pub retain: bool,
    pub topic: &'a [u8],
    /// 0 with QoS 0.
    pub packet_id: u16,
    pub properties: Properties<'a>,
    pub payload: &'a [u8],
}

/// Bytes that are not MQTT.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// The properties of a packet, decoded when they are asked for. They end at one that the specification does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a>(pub &'a [u8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u32),
    Bytes(&'a [u8]),
    Pair(&'a [u8], &'a [u8]),
}

/// Identifiers of properties (MQTT 5, table 2-4).
pub mod property {
    pub const MESSAGE_EXPIRY: u8 = 0x02;
    pub const CORRELATION_DATA: u8 = 0x09;
    pub const SESSION_EXPIRY: u8 = 0x11;
    pub const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub const WILL_DELAY: u8 = 0x18;
    pub const REASON: u8 = 0x1f;
    pub const RECEIVE_MAXIMUM: u8 = 0x21;
    pub const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
    pub const TOPIC_ALIAS: u8 = 0x23;
    pub const MAXIMUM_QOS: u8 = 0x24;
    pub const RETAIN_AVAILABLE: u8 = 0x25;
    pub const USER: u8 = 0x26;
    pub const MAXIMUM_PACKET: u8 = 0x27;
    pub const SHARED_AVAILABLE: u8 = 0x2a;
}

/// The packet at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
///
/// # Errors
/// When the bytes are another protocol, or the packet is larger than `most`.
#[inline]
pub fn decode(bytes: &[u8], most: usize, version: Version) -> Result<Option<(Packet<'_>, usize)>, Malformed> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
    let (kind, flags) = (first >> 4, first & 15);
    let is_known = match kind {
        3 => flags >> 1 & 3 != 3,
        6 => flags == 2,
        2 | 4 | 5 | 7 | 9 | 13 | 14 => flags == 0,
        _ => false,
    };
    if !is_known {
        return unknown(bytes);
    }
    let Some((length, begin)) = variable(rest)? else { return Ok(None) };
    if length > most {
        return Err(Malformed(format!("a packet of {length} bytes: at most {most} are expected")));
    }
    let Some(body) = rest.get(begin..begin + length) else { return Ok(None) };
    let packet = packet(kind, flags, body, version);
    let packet = packet.ok_or_else(|| Malformed(format!("a packet of type {kind} ends too early")))?;
    Ok(Some((packet, 1 + begin + length)))
}

#[inline]
fn packet(kind: u8, flags: u8, body: &[u8], version: Version) -> Option<Packet<'_>> {
    let mut body = Reader(body);
    match kind {
        2 => {
            let (session_present, code) = (body.byte()? & 1 == 1, body.byte()?);
            Some(Packet::Connack { session_present, code, properties: body.last_properties(version)? })
        }
        3 => {
            let qos = flags >> 1 & 3;
            let topic = body.text()?;
            let packet_id = if qos > 0 { body.number16()? } else { 0 };
            let properties = if version == Version::V5 { body.properties()? } else { Properties::default() };
            let (dup, retain) = (flags & 8 != 0, flags & 1 != 0);
            Some(Packet::Publish(Published { dup, qos, retain, topic, packet_id, properties, payload: body.0 }))
        }
        4 => body.ack(Ack::Puback, version),
        5 => body.ack(Ack::Pubrec, version),
        6 => body.ack(Ack::Pubrel, version),
        7 => body.ack(Ack::Pubcomp, version),
        9 => {
            body.number16()?;
            let properties = if version == Version::V5 { body.properties()? } else { Properties::default() };
            Some(Packet::Suback { properties, codes: body.0 })
        }
        13 => Some(Packet::Pingresp),
        _ => {
            let code = body.byte().unwrap_or(0);
            Some(Packet::Disconnect { code, properties: body.last_properties(version)? })
        }
    }
}

/// A number of one to four bytes, seven bits in each, and how many bytes it has.
#[inline]
fn variable(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let mut number = 0;
    for index in 0..4 {
        let Some(&byte) = bytes.get(index) else { return Ok(None) };
        number |= usize::from(byte & 127) << (7 * index);
        if byte < 128 {
            return Ok(Some((number, index + 1)));
        }
    }
    Err(Malformed("the length of a packet has more than four bytes".to_owned()))
}

fn unknown<T>(bytes: &[u8]) -> Result<Option<T>, Malformed> {
    let Some(first) = bytes.first_chunk() else { return Ok(None) };
    let other = protocol_of_size(u32::from_be_bytes(*first)).map(str::to_owned);
    Err(Malformed(other.unwrap_or_else(|| format!("this is not MQTT: {first:02x?}"))))
}

/// The rest of a packet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn number32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn variable(&mut self) -> Option<usize> {
        let (number, length) = variable(self.0).ok()??;
        self.take(length)?;
        Some(number)
    }

    /// Text or other bytes behind their length.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(length.into())
    }

    fn properties(&mut self) -> Option<Properties<'a>> {
        let length = self.variable()?;
        self.take(length).map(Properties)
    }

    /// Those at the end of a packet, which may be left out.
    fn last_properties(&mut self, version: Version) -> Option<Properties<'a>> {
        if version == Version::V311 || self.0.is_empty() { Some(Properties::default()) } else { self.properties() }
    }

    #[inline]
    fn ack(mut self, kind: Ack, version: Version) -> Option<Packet<'a>> {
        let (packet_id, code) = (self.number16()?, self.byte().unwrap_or(0));
        Some(Packet::Ack { kind, packet_id, code, properties: self.last_properties(version)? })
    }

    #[inline]
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Properties<'a> {
    pub fn number(self, wanted: u8) -> Option<u32> {
        self.into_iter().find_map(|(id, value)| match value {
            Value::Number(number) if id == wanted => Some(number),
            _ => None,
        })
    }

    pub fn bytes(self, wanted: u8) -> Option<&'a [u8]> {
        self.into_iter().find_map(|(id, value)| match value {
            Value::Bytes(bytes) if id == wanted => Some(bytes),
            _ => None,
        })
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = (u8, Value<'a>);

    fn next(&mut self) -> Option<(u8, Value<'a>)> {
        let mut reader = Reader(self.0);
        let id = reader.byte()?;
        let value = match id {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2a => Value::Number(reader.byte()?.into()),
            0x13 | 0x21..=0x23 => Value::Number(reader.number16()?.into()),
            0x02 | 0x11 | 0x18 | 0x27 => Value::Number(reader.number32()?),
            0x0b => Value::Number(reader.variable()? as u32),
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => Value::Bytes(reader.text()?),
            property::USER => Value::Pair(reader.text()?, reader.text()?),
            _ => return None,
        };
        self.0 = reader.0;
        Some((id, value))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/mqtt/codec.rs"]
mod tests;
