//! What a client has sent, counted a batch at a time, and what its consumers have asked for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::codec::batch::HEADER_BYTES;
use super::produce::producer_batch::ProducerBatch;
use crate::broker::{Telemetry, Wire};
use crate::measure::Distribution;

/// Counts since the last look.
#[derive(Default)]
pub struct Traffic {
    queued_messages: AtomicU64,
    queue_full_ns: AtomicU64,
    /// Open connections that have sent something.
    connections: AtomicU64,
    connections_full_ns: AtomicU64,
    counted: Mutex<Counted>,
}

/// Fetches of all consumers since the last look.
#[derive(Debug, Default)]
pub struct FetchTraffic {
    answered: AtomicU64,
    throttled: AtomicU64,
}

impl FetchTraffic {
    /// A fetch was answered. `is_throttled`: a quota was used up.
    pub fn answered(&self, is_throttled: bool) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.throttled.fetch_add(u64::from(is_throttled), Ordering::Relaxed);
    }

    /// What was counted since the last call.
    pub fn take(&self) -> Wire {
        // In this order, so that no more are throttled than answered.
        let throttled_fetches = self.throttled.swap(0, Ordering::Relaxed);
        Wire { fetches: self.answered.swap(0, Ordering::Relaxed), throttled_fetches, ..Wire::default() }
    }
}

#[derive(Default)]
struct Counted {
    wire: Wire,
    round_trips: Distribution,
}

impl Traffic {
    /// Messages were handed over.
    pub fn queued(&self, messages: usize) {
        self.queued_messages.fetch_add(messages as u64, Ordering::Relaxed);
    }

    /// The messages of a batch have their outcome.
    pub fn settled(&self, messages: usize) {
        self.queued_messages.fetch_sub(messages as u64, Ordering::Relaxed);
    }

    /// Whether the messages of every batch have their outcome.
    pub fn is_idle(&self) -> bool {
        self.queued_messages.load(Ordering::Relaxed) == 0
    }

    /// A producer waited for the client's memory.
    pub fn waited(&self, waited: Duration) {
        self.queue_full_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A connection sends its first request.
    pub fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection that has sent requests has ended.
    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection took no request for so long, although there were batches to send.
    pub fn full(&self, time: Duration) {
        self.connections_full_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A request was sent.
    pub fn sent(&self) {
        self.counted.lock().wire.requests += 1;
    }

    /// A batch is to be sent again.
    pub fn retried(&self) {
        self.counted.lock().wire.retried += 1;
    }

    /// A response came after that time. `is_throttled`: a quota was used up.
    pub fn answered(&self, round_trip: Duration, is_throttled: bool) {
        let mut counted = self.counted.lock();
        counted.wire.quota_refusals += u64::from(is_throttled);
        counted.round_trips.record(round_trip.as_nanos() as u64);
    }

    /// The broker has a batch.
    pub fn taken(&self, batch: &ProducerBatch) {
        let wire = &mut self.counted.lock().wire;
        wire.raw_bytes += batch.payload_bytes as u64;
        wire.body_bytes += batch.body_bytes as u64;
        wire.sent_bytes += (batch.encoded.len() - HEADER_BYTES) as u64;
    }

    /// What was counted since the last call.
    pub fn take(&self) -> Telemetry {
        let mut counted = self.counted.lock();
        let wire = std::mem::take(&mut counted.wire);
        Telemetry {
            queue_messages: Some(self.queued_messages.load(Ordering::Relaxed)),
            queue_full_ns: self.queue_full_ns.swap(0, Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            connections_full_ns: self.connections_full_ns.swap(0, Ordering::Relaxed),
            wire: Some(wire),
            ..Telemetry::take_round_trips(&mut counted.round_trips)
        }
    }
}
