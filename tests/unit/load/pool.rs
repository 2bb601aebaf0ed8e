use std::path::PathBuf;

use super::*;
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
