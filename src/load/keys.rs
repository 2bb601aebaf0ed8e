//! The keys of messages, and which messages have no payload.

use rand::RngExt;
use rand::distr::Uniform;
use rand_distr::Zipf;

use super::live::write_right_aligned;
use super::random::{Generator, Purpose, generator};
use crate::scenario::Keys;

const PREFIX: &[u8] = b"key-";
const MIN_DIGITS: usize = 6;
const MAX_DIGITS: usize = 20;

/// The keys of one producer's messages, `key-000042`, written in place.
///
/// All keys of a scenario are equally long, so those of a batch can lie side by side in one
/// buffer.
#[derive(Debug, Clone)]
pub struct KeySource {
    key: [u8; PREFIX.len() + MAX_DIGITS],
    length: usize,
    draw: Draw,
}

#[derive(Debug, Clone)]
enum Draw {
    None,
    RoundRobin {
        next: u64,
        distinct: u64,
    },
    Random {
        number: Uniform<u64>,
        generator: Generator,
    },
    /// Drawn by rejection, so exactly by its law, in constant time for any number of keys: J. Crease, "Zipf-distributed
    /// random numbers – rejection sampling", which `rand_distr` follows.
    Zipf {
        rank: Zipf<f64>,
        distinct: u64,
        generator: Generator,
    },
}

impl KeySource {
    /// Of producer `producer_index` (from 0) of `producers`; every producer has its own random stream of `seed`.
    ///
    /// In a round robin every producer goes through *all* keys, so that each topic sees each key; they start spread
    /// evenly over them, so that not all send the same key at once.
    pub fn new(keys: Keys, producer_index: usize, producers: usize, seed: u64) -> Self {
        let stream = || generator(seed, Purpose::Keys, producer_index as u64);
        // A scenario's `distinct` and `exponent` are above 0, so neither distribution can refuse them.
        let (distinct, draw) = match keys {
            Keys::None => (0, Draw::None),
            Keys::RoundRobin { distinct } => (distinct, round_robin(distinct, producer_index, producers)),
            Keys::Random { distinct } => match Uniform::new(0, distinct) {
                Ok(number) => (distinct, Draw::Random { number, generator: stream() }),
                Err(_) => (0, Draw::None),
            },
            Keys::Zipf { distinct, exponent } => match Zipf::new(distinct as f64, exponent) {
                Ok(rank) => (distinct, Draw::Zipf { rank, distinct, generator: stream() }),
                Err(_) => (0, Draw::None),
            },
        };
        let mut key = [0; PREFIX.len() + MAX_DIGITS];
        key[..PREFIX.len()].copy_from_slice(PREFIX);
        let length = match draw {
            Draw::None => 0,
            _ => PREFIX.len() + digits(distinct.saturating_sub(1)).max(MIN_DIGITS),
        };
        KeySource { key, length, draw }
    }

    /// Whether messages have no keys.
    pub fn is_none(&self) -> bool {
        matches!(self.draw, Draw::None)
    }

    /// The next message's key, valid until the one after is asked for; `None` when messages have none.
    #[inline]
    pub fn next_key(&mut self) -> Option<&[u8]> {
        let number = match &mut self.draw {
            Draw::None => return None,
            Draw::RoundRobin { next, distinct } => {
                let number = *next;
                *next = if number + 1 < *distinct { number + 1 } else { 0 };
                number
            }
            Draw::Random { number, generator } => generator.sample(*number),
            // The sampler's ranks count from 1; the upper bound guards against its rounding.
            Draw::Zipf { rank, distinct, generator } => (generator.sample(*rank) as u64).clamp(1, *distinct) - 1,
        };
        write_right_aligned(&mut self.key[PREFIX.len()..self.length], number, b'0');
        Some(&self.key[..self.length])
    }
}

