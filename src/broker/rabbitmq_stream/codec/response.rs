//! Reads numbers, strings and counted things from bytes that are not to be trusted, and from them what follows the code of a response.

use super::Malformed;

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
