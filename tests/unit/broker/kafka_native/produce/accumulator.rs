use super::*;

const MILLISECOND: u64 = 1_000_000;

fn limits(linger: Duration) -> Limits {
    Limits { batch_bytes: 1_000, linger, delivery_timeout: Duration::from_secs(1) }
}

/// How often each of four partitions was chosen, by messages of 100 B at this distance.
fn chosen(messages: u64, distance_ns: u64, linger: Duration) -> [usize; 4] {
    let topic = TopicRoutes::new("orders", 4, 0, None, usize::MAX);
    let mut chosen = [0; 4];
    for number in 0..messages {
        chosen[topic.any(100, number * distance_ns, &limits(linger))] += 1;
    }
    chosen
}

#[test]
fn a_fast_producer_fills_one_batch_after_the_other() {
    assert_eq!(chosen(40, 0, Duration::from_millis(5)), [10, 10, 10, 10]);
    let topic = TopicRoutes::new("orders", 4, 0, None, usize::MAX);
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
