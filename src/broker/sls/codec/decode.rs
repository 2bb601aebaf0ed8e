//! Reads the logs that the service sends to consumers. Values are borrowed from the response, and no announced length is
//! trusted for an allocation.

/// The response is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response holds malformed protobuf: {0}")]
pub struct Malformed(&'static str);

/// A field of a message: its number and what it holds.
enum Held<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
#[derive(Clone)]
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Held<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mark = self.varint()?;
        let held = match mark & 7 {
            0 => {
                self.varint()?;
                Held::Number
            }
            1 => Held::Bytes(self.bytes(8)?),
            2 => {
                let length = self.varint()?;
                Held::Bytes(self.bytes(length)?)
            }
            5 => Held::Bytes(self.bytes(4)?),
            _ => return Err(Malformed("a field of an unknown type")),
        };
        Ok(Some((mark >> 3, held)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed("a number without an end"))?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number of more than ten bytes"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed("a field longer than its message"))?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// What all logs of a group share.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogGroup<'a> {
    bytes: &'a [u8],
    pub topic: &'a [u8],
    pub source: &'a [u8],
    /// The value of the tag `__pack_id__`, empty without one.
    pub pack: &'a [u8],
}

/// Takes the next group from a list; `None`: there are no more.
///
/// # Errors
/// When the list is malformed.
pub fn next_group<'a>(list: &mut &'a [u8]) -> Result<Option<LogGroup<'a>>, Malformed> {
    let mut fields = Fields { rest: list };
    while let Some((number, held)) = fields.next()? {
        if let (1, Held::Bytes(bytes)) = (number, held) {
            *list = fields.rest;
            return group(bytes).map(Some);
        }
    }
    *list = fields.rest;
    Ok(None)
}

fn group(bytes: &[u8]) -> Result<LogGroup<'_>, Malformed> {
    let mut group = LogGroup { bytes, ..LogGroup::default() };
    let mut fields = Fields { rest: bytes };
    while let Some((number, held)) = fields.next()? {
        match (number, held) {
            (3, Held::Bytes(topic)) => group.topic = topic,
            (4, Held::Bytes(source)) => group.source = source,
            (6, Held::Bytes(tag)) => {
                let (key, value) = pair(tag)?;
                if key == super::PACK_TAG {
                    group.pack = value;
                }
            }
            _ => {}
        }
    }
    Ok(group)
}

/// Hands the keys and values of each log of a group to `each`; the slice is reused.
///
/// # Errors
/// When a log is malformed; logs before it have been handed over.
pub fn logs<'a>(group: &LogGroup<'a>, mut each: impl FnMut(&[(&'a [u8], &'a [u8])])) -> Result<(), Malformed> {
    let mut contents = Vec::new();
    let mut fields = Fields { rest: group.bytes };
    while let Some((number, held)) = fields.next()? {
        let (1, Held::Bytes(log)) = (number, held) else { continue };
        contents.clear();
        let mut parts = Fields { rest: log };
        while let Some((number, held)) = parts.next()? {
            if let (2, Held::Bytes(content)) = (number, held) {
                contents.push(pair(content)?);
            }
        }
        each(&contents);
    }
    Ok(())
}

fn pair(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value): (&[u8], &[u8]) = (b"", b"");
    let mut fields = Fields { rest: bytes };
    while let Some((number, held)) = fields.next()? {
        match (number, held) {
            (1, Held::Bytes(bytes)) => key = bytes,
            (2, Held::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_a_server_sends_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while let Ok(Some(group)) = next_group(&mut rest) {
                let _ = logs(&group, |_| {});
            }
        }
    }

    #[test]
    fn a_length_that_is_claimed_is_not_believed() {
        let endless = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(next_group(&mut &endless[..]).err(), Some(Malformed("a field longer than its message")));
    }
}
