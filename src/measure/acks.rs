//! Where outcomes go: each thread that learns of them has a recorder of its own, and the trial reads them all.
//!
//! Outcomes that became known at the same moment are one [`AckBatch`], which counts once for all messages that were sent together.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::clock::Clock;
use super::errors::FailureClass;
use super::histogram::{Acknowledged, PartitionIndex, PartitionNames, PartitionShard, Slowest};
use super::interval::{Interval, SegmentEnds, Window};
use super::tags::{SendRun, SendTag};
use super::verification::{Span, Verification};

/// Recorders with memory of their own: each takes 0.7 MB, and all are read and cleared once a second.
const MAX_SHARDS: usize = 64;

/// One trial's outcomes: hands out recorders and holds the producers' windows.
#[derive(Clone)]
pub struct Acks {
    shared: Arc<AckState>,
}

impl Acks {
    /// For a trial of `producers`, timed by `clock`, in which nothing is verified.
    pub fn new(clock: Clock, producers: usize, open_loop: bool) -> Self {
        Acks::verified(clock, producers, open_loop, None, None)
    }

    /// The same, with where to mark what was acknowledged, and with figures of single partitions.
    pub fn verified(
        clock: Clock,
        producers: usize,
        open_loop: bool,
        verification: Option<Arc<Verification>>,
        partitions: Option<PartitionNames>,
    ) -> Self {
        let rejections = Arc::new(Mutex::new(AckShard::default()));
        let windows = (0..producers).map(|_| Window::default()).collect();
        let (stopped, segment_ends) = (AtomicBool::new(false), OnceLock::new());
        let shards = Mutex::new(vec![rejections.clone()]);
        #[rustfmt::skip]
        let state = AckState {
            clock, open_loop, windows, stopped, verification, partitions, segment_ends, shards, rejections,
        };
        Acks { shared: Arc::new(state) }
    }

    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// A recorder for one thread or task. Where there are many, several of them share their memory.
    pub fn recorder(&self) -> AckRecorder {
        let mut shards = self.shared.shards.lock();
        if shards.len() <= MAX_SHARDS {
            let closed = shards[0].lock().closed;
            shards.push(Arc::new(Mutex::new(AckShard { closed, ..AckShard::default() })));
        }
        // The one with the fewest recorders. The first is for what the engine itself refuses.
        let fewest = shards[1..].iter().min_by_key(|shard| Arc::strong_count(shard));
        let shard = fewest.expect("one was added if there was none").clone();
        AckRecorder { acks: self.clone(), shard }
    }

    /// Where messages are counted that are written to a partition: `None` is a topic without partitions.
    pub fn partition(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        self.shared.partitions.as_ref().map_or(PartitionIndex::UNKNOWN, |names| names.index_of(topic, partition))
    }

    /// What was acknowledged in each partition; `None`: partitions have no figures of their own. For the end of a trial: recorders wait meanwhile.
    pub fn by_partition(&self) -> Option<Acknowledged> {
        let mut all = Acknowledged::in_partitions(self.shared.partitions.as_ref()?);
        self.shared.shards.lock().iter().for_each(|shard| all.add(&shard.lock().partitions));
        Some(all)
    }

    /// Before the load begins: response times are counted by these segments as well.
    pub fn divide_into(&self, segments: SegmentEnds) {
        // Set once: a trial has one load.
        let _ = self.shared.segment_ends.set(segments);
    }

    /// One producer's window.
    pub fn window(&self, producer_index: usize) -> &Window {
        &self.shared.windows[producer_index]
    }

    /// The windows of all producers, in the order of their indices.
    pub fn windows(&self) -> &[Window] {
        &self.shared.windows
    }

    /// Messages of all producers whose outcome is not known.
    pub fn in_flight(&self) -> u64 {
        self.shared.windows.iter().map(Window::in_flight).sum()
    }

    /// Messages of all producers whose outcome is known.
    pub fn resolved(&self) -> u64 {
        self.shared.windows.iter().map(Window::resolved).sum()
    }

