//! MQTT on the wire: packets of a client (OASIS, "MQTT Version 5.0", section 3; "MQTT Version 3.1.1").

use super::codec::{Ack, property};
use super::config::{Version, Will};

pub const PINGREQ: [u8; 2] = [0xc0, 0];

/// Without a reason: the end was meant.
pub const DISCONNECT: [u8; 2] = [0xe0, 0];

/// Largest packet, by the four bytes of its length.
pub const MAX_PACKET_BYTES: usize = 268_435_455;

/// Longest text, by the two bytes of its length.
pub const MAX_TEXT_BYTES: usize = 65_535;

/// Who connects.
pub struct Connect<'a> {
    pub version: Version,
    pub client_id: &'a str,
    /// Whether a session that the server has kept ends. Version 3.1.1 keeps none then.
    pub clean_start: bool,
    pub keep_alive_s: u16,
    /// Seconds for which the server keeps the session when it is disconnected.
    pub session_expiry_s: u32,
    pub receive_maximum: u16,
    pub will: Option<&'a Will>,
    pub login: Option<(&'a str, &'a str)>,
}

impl Connect<'_> {
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut body = vec![0, 4];
        body.extend_from_slice(b"MQTT");
        let is_latest = self.version == Version::V5;
        let login = if self.login.is_some() { 0xc0 } else { 0 };
        let will = self.will.map_or(0, |will| u8::from(will.retain) << 5 | will.qos << 3 | 4);
        body.extend([if is_latest { 5 } else { 4 }, login | will | u8::from(self.clean_start) << 1]);
        body.extend(self.keep_alive_s.to_be_bytes());
        if is_latest {
            let mut properties = vec![property::SESSION_EXPIRY];
            properties.extend(self.session_expiry_s.to_be_bytes());
            properties.push(property::RECEIVE_MAXIMUM);
            properties.extend(self.receive_maximum.to_be_bytes());
            append_variable(&mut body, properties.len());
            body.append(&mut properties);
        }
        append_text(&mut body, self.client_id.as_bytes());
        if let Some(will) = self.will {
            if is_latest {
                body.extend([5, property::WILL_DELAY]);
                body.extend((will.delay.as_secs() as u32).to_be_bytes());
            }
            append_text(&mut body, will.topic.as_bytes());
            append_text(&mut body, will.payload.as_bytes());
        }
        if let Some((user, password)) = self.login {
            append_text(&mut body, user.as_bytes());
            append_text(&mut body, password.as_bytes());
        }
        append_packet(out, 0x10, &body);
    }
}

/// Appends a subscription to one filter, with or without the retained messages of before. Version 3.1.1 has them always.
pub fn append_subscribe(out: &mut Vec<u8>, version: Version, filter: &str, qos: u8, retained: bool) {
    let mut body = vec![0, 1];
    if version == Version::V5 {
        body.push(0);
    }
    append_text(&mut body, filter.as_bytes());
    // Retain handling 2: none (MQTT 5, 3.8.3.1).
    body.push(if version == Version::V5 && !retained { qos | 2 << 4 } else { qos });
    append_packet(out, 0x82, &body);
}

/// A message to send. `properties` are parts that are encoded already.
pub struct Publish<'a> {
    pub version: Version,
    pub qos: u8,
    pub retain: bool,
    pub topic: &'a [u8],
    pub packet_id: u16,
    pub properties: [&'a [u8]; 4],
    pub payload: &'a [u8],
}

impl Publish<'_> {
    fn properties_bytes(&self) -> usize {
        self.properties.iter().map(|part| part.len()).sum()
    }

    /// Bytes behind the length of the packet.
    #[inline]
    fn length(&self) -> usize {
        let properties = self.properties_bytes();
        let properties = if self.version == Version::V5 { variable_bytes(properties) + properties } else { 0 };
        2 + self.topic.len() + if self.qos > 0 { 2 } else { 0 } + properties + self.payload.len()
    }

    /// Bytes of the packet.
    #[inline]
    pub fn size(&self) -> usize {
        let length = self.length();
        1 + variable_bytes(length) + length
    }

    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.push(0x30 | self.qos << 1 | u8::from(self.retain));
        append_variable(out, self.length());
        append_text(out, self.topic);
        if self.qos > 0 {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
        }
        if self.version == Version::V5 {
            append_variable(out, self.properties_bytes());
            self.properties.iter().for_each(|part| out.extend_from_slice(part));
        }
        out.extend_from_slice(self.payload);
    }
}

/// Appends what follows a message. Without a code, it is success.
#[inline]
pub fn append_ack(out: &mut Vec<u8>, kind: Ack, packet_id: u16) {
    let [high, low] = packet_id.to_be_bytes();
    let flags = if kind == Ack::Pubrel { 2 } else { 0 };
    out.extend_from_slice(&[(kind as u8) << 4 | flags, 2, high, low]);
}

/// Appends headers, as user properties.
pub fn append_headers(out: &mut Vec<u8>, headers: &[(String, String)]) {
    for (name, value) in headers {
        out.push(property::USER);
        append_text(out, name.as_bytes());
        append_text(out, value.as_bytes());
    }
}

fn append_packet(out: &mut Vec<u8>, first: u8, body: &[u8]) {
    out.push(first);
    append_variable(out, body.len());
    out.extend_from_slice(body);
}

#[inline]
fn append_variable(out: &mut Vec<u8>, mut number: usize) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Bytes of a number of seven bits in each.
#[inline]
fn variable_bytes(number: usize) -> usize {
    match number {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        _ => 4,
    }
}

/// Appends at most [`MAX_TEXT_BYTES`].
#[inline]
fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/mqtt/encode.rs"]
mod tests;
