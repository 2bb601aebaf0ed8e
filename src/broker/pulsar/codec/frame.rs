//! Frames: how commands and messages lie on the wire, all numbers big-endian.
//!
//! ```text
//! command  [total size: 4] [command size: 4] [command]
//! message  [total size: 4] [command size: 4] [command] [0x0e01: 2] [CRC-32C: 4] [metadata size: 4] [metadata] [payload]
//! ```
//!
//! The total size does not count itself; the checksum is over everything behind it. Source: the protocol
//! specification, <https://pulsar.apache.org/docs/developing-binary-protocol/>, "Framing".

use prost::Message as _;

use super::proto::ToBroker;
use crate::net::connect;

/// Stands before a checksum.
pub const MAGIC: [u8; 2] = [0x0e, 0x01];

/// What a frame may be larger than its largest message, in the broker's own reckoning (`Commands.MESSAGE_SIZE_FRAME_PADDING`),
/// generously.
const PADDING: usize = 1 << 20;

/// A frame as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub command: &'a [u8],
    /// What follows the command: a message, or nothing.
    pub rest: &'a [u8],
}

/// What arrived is not Pulsar's protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("{0}")]
    Foreign(&'static str),
    #[error("a frame of {0} bytes came, which no broker sends: is this Pulsar's binary port?")]
    Size(usize),
    #[error("a frame of {total} bytes announces a command of {command} bytes")]
    Command { total: usize, command: usize },
    #[error("a message's checksum is wrong")]
    Checksum,
    #[error("a message cannot be read: {0}")]
    Entry(&'static str),
    #[error("a command cannot be read: {0}")]
    Decode(#[from] prost::DecodeError),
}

impl<'a> Frame<'a> {
    /// The first frame of `bytes` and how many bytes it takes; `None` if it is not there in full.
    ///
    /// # Errors
    /// When no frame can begin like that.
    pub fn first(bytes: &'a [u8], max_message: usize) -> Result<Option<(Frame<'a>, usize)>, FrameError> {
        let Some(total) = number(bytes) else { return Ok(None) };
        if total < 4 || total > max_message + PADDING {
            let foreign = connect::protocol_of_size(total as u32).map(FrameError::Foreign);
            return Err(foreign.unwrap_or(FrameError::Size(total)));
        }
        let Some(body) = bytes.get(4..4 + total) else { return Ok(None) };
        let Some((command, rest)) = number(body).and_then(|size| body[4..].split_at_checked(size)) else {
            return Err(FrameError::Command { total, command: number(body).unwrap_or(0) });
        };
        Ok(Some((Frame { command, rest }, 4 + total)))
    }
}

/// The big-endian number that `bytes` begin with.
pub fn number(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|first| u32::from_be_bytes(*first) as usize)
}

/// Appends a command.
pub fn put_command(out: &mut Vec<u8>, command: &ToBroker) {
    let size = command.encoded_len();
    out.extend_from_slice(&(size as u32 + 4).to_be_bytes());
    out.extend_from_slice(&(size as u32).to_be_bytes());
    encode(command, out);
}

/// Appends a message as it was in `frame`, with another command.
pub fn put_with_command(out: &mut Vec<u8>, command: &ToBroker, frame: &[u8]) {
    let old = number(frame.get(4..).unwrap_or_default()).unwrap_or(0);
    let message = frame.get(8 + old..).unwrap_or_default();
    let size = command.encoded_len();
    out.extend_from_slice(&((4 + size + message.len()) as u32).to_be_bytes());
    out.extend_from_slice(&(size as u32).to_be_bytes());
    encode(command, out);
    out.extend_from_slice(message);
}

/// Appends a command and the message that belongs to it: `metadata` and `payload` append theirs. Returns the bytes of both, which
/// a broker's `maxMessageSize` limits (`OpSendMsg.getMessageHeaderAndPayloadSize` of the Java client's `ProducerImpl`, which leaves
/// out the checksum and the metadata's size; the broker's frames may be 10 KiB larger: `Commands.MESSAGE_SIZE_FRAME_PADDING`).
pub fn put_message(
    out: &mut Vec<u8>,
    command: &ToBroker,
    metadata: impl FnOnce(&mut Vec<u8>),
    payload: impl FnOnce(&mut Vec<u8>),
) -> usize {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(command.encoded_len() as u32).to_be_bytes());
    encode(command, out);
    out.extend_from_slice(&MAGIC);
    let checksum = out.len();
    out.extend_from_slice(&[0; 4]);
    put_sized(out, metadata);
    payload(out);
    let sum = crc_fast::crc32_iscsi(&out[checksum + 4..]);
    out[checksum..checksum + 4].copy_from_slice(&sum.to_be_bytes());
    let total = out.len() - begin - 4;
    out[begin..begin + 4].copy_from_slice(&(total as u32).to_be_bytes());
    out.len() - checksum - 8
}

