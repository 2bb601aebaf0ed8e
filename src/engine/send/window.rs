//! What bounds a load: when it begins and ends, how much is left of it, how much of it one producer may have in flight, and rounds that all producers
//! begin together.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::measure::{Acks, Clock, Distribution};
use crate::scenario::{Confirm, Stop};

/// How long before the load its producers are woken: tokio's timer counts in milliseconds, and wakes late.
const WOKEN_BEFORE: Duration = Duration::from_millis(3);

/// The times of a trial, in nanoseconds since its epoch, and the word to stop.
pub struct TrialWindow {
    acks: Acks,
    /// When the first message is intended.
    pub load_start_ns: u64,
    /// Messages intended from here on are measured.
    pub measure_start_ns: u64,
    /// Nothing is intended from here on: where the scenario's duration ends, or, in an open loop bounded by messages, right
    /// after its last one is due. `u64::MAX` in a closed loop that is not limited in time, and where that moment is not known.
    pub load_end_ns: u64,
    stop: CancellationToken,
    refused: AtomicU64,
    failure: OnceLock<String>,
    first_sent: Mutex<Option<FirstSent>>,
    wake_up_delays: Mutex<WakeUpDelays>,
}

/// How late wake-ups made the measured messages that waited for them, one value for each message.
#[derive(Debug, Clone, Default)]
pub struct WakeUpDelays {
    /// What the timers were late.
    pub timers: Distribution,
    /// The same, and what `load.pacing` made the messages wait.
    pub all: Distribution,
}

/// When the first message of the load was handed to a client, in nanoseconds since the trial's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstSent {
    pub sent_ns: u64,
    /// When it was due: in a closed loop, when the load began.
    pub due_ns: u64,
}

impl TrialWindow {
    /// `due_by_ns`: when a bounded schedule has its last message due, since the load's begin.
    pub fn new(
        acks: Acks,
        load_start_ns: u64,
        warm_up: Duration,
        duration: Option<Duration>,
        due_by_ns: Option<u64>,
    ) -> Self {
        let measure_start_ns = load_start_ns + warm_up.as_nanos() as u64;
        let by_duration = duration.map_or(u64::MAX, |duration| measure_start_ns + duration.as_nanos() as u64);
        let by_messages = due_by_ns.map_or(u64::MAX, |due_by_ns| load_start_ns.saturating_add(due_by_ns));
        let load_end_ns = by_duration.min(by_messages);
        TrialWindow {
            acks,
            load_start_ns,
            measure_start_ns,
            load_end_ns,
            stop: CancellationToken::new(),
            refused: AtomicU64::new(0),
            failure: OnceLock::new(),
            first_sent: Mutex::new(None),
            wake_up_delays: Mutex::default(),
        }
    }

    pub fn clock(&self) -> Clock {
        self.acks.clock()
    }

    /// When nothing more is intended; `None` where that is not known before the load has ended.
    pub fn nominal_end_ns(&self) -> Option<u64> {
        Some(self.load_end_ns).filter(|end_ns| *end_ns != u64::MAX)
    }

    /// Whether a message intended at `at_ns` may be sent.
    #[inline]
    pub fn is_open(&self, at_ns: u64) -> bool {
        at_ns < self.load_end_ns && !self.is_stopped()
    }

    /// Whether a message intended at `at_ns` is measured.
    #[inline]
    pub fn is_measured(&self, at_ns: u64) -> bool {
        at_ns >= self.measure_start_ns
    }

    /// Whether [`TrialWindow::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.acks.stopped().load(Ordering::Relaxed)
    }

    /// Resolves when the load begins, to tens of microseconds, or has been stopped before.
    pub async fn begun(&self) {
        let begin = self.clock().instant(self.load_start_ns);
        tokio::select! {
            () = tokio::time::sleep_until(Instant::from_std(begin.checked_sub(WOKEN_BEFORE).unwrap_or(begin))) => {}
            () = self.stopped() => return,
        }
        // The others of this runtime wait for the same moment.
        thread::sleep(begin.saturating_duration_since(std::time::Instant::now()));
    }

    /// Ends the load for all producers, also for those that wait.
    pub fn stop(&self) {
        self.acks.stop();
        self.stop.cancel();
    }

    /// Counts a message that a client refused.
    pub fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages that clients refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Ends the load because a producer can send nothing more. The first reason counts.
    pub fn fail(&self, reason: String) {
        self.failure.get_or_init(|| reason);
        self.stop();
    }

    /// Why the load cannot go on, as a sentence.
    pub fn failure(&self) -> Option<String> {
        let reason = self.failure.get()?;
        Some(format!("a producer could send nothing more, so the load was ended: {reason}"))
    }

    /// Notes the first message of a producer. The earliest of all counts.
    pub fn note_first(&self, first: FirstSent) {
        let mut earliest = self.first_sent.lock();
        if earliest.is_none_or(|earliest| first.sent_ns < earliest.sent_ns) {
            *earliest = Some(first);
        }
    }

    /// The load's first message; `None`: none was sent yet.
    pub fn first_sent(&self) -> Option<FirstSent> {
        *self.first_sent.lock()
    }

    /// For the producers of an open loop to add to.
    pub fn wake_up_delays(&self) -> MutexGuard<'_, WakeUpDelays> {
        self.wake_up_delays.lock()
    }

    /// Resolves once the load has been stopped.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

/// What bounds one producer's messages in flight.
#[derive(Debug, Clone, Copy)]
pub struct WindowRule {
    /// Most messages in flight; at least `batch`.
    pub in_flight: u64,
    /// Messages per batch.
    pub batch: u64,
    pub confirm: Confirm,
}