    /// Messages that all producers have handed over.
    pub fn submitted(&self) -> u64 {
        self.shared.windows.iter().map(Window::submitted).sum()
    }

    /// Records that the client did not take a message.
    pub fn reject(&self, send_tag: SendTag, class: FailureClass, message: impl FnOnce() -> String) {
        AckBatch::begin(&self.shared, &self.shared.rejections, self.shared.clock.now_ns())
            .failed(send_tag, class, message);
    }

    /// The flag that ends every wait for a window.
    pub fn stopped(&self) -> &AtomicBool {
        &self.shared.stopped
    }

    /// Sets [`Acks::stopped`] and wakes all waiting producers to check it.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.windows.iter().for_each(Window::wake);
    }

    /// Everything recorded since the last call, merged into `into`, which must be clear. `spare` must be clear too and
    /// serves as each recorder's next interval in turn, so that no recorder is held up for longer than an exchange.
    pub fn collect(&self, into: &mut Interval, spare: &mut Interval) {
        self.take(into, spare, false);
    }

    /// As [`Acks::collect`], and closes the account: later outcomes stay unresolved.
    pub fn close(&self, into: &mut Interval, spare: &mut Interval) {
        self.take(into, spare, true);
    }

    fn take(&self, into: &mut Interval, spare: &mut Interval, close: bool) {
        for shard in self.shared.shards.lock().iter() {
            let mut shard_guard = shard.lock();
            mem::swap(&mut shard_guard.interval, spare);
            shard_guard.closed |= close;
            drop(shard_guard);
            into.merge(spare);
            spare.clear();
        }
    }
}

/// Records outcomes for one thread, task or connection; what it shares with others is locked once per batch.
pub struct AckRecorder {
    acks: Acks,
    shard: Arc<Mutex<AckShard>>,
}

impl AckRecorder {
    /// Whether outcomes must identify their message: their send tags need sequences.
    pub fn needs_sequences(&self) -> bool {
        self.acks.shared.verification.is_some()
    }

    /// As [`Acks::partition`].
    pub fn partition(&self, topic: &str, partition: Option<u32>) -> PartitionIndex {
        self.acks.partition(topic, partition)
    }

    /// The time since the trial's epoch.
    pub fn now_ns(&self) -> u64 {
        self.acks.clock().now_ns()
    }

    /// Begins a batch of outcomes that all became known now.
    pub fn batch(&self) -> AckBatch<'_> {
        self.batch_at(self.now_ns())
    }

    /// Begins a batch of outcomes that all became known at `now_ns`.
    pub fn batch_at(&self, now_ns: u64) -> AckBatch<'_> {
        AckBatch::begin(&self.acks.shared, &self.shard, now_ns)
    }
}

/// Spans of acknowledged messages that are marked together at most.
const MAX_SPANS: usize = 4096;

/// Outcomes that became known at the same moment. Windows open when it is dropped.
pub struct AckBatch<'a> {
    now_ns: u64,
    shared: &'a AckState,
    shard: MutexGuard<'a, AckShard>,
    closed: bool,
    verified: bool,
    /// Where messages are counted besides, if partitions have figures of their own.
    partitions: Option<&'a PartitionNames>,
    /// The partition of the messages that are acknowledged next.
    partition: PartitionIndex,
    /// The message acknowledged last. Messages that were sent together have one latency, and are counted at once.
    last: SendTag,
    /// Acknowledged messages of the same producer, of the warm-up or not, that are not in the tally yet. Not as wide as their bytes, so that
    /// the compiler adds to each by itself: as one vector, each addition waits for the store of the last, which costs 0.3 ns a message.
    messages: u32,
    payload_bytes: u64,
    /// How many of these messages have their latency counted.
    timed: u32,
    /// Messages that the batch acknowledged, of the measured phase and of the warm-up.
    acknowledged: u64,
    acknowledged_in_warm_up: u64,
    /// The longest latencies of the measured ones.
    slowest: SlowestOfBatch,
}

