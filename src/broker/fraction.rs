//! A fraction of messages that something is done with: exact, evenly spread, and the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the item of this number, from 0, is among the fraction. Of the first `n` items, exactly `floor(n × fraction)` are.
#[inline]
pub fn is_sampled(number: u64, fraction: f64) -> bool {
    ((number + 1) as f64 * fraction).floor() > (number as f64 * fraction).floor()
}

/// Chooses items one after another. Several threads may use it.
#[derive(Debug)]
pub struct FractionSampler {
    fraction: f64,
    /// The number of the next item.
    next: AtomicU64,
}

impl FractionSampler {
    /// `fraction`: from 0 to 1.
    pub fn new(fraction: f64) -> Self {
        FractionSampler { fraction, next: AtomicU64::new(0) }
    }

    /// Whether the next item is among them.
    #[inline]
    pub fn takes_next(&self) -> bool {
        self.fraction > 0.0 && is_sampled(self.next.fetch_add(1, Ordering::Relaxed), self.fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fraction_is_exact_and_evenly_spread() {
        for (fraction, of_1000) in [(0.0, 0), (0.01, 10), (0.25, 250), (0.1, 100), (1.0, 1000)] {
            let sampler = FractionSampler::new(fraction);
            assert_eq!((0..1000).filter(|_| sampler.takes_next()).count(), of_1000, "{fraction}");
        }
        let tenth: Vec<u64> = (0..20).filter(|number| is_sampled(*number, 0.1)).collect();
        assert_eq!(tenth, [9, 19]);
    }
}
