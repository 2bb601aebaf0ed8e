//! Compression of an entry's payload, in the formats of Pulsar's own client: LZ4 as a bare block, zlib with its header,
//! Zstandard frames, and Snappy as a bare block.

use std::io::{self, Read};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `CompressionType` of the protocol, by its numbers in a message's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    #[default]
    None = 0,
    Lz4 = 1,
    Zlib = 2,
    Zstd = 3,
    Snappy = 4,
}

/// Most bytes that are unpacked, whatever an entry claims: a broker takes 5 MiB in its default configuration, before
/// compression or after.
const MAX_UNPACKED: usize = 256 << 20;

/// How much more LZ4 can say with a byte: one that continues a length stands for 255. Snappy can say less.
const MAX_PER_BYTE: usize = 255;

/// What a Zstandard frame may ask for to be unpacked with: 8 MiB, the window of level 19.
const MAX_WINDOW_LOG: u32 = 23;

/// Level of the Java client.
const ZSTD_LEVEL: i32 = 3;

impl Compression {
    /// The one of that number.
    pub fn from_number(number: i32) -> Option<Self> {
        [Compression::None, Compression::Lz4, Compression::Zlib, Compression::Zstd, Compression::Snappy]
            .into_iter()
            .find(|compression| *compression as i32 == number)
    }

    /// Fills `out` with `content` decompressed, which has `size` bytes. That is the sender's claim: no memory is taken
    /// for it that `content` could not fill.
    ///
    /// # Errors
    /// When it is not `size` bytes compressed like this, or more than any broker sends.
    pub fn decompress(self, content: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
        const BROKEN: &str = "its payload cannot be decompressed";
        out.clear();
        if size > MAX_UNPACKED {
            return Err("its payload would be too large, decompressed");
        }
        match self {
            Compression::Lz4 | Compression::Snappy if size > content.len().saturating_mul(MAX_PER_BYTE) => {
                return Err(BROKEN);
            }
            Compression::None => out.extend_from_slice(content),
            Compression::Lz4 => {
                out.resize(size, 0);
                let written = lz4_flex::block::decompress_into(content, out).map_err(|_| BROKEN)?;
                out.truncate(written);
            }
            Compression::Snappy => {
                if snap::raw::decompress_len(content) != Ok(size) {
                    return Err(BROKEN);
                }
                out.resize(size, 0);
                snap::raw::Decoder::new().decompress(content, out).map_err(|_| BROKEN)?;
            }
            Compression::Zlib => {
                inflate(content, size, out).map_err(|_| BROKEN)?;
            }
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(content).map_err(|_| BROKEN)?;
                decoder.window_log_max(MAX_WINDOW_LOG).map_err(|_| BROKEN)?;
                decoder.take(size as u64 + 1).read_to_end(out).map_err(|_| BROKEN)?;
            }
        }
        if out.len() == size { Ok(()) } else { Err(BROKEN) }
    }
}

/// Compresses one payload after the other, and keeps the memory it needs between them.
pub enum Compressor {
    None,
    Lz4,
    Zlib(flate2::Compress),
    Zstd(zstd::bulk::Compressor<'static>),
    Snappy(Box<snap::raw::Encoder>),
}

impl Compressor {
    /// # Errors
    /// When there is no memory for it.
    pub fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Compressor::None,
            Compression::Lz4 => Compressor::Lz4,
            Compression::Zlib => Compressor::Zlib(flate2::Compress::new(flate2::Compression::default(), true)),
            Compression::Zstd => Compressor::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
            Compression::Snappy => Compressor::Snappy(Box::new(snap::raw::Encoder::new())),
        })
    }

    /// Appends `content` compressed.
    pub fn compress(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        let largest = match self {
            Compressor::None => {
                out.extend_from_slice(content);
                return;
            }
            Compressor::Lz4 => lz4_flex::block::get_maximum_output_size(content.len()),
            Compressor::Zlib(_) => most_deflated(content.len()),
            Compressor::Zstd(_) => zstd::zstd_safe::compress_bound(content.len()),
            Compressor::Snappy(_) => snap::raw::max_compress_len(content.len()),
        };
        out.resize(begin + largest, 0);
        let place = &mut out[begin..];
        let done = match self {
            Compressor::None => None,
            Compressor::Lz4 => lz4_flex::block::compress_into(content, place).ok(),
            Compressor::Zlib(deflate) => {
                deflate.reset();
                let status = deflate.compress(content, place, flate2::FlushCompress::Finish);
                matches!(status, Ok(flate2::Status::StreamEnd)).then(|| deflate.total_out() as usize)
            }
            Compressor::Zstd(compressor) => compressor.compress_to_buffer(content, place).ok(),
            Compressor::Snappy(encoder) => encoder.compress(content, place).ok(),
        };
        // None of them fails when the output has enough space.
        debug_assert!(done.is_some());
        out.truncate(begin + done.unwrap_or(0));
    }
}

