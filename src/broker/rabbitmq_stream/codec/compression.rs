//! How the content of sub-entries is compressed: in the frame formats that the Java client writes and reads.

use std::io::{self, Read, Write};

use crate::broker::compression::Compression;

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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(content in proptest::collection::vec(0..4u8, 0..5000)) {
            for compression in ALL {
                let mut compressed = vec![1, 2, 3];
                compress(compression, &content, &mut compressed).unwrap();
                let mut back = Vec::new();
                decompress(compression, &compressed[3..], content.len(), &mut back).unwrap();
                prop_assert_eq!(&back, &content);
                prop_assert_eq!(Compression::from_number(compression as u8), Some(compression));
                if !content.is_empty() {
                    let too_little = content.len() - 1;
                    prop_assert!(decompress(compression, &compressed[3..], too_little, &mut Vec::new()).is_err());
                }
            }
        }

        #[test]
        fn nothing_panics(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            for compression in ALL {
                let mut out = Vec::new();
                let _ = decompress(compression, &content, 10_000, &mut out);
                prop_assert!(out.len() <= 10_001);
            }
        }
    }
}
