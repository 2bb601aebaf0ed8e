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
        for keys in [Keys::RoundRobin { distinct }, Keys::Random { distinct }, Keys::Zipf { distinct, exponent: 1.1 }] {
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
