//! Embedding vectors, as a vector database receives them.

use rand::RngExt;

use crate::load::LoadError;
use crate::load::draft::Draft;
use crate::load::random::{Purpose, generator};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_little_endian_and_uniform() {
        let draft = vectors(1 << 15, 2, 1).unwrap();
        assert_eq!(draft.ranges, [0..1 << 17, 1 << 17..1 << 18]);
        let floats = draft.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        assert!(floats.clone().all(|float| (0.0..1.0).contains(&float)));
        let mean = floats.map(f64::from).sum::<f64>() / f64::from(1 << 16);
        // The mean of 65,536 has a standard deviation of 0.0011.
        assert!((mean - 0.5).abs() < 0.0045, "{mean}");
    }
}