/// Most bytes that zlib makes of `length` bytes: it stores what it cannot compress in blocks of at most 16 KiB with 5 bytes
/// each, between a head of 2 bytes and a checksum of 4 (RFC 1950, RFC 1951 section 3.2.4; `deflateBound` of zlib).
fn most_deflated(length: usize) -> usize {
    length + (length / (16 << 10) + 1) * 5 + 64
}

/// Inflates up to `size` bytes. The Java client's stream has no end, only a flush, so that a reader that waits for the end
/// would not do.
fn inflate(content: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), flate2::DecompressError> {
    const STEP: usize = 64 << 10;
    let mut inflater = flate2::Decompress::new(true);
    while out.len() < size {
        let (read, written) = (inflater.total_in(), out.len());
        out.reserve_exact(STEP.max(written).min(size - written));
        let status = inflater.decompress_vec(&content[read as usize..], out, flate2::FlushDecompress::Sync)?;
        if status == flate2::Status::StreamEnd || (inflater.total_in(), out.len()) == (read, written) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compression; 5] =
        [Compression::None, Compression::Lz4, Compression::Zlib, Compression::Zstd, Compression::Snappy];

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(content in proptest::collection::vec(0..4u8, 0..5000)) {
            for compression in ALL {
                let mut packed = vec![7];
                let mut compressor = Compressor::new(compression).unwrap();
                // The second one must not depend on the first.
                compressor.compress(b"another payload", &mut Vec::new());
                compressor.compress(&content, &mut packed);
                let mut unpacked = Vec::new();
                compression.decompress(&packed[1..], content.len(), &mut unpacked).unwrap();
                prop_assert_eq!(&unpacked, &content);
                prop_assert!(compression.decompress(&packed[1..], content.len() + 1, &mut unpacked).is_err());
            }
        }

        #[test]
        fn claimed_sizes_take_no_memory(
            content in proptest::collection::vec(any::<u8>(), 0..100),
            size in prop_oneof![0..1000usize, any::<usize>()],
        ) {
            for compression in ALL {
                let mut out = Vec::new();
                let _ = compression.decompress(&content, size, &mut out);
                prop_assert!(out.capacity() <= 1 << 20, "{} for {size}", out.capacity());
            }
        }
    }

    #[test]
    fn what_does_not_compress_has_space_for_its_blocks() {
        use rand::{RngExt, SeedableRng};
        let mut content = vec![0; 3 << 20];
        rand::rngs::SmallRng::seed_from_u64(1).fill(&mut content[..]);
        for compression in ALL {
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            Compressor::new(compression).unwrap().compress(&content, &mut packed);
            compression.decompress(&packed, content.len(), &mut unpacked).unwrap();
            assert!(unpacked == content, "{compression:?}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_protocol() {
        for (number, compression) in ALL.into_iter().enumerate() {
            assert_eq!(compression as usize, number);
            assert_eq!(Compression::from_number(number as i32), Some(compression));
        }
        assert_eq!(Compression::from_number(5), None);
    }
}