impl WindowRule {
    /// How many messages must be resolved before `count` more may be submitted to `submitted`.
    pub fn needed(self, submitted: u64, count: u64) -> u64 {
        let needed = (submitted + count).saturating_sub(self.in_flight);
        match self.confirm {
            Confirm::Message => needed,
            // Credits come back in whole batches; the last one may be a short one.
            Confirm::Batch => needed.next_multiple_of(self.batch).min(submitted),
        }
    }
}

/// The measured messages and bytes that may still be sent; without a limit, as many as you like.
#[derive(Debug)]
pub struct Quota {
    messages: AtomicU64,
    payload_bytes: AtomicI64,
}

impl Quota {
    /// `payload_size`: the size that all payloads share, if they do. It turns a limit in bytes into one in messages (the
    /// last message may go beyond it by less than its size); where sizes differ, each producer's last batch may.
    pub fn new(stop: &Stop, payload_size: Option<usize>) -> Self {
        let mut messages = stop.messages.unwrap_or(u64::MAX);
        let mut payload_bytes = i64::MAX;
        match (stop.payload_bytes, payload_size) {
            (Some(bytes), Some(size)) => messages = messages.min(bytes.div_ceil(size.max(1) as u64)),
            (Some(bytes), None) => payload_bytes = i64::try_from(bytes).unwrap_or(i64::MAX),
            (None, _) => {}
        }
        Quota { messages: AtomicU64::new(messages), payload_bytes: AtomicI64::new(payload_bytes) }
    }

    /// Rounds the messages up to whole rounds of `round` messages.
    pub fn in_rounds_of(self, round: u64) -> Self {
        let messages = self.messages.into_inner();
        let rounded = messages.checked_next_multiple_of(round).unwrap_or(u64::MAX);
        Quota { messages: AtomicU64::new(rounded), ..self }
    }

    /// The part of it that one process may send: `messages` of the messages, and its part of the bytes.
    pub fn for_process(self, messages: Option<u64>, bytes: impl Fn(u64) -> u64) -> Self {
        let of_bytes = |limit: i64| if limit == i64::MAX { limit } else { bytes(limit.max(0) as u64) as i64 };
        Quota {
            messages: AtomicU64::new(messages.unwrap_or(u64::MAX)),
            payload_bytes: AtomicI64::new(of_bytes(self.payload_bytes.into_inner())),
        }
    }

    /// The messages that may still be sent; `None`: without a limit in messages.
    pub fn messages(&self) -> Option<u64> {
        Some(self.messages.load(Ordering::Relaxed)).filter(|messages| *messages != u64::MAX)
    }

    /// Whether nothing more may be sent.
    pub fn is_used_up(&self) -> bool {
        self.payload_bytes.load(Ordering::Relaxed) <= 0 || self.messages.load(Ordering::Relaxed) == 0
    }

    /// Takes up to `wanted` messages: 0 means that the load has ended.
    #[inline]
    pub fn take(&self, wanted: u64) -> u64 {
        if self.payload_bytes.load(Ordering::Relaxed) <= 0 {
            return 0;
        }
        let mut left = self.messages.load(Ordering::Relaxed);
        loop {
            if left == u64::MAX {
                return wanted;
            }
            let taken = wanted.min(left);
            match self.messages.compare_exchange_weak(left, left - taken, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Counts payload bytes that were sent.
    #[inline]
    pub fn spend(&self, payload_bytes: u64) {
        if self.payload_bytes.load(Ordering::Relaxed) != i64::MAX {
            self.payload_bytes.fetch_sub(payload_bytes as i64, Ordering::Relaxed);
        }
    }
}

/// A barrier whose last arrival decides for all whether there is another round.
pub struct Rounds {
    producers: usize,
    messages_per_round: u64,
    arrived: AtomicUsize,
    round: watch::Sender<Round>,
    quota: Arc<Quota>,
    trial_window: Arc<TrialWindow>,
}

/// A round that has been decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    pub number: u64,
    /// Whether it takes place.
    pub go: bool,
    /// When it began, in nanoseconds since the trial's epoch: every message of the round counts as measured or not by it.
    pub begin_ns: u64,
}

impl Rounds {
    pub fn new(producers: usize, batch: usize, quota: Arc<Quota>, trial_window: Arc<TrialWindow>) -> Self {
        let none = Round { number: 0, go: true, begin_ns: 0 };
        Rounds {
            producers,
            messages_per_round: (producers * batch) as u64,
            arrived: AtomicUsize::new(0),
            round: watch::Sender::new(none),
            quota,
            trial_window,
        }
    }

    /// Waits for all producers to have finished round `finished` (0 before the first) and returns the next.
    pub async fn next(&self, finished: u64) -> Round {
        let mut receiver = self.round.subscribe();
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.producers {
            self.arrived.store(0, Ordering::Release);
            let begin_ns = self.trial_window.clock().now_ns();
            let goes_on = self.trial_window.is_open(begin_ns)
                && (!self.trial_window.is_measured(begin_ns)
                    || self.quota.take(self.messages_per_round) == self.messages_per_round);
            self.round.send_replace(Round { number: finished + 1, go: goes_on, begin_ns });
        }
        tokio::select! {
            biased;
            round = receiver.wait_for(|round| round.number > finished) => match round {
                Ok(round) => *round,
                // The sender lives in `self`.
                Err(_) => Round { number: finished + 1, go: false, begin_ns: 0 },
            },
            () = self.trial_window.stopped() => Round { number: finished + 1, go: false, begin_ns: 0 },
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/engine/send/window.rs"]
mod tests;
