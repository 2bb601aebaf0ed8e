//! Payloads of bytes: zeros, which compress to nothing; random bytes, which compress as far as asked; embedding vectors, as a vector database
//! receives them; and random bytes as MessagePack writes them, which is what a client that serialises its messages puts on the wire.

use rand::{Rng, RngExt};

use super::draft::{Draft, check_limit, draw_sizes, total};
use crate::load::LoadError;
use crate::load::random::{Purpose, generator};
use crate::scenario::Size;

/// All payloads are the beginning of the same stretch of zeros.
pub(super) fn zeros(size: &Size, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = draw_sizes(size, count, seed)?;
    let largest = sizes.iter().copied().max().unwrap_or(0);
    check_limit(count, largest as u128)?;
    Ok(Draft { bytes: vec![0; largest], ranges: sizes.into_iter().map(|size| 0..size).collect(), ..Draft::default() })
}

/// The run of one byte comes last, so that a trace header written over the beginning changes little of what a compressor
/// finds.
pub(super) fn random(size: &Size, compressibility: f64, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = draw_sizes(size, count, seed)?;
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, total(&sizes))?;
    for size in sizes {
        let repeated = ((size as f64 * compressibility).round() as usize).min(size);
        let byte: u8 = generator.random();
        draft.push(|bytes| {
            let start = bytes.len();
            bytes.resize(start + size, byte);
            generator.fill_bytes(&mut bytes[start..start + size - repeated]);
        })?;
    }
    Ok(draft)
}

/// `dimension` little-endian 32-bit floats each, uniform in [0, 1).
pub(super) fn vectors(dimension: usize, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, dimension as u128 * count as u128 * size_of::<f32>() as u128)?;
    for _ in 0..count {
        draft.push(|bytes| {
            for _ in 0..dimension {
                bytes.extend_from_slice(&generator.random::<f32>().to_le_bytes());
            }
        })?;
    }
    Ok(draft)
}

/// The longest head of a `bin`: its mark and a length of 32 bits.
const MAX_HEAD: usize = 5;

/// Each payload is one value of the type `bin` with as many random bytes as the size asks for.
pub(super) fn message_pack(size: &Size, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = draw_sizes(size, count, seed)?;
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, total(&sizes) + (count * MAX_HEAD) as u128)?;
    for size in sizes {
        let length = u32::try_from(size).unwrap_or(u32::MAX);
        draft.push(|bytes| {
            // Writing to memory cannot fail.
            let _ = rmp::encode::write_bin_len(bytes, length);
            let start = bytes.len();
            bytes.resize(start + length as usize, 0);
            generator.fill_bytes(&mut bytes[start..]);
        })?;
    }
    Ok(draft)
}

#[cfg(test)]
#[path = "../../../tests/unit/load/payload/binary.rs"]
mod tests;
