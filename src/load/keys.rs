//! The keys of messages.

use rand::RngExt;
use rand::distr::Uniform;
use rand_distr::Zipf;

use super::digits::write_right_aligned;
use super::random::{Generator, Purpose, generator};
use crate::scenario::Keys;

const PREFIX: &[u8] = b"key-";
const LEAST_DIGITS: usize = 6;
const MOST_DIGITS: usize = 20;

/// The keys of one producer's messages, `key-000042`, written in place.
///
/// All keys of a scenario are equally long ([`KeySource::key_length`]), so those of a batch can lie side by side in one
/// buffer.
#[derive(Debug, Clone)]
pub struct KeySource {
    key: [u8; PREFIX.len() + MOST_DIGITS],
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
    /// Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone
    /// discrete distributions", ACM TOMACS 6 (1996), as `rand_distr` has it: constant time for any number of keys.
    Zipf {
        rank: Zipf<f64>,
        distinct: u64,
        generator: Generator,
    },
}

impl KeySource {
    /// Of producer `slot` (from 0) of `producers`; every slot has its own random stream of `seed`.
    ///
    /// In a round robin every producer goes through *all* keys, so that each topic sees each key; they start spread
    /// evenly over them, so that not all send the same key at once.
    pub fn new(keys: Keys, slot: usize, producers: usize, seed: u64) -> Self {
        let stream = || generator(seed, Purpose::Keys, slot as u64);
        let (distinct, draw) = match keys {
            Keys::None => (0, Draw::None),
            Keys::RoundRobin { distinct } => (distinct, round_robin(distinct, slot, producers)),
            Keys::Random { distinct } => match Uniform::new(0, distinct) {
                Ok(number) => (distinct, Draw::Random { number, generator: stream() }),
                Err(_) => (0, Draw::None),
            },
            Keys::Zipf { distinct, exponent } => match Zipf::new(distinct as f64, exponent) {
                Ok(rank) => (distinct, Draw::Zipf { rank, distinct, generator: stream() }),
                Err(_) => (0, Draw::None),
            },
        };
        let mut key = [0; PREFIX.len() + MOST_DIGITS];
        key[..PREFIX.len()].copy_from_slice(PREFIX);
        let length = match draw {
            Draw::None => 0,
            _ => PREFIX.len() + digits(distinct.saturating_sub(1)).max(LEAST_DIGITS),
        };
        KeySource { key, length, draw }
    }

    /// Bytes of every key; 0 when messages have none.
    pub fn key_length(&self) -> usize {
        self.length
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

fn round_robin(distinct: u64, slot: usize, producers: usize) -> Draw {
    let start = u128::from(distinct) * slot as u128 / producers.max(1) as u128;
    // `slot < producers`, so the start lies below `distinct` and fits.
    Draw::RoundRobin { next: start as u64, distinct }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
