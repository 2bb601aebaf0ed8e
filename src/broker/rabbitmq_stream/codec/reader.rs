//! Reads numbers, strings and counted things from bytes that are not to be trusted.

use super::Malformed;

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
