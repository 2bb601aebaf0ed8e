//! From acknowledged to received: topics in memory, their groups, and each member's queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::script::{Dealer, Fate, GroupOptions};
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

/// A topic: whoever has joined by the time a message is stored receives it.
pub struct TopicLog {
    /// What the script says of each group, by its number.
    options: Vec<GroupOptions>,
    state: Mutex<State>,
    backlog: Arc<Backlog>,
}

struct State {
    /// The offset of the next message of each partition.
    end_offsets: Vec<u64>,
    groups: BTreeMap<String, Group>,
}

/// The members of a group, and what the script does on the way to it.
struct Group {
    members: Vec<Arc<Member>>,
    options: GroupOptions,
    lose: Dealer,
    duplicate: Dealer,
    redeliver: Dealer,
    flag: Dealer,
}

/// How far a topic's members are behind, all together.
#[derive(Default)]
struct Backlog {
    messages: AtomicUsize,
    room: Notify,
}

impl TopicLog {
    pub fn new(partitions: u32, options: Vec<GroupOptions>) -> Self {
        let state = State { end_offsets: vec![0; partitions as usize], groups: BTreeMap::new() };
        TopicLog { options, state: Mutex::new(state), backlog: Arc::default() }
    }

    /// Adds a member to the subscription's group.
    pub fn join(&self, subscription: &Subscription) -> Arc<Member> {
        // The engine's own groups are named `<run>-<group>-<topic>`.
        let number = subscription.group.rsplit('-').nth(1).and_then(|number| number.parse::<usize>().ok());
        let options = number.and_then(|number| self.options.get(number)).cloned().unwrap_or_default();
        let member = Arc::new(Member {
            queue: Mutex::default(),
            arrived: Notify::new(),
            backlog: self.backlog.clone(),
            pace: options.rate.map(|rate| Mutex::new(Pace::new(rate))),
        });
        let mut state = lock(&self.state);
        let group = state.groups.entry(subscription.group.clone()).or_insert_with(|| Group {
            members: Vec::new(),
            options,
            lose: Dealer::default(),
            duplicate: Dealer::default(),
            redeliver: Dealer::default(),
            flag: Dealer::default(),
        });
        group.members.push(member.clone());
        member
    }

    /// The offset of the next message of each partition.
    pub fn end_offsets(&self) -> Vec<u64> {
        lock(&self.state).end_offsets.clone()
    }

    fn publish(&self, partition: u32, message: Message) {
        let mut state = lock(&self.state);
        let end = &mut state.end_offsets[partition as usize];
        let offset = *end;
        *end += 1;
        for group in state.groups.values() {
            let Group { members, options, .. } = group;
            if group.lose.picks(options.lose) {
                continue;
            }
            let member = &members[partition as usize % members.len()];
            let redelivered = group.flag.picks(options.flag);
            let first = Queued { partition, offset, redelivered, message: message.clone() };
            if group.duplicate.picks(options.duplicate) {
                self.hand(member, first.clone());
            }
            if group.redeliver.picks(options.redeliver) {
                self.hand(member, first.clone());
                self.hand(member, Queued { redelivered: true, ..first });
            } else {
                self.hand(member, first);
            }
        }
    }

    fn hand(&self, member: &Member, queued: Queued) {
        self.backlog.messages.fetch_add(1, Ordering::Relaxed);
        lock(&member.queue).push_back(queued);
        member.arrived.notify_one();
    }
}

/// One producer's way to its topic. A producer writes to one partition, so that its order is defined.
pub struct Delivery {
    log: Arc<TopicLog>,
    partition: u32,
    held_back: Mutex<Option<Message>>,
}

impl Delivery {
    pub fn new(log: Arc<TopicLog>, producer_index: usize) -> Arc<Self> {
        let partition = (producer_index % lock(&log.state).end_offsets.len()) as u32;
        Arc::new(Delivery { log, partition, held_back: Mutex::default() })
    }

    /// Whether anybody would receive a message.
    pub fn is_heard(&self) -> bool {
        !lock(&self.log.state).groups.is_empty()
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
            self.log.publish(self.partition, message.clone());
        }
        self.log.publish(self.partition, message);
        if let Some(late) = held_back.take() {
            self.log.publish(self.partition, late);
        }
    }

    /// Delivers what is still held back: there is no later message to come before it.
    pub fn let_go(&self) {
        if let Some(late) = lock(&self.held_back).take() {
            self.log.publish(self.partition, late);
        }
    }
}

/// A message at its place.
#[derive(Clone)]
struct Queued {
    partition: u32,
    offset: u64,
    redelivered: bool,
    message: Message,
}

/// One consumer's queue.
pub struct Member {
    queue: Mutex<VecDeque<Queued>>,
    arrived: Notify,
    backlog: Arc<Backlog>,
    pace: Option<Mutex<Pace>>,
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
    /// Resolves when messages are queued and may be taken.
    pub async fn ready(&self) {
        while lock(&self.queue).is_empty() {
            self.arrived.notified().await;
        }
        let next = self.pace.as_ref().map(|pace| lock(pace).next);
        if let Some(next) = next {
            tokio::time::sleep_until(next).await;
        }
    }

    /// Hands the queued messages over that may be taken, and returns how many there were.
    pub fn take(&self, mut each: impl FnMut(Received<'_>)) -> usize {
        let messages = {
            let mut queue = lock(&self.queue);
            match &self.pace {
                None => std::mem::take(&mut *queue),
                Some(pace) => {
                    let count = lock(pace).take(queue.len());
                    queue.drain(..count).collect()
                }
            }
        };
        for Queued { partition, offset, redelivered, message } in &messages {
            let envelope = message.envelope.as_deref();
            each(Received {
                payload: &message.payload,
                envelope,
                partition: *partition,
                offset: *offset,
                redelivered: *redelivered,
            });
        }
        self.backlog.messages.fetch_sub(messages.len(), Ordering::AcqRel);
        self.backlog.room.notify_waiters();
        messages.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
