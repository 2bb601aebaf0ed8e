//! NSQ's TCP protocol V2, as <https://nsq.io/clients/tcp_protocol_spec.html> and nsqd 1.3.0's `protocol_v2.go` have it.
//!
//! Commands go out as lines of ASCII with, for some, a length-prefixed body behind ([`command`]). Responses and messages
//! arrive as length-prefixed frames ([`Frame`]), which are decoded in place. All numbers are big-endian.

pub mod command;

use crate::net::connect;

/// What a client sends before anything else.
pub const MAGIC: &[u8; 4] = b"  V2";

/// Bytes of a message's identity, which are hexadecimal digits.
pub const ID_BYTES: usize = 16;

/// The response to a command that was done.
pub const OK: &[u8] = b"OK";

/// The heartbeat, to which the client responds with a `NOP` or any command.
pub const HEARTBEAT: &[u8] = b"_heartbeat_";

/// Size and type.
const HEADER_BYTES: usize = 8;

/// Timestamp, attempts and identity.
const MESSAGE_HEADER_BYTES: usize = 8 + 2 + ID_BYTES;

/// What nsqd sent, decoded in place.
///
/// | bytes | field |
/// |---|---|
/// | 4 | size of what follows |
/// | 4 | type: 0 response, 1 error, 2 message |
/// | size − 4 | data |
///
/// A message's data is its timestamp (8 bytes, nanoseconds since 1970), the count of its deliveries (2), its identity (16)
/// and its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    Response(&'a [u8]),
    /// An error's code, such as `E_BAD_TOPIC`, and after a blank its description.
    Error(&'a [u8]),
    Message(Message<'a>),
}

/// A delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// When nsqd took the message, in nanoseconds since 1970 by its clock.
    pub timestamp_ns: i64,
    /// Deliveries of this message, this one included; stays at its maximum.
    pub attempts: u16,
    pub id: &'a [u8; ID_BYTES],
    pub body: &'a [u8],
}

/// The bytes are not NSQ's protocol, or the frame is too large: the connection cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a frame of {0} bytes: the size of its type alone is 4. Is this nsqd's TCP port?")]
    Size(i32),
    #[error("{0}")]
    Foreign(&'static str),
    #[error("a frame of {size} bytes is larger than the {most} that are accepted: raise `broker.nsq.frame_bytes`")]
    Oversized { size: usize, most: usize },
    #[error("a frame of the unknown type {0}")]
    Type(u32),
    #[error("a message of {0} bytes, which is less than its own header")]
    Message(usize),
}

/// The first frame of `bytes` and how many bytes it takes; `None`: it is not all there yet.
///
/// # Errors
/// When the bytes are not a frame, or the frame has more than `most` bytes after its size.
#[inline]
pub fn decode(bytes: &[u8], most: usize) -> Result<Option<(Frame<'_>, usize)>, Malformed> {
    let Some((size, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let size = i32::from_be_bytes(*size);
    if size < 4 {
        return Err(Malformed::Size(size));
    }
    let size = size as usize;
    if size > most {
        let foreign = connect::protocol_of_size(size as u32).map(Malformed::Foreign);
        return Err(foreign.unwrap_or(Malformed::Oversized { size, most }));
    }
    // The type is checked first, so that bytes of another protocol are rejected at once.
    let Some(kind) = rest.first_chunk::<4>() else { return Ok(None) };
    let kind = u32::from_be_bytes(*kind);
    if kind > 2 {
        return Err(Malformed::Type(kind));
    }
    let Some(data) = rest.get(4..size) else { return Ok(None) };
    let frame = match kind {
        0 => Frame::Response(data),
        1 => Frame::Error(data),
        _ => Frame::Message(message(data)?),
    };
    Ok(Some((frame, HEADER_BYTES + data.len())))
}

#[inline]
fn message(data: &[u8]) -> Result<Message<'_>, Malformed> {
    let short = Malformed::Message(data.len());
    let (timestamp, rest) = data.split_first_chunk::<8>().ok_or(short)?;
    let (attempts, rest) = rest.split_first_chunk::<2>().ok_or(short)?;
    let (id, body) = rest.split_first_chunk::<ID_BYTES>().ok_or(short)?;
    Ok(Message { timestamp_ns: i64::from_be_bytes(*timestamp), attempts: u16::from_be_bytes(*attempts), id, body })
}

impl Frame<'_> {
    /// Appends the frame as nsqd sends it, for tests.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut header = |kind: u32, length: usize| {
            into.extend_from_slice(&(4 + length as u32).to_be_bytes());
            into.extend_from_slice(&kind.to_be_bytes());
        };
        match self {
            Frame::Response(data) => {
                header(0, data.len());
                into.extend_from_slice(data);
            }
            Frame::Error(data) => {
                header(1, data.len());
                into.extend_from_slice(data);
            }
            Frame::Message(message) => {
                header(2, MESSAGE_HEADER_BYTES + message.body.len());
                into.extend_from_slice(&message.timestamp_ns.to_be_bytes());
                into.extend_from_slice(&message.attempts.to_be_bytes());
                into.extend_from_slice(message.id);
                into.extend_from_slice(message.body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 1 << 20;

    fn every_frame(
        data: &[u8],
        id: &[u8; ID_BYTES],
        timestamp_ns: i64,
        attempts: u16,
        mut each: impl FnMut(Frame<'_>),
    ) {
        each(Frame::Response(data));
        each(Frame::Error(data));
        each(Frame::Message(Message { timestamp_ns, attempts, id, body: data }));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_and_a_part_of_it_is_waited_for(
            data in proptest::collection::vec(any::<u8>(), 0..300), id: [u8; ID_BYTES], timestamp_ns: i64,
            attempts: u16, tail in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            every_frame(&data, &id, timestamp_ns, attempts, |frame| {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                let length = bytes.len();
                for cut in 0..length {
                    assert_eq!(decode(&bytes[..cut], MAX), Ok(None));
                }
                bytes.extend(&tail);
                assert_eq!(decode(&bytes, MAX), Ok(Some((frame, length))));
            });
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_all_there() {
        assert_eq!(decode(&[0, 0, 0, 3], MAX), Err(Malformed::Size(3)));
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff], MAX), Err(Malformed::Size(-1)));
        let oversized = Malformed::Oversized { size: MAX + 1, most: MAX };
        assert_eq!(decode(&(MAX as u32 + 1).to_be_bytes(), MAX), Err(oversized));
        assert_eq!(decode(&[0, 0, 0, 4, 0, 0, 0, 3], MAX), Err(Malformed::Type(3)));
        let foreign = decode(b"HTTP/1.1 400 Bad Request", MAX).unwrap_err().to_string();
        assert!(foreign.contains("answers like HTTP"), "{foreign}");
        let mut short = vec![0, 0, 0, 4 + 25, 0, 0, 0, 2];
        short.extend([0; 25]);
        assert_eq!(decode(&short, MAX), Err(Malformed::Message(25)));
    }
}
