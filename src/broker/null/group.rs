//! A group of a topic: which member has which partition, what the script does on the way to it, each member's queue, and a message
//! as it lies there.
//!
//! A group that commits keeps each message until it is committed: whichever member has the partition next receives it again.
//! Members join and leave at once. A scripted rebalance goes as on a real broker: it requests all partitions back, waits until
//! every member has revoked them, and assigns each to the next member.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::script::GroupOptions;
use crate::broker::fraction::FractionSampler;
use crate::broker::{Details, Outgoing, Received};

pub struct Group {
    /// Each with whether it has revoked its partitions for the rebalance that is due.
    members: Vec<(Arc<Member>, bool)>,
    lose: FractionSampler,
    duplicate: FractionSampler,
    redeliver: FractionSampler,
    flag: FractionSampler,
    /// `None`: the group does not commit.
    offsets: Option<GroupOffsets>,
    /// Of a group that does not commit: what came before its first member.
    waiting: VecDeque<Queued>,
    rebalance_every: Option<Duration>,
    began: Instant,
    /// Rebalances so far.
    generation: usize,
}

/// By partition.
struct GroupOffsets {
    committed: Vec<u64>,
    uncommitted: Vec<VecDeque<Queued>>,
}

impl Group {
    /// A group that begins at the offsets `committed`; `None`: it does not commit.
    pub fn new(options: GroupOptions, committed: Option<Vec<u64>>, rebalance_every: Option<Duration>) -> Self {
        let offsets = |committed: Vec<u64>| GroupOffsets {
            uncommitted: committed.iter().map(|_| VecDeque::new()).collect(),
            committed,
        };
        Group {
            members: Vec::new(),
            lose: FractionSampler::new(options.lose),
            duplicate: FractionSampler::new(options.duplicate),
            redeliver: FractionSampler::new(options.redeliver),
            flag: FractionSampler::new(options.flag),
            offsets: committed.map(offsets),
            waiting: VecDeque::new(),
            rebalance_every,
            began: Instant::now(),
            generation: 0,
        }
    }

    pub fn join(&mut self, member: Arc<Member>) {
        for queued in std::mem::take(&mut self.waiting) {
            member.push_waiting(queued);
        }
        self.members.push((member, false));
        self.assign();
    }

    /// A member ends. In a group that commits, the others receive again what it has not committed.
    pub fn leave(&mut self, member: &Arc<Member>) {
        if self.offsets.is_none() {
            return;
        }
        self.members.retain(|(one, _)| !Arc::ptr_eq(one, member));
        self.assign();
    }

    /// Sends a message to the partition's member.
    pub fn deliver(&mut self, mut queued: Queued) {
        if self.lose.takes_next() {
            return;
        }
        queued.redelivered = self.flag.takes_next();
        if let Some(offsets) = &mut self.offsets {
            offsets.uncommitted[queued.partition as usize].push_back(queued.clone());
        }
        if self.offsets.is_none() && self.members.is_empty() {
            self.waiting.push_back(queued);
            return;
        }
        let Some(member) = self.owner(queued.partition) else { return };
        if self.duplicate.takes_next() {
            member.push(queued.clone());
        }
        if self.redeliver.takes_next() {
            member.push(queued.clone());
            queued.redelivered = true;
        }
        member.push(queued);
    }

    pub fn assigned(&self, member: &Arc<Member>) -> Option<Vec<(u32, Option<u64>)>> {
        let (index, (_, revoked)) = self.members.iter().enumerate().find(|(_, (one, _))| Arc::ptr_eq(one, member))?;
        let partitions = self.offsets.as_ref().map_or(0, |offsets| offsets.committed.len());
        let own = (0..partitions).filter(|partition| self.owner_index(*partition) == index);
        (!revoked).then(|| own.map(|partition| (partition as u32, member.next(partition))).collect())
    }

    pub fn commit(&mut self, next: &[(u32, u64)]) {
        let Some(offsets) = &mut self.offsets else { return };
        for (partition, next) in next {
            let partition = *partition as usize;
            offsets.committed[partition] = offsets.committed[partition].max(*next);
            let uncommitted = &mut offsets.uncommitted[partition];
            while uncommitted.front().is_some_and(|queued| queued.offset < *next) {
                uncommitted.pop_front();
            }
        }
    }

    pub fn is_revocation_requested(&self, member: &Arc<Member>) -> bool {
        let Some(every) = self.rebalance_every.filter(|_| self.offsets.is_some()) else { return false };
        let is_due = self.began.elapsed() >= every * (self.generation as u32 + 1);
        is_due && self.members.iter().any(|(one, revoked)| Arc::ptr_eq(one, member) && !revoked)
    }

    pub fn revoke(&mut self, member: &Arc<Member>) {
        member.discard();
        for (one, revoked) in &mut self.members {
            *revoked |= Arc::ptr_eq(one, member);
        }
        if self.members.iter().all(|(_, revoked)| *revoked) {
            self.generation += 1;
            self.assign();
        }
    }

    /// Assigns all partitions anew, from the committed offsets on, as far as the group commits.
    fn assign(&mut self) {
        let Some(offsets) = &self.offsets else { return };
        for (member, revoked) in &mut self.members {
            member.restart(&offsets.committed);
            *revoked = false;
        }
        for queued in offsets.uncommitted.iter().flatten() {
            if let Some(member) = self.owner(queued.partition) {
                member.push(queued.clone());
            }
        }
    }

    /// The partition's member, if it has one and has not revoked the partition.
    fn owner(&self, partition: u32) -> Option<&Member> {
        let (member, revoked) = self.members.get(self.owner_index(partition as usize))?;
        (!revoked).then_some(&**member)
    }

    fn owner_index(&self, partition: usize) -> usize {
        (partition + self.generation) % self.members.len().max(1)
    }
}

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

/// A message on its way to consumers.
#[derive(Debug, Clone)]
pub struct Message {
    pub payload: Box<[u8]>,
    pub trace_header: Option<Box<[u8]>>,
    pub key: Option<Box<[u8]>>,
    /// Where it has a partition of its own.
    pub partition: Option<u32>,
}

impl Message {
    pub fn new(outgoing: &Outgoing<'_>) -> Self {
        Message {
            payload: outgoing.payload.into(),
            trace_header: outgoing.trace_header.map(|trace_header| trace_header.as_slice().into()),
            key: outgoing.key.map(Into::into),
            partition: outgoing.attributes.and_then(|attributes| attributes.partition),
        }
    }

    /// With one bit changed.
    pub fn corrupted(mut self) -> Self {
        if let Some(last) = self.payload.last_mut() {
            *last ^= 1;
        }
        self
    }
}

impl Details for Message {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.key.as_deref().map(Cow::Borrowed)
    }
}

/// A message with its offset.
#[derive(Clone)]
pub struct Queued {
    pub partition: u32,
    pub offset: u64,
    pub redelivered: bool,
    pub message: Message,
}
