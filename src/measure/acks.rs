//! Where outcomes go: each thread that learns of them has a recorder of its own, and the trial reads them all.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::clock::Clock;
use super::failure::FailureClass;
use super::interval::Interval;
use super::send_tag::SendTag;
use super::verification::{Span, Verification};
use super::window::Window;

/// One trial's outcomes: hands out recorders and holds the producers' windows.
#[derive(Clone)]
pub struct Acks {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    /// Whether messages have intended times, so that response time and schedule delay exist.
    open_loop: bool,
    windows: Box<[Window]>,
    stopped: AtomicBool,
    /// Where it is marked which messages were acknowledged, if anything is verified.
    verification: Option<Arc<Verification>>,
    shards: Mutex<Vec<Arc<Mutex<Shard>>>>,
    /// Takes what the engine itself refuses: rare, so shared by all producers.
    rejections: Arc<Mutex<Shard>>,
}

/// One recorder's part of the trial.
#[derive(Default)]
struct Shard {
    interval: Interval,
    /// Acknowledged messages of a batch that are not marked yet: empty between batches, kept for its memory.
    spans: Vec<Span>,
    /// Set when the trial has been accounted for: outcomes that come later find it closed and stay unresolved.
    closed: bool,
}

/// So many stretches are marked at once at the latest.
const MOST_SPANS: usize = 4096;

impl Acks {
    /// For a trial of `producers`, timed by `clock`, in which nothing is verified.
    pub fn new(clock: Clock, producers: usize, open_loop: bool) -> Self {
        Acks::verified(clock, producers, open_loop, None)
    }

    /// The same, with where to mark what was acknowledged.
    pub fn verified(clock: Clock, producers: usize, open_loop: bool, verification: Option<Arc<Verification>>) -> Self {
        let rejections = Arc::new(Mutex::new(Shard::default()));
        let windows = (0..producers).map(|_| Window::new()).collect();
        let stopped = AtomicBool::new(false);
        let shards = Mutex::new(vec![rejections.clone()]);
        Acks { shared: Arc::new(Shared { clock, open_loop, windows, stopped, verification, shards, rejections }) }
    }

    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// A recorder for one thread or task.
    pub fn recorder(&self) -> AckRecorder {
        let shard = Arc::new(Mutex::new(Shard::default()));
        self.shared.shards.lock().push(shard.clone());
        AckRecorder { shared: self.shared.clone(), shard }
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
        AckBatch::begin(&self.shared, &self.shared.rejections).failed(send_tag, class, message);
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
    shared: Arc<Shared>,
    shard: Arc<Mutex<Shard>>,
}

impl AckRecorder {
    /// Whether outcomes must identify their message: their send tags need sequences.
    pub fn needs_sequences(&self) -> bool {
        self.shared.verification.is_some()
    }

    /// Begins a batch of outcomes that all became known now.
    pub fn batch(&self) -> AckBatch<'_> {
        AckBatch::begin(&self.shared, &self.shard)
    }
}

/// Outcomes that became known at the same moment. Windows open when it is dropped.
pub struct AckBatch<'a> {
    now_ns: u64,
    shared: &'a Shared,
    shard: MutexGuard<'a, Shard>,
    closed: bool,
    verified: bool,
    /// The message acknowledged last. Messages that were sent together have one latency, and are counted at once.
    last: SendTag,
    /// Acknowledged messages of the same producer, of the warm-up or not, that are not in the tally yet.
    messages: u64,
    payload_bytes: u64,
    /// Of these messages, those whose latency is counted.
    timed: u64,
    /// Messages that the batch acknowledged, of the measured phase and of the warm-up.
    acknowledged: u64,
    acknowledged_in_warm_up: u64,
}

impl<'a> AckBatch<'a> {
    fn begin(shared: &'a Shared, shard: &'a Mutex<Shard>) -> Self {
        let now_ns = shared.clock.now_ns();
        let shard = shard.lock();
        AckBatch {
            now_ns,
            shared,
            closed: shard.closed,
            shard,
            verified: shared.verification.is_some(),
            last: SendTag::new(0, 0, 0, 0, false),
            messages: 0,
            payload_bytes: 0,
            timed: 0,
            acknowledged: 0,
            acknowledged_in_warm_up: 0,
        }
    }

