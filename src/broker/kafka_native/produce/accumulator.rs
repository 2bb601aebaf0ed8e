//! The partitions of a topic, and whose turn it is to get messages that may go to any. A partition of a client: the batch that is being filled, those
//! that wait for their turn, and how many are on their way.
//!
//! Batches are sent in their order. One that is sent again goes before those that were never sent, and waits until none of its
//! partition is in flight: an earlier one among them may have to be sent again as well. For the same reason, a new leader gets nothing
//! before the former one has answered what is in flight, or its connection has ended.
//!
//! The first batch of an idempotent producer's identity goes alone. A leader that knows nothing of the identity takes a batch with any
//! number (`ProducerAppendInfo.checkSequence` of Apache Kafka): one that was not ready for the first batch and is for the second would
//! store them the wrong way round.
//!
//! A batch that failed leaves a gap in the numbers of an identity, and the next ones need another identity. They get it when no batch is left that may
//! be stored (`TransactionManager.maybeResolveSequences` of Apache Kafka): such a batch keeps its number, because with another one it is stored twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::codec::batch::{Author, MAX_RECORD_OVERHEAD, Record};
use super::producer_batch::{BufferPool, ProducerBatch, ReadyQueue, Return};
use crate::measure::{AckRecorder, ConditionKind, Conditions, PartitionIndex, SendTag, Subject, SubjectKind};

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
    /// Turns begin with the partition `begin`, counted on from the first after the last one. `limit`: the largest batch that the topic takes,
    /// in bytes.
    pub fn new(name: &str, partitions: usize, begin: usize, identity: Option<(i64, i16)>, limit: usize) -> Self {
        let name: Arc<str> = name.into();
        let partition = |index| Arc::new(Partition::new(name.clone(), index as i32, identity, limit));
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

/// The node that leads a partition: what its connection looks at.
pub type Leader = ReadyQueue<Partition>;

/// A partition, and what a client has to write there.
pub struct Partition {
    pub topic: Arc<str>,
    pub index: i32,
    /// The largest batch that the topic takes, in bytes.
    limit: usize,
    counted_in: OnceLock<PartitionIndex>,
    /// What holds its messages up, once something has.
    held_up: OnceLock<Subject>,
    state: Mutex<PartitionState>,
}

#[derive(Default)]
struct PartitionState {
    /// The node that leads it; `None`: it has no leader, or the leader is not known.
    leader: Option<Arc<Leader>>,
    open: Option<ProducerBatch>,
    /// Full batches, by their numbers.
    closed: VecDeque<ProducerBatch>,
    in_flight: usize,
    /// Destination of the batches in flight.
    sent_to: Option<Arc<Leader>>,
    /// Whether the leader has it on its list.
    is_scheduled: bool,
    /// Earliest time of the next send, after an error.
    not_before: Option<Instant>,
    next_number: u64,
    /// Id and epoch of an idempotent producer, and the number of its next record.
    identity: Option<(i64, i16)>,
    next_sequence: i32,
    /// Whether the leader has taken a batch of this identity, so that it refuses those out of sequence.
    is_known: bool,
    /// Whether records are missing in the sequence, so that it needs another identity.
    is_broken: bool,
    membership: TransactionMembership,
}

/// Whether the coordinator of the open transaction knows of the partition, without which the broker takes none of its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TransactionMembership {
    /// The client sends without transactions.
    #[default]
    Unneeded,
    Missing,
    /// It has messages, and the coordinator is told of it.
    Asked,
    Confirmed,
}

/// What limits a batch.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub batch_bytes: usize,
    pub linger: Duration,
    pub delivery_timeout: Duration,
}

/// The next batch to send, or why no batch can be sent.
pub enum Turn {
    /// The batch, and whether there are more.
    Batch(ProducerBatch, bool),
    Nothing,
    /// Not before that moment.
    Later(Instant),
    /// Another node leads it.
    Elsewhere(Arc<Leader>),
}

