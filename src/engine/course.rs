//! The course of a trial: when it begins to count, when it ends, and whether it has been stopped.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::measure::{Acks, Clock};

/// The times of a trial, in nanoseconds since its epoch, and the word to stop.
pub struct Course {
    acks: Acks,
    /// When the first message is intended.
    pub load_start_ns: u64,
    /// Messages intended from here on are measured.
    pub measure_start_ns: u64,
    /// Nothing is intended from here on; `u64::MAX` where the load is not limited in time.
    pub load_end_ns: u64,
    stop: watch::Sender<bool>,
}

impl Course {
    pub fn new(acks: Acks, load_start_ns: u64, warm_up: Duration, duration: Option<Duration>) -> Self {
        let measure_start_ns = load_start_ns + warm_up.as_nanos() as u64;
        let load_end_ns = duration.map_or(u64::MAX, |duration| measure_start_ns + duration.as_nanos() as u64);
        Course { acks, load_start_ns, measure_start_ns, load_end_ns, stop: watch::Sender::new(false) }
    }

    pub fn clock(&self) -> Clock {
        self.acks.clock()
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

    /// Whether [`Course::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.acks.stopped().load(Ordering::Relaxed)
    }

    /// Resolves when the load begins, or has been stopped before.
    pub async fn begun(&self) {
        let begin = Instant::from_std(self.clock().instant(self.load_start_ns));
        tokio::select! {
            () = tokio::time::sleep_until(begin) => {}
            () = self.stopped() => {}
        }
    }

    /// Ends the load for all producers, wherever they wait.
    pub fn stop(&self) {
        self.acks.stop();
        self.stop.send_replace(true);
    }

    /// Resolves once the load has been stopped.
    pub async fn stopped(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.stop.subscribe().wait_for(|stopped| *stopped).await;
    }
}