    /// When these outcomes became known, in nanoseconds since the trial's epoch.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The broker acknowledged a message of `payload_bytes`.
    #[inline]
    pub fn acknowledged(&mut self, send_tag: SendTag, payload_bytes: usize) {
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
        self.messages += 1;
        self.payload_bytes += payload_bytes as u64;
        if self.verified {
            self.note(send_tag);
        }
    }

    /// Counts the latency of the messages that were sent with the last one.
    #[inline(always)]
    fn count_latency(&mut self) {
        let messages = self.messages - self.timed;
        if messages == 0 || !self.last.measured() {
            return;
        }
        self.timed = self.messages;
        let service_ns = self.last.service_ns(self.now_ns);
        let interval = &mut self.shard.interval;
        interval.service.record_n(service_ns, messages);
        if self.shared.open_loop {
            let delay_ns = self.last.schedule_delay_ns();
            interval.response.record_n(service_ns + delay_ns, messages);
            interval.schedule_delay.record_n(delay_ns, messages);
        }
    }

    /// Counts what was acknowledged of the last message's producer, whose window opens.
    #[inline(never)]
    fn count_messages(&mut self) {
        if self.messages == 0 {
            return;
        }
        let interval = &mut self.shard.interval;
        let tally = if self.last.measured() {
            self.acknowledged += self.messages;
            &mut interval.measured
        } else {
            self.acknowledged_in_warm_up += self.messages;
            &mut interval.warm_up
        };
        tally.acknowledged += self.messages;
        tally.payload_bytes += self.payload_bytes;
        self.shared.windows[self.last.producer_index()].resolve(self.messages);
        (self.messages, self.payload_bytes, self.timed) = (0, 0, 0);
    }