impl Partition {
    pub fn new(topic: Arc<str>, index: i32, identity: Option<(i64, i16)>, limit: usize) -> Self {
        Partition {
            topic,
            index,
            limit,
            counted_in: OnceLock::new(),
            held_up: OnceLock::new(),
            state: Mutex::new(PartitionState { identity, ..PartitionState::default() }),
        }
    }

    /// Where its messages are counted.
    pub fn counted_in(&self, recorder: &AckRecorder) -> PartitionIndex {
        *self.counted_in.get_or_init(|| recorder.partition(&self.topic, u32::try_from(self.index).ok()))
    }

    /// Reports what holds its messages up.
    pub fn hold_up(&self, conditions: &Conditions, kind: ConditionKind, words: &str) {
        let name = || format!("{}/{}", self.topic, self.index);
        let subject = || Subject::new(conditions, SubjectKind::Partition, &name());
        self.held_up.get_or_init(subject).begin(kind, words);
    }

    /// The reason for which its messages were held up, if there was one.
    #[inline]
    pub fn held_up(&self) -> Option<&Subject> {
        self.held_up.get()
    }

    /// The name of its topic, and its own number.
    pub fn name(&self) -> (&str, i32) {
        (&self.topic, self.index)
    }

    /// Appends records to the open batch, and to others after it. Returns whether they are its first ones of the open transaction.
    pub fn append<'a>(
        self: &Arc<Self>,
        limits: &Limits,
        buffers: &BufferPool,
        messages: impl Iterator<Item = (Record<'a>, SendTag, usize)>,
    ) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let (mut has_closed, mut begun) = (false, None);
        let most_bytes = limits.batch_bytes.min(self.limit);
        for (record, send_tag, payload_bytes) in messages {
            let beside = record.key.map_or(0, <[u8]>::len) + record.headers.max_bytes() + MAX_RECORD_OVERHEAD;
            let bytes = payload_bytes + beside;
            let is_full = |open: &mut ProducerBatch| open.encoded.len() + bytes > most_bytes;
            if let Some(full) = state.open.take_if(is_full) {
                state.closed.push_back(full);
                (has_closed, begun) = (true, None);
            }
            let open = state.open.get_or_insert_with(|| {
                let open = buffers.allocate(state.next_number);
                state.next_number += 1;
                begun = Some(open.created);
                open
            });
            open.push(&record, send_tag, payload_bytes);
        }
        let is_new = state.membership == TransactionMembership::Missing;
        if is_new {
            state.membership = TransactionMembership::Asked;
        }
        let Some(leader) = &state.leader else { return is_new };
        if let Some(begun) = begun.filter(|_| !limits.linger.is_zero()) {
            leader.linger(begun + limits.linger, self.clone());
        }
        // A message that comes when the batch is due does not wait for the timer, which may be a millisecond late.
        let is_due = state.open.as_ref().is_some_and(|open| open.span() >= limits.linger);
        if (has_closed || is_due) && !state.is_scheduled {
            state.is_scheduled = true;
            leader.add(self.clone());
        }
        is_new
    }

    /// The open batch has waited: it is sent now, if it is that one.
    pub fn stop_lingering(self: &Arc<Self>, node: &Leader, linger: Duration, now: Instant) {
        let mut state = self.state.lock();
        let is_due = state.open.as_ref().is_some_and(|open| open.created + linger <= now);
        if is_due && state.is_led_by(node) {
            self.look_again(&mut state);
        }
    }

    /// Takes the next batch to send to `node`, and those that are too old for it.
    pub fn take(&self, node: &Leader, limits: &Limits, now: Instant, expired: &mut Vec<ProducerBatch>) -> Turn {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.is_led_by(node) {
            return match &state.leader {
                Some(leader) => Turn::Elsewhere(leader.clone()),
                None => state.rest(),
            };
        }
        state.expire(limits, now, expired);
        if let Some(later) = state.not_before.take_if(|later| *later > now) {
            state.not_before = Some(later);
            return Turn::Later(later);
        }
        let is_again = state.closed.front().is_some_and(|first| first.attempts > 0);
        let is_unknown = matches!(state.membership, TransactionMembership::Missing | TransactionMembership::Asked);
        let is_first = state.identity.is_some() && !state.is_known;
        let has_moved = state.sent_to.as_ref().is_some_and(|former| !state.is_led_by(former));
        let is_alone = is_again || is_first || has_moved || state.is_broken;
        let next = if state.is_broken { state.first_in_doubt() } else { Some(0) };
        let next = next.filter(|_| !(is_unknown || is_alone && state.in_flight > 0));
        let is_due = |open: &mut ProducerBatch| open.has_lingered(limits.linger, now);
        let batch = next.and_then(|next| state.closed.remove(next).or_else(|| state.open.take_if(is_due)));
        let Some(mut batch) = batch else { return state.rest() };
        if batch.author.is_none()
            && let Some((producer_id, epoch)) = state.identity
        {
            batch.set_author(Author { producer_id, epoch, sequence: state.next_sequence });
            state.next_sequence = after(state.next_sequence, batch.encoded.records());
        }
        state.in_flight += 1;
        state.sent_to.clone_from(&state.leader);
        let has_more = !is_first && (!state.closed.is_empty() || state.open.as_mut().is_some_and(is_due));
        state.is_scheduled = has_more;
        Turn::Batch(batch, has_more)
    }

    /// A batch has its outcome. With `is_gap`, the broker does not have it, or may not. Returns whether the partition needs another
    /// identity now.
    pub fn settle(self: &Arc<Self>, is_gap: bool) -> bool {
        let mut state = self.state.lock();
        state.in_flight -= 1;
        state.is_broken |= is_gap && state.identity.is_some();
        if !is_gap && state.identity.is_some() && !state.is_known {
            state.is_known = true;
            self.look_again(&mut state);
        }
        self.go_on(&mut state)
    }

    /// A batch is sent again, not before `not_before`; one that is forgotten, with another identity. As [`Partition::settle`].
    pub fn give_back(self: &Arc<Self>, mut batch: ProducerBatch, not_before: Instant, back: Return) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.is_broken |= back == Return::Forgotten;
        state.in_flight -= 1;
        batch.attempts += 1;
        batch.may_be_stored = back == Return::InDoubt;
        let place = state.closed.partition_point(|other| other.number < batch.number);
        state.closed.insert(place, batch);
        state.not_before = Some(not_before);
        self.go_on(state)
    }

    fn go_on(self: &Arc<Self>, state: &mut PartitionState) -> bool {
        if state.in_flight > 0 || state.needs_identity() {
            return state.in_flight == 0;
        }
        // A new leader has waited for that, also with a batch that is open and was due meanwhile.
        match state.sent_to.take() {
            Some(former) if !state.is_led_by(&former) => self.look_again(state),
            _ => self.schedule_rest(state),
        }
        false
    }

    fn schedule_rest(self: &Arc<Self>, state: &mut PartitionState) {
        if !state.closed.is_empty() {
            self.look_again(state);
        }
    }

    /// Whether records are missing in the sequence, and none of it is on its way or may be stored.
    pub fn needs_identity(&self) -> bool {
        self.state.lock().needs_identity()
    }

    /// Gives it another identity, with which what waits is numbered from 0.
    pub fn renew(self: &Arc<Self>, identity: (i64, i16)) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        (state.identity, state.next_sequence, state.is_broken) = (Some(identity), 0, false);
        state.is_known = false;
        for batch in &mut state.closed {
            let sequence = state.next_sequence;
            batch.set_author(Author { producer_id: identity.0, epoch: identity.1, sequence });
            state.next_sequence = after(sequence, batch.encoded.records());
        }
        self.look_again(state);
    }

    /// The coordinator knows that it is in the open transaction: what waits is sent.
    pub fn enter_transaction(self: &Arc<Self>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.membership = TransactionMembership::Confirmed;
        self.look_again(state);
    }

    /// What was due while nothing could be sent may be sent now, the open batch too.
    fn look_again(self: &Arc<Self>, state: &mut PartitionState) {
        if let Some(leader) = state.leader.as_ref().filter(|_| !state.is_scheduled) {
            state.is_scheduled = true;
            leader.add(self.clone());
        }
    }

    /// Its transaction has ended, or it is of a client that sends in transactions.
    pub fn leave_transaction(&self) {
        self.state.lock().membership = TransactionMembership::Missing;
    }

    /// The open batch does not wait for more messages.
    pub fn flush(self: &Arc<Self>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.closed.extend(state.open.take());
        self.schedule_rest(state);
    }

    /// Takes what is not on its way.
    pub fn abandon(&self) -> Vec<ProducerBatch> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.closed.drain(..).chain(state.open.take()).collect()
    }

    /// Whether an earlier batch than that one is missing at the broker.
    pub fn is_behind(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.is_broken || state.closed.front().is_some_and(|first| first.number < number)
    }

    /// The node that leads it.
    pub fn leader(&self) -> Option<Arc<Leader>> {
        self.state.lock().leader.clone()
    }

    /// Another node leads it, or none.
    pub fn set_leader(self: &Arc<Self>, leader: Option<Arc<Leader>>, linger: Duration) {
        let mut state = self.state.lock();
        let is_same = match (&state.leader, &leader) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if is_same {
            return;
        }
        // A former leader that is about to look at it finds that it is led elsewhere, and hands it on.
        if state.is_scheduled && state.leader.as_ref().is_none_or(|former| former.remove(self)) {
            state.is_scheduled = false;
        }
        state.leader = leader;
        self.schedule_rest(&mut state);
        if let (Some(open), Some(leader)) = (&state.open, &state.leader) {
            leader.linger(open.created + linger, self.clone());
        }
    }

    /// Takes the batches that have waited for too long.
    pub fn expire(&self, limits: &Limits, now: Instant, expired: &mut Vec<ProducerBatch>) -> bool {
        let mut state = self.state.lock();
        state.expire(limits, now, expired);
        state.needs_identity()
    }
}

