//! What is done with the records of a batch as a whole: they are compressed, and the batch gets a checksum.
//!
//! Compression has the formats of Kafka's own client: gzip, Snappy in the blocks of xerial's Java library, LZ4 frames, and Zstandard frames.
//! Source: Kafka's `org.apache.kafka.common.compress`; the blocks of Snappy: xerial's `SnappyOutputStream` and `SnappyCodec`.
//!
//! The checksum of a batch that refers to payloads is CRC-32C, put together from those of its pieces. Payloads do not change, so that theirs are
//! computed once. For two stretches A and B, `crc(AB) = shift(crc(A), |B|) ⊕ crc(B)` (zlib's `crc32_combine`). Where all payloads have one length,
//! the shift is a fixed linear map, which four tables hold.

use std::io::{self, Read, Write};
use std::mem;

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};
use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::Malformed;
pub use crate::broker::compression::Compression;
use crate::load::{PayloadPlace, PayloadPool};

/// Unpacked bytes of a batch for each compressed one. A topic's `max.message.bytes`, by default 1 MiB, limits the compressed ones.
const MAX_RATIO: usize = 64;
/// So many unpacked bytes are always accepted: the largest `batch_bytes`.
const MIN_LIMIT: usize = 64 << 20;
/// More unpacked bytes are never accepted.
const MAX_LIMIT: usize = 256 << 20;

/// What a Zstandard frame may ask for to be unpacked with: 8 MiB, the window of level 19.
const MAX_WINDOW_LOG: u32 = 23;

/// Level of Kafka's own client.
const ZSTD_LEVEL: i32 = 3;

/// Block size of Kafka's own client. A batch of two blocks or more would get larger ones by itself: to allocate those for each
/// batch cost five times what the compression costs.
const LZ4_BLOCK: BlockSize = BlockSize::Max64KB;

/// The beginning of what xerial's library writes: its name, its version and the oldest that can read it.
const XERIAL: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// Its blocks, before compression.
const XERIAL_BLOCK: usize = 32 << 10;

const BROKEN: Malformed = Malformed("its records cannot be decompressed");
const TOO_LARGE: Malformed =
    Malformed("its records unpack to more than 64 MiB and 64 times their size, or to more than 256 MiB");

impl Compression {
    /// Replaces `out` with what `content` holds. The memory grows with what is there, not with what is announced.
    ///
    /// # Errors
    /// When it is not compressed like this, or unpacks to more than the limits above.
    pub fn decompress(self, content: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.clear();
        let limit = content.len().saturating_mul(MAX_RATIO).clamp(MIN_LIMIT, MAX_LIMIT);
        match self {
            Compression::None => out.extend_from_slice(content),
            Compression::Gzip => read_all(flate2::read::MultiGzDecoder::new(content), limit, out)?,
            Compression::Snappy => read_snappy(content, limit, out)?,
            Compression::Lz4 => read_all(FrameDecoder::new(content), limit, out)?,
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(content).map_err(|_| BROKEN)?;
                decoder.window_log_max(MAX_WINDOW_LOG).map_err(|_| BROKEN)?;
                read_all(decoder, limit, out)?;
            }
        }
        Ok(())
    }
}

fn read_all(from: impl Read, limit: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    from.take(limit as u64 + 1).read_to_end(out).map_err(|_| BROKEN)?;
    if out.len() > limit { Err(TOO_LARGE) } else { Ok(()) }
}

/// Clients that do not use xerial's library write one block without a length before it.
fn read_snappy(content: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut decoder = snap::raw::Decoder::new();
    let Some(mut blocks) = content.strip_prefix(&XERIAL[..8]).and_then(|rest| rest.get(8..)) else {
        return read_block(&mut decoder, content, limit, out);
    };
    while !blocks.is_empty() {
        let (length, rest) = blocks.split_first_chunk::<4>().ok_or(BROKEN)?;
        let block = rest.get(..u32::from_be_bytes(*length) as usize).ok_or(BROKEN)?;
        read_block(&mut decoder, block, limit, out)?;
        blocks = &rest[block.len()..];
    }
    Ok(())
}

fn read_block(
    decoder: &mut snap::raw::Decoder,
    block: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let length = snap::raw::decompress_len(block).map_err(|_| BROKEN)?;
    let begin = out.len();
    // Three bytes copy 64 at most.
    if length > block.len().saturating_mul(64) {
        return Err(BROKEN);
    }
    if begin + length > limit {
        return Err(TOO_LARGE);
    }
    out.resize(begin + length, 0);
    decoder.decompress(block, &mut out[begin..]).map_err(|_| BROKEN)?;
    Ok(())
}

