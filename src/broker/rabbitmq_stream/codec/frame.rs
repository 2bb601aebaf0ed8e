//! Frames of the server, decoded in place; and what follows the code of a response: numbers, strings and counted things, read from bytes
//! that are not to be trusted.

use super::{Malformed, code, key};
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

/// A `Metadata` response: brokers by reference, and streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub brokers: Vec<(u16, String, u32)>,
    pub streams: Vec<StreamMetadata>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamMetadata {
    pub name: String,
    pub code: u16,
    /// References of brokers; the leader is not among the replicas.
    pub leader: u16,
    pub replicas: Vec<u16>,
}

impl Metadata {
    /// # Errors
    /// When `rest` is something else.
    pub fn read(rest: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(rest, "metadata response");
        let brokers = reader.many(|reader| Ok((reader.u16()?, reader.string()?.to_owned(), reader.u32()?)))?;
        let streams = reader.many(|reader| {
            Ok(StreamMetadata {
                name: reader.string()?.to_owned(),
                code: reader.u16()?,
                leader: reader.u16()?,
                replicas: reader.many(Reader::u16)?,
            })
        })?;
        Ok(Metadata { brokers, streams })
    }
}

/// An array of strings, as in the responses to `Partitions` and `SaslHandshake`.
///
/// # Errors
/// When `rest` is something else.
pub fn read_strings(rest: &[u8]) -> Result<Vec<String>, Malformed> {
    Reader::new(rest, "list of names").many(|reader| reader.string().map(str::to_owned))
}

/// A map of strings, as in the responses to `PeerProperties` and `Open`. Nothing at all is an empty one.
///
/// # Errors
/// When `rest` is something else.
pub fn read_pairs(rest: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    Reader::new(rest, "map of properties").many(|reader| Ok((reader.string()?.to_owned(), reader.string()?.to_owned())))
}

/// The highest version of a command that the server takes, in the response to `ExchangeCommandVersions`.
///
/// # Errors
/// When `rest` is something else.
pub fn read_highest_version(rest: &[u8], command: u16) -> Result<u16, Malformed> {
    let mut reader = Reader::new(rest, "list of command versions");
    let versions = reader.many(|reader| Ok((reader.u16()?, reader.u16()?, reader.u16()?)))?;
    Ok(versions.iter().find(|(key, ..)| *key == command).map_or(0, |(_, _, highest)| *highest))
}

/// A map of numbers, as in the response to `StreamStats`.
///
/// # Errors
/// When `rest` is something else.
pub fn read_numbers(rest: &[u8]) -> Result<Vec<(String, i64)>, Malformed> {
    let mut reader = Reader::new(rest, "map of numbers");
    reader.many(|reader| Ok((reader.string()?.to_owned(), reader.u64()?.cast_signed())))
}

/// What is left of some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` names the bytes in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { rest: bytes, what }
    }

    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    fn short(&self) -> Malformed {
        Malformed::Short { what: self.what }
    }

    /// # Errors
    /// Here and below: when there are not so many bytes left.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length in 16 bits; none (length -1) reads as empty.
    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = match self.u16()? {
            u16::MAX => &[],
            length => self.bytes(usize::from(length))?,
        };
        std::str::from_utf8(bytes).map_err(|_| Malformed::Senseless { what: self.what })
    }

    /// An array of `each`, whose count is only believed as far as there are bytes.
    pub fn many<T>(&mut self, mut each: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        let mut all = Vec::new();
        for _ in 0..count {
            if self.rest.is_empty() {
                return Err(self.short());
            }
            all.push(each(self)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/rabbitmq_stream/codec/frame.rs"]
mod tests;
