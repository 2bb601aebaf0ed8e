//! A server with enough of Pulsar's binary protocol to publish to, which then misbehaves as scripted; and an admin interface that
//! permits everything.
//!
//! Commands are read and written here by the field numbers of `PulsarApi.proto`, independently of the program's own codec.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::scripted_issuer::listen;

/// `BaseCommand.Type`, which is also the number of the command's field.
mod kind {
    pub const CONNECT: u64 = 2;
    pub const CONNECTED: u64 = 3;
    pub const SUBSCRIBE: u64 = 4;
    pub const PRODUCER: u64 = 5;
    pub const SEND: u64 = 6;
    pub const SEND_RECEIPT: u64 = 7;
    pub const SEND_ERROR: u64 = 8;
    pub const SUCCESS: u64 = 13;
    pub const ERROR: u64 = 14;
    pub const CLOSE_PRODUCER: u64 = 15;
    pub const PRODUCER_SUCCESS: u64 = 17;
    pub const PING: u64 = 18;
    pub const PONG: u64 = 19;
    pub const LOOKUP: u64 = 23;
    pub const LOOKUP_RESPONSE: u64 = 24;
    pub const AUTH_CHALLENGE: u64 = 36;
    pub const AUTH_RESPONSE: u64 = 37;
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    OpenProducer {
        request: u64,
    },
    Subscribe {
        request: u64,
    },
    /// The sequence ids of an entry's first and last message, and the bytes of its metadata and payload.
    Send {
        producer: u64,
        first: u64,
        last: u64,
        size: usize,
    },
    CloseProducer {
        producer: u64,
    },
    /// Logs in, when it connects or when it is asked to. Tokens are numbers here; 0: none.
    Authenticate {
        token: u64,
    },
}

/// Most bytes of an entry's metadata and payload that the server greets with.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Listens until the test ends.
pub struct Scripted {
    address: String,
    admin: String,
}

impl Scripted {
    /// `react` gives the frames that answer a request, or `None` for what a server answers that behaves. An empty frame closes the
    /// connection.
    pub fn start(react: impl Fn(Request) -> Option<Vec<Vec<u8>>> + Send + Sync + 'static) -> Self {
        let react = Arc::new(react);
        let address = listen(move |stream, address| serve(stream, address, &*react));
        let admin = listen(|stream, _| permit(stream));
        Scripted { address, admin: format!("http://{admin}") }
    }

    /// The tables `[broker]` and `[broker.pulsar]`, to which `options` may be added.
    pub fn broker(&self, options: &str) -> String {
        let Scripted { address, admin } = self;
        format!(
            "[broker]\nkind = \"pulsar\"\naddress = \"{address}\"\n[broker.pulsar]\nadmin = \"{admin}\"\n{options}\n"
        )
    }
}

/// The entry was stored; `first` is the sequence id of its first message.
pub fn receipt(producer: u64, first: u64) -> Vec<u8> {
    command(kind::SEND_RECEIPT, &[number(1, producer), number(2, first)].concat())
}

/// The entry was refused; `last` is the sequence id of its last message.
pub fn send_error(producer: u64, last: u64, error: u64) -> Vec<u8> {
    let fields = [number(1, producer), number(2, last), number(3, error), bytes(4, b"scripted")];
    command(kind::SEND_ERROR, &fields.concat())
}

/// The producer must wait for others to give up their exclusive access.
pub fn queued(request: u64) -> Vec<u8> {
    command(kind::PRODUCER_SUCCESS, &[number(1, request), bytes(2, b"scripted"), number(6, 0)].concat())
}

/// The producer is open.
pub fn opened(request: u64) -> Vec<u8> {
    let none_before = number(3, u64::MAX);
    command(kind::PRODUCER_SUCCESS, &[number(1, request), bytes(2, b"scripted"), none_before].concat())
}

/// Asks the client to log in again.
pub fn challenge() -> Vec<u8> {
    let data = [bytes(1, b"token"), bytes(2, b"")].concat();
    command(kind::AUTH_CHALLENGE, &[bytes(1, b"scripted"), bytes(2, &data), number(3, 19)].concat())
}

pub fn close_producer(producer: u64) -> Vec<u8> {
    command(kind::CLOSE_PRODUCER, &[number(1, producer), number(2, 0)].concat())
}

/// `CommandError` with a number of `ServerError`.
pub fn error(request: u64, error: u64) -> Vec<u8> {
    command(kind::ERROR, &[number(1, request), number(2, error), bytes(3, b"scripted")].concat())
}

