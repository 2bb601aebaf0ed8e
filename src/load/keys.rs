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
#[path = "../../tests/unit/load/keys.rs"]
mod tests;
