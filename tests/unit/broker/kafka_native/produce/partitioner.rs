use std::time::Duration;

use super::*;

/// From the tests of Kafka (`UtilsTest.testMurmur2`).
#[test]
fn hashes_are_those_of_java() {
    for (key, hash) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
    }
}

#[test]
fn keyless_messages_go_anywhere_if_the_partitioner_says_so() {
    for (partitioner, without, empty) in [
        (Partitioner::Random, None, None),
        (Partitioner::Consistent, Some(0), Some(0)),
        (Partitioner::ConsistentRandom, None, None),
        (Partitioner::Murmur2, Some(0x106e_08d9 % 7), Some(0x106e_08d9 % 7)),
        (Partitioner::Murmur2Random, None, Some(0x106e_08d9 % 7)),
    ] {
        assert_eq!(partitioner.partition(None, 7), without, "{partitioner:?}");
        assert_eq!(partitioner.partition(Some(b""), 7), empty, "{partitioner:?}");
    }
    // CRC-32 of "key", as zlib computes it.
    assert_eq!(Partitioner::ConsistentRandom.partition(Some(b"key"), 1000), Some(0x8a90_aba9 % 1000));
}

const MILLISECOND: u64 = 1_000_000;

fn limits(linger: Duration) -> Limits {
    Limits { batch_bytes: 1_000, linger, delivery_timeout: Duration::from_secs(1) }
}

/// How often each of four partitions was chosen, by messages of 100 B at this distance.
fn chosen(messages: u64, distance_ns: u64, linger: Duration) -> [usize; 4] {
    let topic = TopicRoutes::new("orders", 4, 0, None);
    let mut chosen = [0; 4];
    for number in 0..messages {
        chosen[topic.any(100, number * distance_ns, &limits(linger))] += 1;
    }
    chosen
}

#[test]
fn a_fast_producer_fills_one_batch_after_the_other() {
    assert_eq!(chosen(40, 0, Duration::from_millis(5)), [10, 10, 10, 10]);
    let topic = TopicRoutes::new("orders", 4, 0, None);
    let first: Vec<usize> = (0..11).map(|_| topic.any(100, 0, &limits(Duration::from_millis(5)))).collect();
    assert_eq!(first, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_slow_producer_loads_all_partitions() {
    assert_eq!(chosen(8, 10 * MILLISECOND, Duration::from_millis(5)), [2, 2, 2, 2]);
    assert_eq!(chosen(8, 5 * MILLISECOND, Duration::from_millis(5)), [2, 2, 2, 2]);
    assert_eq!(
        chosen(8, MILLISECOND, Duration::ZERO),
        [2, 2, 2, 2],
        "without `linger`, nothing waits for a fuller batch"
    );
}