fn serve(mut stream: TcpStream, address: &str, react: &dyn Fn(Request) -> Option<Vec<Vec<u8>>>) -> io::Result<()> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut frame)?;
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
        let base = fields(&frame[4..4 + length]);
        let kind = base[0].1.number();
        let body = base.iter().find(|(field, _)| *field == kind).map(|(_, value)| fields(value.bytes()));
        let body = body.unwrap_or_default();
        let field =
            |wanted: u64| body.iter().find(|(field, _)| *field == wanted).map_or(0, |(_, value)| value.number());
        let request = match kind {
            kind::PRODUCER => Some(Request::OpenProducer { request: field(3) }),
            kind::SUBSCRIBE => Some(Request::Subscribe { request: field(5) }),
            // Behind the command: magic number and checksum, six bytes, and the metadata's size.
            kind::SEND => {
                let size = frame.len() - 4 - length - 10;
                Some(Request::Send { producer: field(1), first: field(2), last: field(6).max(field(2)), size })
            }
            kind::CONNECT => Some(Request::Authenticate { token: text_number(&body, 3) }),
            kind::AUTH_RESPONSE => {
                let data = body.iter().find(|(field, _)| *field == 2).map(|(_, value)| fields(value.bytes()));
                Some(Request::Authenticate { token: text_number(&data.unwrap_or_default(), 2) })
            }
            kind::CLOSE_PRODUCER => Some(Request::CloseProducer { producer: field(1) }),
            _ => None,
        };
        let frames = match request.and_then(react) {
            Some(frames) => frames,
            None => answer(kind, request, field(2), address).into_iter().collect(),
        };
        for frame in frames {
            if frame.is_empty() {
                return Ok(());
            }
            stream.write_all(&frame)?;
        }
    }
}

/// What a server answers that behaves. `lookup` is the number of the request in a lookup.
fn answer(kind: u64, request: Option<Request>, lookup: u64, address: &str) -> Option<Vec<u8>> {
    Some(match (kind, request) {
        (_, Some(Request::OpenProducer { request })) => opened(request),
        (_, Some(Request::Subscribe { request })) => command(kind::SUCCESS, &number(1, request)),
        (_, Some(Request::Send { producer, first, .. })) => receipt(producer, first),
        (kind::CONNECT, _) => {
            let fields = [bytes(1, b"scripted"), number(2, 19), number(3, MAX_MESSAGE as u64)];
            command(kind::CONNECTED, &fields.concat())
        }
        (kind::LOOKUP, None) => {
            let url = format!("pulsar://{address}");
            // `LookupType.Connect`, authoritative.
            let fields = [bytes(1, url.as_bytes()), number(3, 1), number(4, lookup), number(5, 1)];
            command(kind::LOOKUP_RESPONSE, &fields.concat())
        }
        (kind::PING, None) => command(kind::PONG, &[]),
        _ => return None,
    })
}

/// Answers each request of a connection with 204.
fn permit(stream: TcpStream) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        io::copy(&mut (&mut reader).take(length), &mut io::sink())?;
        writer.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")?;
    }
}

/// The number that a field has as text, or 0.
fn text_number(fields: &[(u64, Value<'_>)], wanted: u64) -> u64 {
    let text = fields.iter().find(|(field, _)| *field == wanted).map(|(_, value)| value.bytes());
    text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(&self) -> u64 {
        if let Value::Number(number) = self { *number } else { 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { &[] }
    }
}

/// The fields of an encoded message that has only numbers and bytes.
fn fields(mut encoded: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !encoded.is_empty() {
        let key = take_number(&mut encoded);
        let number = take_number(&mut encoded);
        let value = match key & 7 {
            0 => Value::Number(number),
            _ => {
                let (taken, rest) = encoded.split_at(number as usize);
                encoded = rest;
                Value::Bytes(taken)
            }
        };
        all.push((key >> 3, value));
    }
    all
}

fn take_number(encoded: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = encoded.split_first().unwrap();
        *encoded = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

fn put_number(mut number: u64) -> Vec<u8> {
    let mut encoded = Vec::new();
    while number >= 0x80 {
        encoded.push(number as u8 | 0x80);
        number >>= 7;
    }
    encoded.push(number as u8);
    encoded
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [put_number(field << 3), put_number(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [put_number(field << 3 | 2), put_number(value.len() as u64), value.to_vec()].concat()
}

/// A frame with one command and no message.
fn command(kind: u64, body: &[u8]) -> Vec<u8> {
    let base = [number(1, kind), bytes(kind, body)].concat();
    let length = base.len() as u32;
    [(length + 4).to_be_bytes().as_slice(), length.to_be_bytes().as_slice(), &base].concat()
}