    /// Notes an acknowledged message, to be marked with its neighbours.
    #[inline(never)]
    fn note(&mut self, send_tag: SendTag) {
        let (producer_index, sequence) = (send_tag.producer_index() as u32, send_tag.sequence());
        let spans = &mut self.shard.spans;
        match spans.last_mut() {
            Some(last) if last.producer_index == producer_index && last.end == sequence => last.end += 1,
            _ => {
                spans.push(Span { producer_index, begin: sequence, end: sequence + 1 });
                if spans.len() >= MOST_SPANS {
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
            self.shard.interval.timeline.add(self.now_ns, all);
        }
        if !self.shard.spans.is_empty() {
            self.mark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(acks: &Acks) -> Interval {
        let mut interval = Interval::default();
        acks.close(&mut interval, &mut Interval::default());
        interval
    }

    #[test]
    fn outcomes_of_several_recorders_add_up_and_open_the_right_windows() {
        let acks = Acks::new(Clock::start(), 2, true);
        acks.window(0).submit(3);
        acks.window(1).submit(2);
        let (first, second) = (acks.recorder(), acks.recorder());
        {
            let mut batch = first.batch();
            batch.acknowledged(SendTag::new(0, 0, 0, 0, true), 100);
            batch.acknowledged(SendTag::new(1, 0, 0, 0, true), 100);
            batch.acknowledged(SendTag::new(0, 0, 0, 0, false), 100);
        }
        second.batch().failed(SendTag::new(1, 0, 0, 0, true), FailureClass::Timeout, || "too late".into());
        assert_eq!((acks.window(0).in_flight(), acks.window(1).in_flight()), (1, 0));
        acks.reject(SendTag::new(0, 0, 0, 0, true), FailureClass::TooLarge, || "no".into());
        assert_eq!(acks.in_flight(), 0);
        let interval = collected(&acks);
        assert_eq!(interval.measured, Tally { acknowledged: 2, failed: 2, payload_bytes: 200 });
        assert_eq!(interval.warm_up, Tally { acknowledged: 1, failed: 0, payload_bytes: 100 });
        assert_eq!(interval.service.histogram().len(), 2);
        let classes: Vec<_> = interval.errors.iter().map(|(class, tally)| (class, tally.count)).collect();
        assert_eq!(classes, [(FailureClass::Timeout, 1), (FailureClass::TooLarge, 1)]);
    }

    #[test]
    fn what_comes_after_the_account_is_closed_stays_unresolved() {
        let acks = Acks::new(Clock::start(), 1, false);
        acks.window(0).submit(1);
        let recorder = acks.recorder();
        assert_eq!(collected(&acks).measured.resolved(), 0);
        recorder.batch().acknowledged(SendTag::new(0, 0, 0, 0, true), 1);
        assert_eq!(acks.in_flight(), 1);
        assert_eq!(collected(&acks).measured.resolved(), 0);
    }

    #[test]
    fn messages_that_were_acknowledged_together_are_one_moment() {
        let acks = Acks::new(Clock::start(), 1, false);
        let recorder = acks.recorder();
        for messages in [1, 500] {
            let mut batch = recorder.batch();
            for sent_ns in 0..messages {
                batch.acknowledged(SendTag::new(0, 0, sent_ns * 1_000, 0, true), 1);
            }
        }
        recorder.batch().acknowledged(SendTag::new(0, 0, 0, 0, false), 1);
        recorder.batch().failed(SendTag::new(0, 0, 0, 0, true), FailureClass::Timeout, String::new);
        drop(recorder.batch());
        let interval = collected(&acks);
        assert_eq!((interval.measured.acknowledged, interval.moments), (501, 2));
        let on_the_timeline: u64 = interval.timeline.bins().iter().map(|bin| bin.messages).sum();
        assert_eq!(on_the_timeline, 502, "the warm-up's as well");
    }

    #[test]
    fn response_is_service_plus_schedule_delay() {
        let acks = Acks::new(Clock::start(), 1, true);
        acks.recorder().batch().acknowledged(SendTag::new(0, 0, 0, 5_000_000, true), 1);
        let interval = collected(&acks);
        let of = |distribution: &super::super::Distribution| distribution.histogram().max();
        assert!(of(&interval.response) >= of(&interval.service) + 4_990_000);
        assert!(of(&interval.schedule_delay).abs_diff(5_000_000) < 5_000);
    }

    #[test]
    fn an_answer_that_comes_after_many_minutes_has_its_whole_service_time_or_is_counted_beyond_the_range() {
        let clock = Clock::started_ago(Duration::from_secs(2_000));
        let sent_ns = |ago_s: u64| clock.now_ns() - ago_s * 1_000_000_000;
        let acks = Acks::new(clock, 1, true);
        let recorder = acks.recorder();
        for ago_s in [480, 1_990] {
            recorder.batch().acknowledged(SendTag::new(0, 0, sent_ns(ago_s), 0, true), 1);
        }
        let service = collected(&acks).service;
        assert_eq!((service.histogram().len(), service.beyond_range()), (1, 1));
        let told_s = service.histogram().max() / 1_000_000_000;
        assert!((480..=485).contains(&told_s), "{told_s}");
    }

    #[test]
    fn acknowledged_messages_of_all_producers_are_marked_and_failed_ones_are_not() {
        let verification = Arc::new(Verification::new(3, 1));
        let acks = Acks::verified(Clock::start(), 3, false, Some(verification.clone()));
        let recorder = acks.recorder();
        assert!(recorder.needs_sequences());
        {
            let mut batch = recorder.batch();
            for sequence in 0..10_000 {
                for producer_index in 0..3 {
                    let send_tag = SendTag::new(producer_index, sequence, 0, 0, true);
                    match (producer_index, sequence % 10) {
                        (2, 0) => batch.failed(send_tag, FailureClass::Refused, || "no".into()),
                        _ => batch.acknowledged(send_tag, 1),
                    }
                }
            }
        }
        let missing =
            |producer_index| verification.account(0, |producer| u64::from(producer == producer_index) * u64::MAX).lost;
        assert_eq!((missing(0), missing(1), missing(2)), (10_000, 10_000, 9_000));
    }

    use super::super::interval::Tally;
    use std::time::Duration;
}
