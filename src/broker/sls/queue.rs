//! The queue of the io workers: full batches, and failed batches that are due to be sent again at a given time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::batch::{Batch, Sealed};

/// A worker's next job.
pub enum Job {
    /// To close, compress and send.
    Fresh(Batch),
    /// To send again.
    Again(Sealed),
}

/// Shared by all workers.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    fresh: VecDeque<Batch>,
    again: BinaryHeap<Reverse<Due>>,
}

struct Due {
    at: Instant,
    sealed: Sealed,
}

impl Queue {
    pub fn push(&self, batch: Batch) {
        self.lock().fresh.push_back(batch);
        self.changed.notify_one();
    }

    pub fn push_again(&self, sealed: Sealed, at: Instant) {
        self.lock().again.push(Reverse(Due { at, sealed }));
        // A waiting worker must read the earliest time again.
        self.changed.notify_one();
    }

    /// Waits for the next job. A batch that is due to be sent again comes first. Cancel-safe.
    pub async fn next(&self) -> Job {
        loop {
            let wake = match self.pop() {
                Ok(job) => return job,
                Err(wake) => wake,
            };
            match wake {
                None => self.changed.notified().await,
                Some(at) => {
                    let _ = tokio::time::timeout_at(at.into(), self.changed.notified()).await;
                }
            }
        }
    }

    /// A job, or the time of the next one.
    ///
    /// Several pushes that no worker waits for leave one permit. So a worker that takes a job and leaves another one wakes the next.
    fn pop(&self) -> Result<Job, Option<Instant>> {
        let mut waiting = self.lock();
        let due = waiting.again.peek().map(|Reverse(due)| due.at);
        let job = if due.is_some_and(|at| at <= Instant::now())
            && let Some(Reverse(due)) = waiting.again.pop()
        {
            Job::Again(due.sealed)
        } else {
            waiting.fresh.pop_front().map(Job::Fresh).ok_or(due)?
        };
        if !waiting.fresh.is_empty() || !waiting.again.is_empty() {
            self.changed.notify_one();
        }
        Ok(job)
    }

    #[cfg(test)]
    pub fn pop_fresh(&self) -> Option<Batch> {
        self.lock().fresh.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;
    use crate::broker::sls::batch::{Group, LogDestination};
    use crate::broker::sls::chunks::Chunks;

    fn batch() -> Batch {
        let destination =
            LogDestination { store: "store".into(), topic: Vec::new(), source: Vec::new(), shard_hash: None };
        Batch {
            group: Arc::new(Group::new(destination, "pack".to_owned())),
            body: Chunks::default(),
            logs: Vec::new(),
            raw_bytes: 0,
            taken_bytes: 0,
            opened: Instant::now(),
        }
    }

    /// Two workers have looked and found nothing, and have not begun to wait, when two batches come.
    #[tokio::test]
    async fn each_worker_gets_a_batch_though_none_waits_yet() {
        let queue = Queue::default();
        assert!(queue.pop().is_err() && queue.pop().is_err());
        queue.push(batch());
        queue.push(batch());
        assert!(queue.changed.notified().now_or_never().is_some(), "the first worker");
        assert!(matches!(queue.pop(), Ok(Job::Fresh(_))));
        assert!(queue.changed.notified().now_or_never().is_some(), "the second worker");
        assert!(matches!(queue.pop(), Ok(Job::Fresh(_))));
        assert!(queue.changed.notified().now_or_never().is_none(), "nothing is left");
    }
}
