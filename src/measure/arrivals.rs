//! What consumers record: each has a recorder of its own, and each group its verification.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Clock;
use super::envelope::{ENVELOPE_BYTES, Envelope, Opened};
use super::histogram::Distribution;
use super::verification::{Found, LANE_WITHOUT_ORDER, LaneOrder, Verification};

/// A message that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    pub payload: &'a [u8],
    /// The engine's own header, if the message carries one beside its payload.
    pub envelope: Option<&'a [u8]>,
    /// Numbers the stretches within which the broker promises order (a partition), from 0 per topic;
    /// [`LANE_WITHOUT_ORDER`]: it promises none.
    pub lane: u32,
    /// Where in its lane the message is; 0 from a broker without positions.
    pub position: u64,
    /// The broker itself says that it delivered this message before.
    pub redelivered: bool,
}

/// What one consumer, or all of them, received in a stretch of time.
#[derive(Debug, Clone, Default)]
pub struct Reception {
    /// Every message handed over, measured or not.
    pub messages: u64,
    /// Those of them whose intended time lies in the measured phase.
    pub measured: u64,
    pub payload_bytes: u64,
    /// Received − intended, of measured messages.
    pub end_to_end: Distribution,
    /// Moments at which measured messages arrived: one for each [`ArrivalBatch`] that had some, as in
    /// [`Interval::moments`](super::Interval::moments).
    pub moments: u64,
    /// After a later one of the same producer in the same lane.
    pub reordered: u64,
    /// Verified, but for their order: the broker promises none.
    pub unordered: u64,
    /// The broker itself said that it delivers the message again.
    pub redelivered: u64,
    /// The checksum is not the one sent.
    pub corrupt: u64,
    /// Not of this trial.
    pub foreign: u64,
    /// When the last measured message arrived, in nanoseconds since the trial's epoch; 0: none did.
    pub last_received_ns: u64,
}

impl Reception {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Reception) {
        self.messages += other.messages;
        self.measured += other.measured;
        self.payload_bytes += other.payload_bytes;
        self.end_to_end.merge(&other.end_to_end);
        self.moments += other.moments;
        self.reordered += other.reordered;
        self.unordered += other.unordered;
        self.redelivered += other.redelivered;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.last_received_ns = self.last_received_ns.max(other.last_received_ns);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        let mut end_to_end = mem::take(&mut self.end_to_end);
        end_to_end.clear();
        *self = Reception { end_to_end, ..Reception::default() };
    }
}

/// One trial's consumption: hands out recorders and holds each group's verification.
#[derive(Clone)]
pub struct Arrivals {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    run_tag: u32,
    /// One per group; empty when nothing is verified.
    groups: Vec<Verification>,
    /// Messages of this trial received so far, intact or corrupt, repetitions included.
    received: AtomicU64,
    shards: Mutex<Vec<Arc<Mutex<Reception>>>>,
}

impl Arrivals {
    /// For a trial whose messages carry `run_tag`, sent by `producers` and received by `groups`.
    pub fn new(clock: Clock, run_tag: u32, producers: usize, groups: usize, verify: bool) -> Self {
        let groups = if verify { (0..groups).map(|_| Verification::new(producers)).collect() } else { Vec::new() };
        let (received, shards) = (AtomicU64::new(0), Mutex::default());
        Arrivals { shared: Arc::new(Shared { clock, run_tag, groups, received, shards }) }
    }

    /// A recorder for one consumer of `group`.
    pub fn recorder(&self, group: usize) -> ArrivalRecorder {
        let shard = Arc::new(Mutex::new(Reception::default()));
        lock(&self.shared.shards).push(shard.clone());
        ArrivalRecorder { shared: self.shared.clone(), group, order: LaneOrder::default(), shard }
    }

