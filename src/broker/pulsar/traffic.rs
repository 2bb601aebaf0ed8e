//! What all connections have sent, and how long the broker took to answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::broker::{Telemetry, Wire};
use crate::measure::Distribution;

/// The sizes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntrySizes {
    /// Of the payloads of its messages.
    pub payload_bytes: usize,
    /// As it would be without compression, and as it is.
    pub body_bytes: usize,
    pub sent_bytes: usize,
}

/// Counts since the last look.
#[derive(Default)]
pub struct Traffic {
    /// Entries sent.
    requests: AtomicU64,
    /// Entries sent again.
    retried: AtomicU64,
    answered: Mutex<Answered>,
    /// Answers to messages that await none any more.
    unmatched: AtomicU64,
}

#[derive(Default)]
struct Answered {
    wire: Wire,
    round_trips: Distribution,
}

impl Traffic {
    pub fn count_sent(&self, entries: usize) {
        self.requests.fetch_add(entries as u64, Ordering::Relaxed);
    }

    pub fn count_retried(&self, entries: usize) {
        self.retried.fetch_add(entries as u64, Ordering::Relaxed);
        self.count_sent(entries);
    }

    pub fn count_unmatched(&self, answers: u64) {
        self.unmatched.fetch_add(answers, Ordering::Relaxed);
    }

    /// Counts entries that the broker has taken, each with the time at which it was handed over.
    pub fn count_taken(&self, entries: impl Iterator<Item = (EntrySizes, Instant)>) {
        let now = Instant::now();
        let mut answered = self.answered.lock();
        let Answered { wire, round_trips } = &mut *answered;
        for (sizes, sent) in entries {
            wire.raw_bytes += sizes.payload_bytes as u64;
            wire.body_bytes += sizes.body_bytes as u64;
            wire.sent_bytes += sizes.sent_bytes as u64;
            round_trips.record(now.saturating_duration_since(sent).as_nanos() as u64);
        }
    }

    /// What was counted since the last call.
    pub fn take(&self) -> Telemetry {
        let mut answered = self.answered.lock();
        let requests = self.requests.swap(0, Ordering::Relaxed);
        let retried = self.retried.swap(0, Ordering::Relaxed);
        let wire = Wire { requests, retried, ..std::mem::take(&mut answered.wire) };
        let round_trips = &mut answered.round_trips;
        let at = |quantile| (!round_trips.is_empty()).then(|| round_trips.histogram().value_at_quantile(quantile));
        let (round_trip_p50_ns, round_trip_p99_ns) = (at(0.5), at(0.99));
        round_trips.clear();
        Telemetry {
            round_trip_p50_ns,
            round_trip_p99_ns,
            connections: 0,
            connections_full_ns: 0,
            unmatched_answers: self.unmatched.swap(0, Ordering::Relaxed),
            wire: Some(wire),
            ..Telemetry::default()
        }
    }
}
