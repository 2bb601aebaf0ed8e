//! Notices that a load has come to a standstill which no time limit would end.

use std::time::Duration;

use crate::scenario::{Load, RunLimits, Schedule};

/// Watches a load that is bounded by messages or bytes. One that is bounded by time ends by itself, and may sit out a broker's
/// absence until then.
pub struct StallWatch<'a> {
    /// `None`: the load ends by itself.
    deadline_ns: Option<u64>,
    schedule: Option<&'a Schedule>,
    last_moved: u64,
    /// When something moved last, in nanoseconds since the load began.
    since_ns: u64,
}

impl<'a> StallWatch<'a> {
    pub fn new(load: &'a Load, limits: &RunLimits) -> Self {
        let deadline_ns = limits.stop.duration.is_none().then_some(limits.stall_deadline.as_nanos() as u64);
        let schedule = match load {
            Load::Open(schedule) => Some(schedule),
            Load::Closed => None,
        };
        StallWatch { deadline_ns, schedule, last_moved: 0, since_ns: 0 }
    }

    /// Whether nothing has moved for the whole deadline, although something should have. `moved` grows with every message that
    /// is handed over or has its outcome.
    pub fn is_stalled(&mut self, moved: u64, now_ns: u64) -> bool {
        if moved != self.last_moved {
            (self.last_moved, self.since_ns) = (moved, now_ns);
        }
        let Some(deadline_ns) = self.deadline_ns else { return false };
        now_ns.saturating_sub(self.since_ns) >= deadline_ns && self.was_due_since()
    }

    /// A schedule may leave pauses that are longer than the deadline.
    fn was_due_since(&self) -> bool {
        let Some(schedule) = self.schedule else { return true };
        let due_by = |offset_ns| schedule.count_until(Duration::from_nanos(offset_ns));
        let until_ns = self.since_ns.saturating_add(self.deadline_ns.unwrap_or(0));
        due_by(until_ns) > due_by(self.since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Stop;

    const SECOND: u64 = 1_000_000_000;

    fn limits(duration: Option<Duration>) -> RunLimits {
        RunLimits {
            warm_up: Duration::ZERO,
            stop: Stop { duration, ..Stop::default() },
            drain_deadline: Duration::from_secs(1),
            catch_up_deadline: Duration::from_secs(1),
            stall_deadline: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_standstill_is_noticed_at_its_deadline_and_any_movement_begins_it_anew() {
        let mut watch = StallWatch::new(&Load::Closed, &limits(None));
        assert!(!watch.is_stalled(5, SECOND));
        assert!(!watch.is_stalled(5, 60 * SECOND));
        assert!(!watch.is_stalled(6, 61 * SECOND));
        assert!(!watch.is_stalled(6, 120 * SECOND));
        assert!(watch.is_stalled(6, 121 * SECOND));
    }

    #[test]
    fn a_load_limited_in_time_may_stand_still() {
        let mut watch = StallWatch::new(&Load::Closed, &limits(Some(Duration::from_secs(3600))));
        assert!(!watch.is_stalled(1, SECOND) && !watch.is_stalled(1, 3000 * SECOND));
    }

    #[test]
    fn a_pause_of_the_schedule_is_no_standstill() {
        let load = Load::Open(Schedule::Constant { rate: 0.01 });
        let mut watch = StallWatch::new(&load, &limits(None));
        assert!(!watch.is_stalled(2, SECOND));
        assert!(!watch.is_stalled(2, 90 * SECOND), "the next one is due after 100 s");
        let mut watch = StallWatch::new(&load, &limits(None));
        assert!(!watch.is_stalled(2, 50 * SECOND));
        assert!(watch.is_stalled(2, 120 * SECOND), "one was due after 100 s");
    }
}
