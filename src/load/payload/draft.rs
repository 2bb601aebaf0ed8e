//! The payloads that a generator family has made, before they become a pool, and their sizes.

use std::ops::Range;

use rand::RngExt;
use rand::distr::weighted::WeightedIndex;
use rand_distr::Normal;

use crate::limits::MAX_POOL_BYTES;
use crate::load::LoadError;
use crate::load::live::Slot;
use crate::load::random::{Purpose, generator};
use crate::scenario::Size;

/// What the pool notes of each payload.
pub const ENTRY_BYTES: usize = 24;

/// Payloads that a generator family has made so far.
#[derive(Debug, Default)]
pub struct Draft {
    pub bytes: Vec<u8>,
    /// Where each payload lies in `bytes`; payloads may share bytes.
    pub ranges: Vec<Range<usize>>,
    /// The live fields, the same number for each payload.
    pub slots: Vec<Slot>,
}

impl Draft {
    /// Capacity for payloads of `bytes` altogether.
    pub fn with_capacity(payloads: usize, bytes: u128) -> Result<Draft, LoadError> {
        check_limit(payloads, bytes)?;
        Ok(Draft {
            bytes: Vec::with_capacity(bytes as usize),
            ranges: Vec::with_capacity(payloads),
            ..Draft::default()
        })
    }

    /// Appends the payload that `write` appends to the bytes.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), LoadError> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.finish(start)
    }

    /// Makes what has been appended since `start` a payload.
    pub fn finish(&mut self, start: usize) -> Result<(), LoadError> {
        self.ranges.push(start..self.bytes.len());
        check_limit(self.ranges.len(), self.bytes.len() as u128)
    }
}

/// Counts the bookkeeping too, so that a thousand million tiny payloads are refused as well.
pub fn check_limit(payloads: usize, bytes: u128) -> Result<(), LoadError> {
    let bytes = bytes + (payloads as u128) * ENTRY_BYTES as u128;
    if bytes > MAX_POOL_BYTES as u128 {
        return Err(LoadError::PoolTooLarge { bytes, limit: MAX_POOL_BYTES });
    }
    Ok(())
}

/// `count` sizes in bytes.
pub fn draw_sizes(size: &Size, count: usize, seed: u64) -> Result<Vec<usize>, LoadError> {
    check_limit(count, 0)?;
    let mut generator = generator(seed, Purpose::Sizes, 0);
    let wrong = |reason: &dyn ToString| LoadError::Size { reason: reason.to_string() };
    Ok(match size {
        Size::Fixed(bytes) => vec![*bytes; count],
        Size::Uniform { min, max } if min > max => {
            return Err(wrong(&format!("the smallest, {min}, is above the largest, {max}")));
        }
        Size::Uniform { min, max } => {
            // Drawn as 64 bits, so that the sizes are the same where a `usize` is not.
            let (min, max) = (*min as u64, *max as u64);
            (0..count).map(|_| generator.random_range(min..=max) as usize).collect()
        }
        Size::Normal { mean, deviation, max } => {
            let normal = Normal::new(*mean, *deviation).map_err(|error| wrong(&error))?;
            (0..count).map(|_| (generator.sample(normal).round() as usize).clamp(1, (*max).max(1))).collect()
        }
        Size::Choices(choices) => {
            let weights = choices.iter().map(|(_, weight)| *weight);
            let index = WeightedIndex::new(weights).map_err(|error| wrong(&error))?;
            (0..count).map(|_| choices[generator.sample(&index)].0).collect()
        }
    })
}

/// The sum of `sizes`, which need not fit in memory.
pub fn total(sizes: &[usize]) -> u128 {
    sizes.iter().map(|size| *size as u128).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 20_000;

    fn mean(sizes: &[usize]) -> f64 {
        total(sizes) as f64 / sizes.len() as f64
    }

    #[test]
    fn uniform_sizes_reach_both_ends() {
        let sizes = draw_sizes(&Size::Uniform { min: 10, max: 20 }, COUNT, 1).unwrap();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&10), Some(&20)));
        assert!((mean(&sizes) - 15.0).abs() < 0.1, "{}", mean(&sizes));
    }

    #[test]
    fn normal_sizes_have_their_mean_and_deviation_and_are_cut_off() {
        let sizes = draw_sizes(&Size::Normal { mean: 1000.0, deviation: 100.0, max: 10_000 }, COUNT, 1).unwrap();
        let mean_size = mean(&sizes);
        let variance = sizes.iter().map(|size| (*size as f64 - mean_size).powi(2)).sum::<f64>() / COUNT as f64;
        assert!((mean_size - 1000.0).abs() < 5.0, "{mean_size}");
        assert!((variance.sqrt() - 100.0).abs() < 3.0, "{}", variance.sqrt());

        let sizes = draw_sizes(&Size::Normal { mean: 10.0, deviation: 100.0, max: 50 }, COUNT, 1).unwrap();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&50)));
    }

    #[test]
    fn choices_come_in_the_ratio_of_their_weights() {
        let sizes = draw_sizes(&Size::Choices(vec![(100, 3.0), (900, 1.0)]), COUNT, 1).unwrap();
        let small = sizes.iter().filter(|size| **size == 100).count();
        assert!((small as f64 / COUNT as f64 - 0.75).abs() < 0.01, "{small}");
    }

    #[test]
    fn an_impossible_distribution_is_an_error() {
        let error = draw_sizes(&Size::Choices(vec![]), 1, 1).unwrap_err();
        assert!(error.to_string().contains("payload.size"), "{error}");
        assert!(draw_sizes(&Size::Normal { mean: f64::NAN, deviation: f64::NAN, max: 1 }, 1, 1).is_err());
        assert!(draw_sizes(&Size::Uniform { min: 2, max: 1 }, 1, 1).is_err());
    }
}
