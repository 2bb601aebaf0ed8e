//! A partition of a client: the batch that is being filled, those that wait for their turn, and how many are on their way. A node: which
//! batches of the partitions that it leads it is sent next.
//!
//! Batches are sent in their order. One that is sent again goes before those that were never sent, and waits until none of its
//! partition is in flight: an earlier one among them may have to be sent again as well. For the same reason, a new leader gets nothing
//! before the former one has answered what is in flight, or its connection has ended.
//!
//! The first batch of an idempotent producer's identity goes alone. A leader that knows nothing of the identity takes a batch with any
//! number (`ProducerAppendInfo.checkSequence` of Apache Kafka): one that was not ready for the first batch and is for the second would
//! store them the wrong way round.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::codec::batch::{Author, MAX_RECORD_OVERHEAD, Record};
use super::producer_batch::{BufferPool, ProducerBatch, ReadyQueue};
use crate::measure::{AckRecorder, ConditionKind, Conditions, PartitionIndex, SendTag, Subject, SubjectKind};

/// The node that leads a partition: what its connection looks at.
pub type Leader = ReadyQueue<Partition>;

/// A partition, and what a client has to write there.
pub struct Partition {
    pub topic: Arc<str>,
    pub index: i32,
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
    pub fn new(topic: Arc<str>, index: i32, identity: Option<(i64, i16)>) -> Self {
        Partition {
            topic,
            index,
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

    /// What has held its messages up, if something ever has.
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
        for (record, send_tag, payload_bytes) in messages {
            let bytes = payload_bytes + record.key.map_or(0, <[u8]>::len) + MAX_RECORD_OVERHEAD;
            let is_full = |open: &mut ProducerBatch| open.encoded.len() + bytes > limits.batch_bytes;
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
        if is_due && !state.is_scheduled && state.is_led_by(node) {
            state.is_scheduled = true;
            node.add(self.clone());
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
        if is_unknown || state.is_broken || ((is_again || is_first || has_moved) && state.in_flight > 0) {
            return state.rest();
        }
        let is_due = |open: &mut ProducerBatch| open.has_lingered(limits.linger, now);
        let Some(mut batch) = state.closed.pop_front().or_else(|| state.open.take_if(is_due)) else {
            return state.rest();
        };
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

    /// A batch is sent again, not before `not_before`. As [`Partition::settle`].
    pub fn give_back(self: &Arc<Self>, batch: ProducerBatch, not_before: Instant) -> bool {
        self.put_back(&mut self.state.lock(), batch, not_before)
    }

    /// The leader has forgotten the identity, and all that was stored with it is gone: the batch is sent again with another one. As
    /// [`Partition::settle`].
    pub fn begin_anew(self: &Arc<Self>, batch: ProducerBatch, not_before: Instant) -> bool {
        let mut state = self.state.lock();
        state.is_broken = true;
        self.put_back(&mut state, batch, not_before)
    }

    fn put_back(self: &Arc<Self>, state: &mut PartitionState, mut batch: ProducerBatch, not_before: Instant) -> bool {
        state.in_flight -= 1;
        batch.attempts += 1;
        let place = state.closed.partition_point(|other| other.number < batch.number);
        state.closed.insert(place, batch);
        state.not_before = Some(not_before);
        self.go_on(state)
    }

    fn go_on(self: &Arc<Self>, state: &mut PartitionState) -> bool {
        if state.in_flight > 0 || state.is_broken {
            return state.is_broken && state.in_flight == 0;
        }
        // A new leader has waited for that, also with a batch that is open and was due meanwhile.
        match state.sent_to.take() {
            Some(former) if !state.is_led_by(&former) => self.look_again(state),
            _ => self.schedule_rest(state),
        }
        false
    }

    fn schedule_rest(self: &Arc<Self>, state: &mut PartitionState) {
        if state.is_scheduled || state.closed.is_empty() {
            return;
        }
        if let Some(leader) = &state.leader {
            state.is_scheduled = true;
            leader.add(self.clone());
        }
    }

    /// Whether records are missing in the sequence, and none of it is on its way.
    pub fn needs_identity(&self) -> bool {
        let state = self.state.lock();
        state.is_broken && state.in_flight == 0
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
        if state.leader.as_ref().is_none_or(|former| former.remove(self)) {
            state.is_scheduled = false;
        }
        state.leader = leader;
        self.schedule_rest(&mut state);
        if let (Some(open), Some(leader)) = (&state.open, &state.leader) {
            leader.linger(open.created + linger, self.clone());
        }
    }

    /// Takes what has waited for too long.
    pub fn expire(&self, limits: &Limits, now: Instant, expired: &mut Vec<ProducerBatch>) -> bool {
        let mut state = self.state.lock();
        state.expire(limits, now, expired);
        state.is_broken && state.in_flight == 0
    }
}

impl PartitionState {
    fn is_led_by(&self, node: &Leader) -> bool {
        self.leader.as_ref().is_some_and(|leader| std::ptr::eq(&raw const **leader, node))
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

/// Most bytes of the batches of a request, unless one has more: `max.request.size` of Kafka's own client.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A node of the cluster.
pub struct Node {
    address: Mutex<String>,
    /// Partitions that it leads, and that have something to send.
    pub ready: Arc<Leader>,
}

impl Node {
    pub fn new(address: String) -> Self {
        Node { address: Mutex::new(address), ready: Arc::default() }
    }

    pub fn address(&self) -> String {
        self.address.lock().clone()
    }

    /// The node may be found at another address than before.
    pub fn set_address(&self, address: String) {
        *self.address.lock() = address;
    }

    /// The next batches to send, one of a partition at most. Those that are too old for it are added to `expired`.
    pub fn gather(&self, limits: &Limits, expired: &mut Vec<ProducerBatch>) -> Vec<(Arc<Partition>, ProducerBatch)> {
        let now = Instant::now();
        for partition in self.ready.take_lingered(now) {
            partition.stop_lingering(&self.ready, limits.linger, now);
        }
        let (mut batches, mut more) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < MAX_REQUEST_BYTES {
            let Some(partition) = self.ready.next() else { break };
            match partition.take(&self.ready, limits, now, expired) {
                Turn::Batch(batch, has_more) => {
                    bytes += batch.encoded.len();
                    if has_more {
                        more.push(partition.clone());
                    }
                    batches.push((partition, batch));
                }
                Turn::Nothing => {}
                Turn::Later(moment) => self.ready.postpone(moment, partition),
                Turn::Elsewhere(leader) => leader.add(partition),
            }
        }
        self.ready.add_again(more);
        batches
    }

    /// Hands partitions on that another node leads now.
    pub fn hand_on(&self) {
        for partition in self.ready.take_all() {
            match partition.leader() {
                Some(leader) if !Arc::ptr_eq(&leader, &self.ready) => leader.add(partition),
                _ => self.ready.add_again([partition]),
            }
        }
    }
}
