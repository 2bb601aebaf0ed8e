//! The trial_window of a trial: when it begins to count, when it ends, and whether it has been stopped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::measure::{Acks, Clock};

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

    /// Ends the load for all producers, wherever they wait.
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

    /// Notes why a producer can send nothing more. The first reason counts.
    pub fn fail(&self, reason: String) {
        self.failure.get_or_init(|| reason);
    }

    /// Why the load cannot go on.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
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

    /// Resolves once the load has been stopped.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokio's timer alone is late by a millisecond more often than not.
    #[tokio::test]
    async fn a_load_begins_at_its_time_and_not_at_the_next_tick_of_a_timer() {
        let mut late_ns = Vec::new();
        for _ in 0..20 {
            let acks = Acks::new(Clock::start(), 1, false);
            let load_start_ns = acks.clock().now_ns() + 5_000_000;
            let window = TrialWindow::new(acks, load_start_ns, Duration::ZERO, None, None);
            window.begun().await;
            late_ns.push(window.clock().now_ns().checked_sub(load_start_ns).unwrap());
        }
        late_ns.sort_unstable();
        assert!(late_ns[5] < 400_000, "{late_ns:?}");
    }
}
