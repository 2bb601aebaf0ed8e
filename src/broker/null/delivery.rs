//! From acknowledged to received: topics in memory, their groups, and each member's queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::script::Fate;
use crate::broker::{Outgoing, Received, Subscription};

/// Messages of one topic that members may be behind before its producers are made to wait.
const MOST_BACKLOG: usize = 100_000;

/// A message on its way to consumers.
#[derive(Debug, Clone)]
pub struct Message {
    payload: Box<[u8]>,
    envelope: Option<Box<[u8]>>,
}

impl Message {
    pub fn new(outgoing: &Outgoing<'_>) -> Self {
        Message { payload: outgoing.payload.into(), envelope: outgoing.envelope.map(Into::into) }
    }

    fn corrupted(mut self) -> Self {
        if let Some(last) = self.payload.last_mut() {
            *last ^= 1;
        }
        self
    }
}

/// A topic: whoever has joined by the time a message is acknowledged receives it.
pub struct TopicLog {
    partitions: u32,
    groups: Mutex<BTreeMap<String, Vec<Arc<Member>>>>,
    backlog: Arc<Backlog>,
}

/// How far a topic's members are behind, all together.
#[derive(Default)]
struct Backlog {
    messages: AtomicUsize,
    room: Notify,
}

impl TopicLog {
    pub fn new(partitions: u32) -> Self {
        TopicLog { partitions, groups: Mutex::default(), backlog: Arc::default() }
    }

    /// Adds a member to the subscription's group.
    pub fn join(&self, subscription: &Subscription) -> Arc<Member> {
        let member =
            Arc::new(Member { queue: Mutex::default(), arrived: Notify::new(), backlog: self.backlog.clone() });
        lock(&self.groups).entry(subscription.group.clone()).or_default().push(member.clone());
        member
    }

    fn publish(&self, lane: u32, message: Message) {
        for members in lock(&self.groups).values() {
            let member = &members[lane as usize % members.len()];
            self.backlog.messages.fetch_add(1, Ordering::Relaxed);
            lock(&member.queue).push_back((lane, message.clone()));
            member.arrived.notify_one();
        }
    }
}

/// One producer's way to its topic. A producer writes to one partition, so that its order is defined.
pub struct Delivery {
    log: Arc<TopicLog>,
    lane: u32,
    held_back: Mutex<Option<Message>>,
}

impl Delivery {
    pub fn new(log: Arc<TopicLog>, slot: usize) -> Arc<Self> {
        let lane = slot as u32 % log.partitions;
        Arc::new(Delivery { log, lane, held_back: Mutex::default() })
    }

    /// Whether anybody would receive a message.
    pub fn is_heard(&self) -> bool {
        !lock(&self.log.groups).is_empty()
    }

    /// Waits until the members have caught up enough.
    pub async fn room(&self) {
        let backlog = &self.log.backlog;
        while backlog.messages.load(Ordering::Acquire) > MOST_BACKLOG {
            let room = backlog.room.notified();
            if backlog.messages.load(Ordering::Acquire) > MOST_BACKLOG {
                room.await;
            }
        }
    }

    pub fn deliver(&self, message: Message, fate: Fate) {
        if fate.lost {
            return;
        }
        let message = if fate.corrupted { message.corrupted() } else { message };
        let mut held_back = lock(&self.held_back);
        if fate.reordered && held_back.is_none() {
            *held_back = Some(message);
            return;
        }
        if fate.duplicated {
            self.log.publish(self.lane, message.clone());
        }
        self.log.publish(self.lane, message);
        if let Some(late) = held_back.take() {
            self.log.publish(self.lane, late);
        }
    }

    /// Delivers what is still held back: there is no later message to come before it.
    pub fn let_go(&self) {
        if let Some(late) = lock(&self.held_back).take() {
            self.log.publish(self.lane, late);
        }
    }
}

/// One consumer's queue.
pub struct Member {
    queue: Mutex<VecDeque<(u32, Message)>>,
    arrived: Notify,
    backlog: Arc<Backlog>,
}

impl Member {
    /// Resolves when messages are queued.
    pub async fn ready(&self) {
        while lock(&self.queue).is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Hands all queued messages over and returns how many there were.
    pub fn take(&self, mut each: impl FnMut(Received<'_>)) -> usize {
        let messages = std::mem::take(&mut *lock(&self.queue));
        for (lane, message) in &messages {
            let envelope = message.envelope.as_deref();
            each(Received { payload: &message.payload, envelope, lane: *lane, position: 0, redelivered: false });
        }
        self.backlog.messages.fetch_sub(messages.len(), Ordering::AcqRel);
        self.backlog.room.notify_waiters();
        messages.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
