//! What follows the code of a response.

use super::{Malformed, Reader};

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reading_answers_never_panics(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Metadata::read(&rest);
            let _ = read_strings(&rest);
            let _ = read_pairs(&rest);
            let _ = read_numbers(&rest);
            let _ = read_highest_version(&rest, 2);
        }
    }
}