/// The longest latencies of a batch, in nanoseconds.
#[derive(Default)]
struct SlowestOfBatch {
    response_ns: u64,
    service_ns: u64,
    schedule_delay_ns: u64,
}

impl<'a> AckBatch<'a> {
    fn begin(shared: &'a AckState, shard: &'a Mutex<AckShard>, now_ns: u64) -> Self {
        let shard = shard.lock();
        AckBatch {
            now_ns,
            shared,
            closed: shard.closed,
            shard,
            verified: shared.verification.is_some(),
            partitions: shared.partitions.as_ref(),
            partition: PartitionIndex::UNKNOWN,
            last: SendTag::new(0, 0, 0, 0, false),
            messages: 0,
            payload_bytes: 0,
            timed: 0,
            acknowledged: 0,
            acknowledged_in_warm_up: 0,
            slowest: SlowestOfBatch::default(),
        }
    }

    /// When these outcomes became known, in nanoseconds since the trial's epoch.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The messages that are acknowledged from here on were written to `partition`.
    #[inline]
    pub fn to_partition(&mut self, partition: PartitionIndex) {
        if partition != self.partition {
            self.count_latency();
            self.partition = partition;
        }
    }

    /// The broker acknowledged a message of `payload_bytes`.
    #[inline]
    pub fn acknowledged(&mut self, send_tag: SendTag, payload_bytes: usize) {
        self.acknowledged_from(send_tag, 1, payload_bytes as u64);
    }

    /// The broker acknowledged messages that were sent together.
    #[inline]
    pub fn acknowledged_run(&mut self, run: &SendRun) {
        self.acknowledged_from(run.first, run.messages, u64::from(run.payload_bytes));
    }

    /// So many messages from `send_tag` on, which were sent together, of `payload_bytes` in all.
    #[inline(always)]
    fn acknowledged_from(&mut self, send_tag: SendTag, messages: u32, payload_bytes: u64) {
        if self.closed {
            return;
        }
        if !send_tag.is_counted_with(self.last) {
            self.count_latency();
            self.count_messages();
            self.last = send_tag;
        } else if send_tag.measured() && !send_tag.was_sent_with(self.last) {
            self.count_latency();
            self.last = send_tag;
        }
        self.messages += messages;
        self.payload_bytes += payload_bytes;
        if self.verified {
            self.note(send_tag, u64::from(messages));
        }
    }

    /// Counts the latency of the messages that were sent with the last one.
    #[inline(always)]
    fn count_latency(&mut self) {
        let messages = u64::from(self.messages - self.timed);
        if messages == 0 || !self.last.measured() {
            return;
        }
        self.timed = self.messages;
        let service_ns = self.last.service_ns(self.now_ns);
        let interval = &mut self.shard.interval;
        interval.service.record_n(service_ns, messages);
        let mut headline_ns = service_ns;
        self.slowest.service_ns = self.slowest.service_ns.max(service_ns);
        if self.shared.open_loop {
            let delay_ns = self.last.schedule_delay_ns();
            headline_ns += delay_ns;
            self.slowest.response_ns = self.slowest.response_ns.max(headline_ns);
            self.slowest.schedule_delay_ns = self.slowest.schedule_delay_ns.max(delay_ns);
            interval.response.record_n(headline_ns, messages);
            interval.schedule_delay.record_n(delay_ns, messages);
            if let Some(ends) = self.shared.segment_ends.get() {
                interval.segments.record(ends, self.now_ns, headline_ns, messages);
            }
        }
        if let Some(names) = self.partitions {
            let partition = names.for_message(self.partition, self.last.producer_index());
            self.shard.partitions.count(names, partition, self.now_ns, headline_ns, messages);
        }
    }

    /// Counts what was acknowledged of the last message's producer, whose window opens.
    #[inline(never)]
    fn count_messages(&mut self) {
        if self.messages == 0 {
            return;
        }
        let messages = u64::from(self.messages);
        let interval = &mut self.shard.interval;
        let tally = if self.last.measured() {
            self.acknowledged += messages;
            &mut interval.measured
        } else {
            self.acknowledged_in_warm_up += messages;
            &mut interval.warm_up
        };
        tally.acknowledged += messages;
        tally.payload_bytes += self.payload_bytes;
        self.shared.windows[self.last.producer_index()].resolve(messages);
        (self.messages, self.payload_bytes, self.timed) = (0, 0, 0);
    }

