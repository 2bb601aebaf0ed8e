//! What waits for an io worker: batches that are full, and those that are to be tried again, each at its time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Notify;

use super::accumulator::Batch;
use crate::measure::SendTag;

/// What a worker takes.
pub enum Job {
    /// To be closed, compressed and sent.
    Fresh(Batch),
    /// To be sent again.
    Again(Sealed),
}

/// A batch as it goes over the wire, as often as it takes.
pub struct Sealed {
    pub path: String,
    pub shard_hash: Option<String>,
    pub logs: Vec<(SendTag, u32)>,
    pub raw_bytes: usize,
    /// What its logs have taken from the budget.
    pub taken_bytes: usize,
    /// Size of the body before compression.
    pub body_bytes: usize,
    pub body: Bytes,
    /// How often it has been tried again.
    pub retries: u32,
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
        // Any worker that waits has to look at the time again.
        self.changed.notify_one();
    }

    /// The next job, when there is one: what is due to be tried again comes first. Cancel-safe.
    pub async fn next(&self) -> Job {
        loop {
            let wake = match self.look() {
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

    /// A job, or when there will be one.
    fn look(&self) -> Result<Job, Option<Instant>> {
        let mut waiting = self.lock();
        let due = waiting.again.peek().map(|Reverse(due)| due.at);
        if due.is_some_and(|at| at <= Instant::now())
            && let Some(Reverse(due)) = waiting.again.pop()
        {
            return Ok(Job::Again(due.sealed));
        }
        waiting.fresh.pop_front().map(Job::Fresh).ok_or(due)
    }

    #[cfg(test)]
    pub fn pop_fresh(&self) -> Option<Batch> {
        self.lock().fresh.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
