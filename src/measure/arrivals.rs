//! What consumers record, a batch at a time. Each has a recorder of its own; a group's verification finds which arrivals are the first.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::budget::Budget;
use super::clock::Clock;
use super::histogram::{CompactDistribution, Slowest};
use super::reception::{
    Arrived, ConsumerTally, MAX_TIMED, Order, PARTITION_BYTES, Partitions, Received, Reception, SubscriptionIndex,
};
use super::tags::{Opened, TRACE_HEADER_BYTES, TraceHeader};
use super::verification::{Mark, Verification};

/// One trial's consumption: hands out recorders and holds each group's account.
#[derive(Clone)]
pub struct Arrivals {
    shared: Arc<ArrivalState>,
}

impl Arrivals {
    /// For a trial whose messages carry `run_tag`, received by `groups`.
    pub fn new(clock: Clock, run_tag: u32, groups: usize, verification: Option<Arc<Verification>>) -> Self {
        Arrivals::across_processes(clock, 0, 0..u32::MAX, run_tag, groups, verification)
    }

    /// As [`Arrivals::new`], where the messages of other processes arrive as well: the times in trace headers are those of `clock` plus
    /// `header_offset_ns`. Only messages of the producers `timed` get an end-to-end latency.
    pub fn across_processes(
        clock: Clock,
        header_offset_ns: u64,
        timed: Range<u32>,
        run_tag: u32,
        groups: usize,
        verification: Option<Arc<Verification>>,
    ) -> Self {
        let groups = (0..groups).map(|_| Group::default()).collect();
        let (partition_budget, consumers) = (Budget::new(PARTITION_BYTES), Mutex::default());
        let shared =
            ArrivalState { clock, header_offset_ns, timed, run_tag, verification, groups, partition_budget, consumers };
        Arrivals { shared: Arc::new(shared) }
    }

    /// A recorder for one consumer: the subscription's member of this number, from 0.
    pub fn recorder(&self, subscription: SubscriptionIndex, member: usize) -> ArrivalRecorder {
        let partitions = Partitions::new(self.shared.partition_budget.clone());
        let shard = Arc::new(Mutex::new(ArrivalShard { reception: Reception::default(), partitions }));
        let mut consumers = self.shared.consumers.lock();
        let tally = ConsumerTally::new(subscription, member, consumers.len() < MAX_TIMED);
        consumers.push(Consumer { shard: shard.clone(), tally });
        drop(consumers);
        ArrivalRecorder { shared: self.shared.clone(), group: subscription.group, shard }
    }

    /// Everything received since the last call, inside the measured window or not, merged into `into`; `into` and `spare` must be clear.
    /// It is also added to that of its group in `by_group`, as far as the group is there.
    pub fn collect(&self, is_in_window: bool, into: &mut Reception, spare: &mut Reception, by_group: &mut [Reception]) {
        let is_verified = self.shared.verification.is_some();
        for Consumer { shard, tally } in self.shared.consumers.lock().iter_mut() {
            mem::swap(&mut shard.lock().reception, spare);
            into.merge(spare);
            if let Some(of_group) = by_group.get_mut(tally.subscription.group) {
                of_group.merge(spare);
            }
            let latencies = tally.add(spare, is_in_window, is_verified);
            if let Some(group) = self.shared.groups.get(tally.subscription.group) {
                *group.arrived.lock() += &spare.arrived;
                group.add_latencies(latencies);
            }
            spare.clear();
        }
    }

    pub fn group_count(&self) -> usize {
        self.shared.groups.len()
    }

    /// What each group has received by the last call of [`Arrivals::collect`].
    pub fn groups(&self) -> Vec<Arrived> {
        self.shared.groups.iter().map(|group| *group.arrived.lock()).collect()
    }

    /// What each group has received since the last call of this, by the last call of [`Arrivals::collect`].
    pub fn laps(&self) -> Vec<GroupLap> {
        self.shared.groups.iter().map(Group::lap).collect()
    }

    /// What each consumer has received by the last call of [`Arrivals::collect`], by group, topic and member.
    pub fn consumers(&self) -> Vec<ConsumerTally> {
        let mut tallies: Vec<ConsumerTally> =
            self.shared.consumers.lock().iter().map(|consumer| consumer.tally.clone()).collect();
        tallies.sort_by_key(|tally| (tally.subscription.group, tally.subscription.topic, tally.member));
        tallies
    }

