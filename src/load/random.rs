//! Seeded random streams: the same seed gives the same load.
//!
//! Bytes, integers and choices are the same on every machine. What goes through a logarithm or a power (normal sizes,
//! Zipf keys, Poisson gaps) rests on the platform's mathematics library, which may differ in a last digit.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Named rather than `SmallRng`, whose algorithm differs between platforms and versions of `rand`.
pub(super) type Generator = Xoshiro256PlusPlus;

/// What a stream is drawn for: each purpose has its own, so that more of one never shifts another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Sizes = 1,
    Content = 2,
    Keys = 3,
    Arrivals = 4,
    Tombstones = 5,
    Work = 6,
}

/// The stream of `seed` for `purpose`, the `index`-th of its kind (the producer index).
pub(super) fn generator(seed: u64, purpose: Purpose, index: u64) -> Generator {
    // Each word is mixed by the generator's own seeding before the next is added: neighbouring seeds and producer indices
    // end up far apart, and (seed, producer_index) never meets (seed + 1, producer_index - 1).
    let mixed = mix(mix(seed) ^ purpose as u64) ^ index;
    Generator::seed_from_u64(mixed)
}

fn mix(word: u64) -> u64 {
    rand::Rng::next_u64(&mut Generator::seed_from_u64(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use std::collections::HashSet;

    #[test]
    fn random_streams_differ_by_seed_purpose_and_index() {
        let mut first_words = HashSet::new();
        for seed in 0..8 {
            let purposes = [
                Purpose::Sizes,
                Purpose::Content,
                Purpose::Keys,
                Purpose::Arrivals,
                Purpose::Tombstones,
                Purpose::Work,
            ];
            for purpose in purposes {
                for index in 0..8 {
                    let word = generator(seed, purpose, index).next_u64();
                    assert_eq!(word, generator(seed, purpose, index).next_u64());
                    assert!(first_words.insert(word), "{seed} {purpose:?} {index}");
                }
            }
        }
    }
}
