//! A topic of a client: its partitions, and the one that is filled with messages which may go to any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::partition::{Limits, Partition};

/// The partitions of a topic.
pub struct TopicRoutes {
    pub name: Arc<str>,
    pub partitions: Vec<Arc<Partition>>,
    /// The partition whose turn is next, how many bytes are left of the turn that goes on, and when that one ends, in nanoseconds
    /// since the trial's epoch.
    next: AtomicUsize,
    left_bytes: AtomicUsize,
    ends_ns: AtomicU64,
}

impl TopicRoutes {
    /// Turns begin with the partition `begin`, counted on from the first after the last one.
    pub fn new(name: &str, partitions: usize, begin: usize, identity: Option<(i64, i16)>) -> Self {
        let name: Arc<str> = name.into();
        let partition = |index| Arc::new(Partition::new(name.clone(), index as i32, identity));
        TopicRoutes {
            partitions: (0..partitions).map(partition).collect(),
            name,
            next: AtomicUsize::new(begin),
            left_bytes: AtomicUsize::new(0),
            ends_ns: AtomicU64::new(0),
        }
    }

    /// The partition for `bytes`, sent at `now_ns`, that may go to any.
    ///
    /// Each partition has its turn: for as many bytes as a batch takes (KIP-794), and for twice `linger` at most, as in librdkafka
    /// (`sticky.partitioning.linger.ms`), so that a slow producer loads all partitions too. The next one follows in turn, not at random.
    pub fn any(&self, bytes: usize, now_ns: u64, limits: &Limits) -> usize {
        let partitions = self.partitions.len();
        if partitions == 1 {
            return 0;
        }
        let left = self.left_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let next = self.next.load(Ordering::Relaxed);
        // The producer that takes the last of the turn begins the next one; a subtraction below zero wraps to a number beyond any turn.
        if left > bytes && left <= limits.batch_bytes && now_ns < self.ends_ns.load(Ordering::Relaxed) {
            return next.wrapping_sub(1) % partitions;
        }
        self.left_bytes.store(limits.batch_bytes, Ordering::Relaxed);
        self.ends_ns.store(now_ns + 2 * limits.linger.as_nanos() as u64, Ordering::Relaxed);
        self.next.fetch_add(1, Ordering::Relaxed) % partitions
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
}