    /// How far each group is.
    pub fn progress(&self) -> Vec<GroupProgress> {
        let read = |group: &Group| GroupProgress {
            deliveries: group.deliveries.load(Ordering::Acquire),
            first: group.first.load(Ordering::Acquire),
            corrupt: group.corrupt.load(Ordering::Acquire),
            errors: group.errors.load(Ordering::Acquire),
        };
        self.shared.groups.iter().map(read).collect()
    }

    /// Messages of this trial that have arrived, over all groups, without the repetitions that verification found.
    pub fn received(&self) -> u64 {
        self.progress().iter().map(|group| group.first + group.corrupt).sum()
    }

    /// What was acknowledged and what arrived, if anything is verified.
    pub fn verification(&self) -> Option<&Verification> {
        self.shared.verification.as_deref()
    }

    /// The offsets after the last message that the consumers of `subscription` received, by partition; 0: none was.
    pub fn next_offsets(&self, subscription: SubscriptionIndex) -> Vec<u64> {
        let mut next = Vec::new();
        self.at(subscription, |partitions| {
            next.resize(next.len().max(partitions.count() as usize), 0);
            for (partition, next) in (0..partitions.count()).zip(&mut next) {
                *next = partitions.next_offset(partition).max(*next);
            }
        });
        next
    }

    /// Of each producer, the number from which on no message is known to have been passed by the consumers of `subscription` in all
    /// of `partitions`: its latest message in the partition that is the furthest behind.
    pub fn passed_until(&self, subscription: SubscriptionIndex, partitions: &[u32], producers: usize) -> Vec<u64> {
        let mut passed = vec![u64::MAX; producers];
        for partition in partitions {
            let mut latest = vec![0; producers];
            self.at(subscription, |partitions| {
                for (producer, latest) in latest.iter_mut().enumerate() {
                    *latest = partitions.next_sequence(*partition, producer as u32).max(*latest);
                }
            });
            for (passed, latest) in passed.iter_mut().zip(latest) {
                *passed = latest.min(*passed);
            }
        }
        passed
    }

    pub(super) fn at(&self, subscription: SubscriptionIndex, mut each: impl FnMut(&Partitions)) {
        for Consumer { shard, tally } in self.shared.consumers.lock().iter() {
            if tally.subscription == subscription {
                each(&shard.lock().partitions);
            }
        }
    }
}

/// Payload after which the clock is read again: a fraction of a millisecond to check and unpack. A client may hand over tens of MB at once,
/// and what it hands over last has waited for all before it.
const BYTES_A_READING: usize = 256 << 10;

/// Records what one consumer receives.
pub struct ArrivalRecorder {
    shared: Arc<ArrivalState>,
    group: usize,
    shard: Arc<Mutex<ArrivalShard>>,
}

impl ArrivalRecorder {
    /// Begins a batch of messages. They arrive when the first of them is handed over, which is when the time is taken: not now, as they may
    /// still be fetched. While many are handed over, it is taken again.
    pub fn batch(&mut self) -> ArrivalBatch<'_> {
        let shard = self.shard.lock();
        ArrivalBatch {
            now_ns: 0,
            bytes_left: 0,
            shared: &self.shared,
            group: self.group,
            before: shard.reception.arrived,
            shard,
        }
    }

    /// Receiving failed, or cannot go on for now: the group may not have been offered what is there.
    pub fn failed(&self) {
        if let Some(group) = self.shared.groups.get(self.group) {
            group.errors.fetch_add(1, Ordering::Release);
        }
    }
}

/// Messages that are handed over together.
pub struct ArrivalBatch<'a> {
    /// 0 before the first message.
    now_ns: u64,
    /// Payload until the clock is read again.
    bytes_left: usize,
    shared: &'a ArrivalState,
    group: usize,
    /// What the shard held when the batch began.
    before: Arrived,
    shard: MutexGuard<'a, ArrivalShard>,
}

