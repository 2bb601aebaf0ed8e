//! Encrypted and compressed connections. A task copies between the connection and one end of a local socket pair. The other
//! end is read and written like a plain connection.
//!
//! nsqd compresses inside TLS. Snappy has its framing format, deflate has no zlib header, and both sides flush every write.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use snap::read::FrameDecoder;
use snap::write::FrameEncoder;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

/// What one read takes at most.
const CHUNK_BYTES: usize = 64 << 10;

/// A compression that both sides agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreed {
    None,
    Snappy,
    Deflate { level: u32 },
}

/// Starts the task and returns the near end of the socket pair. The task ends when either side does. It adds to `sent` the bytes
/// that it sends, before they are encrypted.
///
/// # Errors
/// When the system has no more sockets.
pub fn start<S>(remote: S, compression: Agreed, sent: Arc<AtomicU64>) -> io::Result<UnixStream>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (near, far) = UnixStream::pair()?;
    tokio::spawn(async move {
        let (mut from_remote, mut to_remote) = tokio::io::split(remote);
        let (mut from_near, mut to_near) = far.into_split();
        let inwards = async {
            let mut decoder = Decoder::new(compression);
            let mut plain = Vec::new();
            copy(&mut from_remote, &mut to_near, |bytes| {
                plain.clear();
                decoder.decode(bytes, &mut plain)?;
                Ok(std::mem::take(&mut plain))
            })
            .await
        };
        let outwards = async {
            let mut encoder = Encoder::new(compression);
            let encode = |bytes: &[u8]| {
                let encoded = encoder.encode(bytes)?;
                sent.fetch_add(encoded.len() as u64, Ordering::Relaxed);
                Ok(encoded)
            };
            let closed = copy(&mut from_near, &mut to_remote, encode).await;
            if closed.is_err() {
                // nsqd's last responses may still arrive. The end of that direction ends the connection.
                std::future::pending::<()>().await;
            }
            // TLS announces the end of the connection to nsqd.
            let _ = to_remote.shutdown().await;
        };
        tokio::select! {
            // The near end is closed either way.
            _ = inwards => {}
            () = outwards => {}
        }
    });
    Ok(near)
}

/// Copies until the end of `from`, each chunk changed on the way.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut change: impl FnMut(&[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        let changed = change(&chunk[..count])?;
        to.write_all(&changed).await?;
        to.flush().await?;
    }
}

enum Encoder {
    None,
    Snappy(Box<FrameEncoder<Vec<u8>>>),
    Deflate(Compress),
}

impl Encoder {
    fn new(compression: Agreed) -> Self {
        match compression {
            Agreed::None => Encoder::None,
            Agreed::Snappy => Encoder::Snappy(Box::new(FrameEncoder::new(Vec::new()))),
            Agreed::Deflate { level } => Encoder::Deflate(Compress::new(flate2::Compression::new(level), false)),
        }
    }

    fn encode(&mut self, mut bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Encoder::None => Ok(bytes.to_vec()),
            Encoder::Snappy(encoder) => {
                encoder.write_all(bytes)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Deflate(compress) => {
                let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
                loop {
                    let before = compress.total_in();
                    compress.compress_vec(bytes, &mut out, FlushCompress::Sync).map_err(io::Error::other)?;
                    bytes = &bytes[(compress.total_in() - before) as usize..];
                    // Unused capacity means that everything is written, including the flush.
                    if bytes.is_empty() && out.len() < out.capacity() {
                        return Ok(out);
                    }
                    out.reserve(CHUNK_BYTES);
                }
            }
        }
    }
}

enum Decoder {
    None,
    Snappy { decoder: Box<FrameDecoder<Chunks>> },
    Deflate(Decompress),
}

impl Decoder {
    fn new(compression: Agreed) -> Self {
        match compression {
            Agreed::None => Decoder::None,
            Agreed::Snappy => Decoder::Snappy { decoder: Box::new(FrameDecoder::new(Chunks::default())) },
            Agreed::Deflate { .. } => Decoder::Deflate(Decompress::new(false)),
        }
    }

    fn decode(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Decoder::None => plain.extend_from_slice(bytes),
            Decoder::Snappy { decoder } => {
                decoder.get_mut().push(bytes);
                decoder.read_to_end(plain)?;
            }
            Decoder::Deflate(decompress) => loop {
                plain.reserve(CHUNK_BYTES);
                let before = decompress.total_in();
                let status =
                    decompress.decompress_vec(bytes, plain, FlushDecompress::Sync).map_err(io::Error::other)?;
                bytes = &bytes[(decompress.total_in() - before) as usize..];
                if status == Status::StreamEnd {
                    // nsqd never ends a stream: later bytes could not be decoded.
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the deflate stream has an end"));
                }
                if bytes.is_empty() && plain.len() < plain.capacity() {
                    break;
                }
            },
        }
        Ok(())
    }
}

/// The bytes of a snappy stream. Reading ends where the next chunk is incomplete, so the decoder stops between chunks and
/// continues when more bytes arrive.
#[derive(Default)]
struct Chunks {
    bytes: Vec<u8>,
    start: usize,
    /// The end of the last whole chunk.
    whole: usize,
}

impl Chunks {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.whole -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
        // Each chunk: one byte of type, three of length, little-endian.
        while let Some(&[_, low, middle, high]) = self.bytes[self.whole..].first_chunk::<4>() {
            let next = self.whole + 4 + u32::from_le_bytes([low, middle, high, 0]) as usize;
            if next > self.bytes.len() {
                break;
            }
            self.whole = next;
        }
    }
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = Read::read(&mut &self.bytes[self.start..self.whole], into)?;
        self.start += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_compressed_comes_back_however_it_is_cut(
            writes in proptest::collection::vec(proptest::collection::vec(0..4u8, 1..2000), 1..8), cut in 1..700usize,
        ) {
            for agreed in [Agreed::None, Agreed::Snappy, Agreed::Deflate { level: 6 }] {
                let (mut encoder, mut decoder) = (Encoder::new(agreed), Decoder::new(agreed));
                let mut plain = Vec::new();
                let mut sent: Vec<u8> = Vec::new();
                for write in &writes {
                    sent.extend(write);
                    for piece in encoder.encode(write).unwrap().chunks(cut) {
                        decoder.decode(piece, &mut plain).unwrap();
                    }
                    prop_assert_eq!(&plain, &sent, "every write is flushed");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for agreed in [Agreed::Snappy, Agreed::Deflate { level: 6 }] {
                let _ = Decoder::new(agreed).decode(&bytes, &mut Vec::new());
            }
        }
    }

    #[test]
    fn a_deflate_stream_that_ends_is_an_error() {
        let mut compress = Compress::new(flate2::Compression::new(6), false);
        let mut ended = Vec::with_capacity(1000);
        compress.compress_vec(b"the end", &mut ended, FlushCompress::Finish).unwrap();
        ended.extend_from_slice(b"more");
        assert!(Decoder::new(Agreed::Deflate { level: 6 }).decode(&ended, &mut Vec::new()).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        assert!(Decoder::new(Agreed::Snappy).decode(b"\xff\x06\x00\x00sNaPpX", &mut Vec::new()).is_err());
        assert!(Decoder::new(Agreed::Deflate { level: 1 }).decode(&[0xff; 64], &mut Vec::new()).is_err());
    }
}