    /// Notes acknowledged messages from `send_tag` on, to be marked with their neighbours.
    #[inline(never)]
    fn note(&mut self, send_tag: SendTag, messages: u64) {
        let (producer_index, sequence) = (send_tag.producer_index() as u32, send_tag.sequence());
        let spans = &mut self.shard.spans;
        match spans.last_mut() {
            Some(last) if last.producer_index == producer_index && last.end == sequence => last.end += messages,
            _ => {
                spans.push(Span { producer_index, begin: sequence, end: sequence + messages });
                if spans.len() >= MAX_SPANS {
                    self.mark();
                }
            }
        }
    }

    fn mark(&mut self) {
        if let Some(verification) = &self.shared.verification {
            verification.acknowledge(&mut self.shard.spans);
            self.shard.spans.clear();
        }
    }

    /// A transaction of measured messages has ended: committed in so much time, or aborted.
    pub fn transaction_ended(&mut self, committed: Option<Duration>) {
        if self.closed {
            return;
        }
        let transactions = self.shard.interval.transactions.get_or_insert_default();
        match committed {
            Some(took) => {
                transactions.committed += 1;
                transactions.commit.record(took.as_nanos() as u64);
            }
            None => transactions.aborted += 1,
        }
    }

    /// A message failed. `message` is the client's or broker's reason.
    pub fn failed(&mut self, send_tag: SendTag, class: FailureClass, message: impl FnOnce() -> String) {
        if self.closed {
            return;
        }
        let now_ns = self.now_ns;
        let interval = &mut self.shard.interval;
        if send_tag.measured() {
            interval.measured.failed += 1;
            interval.errors.record(class, now_ns, message);
        } else {
            interval.warm_up.failed += 1;
        }
        self.shared.windows[send_tag.producer_index()].resolve(1);
    }
}

impl Drop for AckBatch<'_> {
    fn drop(&mut self) {
        self.count_latency();
        self.count_messages();
        if self.acknowledged > 0 {
            let interval = &mut self.shard.interval;
            interval.moments += 1;
            interval.last_acknowledged_ns = self.now_ns;
        }
        let all = self.acknowledged + self.acknowledged_in_warm_up;
        if all > 0 {
            let slowest = Slowest {
                response_ns: self.slowest.response_ns as f32,
                service_ns: self.slowest.service_ns as f32,
                schedule_delay_ns: self.slowest.schedule_delay_ns as f32,
                end_to_end_ns: 0.0,
            };
            self.shard.interval.timeline.add(self.now_ns, all, slowest);
        }
        self.mark();
    }
}

struct AckState {
    clock: Clock,
    /// Whether messages have intended times, so that response time and schedule delay exist.
    open_loop: bool,
    windows: Box<[Window]>,
    stopped: AtomicBool,
    /// Where it is marked which messages were acknowledged, if anything is verified.
    verification: Option<Arc<Verification>>,
    /// Where partitions have figures of their own.
    partitions: Option<PartitionNames>,
    /// Where the schedule changes its rate.
    segment_ends: OnceLock<SegmentEnds>,
    shards: Mutex<Vec<Arc<Mutex<AckShard>>>>,
    /// Takes what the engine itself refuses: rare, so shared by all producers.
    rejections: Arc<Mutex<AckShard>>,
}

/// One recorder's part of the trial.
#[derive(Default)]
struct AckShard {
    interval: Interval,
    /// Acknowledged messages of a batch that are not marked yet: empty between batches, kept for its memory.
    spans: Vec<Span>,
    partitions: PartitionShard,
    /// Set when the trial has been accounted for: outcomes that come later stay unresolved, also those of a recorder that is made later.
    closed: bool,
}

#[cfg(test)]
#[path = "../../tests/unit/measure/acks.rs"]
mod tests;
