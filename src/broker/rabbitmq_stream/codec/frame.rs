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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    #[test]
    fn another_protocol_is_named() {
        for (bytes, words) in [(&b"HTTP/1.1 400"[..], "answers like HTTP"), (&[0x15, 3, 3, 0, 2, 2, 80], "speaks TLS")]
        {
            let error = decode(bytes, 512 << 20).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn confirms_and_errors_are_read() {
        let mut content = vec![0, 3, 0, 1, 7, 0, 0, 0, 2];
        content.extend(5u64.to_be_bytes());
        content.extend(9u64.to_be_bytes());
        let bytes = framed(&content);
        let (frame, length) = decode(&bytes, 100).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        let Frame::Confirm { publisher: 7, ids } = frame else { panic!("{frame:?}") };
        assert_eq!(ids.iter().collect::<Vec<_>>(), [5, 9]);

        let mut content = vec![0, 4, 0, 1, 7, 0, 0, 0, 1];
        content.extend(5u64.to_be_bytes());
        content.extend([0, 18]);
        let bytes = framed(&content);
        let Some((Frame::PublishError { errors, .. }, _)) = decode(&bytes, 100).unwrap() else { panic!() };
        assert_eq!(errors.iter().collect::<Vec<_>>(), [(5, code::PUBLISHER_DOES_NOT_EXIST)]);
    }

    #[test]
    fn a_count_that_the_bytes_do_not_bear_out_is_refused() {
        let claimed = framed(&[0, 3, 0, 1, 7, 0xff, 0xff, 0xff, 0xff, 0, 0]);
        assert!(decode(&claimed, 100).is_err());
    }

    #[test]
    fn a_frame_that_is_too_large_is_refused_before_it_is_there() {
        assert_eq!(decode(&[0, 0, 1, 0], 255), Err(Malformed::TooLarge { size: 256, most: 255 }));
        assert_eq!(decode(&[0, 0, 1, 0], 256), Ok(None));
    }

    proptest! {
        #[test]
        fn nothing_panics(key in prop_oneof![0u16..0x20, 0x8000u16..0x8020, any::<u16>()],
                          content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let content = [&key.to_be_bytes()[..], &[0, 1], &content].concat();
            let bytes = framed(&content);
            if let Ok(found) = decode(&bytes, 1 << 20) {
                let (frame, length) = found.unwrap();
                prop_assert_eq!(length, bytes.len());
                match frame {
                    Frame::Confirm { ids, .. } => prop_assert_eq!(ids.iter().count() * 8 + 9, content.len()),
                    Frame::PublishError { errors, .. } => prop_assert_eq!(errors.iter().count() * 10 + 9, content.len()),
                    _ => {}
                }
            }
            for end in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..end], 1 << 20), Ok(None));
            }
        }
    }
}
