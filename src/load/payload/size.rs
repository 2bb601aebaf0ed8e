//! Payload sizes, drawn before any payload is made so that the whole pool's size is known.

use rand::RngExt;
use rand::distr::weighted::WeightedIndex;
use rand_distr::Normal;

use crate::load::LoadError;
use crate::load::draft::check_limit;
use crate::load::random::{Purpose, generator};
use crate::scenario::Size;

/// `count` sizes in bytes.
pub(super) fn draw(size: &Size, count: usize, seed: u64) -> Result<Vec<usize>, LoadError> {
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
pub(super) fn total(sizes: &[usize]) -> u128 {
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
        let sizes = draw(&Size::Uniform { min: 10, max: 20 }, COUNT, 1).unwrap();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&10), Some(&20)));
        assert!((mean(&sizes) - 15.0).abs() < 0.1, "{}", mean(&sizes));
    }

    #[test]
    fn normal_sizes_have_their_mean_and_deviation_and_are_cut_off() {
        let sizes = draw(&Size::Normal { mean: 1000.0, deviation: 100.0, max: 10_000 }, COUNT, 1).unwrap();
        let mean_size = mean(&sizes);
        let variance = sizes.iter().map(|size| (*size as f64 - mean_size).powi(2)).sum::<f64>() / COUNT as f64;
        assert!((mean_size - 1000.0).abs() < 5.0, "{mean_size}");
        assert!((variance.sqrt() - 100.0).abs() < 3.0, "{}", variance.sqrt());

        let sizes = draw(&Size::Normal { mean: 10.0, deviation: 100.0, max: 50 }, COUNT, 1).unwrap();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&50)));
    }

    #[test]
    fn choices_come_in_the_ratio_of_their_weights() {
        let sizes = draw(&Size::Choices(vec![(100, 3.0), (900, 1.0)]), COUNT, 1).unwrap();
        let small = sizes.iter().filter(|size| **size == 100).count();
        assert!((small as f64 / COUNT as f64 - 0.75).abs() < 0.01, "{small}");
    }

    #[test]
    fn an_impossible_distribution_is_an_error() {
        let error = draw(&Size::Choices(vec![]), 1, 1).unwrap_err();
        assert!(error.to_string().contains("payload.size"), "{error}");
        assert!(draw(&Size::Normal { mean: f64::NAN, deviation: f64::NAN, max: 1 }, 1, 1).is_err());
        assert!(draw(&Size::Uniform { min: 2, max: 1 }, 1, 1).is_err());
    }
}
