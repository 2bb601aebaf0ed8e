//! A topic in memory: it numbers messages and hands each to its groups; and what happens to a producer's messages on their way to it, from
//! acknowledged to stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::group::{Backlog, Group, Member, Message, Queued};
use super::script::{GroupOptions, MessageFaults, NullOptions};
use crate::broker::{Outgoing, Progress, Subscription};
use crate::measure::PartitionIndex;

/// A topic. A group receives the messages that are stored after its first member has joined, or after it was registered.
pub struct TopicLog {
    options: NullOptions,
    state: Mutex<State>,
    /// Where the messages of each partition are counted.
    partitions: Vec<PartitionIndex>,
    pub(super) backlog: Arc<Backlog>,
}

struct State {
    /// The offset of the next message of each partition.
    end_offsets: Vec<u64>,
    groups: BTreeMap<String, Group>,
}

impl TopicLog {
    /// With these partitions.
    pub fn new(partitions: Vec<PartitionIndex>, options: NullOptions) -> Self {
        let state = State { end_offsets: vec![0; partitions.len()], groups: BTreeMap::new() };
        TopicLog { options, state: Mutex::new(state), partitions, backlog: Arc::default() }
    }

    /// Where the messages of a partition are counted.
    pub fn partition(&self, number: u32) -> PartitionIndex {
        self.partitions.get(number as usize).copied().unwrap_or(PartitionIndex::UNKNOWN)
    }

    /// Adds a member to the subscription's group.
    pub fn join(self: &Arc<Self>, subscription: &Subscription) -> Membership {
        let commits = subscription.progress != Progress::Uncommitted;
        let rate = self.options_of(subscription).rate;
        let mut state = self.state.lock();
        let next = if commits { state.end_offsets.clone() } else { Vec::new() };
        let member = Arc::new(Member::new(self.backlog.clone(), rate, next));
        self.group(&mut state, subscription).join(member.clone());
        Membership { member, log: self.clone(), group: subscription.group.clone() }
    }

    /// The subscription's group receives what is stored from now on, although it has no member.
    pub fn register(&self, subscription: &Subscription) {
        self.group(&mut self.state.lock(), subscription);
    }

    fn group<'a>(&self, state: &'a mut State, subscription: &Subscription) -> &'a mut Group {
        let State { end_offsets, groups } = state;
        let commits = subscription.progress != Progress::Uncommitted;
        groups.entry(subscription.group.clone()).or_insert_with(|| {
            let rebalance_every = Some(self.options.rebalance_every).filter(|every| *every > Duration::ZERO);
            Group::new(self.options_of(subscription), commits.then(|| end_offsets.clone()), rebalance_every)
        })
    }

    fn options_of(&self, subscription: &Subscription) -> GroupOptions {
        self.options.groups.get(subscription.number).cloned().unwrap_or_default()
    }

    pub fn has_groups(&self) -> bool {
        !self.state.lock().groups.is_empty()
    }

    /// The offset of the next message of each partition.
    pub fn end_offsets(&self) -> Vec<u64> {
        self.state.lock().end_offsets.clone()
    }

    pub fn publish(&self, partition: u32, message: Message) {
        let mut state = self.state.lock();
        let end = &mut state.end_offsets[partition as usize];
        let offset = *end;
        *end += 1;
        for group in state.groups.values_mut() {
            group.deliver(Queued { partition, offset, redelivered: false, message: message.clone() });
        }
    }
}

/// One consumer's membership in its group. It leaves the group when it is dropped.
pub struct Membership {
    pub member: Arc<Member>,
    log: Arc<TopicLog>,
    group: String,
}

impl Membership {
    /// The partitions of this member, each with the offset of the next message; `None` during a rebalance.
    pub fn assigned(&self) -> Option<Vec<(u32, Option<u64>)>> {
        self.in_group(|group, member| group.assigned(member)).flatten()
    }

    pub fn commit(&self, next: &[(u32, u64)]) {
        self.in_group(|group, _| group.commit(next));
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.in_group(|group, member| group.is_revocation_requested(member)).unwrap_or(false)
    }

    pub fn revoke(&self) {
        self.in_group(|group, member| group.revoke(member));
    }

    fn in_group<R>(&self, act: impl FnOnce(&mut Group, &Arc<Member>) -> R) -> Option<R> {
        self.log.state.lock().groups.get_mut(&self.group).map(|group| act(group, &self.member))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.in_group(|group, member| group.leave(member));
    }
}

/// One producer's way to its topic. A producer writes to one partition, so that its order is defined, except for messages with
/// a partition of their own.
pub struct Delivery {
    log: Arc<TopicLog>,
    partition: u32,
    /// Where the messages of `partition` are counted.
    counted_in: PartitionIndex,
    held_back: Mutex<Option<Message>>,
}

impl Delivery {
    pub fn new(log: Arc<TopicLog>, producer_number: usize) -> Arc<Self> {
        let partition = (producer_number % log.end_offsets().len()) as u32;
        let counted_in = log.partition(partition);
        Arc::new(Delivery { log, partition, counted_in, held_back: Mutex::default() })
    }

    /// Where a message is counted.
    #[inline]
    pub fn counted_in(&self, outgoing: &Outgoing<'_>) -> PartitionIndex {
        match outgoing.attributes.and_then(|attributes| attributes.partition) {
            Some(partition) => self.log.partition(partition),
            None => self.counted_in,
        }
    }

    /// Whether the topic has a group that would receive a message.
    pub fn has_consumers(&self) -> bool {
        self.log.has_groups()
    }

    /// Waits until the topic's members have caught up enough.
    pub async fn capacity(&self) {
        self.log.backlog.capacity().await;
    }

    pub fn deliver(&self, message: Message, faults: MessageFaults) {
        if faults.lost {
            return;
        }
        let message = if faults.corrupted { message.corrupted() } else { message };
        let mut held_back = self.held_back.lock();
        if faults.reordered && held_back.is_none() {
            *held_back = Some(message);
            return;
        }
        if faults.duplicated {
            self.publish(message.clone());
        }
        self.publish(message);
        if let Some(late) = held_back.take() {
            self.publish(late);
        }
    }

    fn publish(&self, message: Message) {
        self.log.publish(message.partition.unwrap_or(self.partition), message);
    }

    /// Delivers the message that is still held back: no later message will come before it.
    pub fn end(&self) {
        if let Some(late) = self.held_back.lock().take() {
            self.publish(late);
        }
    }
}