impl ArrivalBatch<'_> {
    /// When the latest messages of this batch arrived, in nanoseconds since the trial's epoch; 0 before the first message.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The messages that follow arrived at `now_ns`, which need not be now.
    pub fn arrived_at(&mut self, now_ns: u64) {
        (self.now_ns, self.bytes_left) = (now_ns, usize::MAX);
    }

    /// Counts, opens and verifies one message; returns its trace header if the message is of this trial and intact.
    #[inline]
    pub fn received(&mut self, message: Received<'_>) -> Option<TraceHeader> {
        if self.bytes_left == 0 {
            (self.now_ns, self.bytes_left) = (self.shared.clock.now_ns(), BYTES_A_READING);
        }
        self.bytes_left = self.bytes_left.saturating_sub(message.payload.len().max(1));
        let arrived = &mut self.shard.reception.arrived;
        arrived.messages += 1;
        arrived.payload_bytes += message.payload.len() as u64;
        let (sealed, content) = match message.trace_header {
            Some(trace_header) => (trace_header, message.payload),
            None => (message.payload, message.payload.get(TRACE_HEADER_BYTES..).unwrap_or_default()),
        };
        match TraceHeader::open(sealed, content, self.shared.run_tag) {
            Opened::Intact(trace_header) => {
                self.intact(&message, &trace_header);
                return Some(trace_header);
            }
            Opened::Corrupt => {
                arrived.received += 1;
                arrived.corrupt += 1;
            }
            Opened::Foreign => arrived.foreign += 1,
        }
        self.shard.partitions.pass(message.partition, message.offset);
        None
    }

    #[inline]
    fn intact(&mut self, message: &Received<'_>, trace_header: &TraceHeader) {
        let ArrivalShard { reception, partitions } = &mut *self.shard;
        let arrived = &mut reception.arrived;
        let Some(verification) = &self.shared.verification else {
            arrived.received += 1;
            return first(reception, trace_header, self.now_ns, self.shared);
        };
        let Some(mark) = verification.arrive(self.group, trace_header.producer, trace_header.sequence) else {
            arrived.foreign += 1;
            return partitions.pass(message.partition, message.offset);
        };
        arrived.received += 1;
        match mark {
            Mark::First => {
                match partitions.arrived(
                    message.partition,
                    message.offset,
                    trace_header.producer,
                    trace_header.sequence,
                ) {
                    Order::Kept => {}
                    Order::Broken => arrived.reordered += 1,
                    Order::NotPromised => arrived.unordered += 1,
                    Order::Unchecked => arrived.order_unchecked += 1,
                }
                return first(reception, trace_header, self.now_ns, self.shared);
            }
            Mark::Repeated if message.redelivered => arrived.redelivered += 1,
            Mark::Repeated => arrived.duplicated += 1,
            // Its range of sequences was abandoned: it counts only as `received`.
            Mark::Unknown => {}
        }
        partitions.pass(message.partition, message.offset);
    }
}

/// Only what arrived for the first time has a latency: that of a repetition would be about something else.
#[inline]
fn first(reception: &mut Reception, trace_header: &TraceHeader, now_ns: u64, shared: &ArrivalState) {
    reception.arrived.first += 1;
    reception.arrived.last_first_ns = now_ns;
    if trace_header.measured {
        reception.arrived.consumed += 1;
        reception.arrived.last_consumed_ns = now_ns;
        if !shared.timed.contains(&trace_header.producer) {
            return;
        }
        let received_ns = now_ns + shared.header_offset_ns;
        let since_intended_ns = received_ns.checked_sub(trace_header.intended_ns);
        if since_intended_ns.is_none() {
            let arrived = &mut reception.arrived;
            arrived.before_intended += 1;
            arrived.most_before_intended_ns =
                arrived.most_before_intended_ns.max(trace_header.intended_ns - received_ns);
        }
        let since_intended_ns = since_intended_ns.unwrap_or(0);
        reception.end_to_end.record(since_intended_ns);
        reception.slowest_of_batch_ns = reception.slowest_of_batch_ns.max(Some(since_intended_ns));
    }
}

