//! Reads a body of logs: decompresses it and checks every field, within bounds that its headers cannot widen.

/// Most bytes of logs in one request.
pub const MAX_RAW_BYTES: usize = 10 << 20;

/// Most logs in one request.
const MAX_LOGS: u64 = 40_960;

/// Why a body is refused: the service's code, and a sentence.
pub type Refusal = (&'static str, String);

/// What a body holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    pub logs: u64,
    pub fields: u64,
    /// 4 and the lengths of all keys and values, of each log.
    pub counted_bytes: u64,
}

/// The protobuf in a body that is compressed by `kind` and claims to be of `raw_size`.
pub fn unfold(body: &[u8], kind: &str, raw_size: usize) -> Result<Vec<u8>, Refusal> {
    if raw_size > MAX_RAW_BYTES {
        return Err((
            "PostBodyTooLarge",
            format!("{raw_size} bytes of logs, but at most {MAX_RAW_BYTES} are taken at once"),
        ));
    }
    let broken = |reason: String| ("PostBodyUncompressError", reason);
    // One byte more than claimed, so that a body which holds more is noticed.
    let mut raw = vec![0; raw_size + 1];
    let found = match kind {
        "" => {
            raw.clear();
            raw.extend_from_slice(body);
            body.len()
        }
        "lz4" => lz4_flex::block::decompress_into(body, &mut raw).map_err(|error| broken(error.to_string()))?,
        "zstd" => zstd::bulk::decompress_to_buffer(body, &mut raw[..]).map_err(|error| broken(error.to_string()))?,
        other => {
            return Err(("InvalidCompressType", format!("compression \"{}\" is not known", other.escape_default())));
        }
    };
    if found != raw_size {
        return Err(broken(format!(
            "the body has {found} bytes without compression, but x-log-bodyrawsize is {raw_size}"
        )));
    }
    raw.truncate(raw_size);
    Ok(raw)
}

/// Checks a log group.
pub fn examine(group: &[u8]) -> Result<Contents, Refusal> {
    walk(group).map_err(|reason| ("PostBodyInvalid", reason.to_owned()))
}

fn walk(group: &[u8]) -> Result<Contents, &'static str> {
    let mut contents = Contents::default();
    let mut cursor = Cursor(group);
    while !cursor.0.is_empty() {
        match cursor.key()? {
            (1, 2) => {
                log(cursor.chunk()?, &mut contents)?;
                contents.logs += 1;
            }
            (2..=5, 2) => drop(cursor.chunk()?),
            (6, 2) => drop(pair(cursor.chunk()?)?),
            (1..=6, _) => return Err("a field of a log group has the wrong type"),
            (_, kind) => cursor.skip(kind)?,
        }
    }
    if contents.logs > MAX_LOGS {
        return Err("more logs than a request may hold");
    }
    Ok(contents)
}

fn log(log: &[u8], contents: &mut Contents) -> Result<(), &'static str> {
    let mut cursor = Cursor(log);
    let mut timed = false;
    contents.counted_bytes += 4;
    while !cursor.0.is_empty() {
        match cursor.key()? {
            (1, 0) => {
                let time = cursor.number()?;
                if time > u64::from(u32::MAX) {
                    return Err("a log's time does not fit 32 bits");
                }
                timed = true;
            }
            (2, 2) => {
                contents.counted_bytes += pair(cursor.chunk()?)? as u64;
                contents.fields += 1;
            }
            (4, 5) => drop(cursor.exactly(4)?),
            (1 | 2 | 4, _) => return Err("a field of a log has the wrong type"),
            (_, kind) => cursor.skip(kind)?,
        }
    }
    if timed { Ok(()) } else { Err("a log without a time") }
}

/// Bytes of a key and its value together.
fn pair(pair: &[u8]) -> Result<usize, &'static str> {
    let mut cursor = Cursor(pair);
    let (mut key, mut value) = (None, None);
    while !cursor.0.is_empty() {
        match cursor.key()? {
            (1, 2) => key = Some(cursor.chunk()?.len()),
            (2, 2) => value = Some(cursor.chunk()?.len()),
            (1 | 2, _) => return Err("a key or a value is not text"),
            (_, kind) => cursor.skip(kind)?,
        }
    }
    match (key, value) {
        (Some(key), Some(value)) => Ok(key + value),
        _ => Err("a field without a key or without a value"),
    }
}

/// What is left of a message.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A field's number and type.
    fn key(&mut self) -> Result<(u64, u8), &'static str> {
        let key = self.number()?;
        match key >> 3 {
            0 => Err("a field with the number 0"),
            number => Ok((number, (key & 7) as u8)),
        }
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for index in 0..10 {
            let byte = *self.0.get(index).ok_or("a number is cut off")?;
            if index == 9 && byte > 1 {
                return Err("a number of more than 64 bits");
            }
            value += u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits")
    }

    fn chunk(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.number()?;
        if length > self.0.len() as u64 {
            return Err("a field is longer than what is left");
        }
        self.exactly(length as usize)
    }

    fn exactly(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        if length > self.0.len() {
            return Err("a field is cut off");
        }
        let (chunk, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(chunk)
    }

    fn skip(&mut self, kind: u8) -> Result<(), &'static str> {
        match kind {
            0 => self.number().map(drop),
            1 => self.exactly(8).map(drop),
            2 => self.chunk().map(drop),
            5 => self.exactly(4).map(drop),
            _ => Err("a field of an unknown type"),
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/emulator/sls/decode.rs"]
mod tests;