    /// Everything received since the last call, merged into `into`; both arguments must be clear.
    pub fn collect(&self, into: &mut Reception, spare: &mut Reception) {
        for shard in lock(&self.shared.shards).iter() {
            mem::swap(&mut *lock(shard), spare);
            into.merge(spare);
            spare.clear();
        }
    }

    /// Messages of this trial that have arrived, over all groups, without the repetitions that verification found.
    pub fn received(&self) -> u64 {
        let duplicated: u64 = self.found().iter().map(|found| found.duplicated).sum();
        self.shared.received.load(Ordering::Acquire).saturating_sub(duplicated)
    }

    /// What each group's verification has found so far.
    pub fn found(&self) -> Vec<Found> {
        self.shared.groups.iter().map(Verification::found).collect()
    }
}

/// Records what one consumer receives.
pub struct ArrivalRecorder {
    shared: Arc<Shared>,
    group: usize,
    order: LaneOrder,
    shard: Arc<Mutex<Reception>>,
}

impl ArrivalRecorder {
    /// Begins a batch of messages that have all arrived when the first of them is handed over, which is when the time is
    /// taken: not now, as they may still be fetched.
    pub fn batch(&mut self) -> ArrivalBatch<'_> {
        let reception = lock(&self.shard);
        ArrivalBatch {
            now_ns: 0,
            shared: &self.shared,
            received: 0,
            verification: self.shared.groups.get(self.group),
            order: &mut self.order,
            measured_before: reception.measured,
            reception,
        }
    }
}

/// Messages that arrived at the same moment.
pub struct ArrivalBatch<'a> {
    /// 0 before the first message.
    now_ns: u64,
    shared: &'a Shared,
    /// Messages of this trial in this batch.
    received: u64,
    verification: Option<&'a Verification>,
    order: &'a mut LaneOrder,
    /// Measured messages that had arrived when the batch began.
    measured_before: u64,
    reception: MutexGuard<'a, Reception>,
}

impl ArrivalBatch<'_> {
    /// When this batch arrived, in nanoseconds since the trial's epoch; 0 before the first message.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Counts, opens and verifies one message; its envelope, if it is one of this trial and intact.
    #[inline]
    pub fn received(&mut self, message: Received<'_>) -> Option<Envelope> {
        if self.now_ns == 0 {
            self.now_ns = self.shared.clock.now_ns();
        }
        let reception = &mut *self.reception;
        reception.messages += 1;
        reception.payload_bytes += message.payload.len() as u64;
        reception.redelivered += u64::from(message.redelivered);
        let (sealed, content) = match message.envelope {
            Some(envelope) => (envelope, message.payload),
            None => (message.payload, message.payload.get(ENVELOPE_BYTES..).unwrap_or_default()),
        };
        match Envelope::open(sealed, content, self.shared.run_tag) {
            Opened::Intact(envelope) => {
                self.received += 1;
                if envelope.measured {
                    reception.measured += 1;
                    reception.end_to_end.record(self.now_ns.saturating_sub(envelope.intended_ns));
                    reception.last_received_ns = self.now_ns;
                }
                if let Some(verification) = self.verification {
                    if verification.mark(envelope.producer, envelope.sequence) {
                        let reordered = self.order.is_reordered(message.lane, envelope.producer, envelope.sequence);
                        reception.reordered += u64::from(reordered);
                        reception.unordered += u64::from(message.lane == LANE_WITHOUT_ORDER);
                    } else {
                        reception.foreign += 1;
                    }
                }
                return Some(envelope);
            }
            Opened::Corrupt => {
                self.received += 1;
                reception.corrupt += 1;
            }
            Opened::Foreign => reception.foreign += 1,
        }
        None
    }
}

impl Drop for ArrivalBatch<'_> {
    fn drop(&mut self) {
        self.reception.moments += u64::from(self.reception.measured > self.measured_before);
        self.shared.received.fetch_add(self.received, Ordering::Release);
    }
}

