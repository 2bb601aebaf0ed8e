//! What one recording thread saw since it was last asked: counts, latencies and errors.

use super::failure::FailureClass;
use super::histogram::Distribution;
use super::part_tally::PartResponses;
use super::timeline::Timeline;
use super::transactions::Transactions;

/// How many messages came to which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub acknowledged: u64,
    pub failed: u64,
    /// Payload bytes of the acknowledged ones.
    pub payload_bytes: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.payload_bytes += other.payload_bytes;
    }

    /// Messages whose outcome is known.
    pub fn resolved(&self) -> u64 {
        self.acknowledged + self.failed
    }
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorTally {
    pub count: u64,
    /// The first one's message and when it came, in nanoseconds since the trial's epoch.
    pub first: Option<(u64, String)>,
}

/// Failures by class, in the order of [`FailureClass::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors([ErrorTally; FailureClass::ALL.len()]);

impl Errors {
    pub fn record(&mut self, class: FailureClass, at_ns: u64, message: impl FnOnce() -> String) {
        let tally = &mut self.0[class as usize];
        tally.count += 1;
        if tally.first.is_none() {
            tally.first = Some((at_ns, message()));
        }
    }

    pub fn merge(&mut self, other: &Errors) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.count += theirs.count;
            if let Some((at_ns, message)) = &theirs.first
                && mine.first.as_ref().is_none_or(|(first, _)| at_ns < first)
            {
                mine.first = Some((*at_ns, message.clone()));
            }
        }
    }

    /// The classes that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (FailureClass, &ErrorTally)> {
        FailureClass::ALL.into_iter().zip(&self.0).filter(|(_, tally)| tally.count > 0)
    }
}

/// Outcomes of a stretch of time, as one thread or all of them saw it.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Messages whose intended time lies in the measured phase.
    pub measured: Tally,
    /// Messages of the warm-up: counted, and nothing more.
    pub warm_up: Tally,
    /// Acknowledged − intended; empty in a closed loop, which has no intended times.
    pub response: Distribution,
    /// Acknowledged − sent.
    pub service: Distribution,
    /// Sent − intended; empty in a closed loop.
    pub schedule_delay: Distribution,
    /// Moments at which measured messages were acknowledged: one for each [`AckBatch`](super::AckBatch) that had some. Messages
    /// whose outcome became known at one moment share a fate, so this is how many of their latencies are independent.
    pub moments: u64,
    /// Of measured messages.
    pub errors: Errors,
    /// When the last measured message was acknowledged, in nanoseconds since the trial's epoch; 0: none was.
    pub last_acknowledged_ns: u64,
    /// When messages were acknowledged, warm-up included, and how slow they were, without it.
    pub timeline: Timeline,
    /// Of producers that send in transactions.
    pub transactions: Option<Box<Transactions>>,
    /// Of a schedule that changes its rate.
    pub parts: PartResponses,
}

impl Interval {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Interval) {
        self.measured.add(other.measured);
        self.warm_up.add(other.warm_up);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.schedule_delay.merge(&other.schedule_delay);
        self.moments += other.moments;
        self.errors.merge(&other.errors);
        self.last_acknowledged_ns = self.last_acknowledged_ns.max(other.last_acknowledged_ns);
        self.timeline.merge(&other.timeline);
        if let Some(transactions) = &other.transactions {
            self.transactions.get_or_insert_default().merge(transactions);
        }
        self.parts.merge(&other.parts);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.measured = Tally::default();
        self.warm_up = Tally::default();
        self.response.clear();
        self.service.clear();
        self.schedule_delay.clear();
        self.moments = 0;
        self.errors = Errors::default();
        self.last_acknowledged_ns = 0;
        self.timeline.clear();
        if let Some(transactions) = &mut self.transactions {
            transactions.clear();
        }
        self.parts.clear();
    }
}
