//! The messages in a delivery: a chunk of the stream as it lies on the server's disk (`osiris_log.erl`); and how the content of sub-entries
//! is compressed, in the frame formats that the Java client writes and reads.

use std::io::{self, Read, Write};

use super::{Malformed, Reader};
use crate::broker::compression::Compression;
use crate::limits::shrink_unpacked;

/// The first byte of every chunk: magic number 5, version 0.
const MAGIC_AND_VERSION: u8 = 0x50;

/// A chunk that carries messages; the others carry the server's own bookkeeping.
const USER: u8 = 0;

/// Set in the first byte of an entry that holds several messages.
const SUB_ENTRY: u8 = 0x80;

/// Most bytes that the messages of one sub-entry may take, uncompressed.
const MAX_UNCOMPRESSED: usize = 256 << 20;

/// A chunk's head and the entries behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    kind: u8,
    entries: u16,
    /// Messages in all entries.
    pub records: u32,
    /// When it was written, in milliseconds since 1970.
    pub timestamp: i64,
    /// The offset of its first message; the others follow without gaps.
    pub first_offset: u64,
    checksum: u32,
    data: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// # Errors
    /// When the bytes are not a chunk.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "chunk");
        if reader.u8()? != MAGIC_AND_VERSION {
            return Err(Malformed::Senseless { what: "chunk's version" });
        }
        let kind = reader.u8()?;
        let entries = reader.u16()?;
        let records = reader.u32()?;
        let timestamp = reader.u64()?.cast_signed();
        let _epoch = reader.u64()?;
        let first_offset = reader.u64()?;
        let checksum = reader.u32()?;
        let length = reader.u32()?;
        let _trailer_length = reader.u32()?;
        let _reserved = reader.u32()?;
        Ok(Chunk { kind, entries, records, timestamp, first_offset, checksum, data: reader.bytes(length as usize)? })
    }

    /// The offset behind its last message.
    ///
    /// # Errors
    /// When there is no such number.
    pub fn next_offset(&self) -> Result<u64, Malformed> {
        let next = self.first_offset.checked_add(u64::from(self.records));
        next.ok_or(Malformed::Senseless { what: "chunk's offset" })
    }

    /// Whether the messages are those that the server wrote (CRC-32, as zlib's).
    pub fn is_intact(&self) -> bool {
        crc32fast::hash(self.data) == self.checksum
    }

    /// Hands every message with its offset to `each`. `scratch` is for entries that have to be decompressed.
    ///
    /// # Errors
    /// When an entry is malformed; those before it were handed over.
    pub fn messages(&self, scratch: &mut Vec<u8>, mut each: impl FnMut(u64, &[u8])) -> Result<(), Malformed> {
        if self.kind != USER {
            return Ok(());
        }
        let mut offset = self.first_offset;
        let mut reader = Reader::new(self.data, "chunk's entry");
        for _ in 0..self.entries {
            let first = *reader.rest().first().ok_or(Malformed::Short { what: "chunk" })?;
            if first & SUB_ENTRY == 0 {
                let length = reader.u32()?;
                each(offset, reader.bytes(length as usize)?);
                offset = offset.wrapping_add(1);
                continue;
            }
            reader.u8()?;
            let records = reader.u16()?;
            let uncompressed = reader.u32()? as usize;
            let length = reader.u32()?;
            let content = reader.bytes(length as usize)?;
            let unknown = Malformed::Senseless { what: "number of a compression" };
            let content = match Compression::from_number(first >> 4 & 0x07).ok_or(unknown)? {
                Compression::None => content,
                compression => {
                    scratch.clear();
                    decompress(compression, content, uncompressed.min(MAX_UNCOMPRESSED), scratch)
                        .map_err(|_| Malformed::Senseless { what: "compressed sub-entry" })?;
                    &*scratch
                }
            };
            let mut inner = Reader::new(content, "message of a sub-entry");
            for _ in 0..records {
                let length = inner.u32()?;
                each(offset, inner.bytes(length as usize)?);
                offset = offset.wrapping_add(1);
            }
        }
        shrink_unpacked(scratch);
        Ok(())
    }
}

/// Appends `content`, compressed, to `out`.
///
/// # Errors
/// When the compressing library fails.
pub fn compress(compression: Compression, content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    match compression {
        Compression::None => out.extend_from_slice(content),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            encoder.write_all(content)?;
            encoder.finish()?;
        }
        Compression::Snappy => {
            let mut encoder = snap::write::FrameEncoder::new(out);
            encoder.write_all(content)?;
            encoder.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
            encoder.write_all(content)?;
            encoder.finish().map_err(io::Error::other)?;
        }
        Compression::Zstd => zstd::stream::copy_encode(content, out, 0)?,
    }
    Ok(())
}

/// Appends what `content` holds to `out`. More than `most` bytes are an error; the memory grows with what is there,
/// not with what is announced.
///
/// # Errors
/// When it is not compressed in this way, or too much.
pub fn decompress(compression: Compression, content: &[u8], most: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let begin = out.len();
    let limit = most as u64 + 1;
    match compression {
        Compression::None => content.take(limit).read_to_end(out)?,
        Compression::Gzip => flate2::read::GzDecoder::new(content).take(limit).read_to_end(out)?,
        Compression::Snappy => snap::read::FrameDecoder::new(content).take(limit).read_to_end(out)?,
        Compression::Lz4 => lz4_flex::frame::FrameDecoder::new(content).take(limit).read_to_end(out)?,
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(content)?.take(limit).read_to_end(out)?,
    };
    match out.len() - begin <= most {
        true => Ok(()),
        false => Err(io::Error::other(format!("more than the {most} bytes that it announces"))),
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/rabbitmq_stream/codec/chunk.rs"]
mod tests;
