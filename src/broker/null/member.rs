//! One consumer's queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::message::Queued;
use crate::broker::Received;

/// Messages of one topic that members may be behind before its producers are made to wait.
const MAX_BACKLOG: usize = 100_000;

/// How far a topic's members are behind, all together.
#[derive(Default)]
pub struct Backlog {
    messages: AtomicUsize,
    /// Messages that waited for their group: no producer waits for them.
    waiting: AtomicUsize,
    changed: Notify,
}

impl Backlog {
    /// Waits until the members have caught up enough.
    pub async fn capacity(&self) {
        let is_beyond = || self.messages.load(Ordering::Acquire) > MAX_BACKLOG + self.waiting.load(Ordering::Acquire);
        while is_beyond() {
            let changed = self.changed.notified();
            if is_beyond() {
                changed.await;
            }
        }
    }

    fn shrink(&self, messages: usize) {
        self.messages.fetch_sub(messages, Ordering::AcqRel);
        self.changed.notify_waiters();
    }
}

/// One consumer's queue.
pub struct Member {
    queue: Mutex<VecDeque<Queued>>,
    arrived: Notify,
    backlog: Arc<Backlog>,
    pace: Option<Mutex<Pace>>,
    /// By partition, the offset after the last message that was taken. Empty: the member does not commit.
    next: Mutex<Vec<u64>>,
}

/// When a member may take its next message.
struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Pace { interval: Duration::from_secs(1) / rate.clamp(1, 1_000_000) as u32, next: Instant::now() }
    }

    /// How many of `waiting` messages may be taken now.
    fn take(&mut self, waiting: usize) -> usize {
        let mut taken = 0;
        let now = Instant::now();
        while taken < waiting && self.next <= now {
            self.next += self.interval;
            taken += 1;
        }
        taken
    }
}

impl Member {
    /// A member that takes at most `rate` messages per second, and whose offsets are `next`.
    pub fn new(backlog: Arc<Backlog>, rate: Option<u64>, next: Vec<u64>) -> Self {
        Member {
            queue: Mutex::default(),
            arrived: Notify::new(),
            backlog,
            pace: rate.map(|rate| Mutex::new(Pace::new(rate))),
            next: Mutex::new(next),
        }
    }

    pub fn push(&self, queued: Queued) {
        self.backlog.messages.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().push_back(queued);
        self.arrived.notify_one();
    }

    /// A message that came before the group had a member.
    pub fn push_waiting(&self, queued: Queued) {
        self.backlog.waiting.fetch_add(1, Ordering::AcqRel);
        self.push(queued);
    }

    /// Discards the queue: what is in it was not taken, and goes to whichever member has the partition next.
    pub fn discard(&self) {
        let discarded = std::mem::take(&mut *self.queue.lock()).len();
        self.backlog.shrink(discarded);
    }

    /// The member begins at the offsets `next`, with an empty queue.
    pub fn restart(&self, next: &[u64]) {
        self.discard();
        self.next.lock().copy_from_slice(next);
    }

    /// The offset after the last message of `partition` that was taken.
    pub fn next(&self, partition: usize) -> Option<u64> {
        self.next.lock().get(partition).copied()
    }

    /// Resolves when messages are queued and may be taken.
    pub async fn ready(&self) {
        while self.queue.lock().is_empty() {
            self.arrived.notified().await;
        }
        let next = self.pace.as_ref().map(|pace| pace.lock().next);
        if let Some(next) = next {
            tokio::time::sleep_until(next).await;
        }
    }

    /// Hands the queued messages over that may be taken, but no more than `most`, and returns how many there were.
    pub fn take(&self, most: usize, mut each: impl FnMut(Received<'_>)) -> usize {
        let messages = {
            let mut queue = self.queue.lock();
            let waiting = queue.len().min(most);
            match &self.pace {
                None if waiting == queue.len() => std::mem::take(&mut *queue),
                None => queue.drain(..waiting).collect(),
                Some(pace) => {
                    let count = pace.lock().take(waiting);
                    queue.drain(..count).collect()
                }
            }
        };
        for Queued { partition, offset, redelivered, message } in &messages {
            each(Received {
                payload: &message.payload,
                trace_header: message.trace_header.as_deref(),
                partition: *partition,
                offset: *offset,
                redelivered: *redelivered,
                details: message,
            });
        }
        let mut next = self.next.lock();
        if !next.is_empty() {
            messages.iter().for_each(|queued| next[queued.partition as usize] = queued.offset + 1);
        }
        self.backlog.shrink(messages.len());
        messages.len()
    }
}
