//! Payloads without meaning: zeros, which compress to nothing, and random bytes, which compress as far as asked.

use rand::{Rng, RngExt};

use super::size;
use crate::load::LoadError;
use crate::load::draft::{Draft, check_limit};
use crate::load::random::{Purpose, generator};
use crate::scenario::Size;

/// All payloads are the beginning of the same stretch of zeros.
pub(super) fn zeros(size: &Size, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = size::draw(size, count, seed)?;
    let largest = sizes.iter().copied().max().unwrap_or(0);
    check_limit(count, largest as u128)?;
    Ok(Draft { bytes: vec![0; largest], ranges: sizes.into_iter().map(|size| 0..size).collect(), ..Draft::default() })
}

/// The run of one byte comes last, so that a trace header written over the beginning changes little of what a compressor
/// finds.
pub(super) fn random(size: &Size, compressibility: f64, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = size::draw(size, count, seed)?;
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, size::total(&sizes))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_share_one_stretch() {
        let draft = zeros(&Size::Choices(vec![(10, 1.0), (1000, 1.0)]), 64, 1).unwrap();
        assert_eq!(draft.bytes, vec![0; 1000]);
        assert_eq!(draft.ranges.len(), 64);
    }

    #[test]
    fn the_stated_share_of_every_payload_repeats_one_byte() {
        let draft = random(&Size::Fixed(1000), 0.75, 8, 1).unwrap();
        for range in draft.ranges {
            let payload = &draft.bytes[range];
            let last = payload[999];
            let run = payload.iter().rev().take_while(|byte| **byte == last).count();
            assert!((750..755).contains(&run), "{run}");
        }
    }

    #[test]
    fn random_bytes_are_spread_evenly() {
        let draft = random(&Size::Fixed(256_000), 0.0, 1, 1).unwrap();
        let mut counts = [0_i64; 256];
        draft.bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // Chi-squared with 255 degrees of freedom: beyond 330.5 with probability 0.001.
        let chi_squared: f64 = counts.iter().map(|count| ((count - 1000) * (count - 1000)) as f64 / 1000.0).sum();
        assert!(chi_squared < 330.5, "{chi_squared}");
    }

    #[test]
    fn too_large_a_pool_is_refused_before_it_is_made() {
        for make in [zeros(&Size::Fixed(usize::MAX), 2, 1), random(&Size::Fixed(usize::MAX), 0.0, 2, 1)] {
            assert!(matches!(make, Err(LoadError::PoolTooLarge { .. })));
        }
        assert!(zeros(&Size::Fixed(1), usize::MAX, 1).is_err());
    }
}
