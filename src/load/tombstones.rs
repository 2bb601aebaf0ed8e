//! Which messages have no payload.

use rand::RngExt;

use super::random::{Generator, Purpose, generator};

/// Decides message by message of one producer.
#[derive(Debug, Clone)]
pub struct TombstoneSource {
    share: f64,
    /// `None`: every message has a payload.
    generator: Option<Generator>,
}

impl TombstoneSource {
    /// Of producer `producer_index` (from 0), with `share` of the messages. Every producer has its own random stream of `seed`.
    pub fn new(share: f64, producer_index: usize, seed: u64) -> Self {
        let stream = || generator(seed, Purpose::Tombstones, producer_index as u64);
        TombstoneSource { share, generator: (share > 0.0).then(stream) }
    }

    /// Whether the next message has no payload.
    #[inline]
    pub fn next_is_tombstone(&mut self) -> bool {
        self.generator.as_mut().is_some_and(|generator| generator.random::<f64>() < self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(share: f64, producer_index: usize, seed: u64) -> Vec<bool> {
        let mut source = TombstoneSource::new(share, producer_index, seed);
        (0..10_000).map(|_| source.next_is_tombstone()).collect()
    }

    #[test]
    fn the_share_is_kept_and_the_seed_decides_which() {
        let first = drawn(0.1, 0, 7);
        let tombstones = first.iter().filter(|tombstone| **tombstone).count();
        // Five standard deviations of 10,000 draws.
        assert!(tombstones.abs_diff(1_000) <= 150, "{tombstones}");
        assert_eq!(first, drawn(0.1, 0, 7));
        assert_ne!(first, drawn(0.1, 1, 7));
        assert_ne!(first, drawn(0.1, 0, 8));
        assert!(!drawn(0.0, 0, 7).contains(&true));
    }
}