/// Compresses one batch after the other, and keeps the memory it needs between them.
pub enum Compressor {
    None,
    Gzip,
    Snappy(Box<snap::raw::Encoder>),
    Lz4(Box<FrameEncoder<Vec<u8>>>),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// # Errors
    /// When there is no memory for it.
    pub fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Compressor::None,
            Compression::Gzip => Compressor::Gzip,
            Compression::Snappy => Compressor::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Lz4 => {
                let blocks = FrameInfo::new().block_size(LZ4_BLOCK);
                Compressor::Lz4(Box::new(FrameEncoder::with_frame_info(blocks, Vec::new())))
            }
            Compression::Zstd => Compressor::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        })
    }

    /// Appends `content`, which is not empty, compressed.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn compress(&mut self, content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Compressor::None => out.extend_from_slice(content),
            Compressor::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                encoder.write_all(content)?;
                encoder.finish()?;
            }
            Compressor::Snappy(encoder) => write_snappy(encoder, content, out)?,
            Compressor::Lz4(encoder) => {
                mem::swap(encoder.get_mut(), out);
                let written = encoder.write_all(content).and_then(|()| encoder.try_finish().map_err(io::Error::other));
                mem::swap(encoder.get_mut(), out);
                written?;
            }
            Compressor::Zstd(compressor) => {
                let begin = out.len();
                out.resize(begin + zstd::zstd_safe::compress_bound(content.len()), 0);
                let length = compressor.compress_to_buffer(content, &mut out[begin..])?;
                out.truncate(begin + length);
            }
        }
        Ok(())
    }
}

fn write_snappy(encoder: &mut snap::raw::Encoder, content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    out.extend_from_slice(&XERIAL);
    for block in content.chunks(XERIAL_BLOCK) {
        let begin = out.len() + 4;
        out.resize(begin + snap::raw::max_compress_len(block.len()), 0);
        let length = encoder.compress(block, &mut out[begin..]).map_err(io::Error::other)?;
        out[begin - 4..begin].copy_from_slice(&(length as u32).to_be_bytes());
        out.truncate(begin + length);
    }
    Ok(())
}

/// What is computed once of the payloads of a trial.
pub struct PayloadChecksums {
    /// Bytes of every payload. 0: they differ, or are small.
    size: usize,
    /// CRC-32C of each payload, by its place.
    of_payloads: Vec<u32>,
    /// What a payload behind it makes of a checksum, for each of its bytes and each of its values.
    shift: Box<[[u32; 256]; 4]>,
}

impl PayloadChecksums {
    /// Of payloads that have `least` bytes or more.
    pub fn new(payloads: &PayloadPool, least: usize) -> Self {
        let size = payloads.uniform_size().filter(|size| *size >= least).unwrap_or(0);
        let of_payloads = match size {
            0 => Vec::new(),
            _ => payloads.bytes().chunks_exact(size).map(crc_fast::crc32_iscsi).collect(),
        };
        PayloadChecksums { size, of_payloads, shift: shift_by(size) }
    }

    /// The checksum of bytes whose checksum is `before`, with the payload behind them.
    #[inline]
    pub fn append(&self, before: u32, place: PayloadPlace, payloads: &PayloadPool) -> u32 {
        if self.size > 0 && place.begin().is_multiple_of(self.size) {
            return self.shifted(before) ^ self.of_payloads[place.begin() / self.size];
        }
        append_checksum(before, payloads.at(place))
    }

    #[inline]
    fn shifted(&self, checksum: u32) -> u32 {
        let [first, second, third, fourth] = checksum.to_le_bytes();
        let tables = &*self.shift;
        tables[0][first as usize] ^ tables[1][second as usize] ^ tables[2][third as usize] ^ tables[3][fourth as usize]
    }
}

/// The checksum of bytes whose checksum is `before`, with `bytes` behind them.
#[inline]
pub fn append_checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

/// The change of a checksum by each value of each of its bytes, if so many bytes come behind what it is of.
fn shift_by(bytes: usize) -> Box<[[u32; 256]; 4]> {
    let mut tables = Box::new([[0; 256]; 4]);
    for (byte, table) in tables.iter_mut().enumerate() {
        for bit in 0..8 {
            let one = 1 << (8 * byte + bit);
            let shifted = checksum_combine(CrcAlgorithm::Crc32Iscsi, one, 0, bytes as u64) as u32;
            // The map is linear: a value is the sum of its bits.
            for value in 0..1 << bit {
                table[value | 1 << bit] = table[value] ^ shifted;
            }
        }
    }
    tables
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/codec/compression.rs"]
mod tests;
