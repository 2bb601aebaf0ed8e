//! A topic of a client: its partitions, and the one that is filled with messages which may go to any.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::partition::Partition;

/// The partitions of a topic.
pub struct TopicRoutes {
    pub name: Arc<str>,
    pub partitions: Vec<Arc<Partition>>,
    /// The partition that is filled, and how many bytes are left of its turn.
    sticky: AtomicUsize,
    left_bytes: AtomicUsize,
}

impl TopicRoutes {
    pub fn new(name: &str, partitions: usize, identity: Option<(i64, i16)>) -> Self {
        let name: Arc<str> = name.into();
        let partition = |index| Arc::new(Partition::new(name.clone(), index as i32, identity));
        TopicRoutes {
            partitions: (0..partitions).map(partition).collect(),
            name,
            sticky: AtomicUsize::new(0),
            left_bytes: AtomicUsize::new(0),
        }
    }

    /// The partition for `bytes` that may go to any. One is filled for as long as a batch of it takes, then the next one in turn: as
    /// KIP-794, but in turn instead of at random, so that all are loaded in the same way.
    pub fn any(&self, bytes: usize, batch_bytes: usize) -> usize {
        let partitions = self.partitions.len();
        if partitions == 1 {
            return 0;
        }
        let left = self.left_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let current = self.sticky.load(Ordering::Relaxed);
        // The producer that takes the last of the turn begins the next one; a subtraction below zero wraps to a number beyond any turn.
        if left > bytes && left <= batch_bytes {
            return current % partitions;
        }
        self.left_bytes.store(batch_bytes, Ordering::Relaxed);
        self.sticky.fetch_add(1, Ordering::Relaxed) % partitions
    }
}