/// Appends what `content` appends, with its size before it.
pub fn put_sized(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out);
    let size = out.len() - begin - 4;
    out[begin..begin + 4].copy_from_slice(&(size as u32).to_be_bytes());
}

/// Splits what follows a command into metadata and payload, and verifies the checksum if there is one.
///
/// # Errors
/// When it is not a message, or not the one that was sent.
pub fn split_message(rest: &[u8]) -> Result<(&[u8], &[u8]), FrameError> {
    let mut content = rest;
    if let Some(checked) = rest.strip_prefix(&MAGIC) {
        let (sum, behind) = checked.split_at_checked(4).ok_or(FrameError::Entry("it ends within its checksum"))?;
        if number(sum) != Some(crc_fast::crc32_iscsi(behind) as usize) {
            return Err(FrameError::Checksum);
        }
        content = behind;
    }
    split_sized(content).ok_or(FrameError::Entry("it ends within its metadata"))
}

/// What is behind the size that `bytes` begin with, and the rest.
pub fn split_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.get(4..)?.split_at_checked(number(bytes)?)
}

fn encode(command: &ToBroker, out: &mut Vec<u8>) {
    // Encoding fails only for lack of space, and a vector grows.
    let encoded = command.encode(out);
    debug_assert!(encoded.is_ok());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::proto::{Kind, Nothing};
    use super::*;

    fn ping() -> ToBroker {
        ToBroker { kind: Kind::Ping.into(), ping: Some(Nothing {}), ..ToBroker::default() }
    }

    #[test]
    fn a_ping_is_the_bytes_of_the_java_client() {
        // Commands.newPing(): the size 9, the size 5, type 18 and an empty field 18.
        let mut out = Vec::new();
        put_command(&mut out, &ping());
        assert_eq!(out, [0, 0, 0, 9, 0, 0, 0, 5, 0x08, 18, 0x92, 0x01, 0]);
    }

    #[test]
    fn what_is_not_the_protocol_is_refused() {
        let foreign = Frame::first(b"HTTP/1.1 400", 1 << 20).unwrap_err().to_string();
        assert!(foreign.contains("answers like HTTP"), "{foreign}");
        assert_eq!(Frame::first(&[0x7f; 4], 1 << 20), Err(FrameError::Size(0x7f7f_7f7f)));
        assert_eq!(Frame::first(&[0, 0, 0, 5, 0, 0, 0, 2, 1], 100), Err(FrameError::Command { total: 5, command: 2 }));
        assert_eq!(split_message(&[0x0e, 0x01, 0, 0]), Err(FrameError::Entry("it ends within its checksum")));
    }

    proptest! {
        #[test]
        fn a_message_comes_back_and_a_flipped_bit_is_noticed(
            metadata in proptest::collection::vec(any::<u8>(), 0..50),
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..300usize,
            flip: prop::sample::Index,
        ) {
            let mut out = vec![1, 2, 3];
            put_message(&mut out, &ping(), |out| out.extend(&metadata), |out| out.extend(&payload));
            let bytes = &out[3..];
            let (frame, taken) = Frame::first(bytes, 1 << 20).unwrap().unwrap();
            prop_assert_eq!(taken, bytes.len());
            prop_assert_eq!(split_message(frame.rest), Ok((&metadata[..], &payload[..])));
            if cut < bytes.len() {
                prop_assert_eq!(Frame::first(&bytes[..cut], 1 << 20), Ok(None));
            }
            let mut rest = frame.rest.to_vec();
            let at = flip.index((rest.len() - 2) * 8);
            rest[2 + at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(split_message(&rest), Err(FrameError::Checksum));
        }
    }
}