fn round_robin(distinct: u64, producer_index: usize, producers: usize) -> Draw {
    let start = u128::from(distinct) * producer_index as u128 / producers.max(1) as u128;
    // `producer_index < producers`, so the start lies below `distinct` and fits.
    Draw::RoundRobin { next: start as u64, distinct }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

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

    fn number(source: &mut KeySource) -> u64 {
        let key = std::str::from_utf8(source.next_key().unwrap()).unwrap();
        key.strip_prefix("key-").unwrap().parse().unwrap()
    }

    fn counts(source: &mut KeySource, distinct: usize, messages: usize) -> Vec<u64> {
        let mut counts = vec![0; distinct];
        for _ in 0..messages {
            counts[number(source) as usize] += 1;
        }
        counts
    }

    /// Pearson's statistic, against a probability for each key.
    fn chi_squared(counts: &[u64], probability: impl Fn(usize) -> f64) -> f64 {
        let messages = counts.iter().sum::<u64>() as f64;
        let cell = |(key, count): (usize, &u64)| {
            let expected = messages * probability(key);
            (*count as f64 - expected).powi(2) / expected
        };
        counts.iter().enumerate().map(cell).sum()
    }

    #[test]
    fn messages_may_have_no_key() {
        let mut source = KeySource::new(Keys::None, 0, 1, 1);
        assert_eq!(source.next_key(), None);
    }

    #[test]
    fn keys_are_equally_long_and_long_enough() {
        let mut source = KeySource::new(Keys::RoundRobin { distinct: 43 }, 42, 43, 1);
        assert_eq!(source.next_key(), Some(&b"key-000042"[..]));
        assert_eq!(source.next_key(), Some(&b"key-000000"[..]));
        for distinct in [1, 1_000_000, 1_000_001, u64::MAX] {
            for keys in
                [Keys::RoundRobin { distinct }, Keys::Random { distinct }, Keys::Zipf { distinct, exponent: 1.1 }]
            {
                let mut source = KeySource::new(keys, 0, 1, 1);
                let length = 4 + (distinct - 1).to_string().len().max(6);
                for _ in 0..100 {
                    assert_eq!(source.next_key().unwrap().len(), length);
                }
            }
        }
    }

    #[test]
    fn round_robin_producers_go_through_all_keys() {
        for producers in [1, 3, 4, 20] {
            let mut first = std::collections::HashSet::new();
            for producer_index in 0..producers {
                let mut source = KeySource::new(Keys::RoundRobin { distinct: 10 }, producer_index, producers, 1);
                let start = number(&mut source);
                first.insert(start);
                for step in 1..30 {
                    assert_eq!(number(&mut source), (start + step) % 10);
                }
            }
            assert_eq!(first.len(), producers.min(10));
        }
    }

    #[test]
    fn random_keys_are_uniform() {
        let counts = counts(&mut KeySource::new(Keys::Random { distinct: 100 }, 0, 1, 1), 100, 100_000);
        // 99 degrees of freedom: beyond 148.2 with probability 0.001.
        let statistic = chi_squared(&counts, |_| 0.01);
        assert!(statistic < 148.2, "{statistic}");
    }

    #[test]
    fn zipf_keys_follow_their_law() {
        for exponent in [0.5, 1.0, 1.5] {
            let keys = Keys::Zipf { distinct: 100, exponent };
            let counts = counts(&mut KeySource::new(keys, 0, 1, 1), 100, 200_000);
            let weight = |key: usize| ((key + 1) as f64).powf(-exponent);
            let all: f64 = (0..100).map(weight).sum();
            let statistic = chi_squared(&counts, |key| weight(key) / all);
            assert!(statistic < 148.2, "exponent {exponent}: {statistic}");
        }
    }

    #[test]
    fn producers_draw_independently_and_repeatably() {
        let keys = Keys::Random { distinct: 1_000_000 };
        let draw = |producer_index, seed| {
            let mut source = KeySource::new(keys, producer_index, 8, seed);
            (0..100).map(|_| number(&mut source)).collect::<Vec<_>>()
        };
        assert_eq!(draw(0, 1), draw(0, 1));
        assert_ne!(draw(0, 1), draw(1, 1));
        assert_ne!(draw(0, 1), draw(0, 2));
    }

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
