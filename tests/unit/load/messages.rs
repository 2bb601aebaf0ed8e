use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::load::payload::Field;
use crate::scenario::template::Template;
use crate::scenario::{Content, Size};

fn build(content: Content, pool: usize, seed: u64) -> PayloadPool {
    PayloadPool::build(&Payload { content, pool, seed, tombstones: 0.0 }, 32).unwrap()
}

fn template(text: &str) -> Content {
    Content::Template { template: Template::parse(text).unwrap() }
}

fn everything(pool: &PayloadPool) -> Vec<&[u8]> {
    (0..pool.len() as u64).map(|index| pool.get(index)).collect()
}

#[test]
fn payloads_depend_on_the_seed_alone() {
    for content in [
        Content::Random { size: Size::Uniform { min: 10, max: 100 }, compressibility: 0.3 },
        Content::MessagePack { size: Size::Fixed(10) },
        template("${random:0..1000000000}"),
        Content::Vector { dimension: 8 },
        Content::Log { range: 1_000_000_000 },
    ] {
        let [first, again, other] = [7, 7, 8].map(|seed| build(content.clone(), 16, seed));
        assert_eq!(everything(&first), everything(&again), "{content:?}");
        assert_ne!(everything(&first), everything(&other), "{content:?}");
    }
}

#[test]
fn payloads_are_taken_in_turn_whatever_their_number() {
    for count in [1, 3, 4, 10] {
        let pool = build(Content::Vector { dimension: 16 }, count, 1);
        assert_eq!(pool.len(), count);
        for index in 0..count as u64 {
            let later = index + 1_000_000_007 * count as u64;
            assert_eq!(pool.get(index).as_ptr(), pool.get(later).as_ptr());
            assert_eq!(pool.checksum(index), pool.checksum(later));
        }
    }
}

#[test]
fn checksums_cover_the_bytes_after_the_trace_header() {
    let pool = build(Content::Random { size: Size::Uniform { min: 0, max: 100 }, compressibility: 0.0 }, 64, 1);
    assert!(pool.smallest() < 32 && pool.largest() > 32);
    for index in 0..64 {
        let payload = pool.get(index);
        let expected = if payload.len() <= 32 { 0 } else { crc32fast::hash(&payload[32..]) };
        assert_eq!(pool.checksum(index), expected);
    }
}

#[test]
fn sizes_are_those_of_the_payloads() {
    let pool = build(Content::Zeros { size: Size::Choices(vec![(10, 1.0), (20, 1.0)]) }, 100, 1);
    assert_eq!((pool.smallest(), pool.largest()), (10, 20));
}

#[test]
fn the_pool_holds_its_payloads_and_nothing_else() {
    let pool = build(Content::Vector { dimension: 4 }, 4, 1);
    assert!((0..4).all(|index| pool.holds(pool.get(index))));
    assert!((0..4).all(|index| pool.at(pool.place(pool.get(index)).unwrap()) == pool.get(index)));
    let copy = pool.get(0).to_vec();
    assert!(!pool.holds(&copy));
    let moved = Box::new(pool);
    assert!(moved.holds(&moved.get(3)[1..]));
}

#[test]
fn live_fields_are_filled_in_without_touching_the_pool() {
    let text = r#"{"id":${counter},"t":${timestamp},"d":"${choice:a|bcd}"}"#;
    let pool = build(template(text), 8, 1);
    let before = pool.get(5).to_vec();
    let mut scratch = Vec::new();
    let mut ranges = Vec::new();
    for index in 0..8 {
        ranges.push(pool.live(index).unwrap().render(&mut scratch, 40 + index, 1_700_000_000_123_456_789));
    }
    for (index, range) in ranges.into_iter().enumerate() {
        assert_eq!(range.len(), pool.get(index as u64).len());
        let value: serde_json::Value = serde_json::from_slice(&scratch[range]).unwrap();
        assert_eq!(value["id"], 40 + index);
        assert_eq!(value["t"], 1_700_000_000.123456);
    }
    assert_eq!(pool.get(5), before);
    let still = build(template("${choice:a|b}"), 8, 1);
    assert!(still.live(0).is_none());
}

#[test]
fn errors_reach_the_caller() {
    let file = PathBuf::from("/no/such/file");
    let payload = Payload { content: Content::Lines { file }, pool: 1, seed: 1, tombstones: 0.0 };
    assert!(matches!(PayloadPool::build(&payload, 32), Err(LoadError::Unreadable { .. })));
}

fn rendered(field: Field, counter: u64, now_unix_ns: u64) -> String {
    let text = vec![b'?'; field.columns()];
    let slots = [Slot { offset: 0, field }];
    let mut scratch = b"before".to_vec();
    let range = LiveFields { text: &text, slots: &slots }.render(&mut scratch, counter, now_unix_ns);
    assert_eq!(range.start, 6);
    String::from_utf8(scratch[range].to_vec()).unwrap()
}

#[test]
fn counters_are_padded_to_their_columns_and_turn_over() {
    assert_eq!(rendered(Field::Counter, 42, 0), "          42");
    assert_eq!(rendered(Field::Counter, 1_000_000_000_042, 0), "000000000042");
    assert_eq!(rendered(Field::PaddedCounter(10), 42, 0), "0000000042");
    assert_eq!(rendered(Field::PaddedCounter(1), 42, 0), "2");
}

#[test]
fn times_are_unix_times() {
    assert_eq!(rendered(Field::Timestamp, 0, 1_700_000_000_123_456_789), "1700000000.123456");
    assert_eq!(rendered(Field::Timestamp, 0, 7_000_042_000), "         7.000042");
    assert_eq!(rendered(Field::TimestampMs, 0, 1_700_000_000_123_456_789), "1700000000123");
}

proptest! {
    #[test]
    fn agrees_with_formatting(value: u64, shift in 0..64u32, width in 1..24usize) {
        let value = value >> shift;
        let mut field = vec![b'?'; width];
        write_right_aligned(&mut field, value, b'0');
        let formatted = format!("{value:0width$}");
        prop_assert_eq!(field.as_slice(), &formatted.as_bytes()[formatted.len() - width..]);

        write_right_aligned(&mut field, value, b' ');
        let formatted = format!("{value:width$}");
        prop_assert_eq!(field.as_slice(), &formatted.as_bytes()[formatted.len() - width..]);
    }
}

#[test]
fn an_empty_field_stays_empty() {
    write_right_aligned(&mut [], 12, b'0');
}

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
