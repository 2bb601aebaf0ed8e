//! What happened during a stretch of the measured window: a part of the schedule, or a phase of a backlog.

use super::observer::Second;
use crate::measure::{Distribution, Interval};

/// The sum of the samples that belong to a stretch.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// When it began, in nanoseconds since the load began.
    pub begin_ns: u64,
    pub length_ns: u64,
    /// Messages due, handed over, acknowledged and received for the first time.
    pub due: u64,
    pub attempted: u64,
    pub acknowledged: u64,
    pub consumed: u64,
    /// Response times of measured messages: of a phase of a backlog, those that were acknowledged meanwhile; of a part of the schedule, those
    /// that were intended in it.
    pub response: Distribution,
    /// As in [`Interval::moments`].
    pub moments: u64,
}

impl Stretch {
    /// Nothing has happened in it yet.
    pub fn beginning_at(begin_ns: u64) -> Self {
        let response = Distribution::new();
        Stretch { begin_ns, length_ns: 0, due: 0, attempted: 0, acknowledged: 0, consumed: 0, response, moments: 0 }
    }

    /// Adds a second with the response times of what was acknowledged in it.
    pub fn add(&mut self, second: &Second, interval: &Interval) {
        self.count(second);
        self.response.merge(&interval.response);
        self.moments += interval.moments;
    }

    /// Adds a second without its response times.
    pub fn count(&mut self, second: &Second) {
        self.length_ns += second.end_ns - second.begin_ns;
        self.due += second.due.unwrap_or(0);
        self.attempted += second.attempted;
        self.acknowledged += second.acknowledged;
        self.consumed += second.consumed;
    }
}
