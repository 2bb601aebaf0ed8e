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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::{Work, WorkLaw};

    const MS: u64 = 1_000_000;

    fn work(mean_ms: u64) -> Option<WorkTimes> {
        let work = Work { mean: Duration::from_millis(mean_ms), law: WorkLaw::Fixed, seed: 1 };
        Some(WorkTimes::new(&work, 0))
    }

    fn begun(pace: &mut Pace, messages: usize) -> Vec<u64> {
        let mut beginning = pace.begin();
        (0..messages).map(|_| beginning.next_message() / MS).collect()
    }

    #[test]
    fn work_follows_work_however_late_the_consumer_is_woken() {
        let mut pace = Pace::new(work(2), None);
        pace.waited_until(10 * MS);
        assert_eq!((begun(&mut pace, 1), pace.next_ns()), (vec![10], 12 * MS));
        // Woken 5 ms late: three messages would have been begun by then.
        assert_eq!(pace.due_by(17 * MS), 3);
        assert_eq!((begun(&mut pace, 3), pace.next_ns()), (vec![12, 14, 16], 18 * MS));
    }

    #[test]
    fn a_consumer_that_waited_for_a_message_makes_up_for_nothing() {
        let mut pace = Pace::new(work(2), None);
        pace.waited_until(10 * MS);
        assert_eq!(begun(&mut pace, 1), [10]);
        pace.waited_until(50 * MS);
        assert_eq!((pace.due_by(50 * MS), begun(&mut pace, 2)), (1, vec![50, 52]));
        // It comes while the consumer is at work.
        pace.waited_until(51 * MS);
        assert_eq!(pace.next_ns(), 54 * MS);
    }

    #[test]
    fn a_rate_is_shared_by_the_members_of_a_group_and_not_saved_up() {
        let limit = Arc::new(RateLimit::new(100.0));
        let mut members = [(); 2].map(|()| Pace::new(None, Some(limit.clone())));
        members.iter_mut().for_each(|member| member.waited_until(1000 * MS));
        assert_eq!(begun(&mut members[0], 2), [1000, 1010]);
        assert_eq!(begun(&mut members[1], 2), [1020, 1030]);
        assert_eq!((members[0].next_ns(), members[0].due_by(1065 * MS)), (1040 * MS, 3));
        members[0].waited_until(2000 * MS);
        assert_eq!(begun(&mut members[0], 2), [2000, 2010]);
    }

    #[test]
    fn the_slower_of_work_and_rate_decides() {
        let mut pace = Pace::new(work(20), Some(Arc::new(RateLimit::new(100.0))));
        assert_eq!(begun(&mut pace, 3), [0, 20, 40]);
        let mut pace = Pace::new(work(2), Some(Arc::new(RateLimit::new(100.0))));
        assert_eq!(begun(&mut pace, 3), [0, 10, 20]);
    }
}
