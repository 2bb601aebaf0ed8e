//! When a consumer that pretends to work, or whose group is limited to a rate, begins with each message.
//!
//! The times are computed, not taken from when a timer woke: a consumer that is woken late has done meanwhile what it was due to do,
//! so that its work takes as long as it is told, however exact the machine's timers are. A consumer that has waited for a message
//! begins with it when it comes: it makes up for nothing.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::load::WorkTimes;

/// Most messages that a consumer takes at once to make up for a late wake-up.
const MAX_AT_ONCE: u64 = 1024;

/// What the consumers of one group share: at most so many messages per second.
pub struct RateLimit {
    interval_ns: f64,
    /// When the next message may begin, in nanoseconds since the trial's epoch.
    next_ns: Mutex<f64>,
}

impl RateLimit {
    /// Of `rate` messages per second.
    pub fn new(rate: f64) -> Self {
        RateLimit { interval_ns: 1e9 / rate, next_ns: Mutex::new(0.0) }
    }
}

/// One consumer's times, in nanoseconds since the trial's epoch.
pub struct Pace {
    work: Option<WorkTimes>,
    limit: Option<Arc<RateLimit>>,
    /// When the consumer has finished what it has taken.
    free_ns: u64,
}

impl Pace {
    pub fn new(work: Option<WorkTimes>, limit: Option<Arc<RateLimit>>) -> Self {
        Pace { work, limit, free_ns: 0 }
    }

    /// A message has come at `now_ns` for which the consumer had waited.
    pub fn waited_until(&mut self, now_ns: u64) {
        self.free_ns = self.free_ns.max(now_ns);
    }

    /// When the consumer may begin with its next message.
    pub fn next_ns(&self) -> u64 {
        let limit_ns = self.limit.as_ref().map_or(0, |limit| *limit.next_ns.lock() as u64);
        self.free_ns.max(limit_ns)
    }

    /// About how many messages the consumer may have begun with by `now_ns`; at least one.
    pub fn due_by(&self, now_ns: u64) -> usize {
        let work_ns = self.work.as_ref().map_or(0, WorkTimes::mean_ns);
        let interval_ns = self.limit.as_ref().map_or(0, |limit| limit.interval_ns as u64);
        let behind = now_ns.saturating_sub(self.next_ns()) / work_ns.max(interval_ns).max(1);
        (1 + behind).min(MAX_AT_ONCE) as usize
    }

    /// Begins with messages that the client hands over at once. The others of the group wait meanwhile.
    pub fn begin(&mut self) -> Beginning<'_> {
        let Pace { work, limit, free_ns } = self;
        let limit = limit.as_ref().map(|limit| (limit.interval_ns, limit.next_ns.lock()));
        Beginning { work: work.as_mut(), limit, free_ns }
    }
}

/// The times of messages that are handed over at once.
pub struct Beginning<'a> {
    work: Option<&'a mut WorkTimes>,
    limit: Option<(f64, MutexGuard<'a, f64>)>,
    free_ns: &'a mut u64,
}

impl Beginning<'_> {
    /// When the consumer begins with the next message.
    #[inline]
    pub fn next_message(&mut self) -> u64 {
        let mut begin_ns = *self.free_ns;
        if let Some((interval_ns, next_ns)) = &mut self.limit {
            let begin = next_ns.max(begin_ns as f64);
            **next_ns = begin + *interval_ns;
            begin_ns = begin as u64;
        }
        *self.free_ns = begin_ns + self.work.as_mut().map_or(0, |work| work.next_ns());
        begin_ns
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/engine/receive/pace.rs"]
mod tests;