/// A consumer's task that panicked leaves counts that are still true.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(run_tag: u32, sequence: u64) -> Vec<u8> {
        let mut message = vec![7; 100];
        let checksum = crc32fast::hash(&message[ENVELOPE_BYTES..]);
        Envelope { run_tag, producer: 0, measured: true, sequence, intended_ns: 0 }.seal(&mut message, checksum);
        message
    }

    #[test]
    fn every_arrival_is_counted_once_under_what_it_is() {
        let arrivals = Arrivals::new(Clock::start(), 42, 1, 1, true);
        let mut recorder = arrivals.recorder(0);
        let mut broken = sealed(42, 9);
        broken[99] ^= 1;
        let messages = [sealed(42, 0), sealed(42, 2), sealed(42, 1), sealed(42, 1), broken, sealed(43, 5), vec![0; 3]];
        {
            let mut batch = recorder.batch();
            for payload in &messages {
                batch.received(Received { payload, envelope: None, lane: 0, position: 0, redelivered: false });
            }
        }
        let mut reception = Reception::default();
        arrivals.collect(&mut reception, &mut Reception::default());
        assert_eq!((reception.messages, reception.measured), (7, 4));
        assert_eq!((reception.reordered, reception.corrupt, reception.foreign), (2, 1, 2));
        assert_eq!(reception.end_to_end.histogram().len(), 4);
        assert_eq!(arrivals.found(), [Found { distinct: 3, duplicated: 1, saturated: false }]);
    }

    #[test]
    fn the_arrival_is_no_earlier_than_the_handing_over() {
        let clock = Clock::start();
        let arrivals = Arrivals::new(clock, 1, 1, 1, false);
        let mut recorder = arrivals.recorder(0);
        let mut message = vec![7; 100];
        let checksum = crc32fast::hash(&message[ENVELOPE_BYTES..]);
        {
            let mut batch = recorder.batch();
            let intended_ns = clock.now_ns();
            Envelope { run_tag: 1, producer: 0, measured: true, sequence: 0, intended_ns }.seal(&mut message, checksum);
            while clock.now_ns() < intended_ns + 10_000 {}
            batch.received(Received { payload: &message, envelope: None, lane: 0, position: 0, redelivered: false });
        }
        let mut reception = Reception::default();
        arrivals.collect(&mut reception, &mut Reception::default());
        assert!(reception.end_to_end.histogram().min() >= 9_900, "{}", reception.end_to_end.histogram().min());
    }

    #[test]
    fn messages_without_a_promised_order_are_counted_as_such() {
        let arrivals = Arrivals::new(Clock::start(), 1, 1, 1, true);
        let mut recorder = arrivals.recorder(0);
        for sequence in [1, 0] {
            let payload = &sealed(1, sequence);
            let lane = LANE_WITHOUT_ORDER;
            recorder.batch().received(Received { payload, envelope: None, lane, position: 0, redelivered: false });
        }
        let mut reception = Reception::default();
        arrivals.collect(&mut reception, &mut Reception::default());
        assert_eq!((reception.measured, reception.reordered, reception.unordered), (2, 0, 2));
    }

    #[test]
    fn an_envelope_beside_the_payload_vouches_for_all_of_it() {
        let arrivals = Arrivals::new(Clock::start(), 1, 1, 1, true);
        let mut recorder = arrivals.recorder(0);
        let mut envelope = [0; ENVELOPE_BYTES];
        let payload = br#"{"a": 1}"#;
        Envelope { run_tag: 1, producer: 0, measured: true, sequence: 0, intended_ns: 0 }
            .seal(&mut envelope, crc32fast::hash(payload));
        let message = Received { payload, envelope: Some(&envelope), lane: 0, position: 0, redelivered: false };
        recorder.batch().received(message);
        recorder.batch().received(Received { payload: br#"{"a": 2}"#, ..message });
        let mut reception = Reception::default();
        arrivals.collect(&mut reception, &mut Reception::default());
        assert_eq!((reception.measured, reception.corrupt), (1, 1));
    }
}