impl Drop for ArrivalBatch<'_> {
    fn drop(&mut self) {
        let (reception, before) = (&mut self.shard.reception, self.before);
        let consumed = reception.arrived.consumed - before.consumed;
        if consumed > 0 {
            let slowest_ns = reception.slowest_of_batch_ns.take();
            reception.moments += u64::from(slowest_ns.is_some());
            let end_to_end_ns = slowest_ns.unwrap_or(0) as f32;
            reception.timeline.add(self.now_ns, consumed, Slowest { end_to_end_ns, ..Slowest::default() });
        }
        let now = reception.arrived;
        if let Some(group) = self.shared.groups.get(self.group)
            && now.messages > before.messages
        {
            group.corrupt.fetch_add(now.corrupt - before.corrupt, Ordering::Release);
            group.first.fetch_add(now.first - before.first, Ordering::Release);
            group.deliveries.fetch_add(now.messages - before.messages, Ordering::Release);
        }
    }
}

struct ArrivalState {
    clock: Clock,
    /// What is added to a time of this clock to get a time as trace headers carry it.
    header_offset_ns: u64,
    /// The producers whose messages have an end-to-end latency.
    timed: Range<u32>,
    run_tag: u32,
    /// `None` when nothing is verified.
    verification: Option<Arc<Verification>>,
    groups: Box<[Group]>,
    partition_budget: Budget,
    consumers: Mutex<Vec<Consumer>>,
}

/// What is known of a group at once, whenever its recorders were collected.
#[derive(Default)]
struct Group {
    deliveries: AtomicU64,
    first: AtomicU64,
    corrupt: AtomicU64,
    errors: AtomicU64,
    /// What was collected.
    arrived: Mutex<Arrived>,
    latencies: Mutex<GroupLatencies>,
}

/// End-to-end latencies of a group, as they were collected.
#[derive(Default)]
struct GroupLatencies {
    /// Latencies of all that was collected.
    all: CompactDistribution,
    /// Latencies since the last [`GroupLap`].
    lap: CompactDistribution,
    /// First arrivals at the last [`GroupLap`].
    first: u64,
    /// One of its consumers has no latencies of its own, so those of the group are not known.
    is_untimed: bool,
}

/// What a group received since the last lap, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupLap {
    /// First arrivals since the last lap, as [`Arrived::first`].
    pub consumed: u64,
    /// Messages of the trial that have arrived so far, damaged ones included, without the repetitions that verification found.
    pub arrived: u64,
    /// Median and 99th percentile of the end-to-end latency since the last lap; `None`: no measured message arrived, or the trial has too
    /// many consumers to keep it.
    pub end_to_end_p50_ns: Option<u64>,
    pub end_to_end_p99_ns: Option<u64>,
}

/// How far a group is now, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupProgress {
    /// Messages handed over.
    pub deliveries: u64,
    /// First arrivals, as [`Arrived::first`].
    pub first: u64,
    /// Damaged messages, as [`Arrived::corrupt`].
    pub corrupt: u64,
    /// Times that receiving failed, or that a consumer was found without a connection.
    pub errors: u64,
}

/// One consumer: what it records now, and what was collected of it.
struct Consumer {
    shard: Arc<Mutex<ArrivalShard>>,
    tally: ConsumerTally,
}

struct ArrivalShard {
    reception: Reception,
    partitions: Partitions,
}

impl Group {
    /// Adds what one of its consumers received; `None`: it has no latencies of its own.
    fn add_latencies(&self, latencies: Option<CompactDistribution>) {
        let mut of_group = self.latencies.lock();
        match latencies {
            Some(latencies) if !latencies.is_empty() => {
                of_group.all.merge(&latencies);
                of_group.lap.merge(&latencies);
            }
            Some(_) => {}
            None => of_group.is_untimed = true,
        }
    }

    /// Ends a lap.
    fn lap(&self) -> GroupLap {
        let arrived = *self.arrived.lock();
        let mut latencies = self.latencies.lock();
        let lap = mem::take(&mut latencies.lap);
        let is_known = !lap.is_empty() && !latencies.is_untimed;
        let at = |quantile| is_known.then(|| lap.value_at_quantile(quantile));
        GroupLap {
            consumed: arrived.first - mem::replace(&mut latencies.first, arrived.first),
            arrived: arrived.first + arrived.corrupt,
            end_to_end_p50_ns: at(0.5),
            end_to_end_p99_ns: at(0.99),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/measure/arrivals.rs"]
mod tests;
