//! Compresses batches with as many compressors as there are cores.
//!
//! The buffers for a whole batch and its compressed form belong to the compressor and not to the worker: more workers than
//! cores do not compress faster, and would only hold more memory.

use std::num::NonZero;
use std::{io, thread};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::config::Compression;

/// The buffer for what is compressed grows in steps of this, for bodies differ by little.
const OUTPUT_STEP_BYTES: usize = 1 << 20;

/// The compressors that all workers share.
pub struct Compressors {
    idle: Mutex<Vec<Compressor>>,
    returned: Condvar,
}

/// Buffers that are kept from one batch to the next.
#[derive(Default)]
struct Compressor {
    body: Vec<u8>,
    output: Vec<u8>,
}

impl Default for Compressors {
    fn default() -> Self {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        Compressors { idle: Mutex::new((0..count).map(|_| Compressor::default()).collect()), returned: Condvar::new() }
    }
}

impl Compressors {
    /// Lets `fill` write a body and compresses it: the body as it is sent, and its size before. Waits, blocking its thread,
    /// while all compressors are in use.
    ///
    /// # Errors
    /// The compressor's.
    pub fn compress(
        &self,
        compression: Compression,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(Bytes, usize), io::Error> {
        let mut idle = self.idle.lock();
        self.returned.wait_while(&mut idle, |idle| idle.is_empty());
        let mut compressor = idle.pop().unwrap_or_default();
        drop(idle);
        compressor.body.clear();
        fill(&mut compressor.body);
        let (body_bytes, body) = (compressor.body.len(), compressor.compress(compression));
        self.idle.lock().push(compressor);
        self.returned.notify_one();
        Ok((body?, body_bytes))
    }
}

impl Compressor {
    /// What is in `body`, compressed. Uncompressed, it is the buffer itself.
    fn compress(&mut self, compression: Compression) -> Result<Bytes, io::Error> {
        let most = match compression {
            Compression::None => return Ok(Bytes::from(std::mem::take(&mut self.body))),
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(self.body.len()),
            Compression::Zstd => zstd::zstd_safe::compress_bound(self.body.len()),
        };
        if self.output.len() < most {
            // New memory that is zero already costs nothing until it is written to, and most of it never is.
            self.output = vec![0; most.next_multiple_of(OUTPUT_STEP_BYTES)];
        }
        let size = match compression {
            Compression::Zstd => zstd::bulk::compress_to_buffer(&self.body, &mut self.output, 1)?,
            _ => lz4_flex::block::compress_into(&self.body, &mut self.output).map_err(io::Error::other)?,
        };
        Ok(Bytes::copy_from_slice(&self.output[..size]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_comes_back() {
        let compressors = Compressors::default();
        for repeats in [100, 100_000, 1] {
            let text = b"content_key_1abcdefgh".repeat(repeats);
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                let (sent, size) = compressors.compress(compression, |body| body.extend(&text)).unwrap();
                let back = match compression {
                    Compression::None => sent.to_vec(),
                    Compression::Lz4 => lz4_flex::block::decompress(&sent, size).unwrap(),
                    Compression::Zstd => zstd::bulk::decompress(&sent, size).unwrap(),
                };
                assert!(back == text && size == text.len(), "{compression:?} of {size} bytes");
            }
        }
    }

    #[test]
    fn more_threads_than_compressors_all_have_their_turn() {
        let compressors = Compressors { idle: Mutex::new(vec![Compressor::default()]), returned: Condvar::new() };
        thread::scope(|scope| {
            for number in 0..8_u8 {
                let compressors = &compressors;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let (sent, _) =
                            compressors.compress(Compression::Lz4, |body| body.extend([number; 1000])).unwrap();
                        assert_eq!(lz4_flex::block::decompress(&sent, 1000).unwrap(), [number; 1000]);
                    }
                });
            }
        });
        assert_eq!(compressors.idle.lock().len(), 1);
    }
}