impl PartitionState {
    fn is_led_by(&self, node: &Leader) -> bool {
        self.leader.as_ref().is_some_and(|leader| std::ptr::eq(&raw const **leader, node))
    }

    fn needs_identity(&self) -> bool {
        self.is_broken && self.in_flight == 0 && self.first_in_doubt().is_none()
    }

    fn first_in_doubt(&self) -> Option<usize> {
        self.closed.iter().position(|batch| batch.may_be_stored)
    }

    /// It is on no list until something happens.
    fn rest(&mut self) -> Turn {
        self.is_scheduled = false;
        Turn::Nothing
    }

    fn expire(&mut self, limits: &Limits, now: Instant, expired: &mut Vec<ProducerBatch>) {
        let is_old = |batch: &mut ProducerBatch| batch.created + limits.delivery_timeout <= now;
        let before = expired.len();
        while self.closed.front_mut().is_some_and(is_old) {
            expired.extend(self.closed.pop_front());
        }
        if self.closed.is_empty() {
            expired.extend(self.open.take_if(is_old));
        }
        self.is_broken |= expired[before..].iter().any(|old| old.author.is_some());
    }
}

/// The number after `records` more: after the largest one comes 0 (`DefaultRecordBatch.incrementSequence`).
fn after(sequence: i32, records: i32) -> i32 {
    ((i64::from(sequence) + i64::from(records)) % (1 << 31)) as i32
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/produce/accumulator.rs"]
mod tests;
