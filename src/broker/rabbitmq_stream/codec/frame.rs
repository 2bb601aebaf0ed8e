//! Frames of the server, decoded in place.

use super::{Malformed, Reader, code, key};
use crate::net::connect;

/// A frame, borrowed from the bytes it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    Confirm {
        publisher: u8,
        ids: Ids<'a>,
    },
    PublishError {
        publisher: u8,
        errors: PublishErrors<'a>,
    },
    /// `chunk` is for [`super::chunk::Chunk::parse`].
    Deliver {
        subscription: u8,
        chunk: &'a [u8],
    },
    /// Only ever sent when crediting failed.
    Credit {
        code: u16,
        subscription: u8,
    },
    MetadataUpdate {
        code: u16,
        stream: &'a str,
    },
    Tune {
        frame_max: u32,
        heartbeat: u32,
    },
    Close {
        correlation: u32,
        code: u16,
        reason: &'a str,
    },
    Heartbeat,
    ConsumerUpdate(ConsumerUpdate),
    /// `key` is the request's; `rest` is what follows the code.
    Response {
        key: u16,
        correlation: u32,
        code: u16,
        rest: &'a [u8],
    },
    /// A frame that a client of this version may pass over.
    Other {
        key: u16,
    },
}

/// Whether a subscription that shares its stream with others is the one that reads it. The server waits for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerUpdate {
    pub correlation: u32,
    pub subscription: u8,
    pub active: bool,
}

/// Publishing ids of a confirmation, in no particular order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids<'a>(&'a [[u8; 8]]);

impl<'a> Ids<'a> {
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.iter().map(|id| u64::from_be_bytes(*id))
    }
}

/// Publishing ids with the codes they were refused with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishErrors<'a>(&'a [[u8; 10]]);

impl<'a> PublishErrors<'a> {
    pub fn iter(self) -> impl Iterator<Item = (u64, u16)> + use<'a> {
        self.0.iter().map(|[id @ .., high, low]| (u64::from_be_bytes(*id), u16::from_be_bytes([*high, *low])))
    }
}

/// Larger than frames are, unless a chunk is unusual: the first bytes of another protocol are looked for from here on.
const LARGE: usize = 64 << 20;

/// The frame at the beginning of `bytes`, with its length; `None` while it is not complete.
///
/// # Errors
/// When it is larger than `most`, which is checked before it has arrived, or its content does not match its key.
#[inline]
pub fn decode(bytes: &[u8], most: usize) -> Result<Option<(Frame<'_>, usize)>, Malformed> {
    let Some((size, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let size = u32::from_be_bytes(*size) as usize;
    if size > most.min(LARGE) {
        if let Some(port) = connect::protocol_of_size(size as u32) {
            return Err(Malformed::Foreign(port));
        }
        if size > most {
            return Err(Malformed::TooLarge { size, most });
        }
    }
    let Some(content) = rest.get(..size) else { return Ok(None) };
    Ok(Some((read(content)?, 4 + size)))
}

fn read(content: &[u8]) -> Result<Frame<'_>, Malformed> {
    let mut reader = Reader::new(content, "frame");
    let key = reader.u16()?;
    let _version = reader.u16()?;
    match key {
        key::PUBLISH_CONFIRM => {
            let publisher = reader.u8()?;
            Ok(Frame::Confirm { publisher, ids: Ids(counted(reader)?) })
        }
        key::PUBLISH_ERROR => {
            let publisher = reader.u8()?;
            Ok(Frame::PublishError { publisher, errors: PublishErrors(counted(reader)?) })
        }
        key::DELIVER => Ok(Frame::Deliver { subscription: reader.u8()?, chunk: reader.rest() }),
        key::METADATA_UPDATE => Ok(Frame::MetadataUpdate { code: reader.u16()?, stream: reader.string()? }),
        key::HEARTBEAT => Ok(Frame::Heartbeat),
        key::CONSUMER_UPDATE => Ok(Frame::ConsumerUpdate(ConsumerUpdate {
            correlation: reader.u32()?,
            subscription: reader.u8()?,
            active: reader.u8()? != 0,
        })),
        key::CLOSE => Ok(Frame::Close { correlation: reader.u32()?, code: reader.u16()?, reason: reader.string()? }),
        // It is a request, but some servers write it as a response.
        key::TUNE | key::TUNE_RESPONSE => Ok(Frame::Tune { frame_max: reader.u32()?, heartbeat: reader.u32()? }),
        // The only responses without a correlation, and without a code.
        key::CREDIT_RESPONSE => Ok(Frame::Credit { code: reader.u16()?, subscription: reader.u8()? }),
        key::METADATA_RESPONSE => {
            let correlation = reader.u32()?;
            Ok(Frame::Response { key: key::METADATA, correlation, code: code::OK, rest: reader.rest() })
        }
        key if key & key::RESPONSE != 0 => Ok(Frame::Response {
            key: key & !key::RESPONSE,
            correlation: reader.u32()?,
            code: reader.u16()?,
            rest: reader.rest(),
        }),
        key => Ok(Frame::Other { key }),
    }
}

/// Items of `N` bytes, whose count precedes them, and nothing else.
#[inline]
fn counted<const N: usize>(mut reader: Reader<'_>) -> Result<&[[u8; N]], Malformed> {
    let count = reader.u32()? as usize;
    let (items, left) = reader.rest().as_chunks();
    match items.len() == count && left.is_empty() {
        true => Ok(items),
        false => Err(Malformed::Senseless { what: "count of publishing ids" }),
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/rabbitmq_stream/codec/frame.rs"]
mod tests;
