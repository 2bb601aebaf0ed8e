//! The one clock of a trial: nanoseconds since an epoch that all its threads share.
//!
//! The epoch is read from two clocks, one after the other: the monotonic one, by which everything is measured, and the wall clock, by which
//! processes and machines are put together. A thread that has to wait for its core in between would shift all times since 1970 by as long.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How often the two clocks are read for an epoch.
const READINGS: usize = 16;

/// Tells the time since the trial's epoch, from the monotonic clock of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Instant,
    epoch_unix_ns: u64,
    /// The value it returns instead of the time.
    #[cfg(test)]
    set_ns: Option<&'static AtomicU64>,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn start() -> Self {
        Clock::shifted(0)
    }

    /// A clock whose epoch is now, and `shift_ns` later by the time that several machines go by than by this one's wall clock.
    pub fn shifted(shift_ns: i64) -> Self {
        let Reading { before, unix_ns, after } = narrowest((0..READINGS).map(|_| Reading::now()));
        Clock {
            epoch: before + (after - before) / 2,
            epoch_unix_ns: unix_ns.saturating_add_signed(shift_ns),
            #[cfg(test)]
            set_ns: None,
        }
    }

    /// A clock that returns the value it is set to, in nanoseconds since its epoch.
    #[cfg(test)]
    pub(crate) fn set_by(set_ns: &'static AtomicU64) -> Self {
        Clock { set_ns: Some(set_ns), ..Clock::start() }
    }

    /// A clock whose epoch was some time ago.
    #[cfg(test)]
    pub(crate) fn started_ago(ago: std::time::Duration) -> Self {
        let now = Clock::start();
        Clock { epoch: now.epoch - ago, ..now }
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        #[cfg(test)]
        if let Some(set_ns) = self.set_ns {
            return set_ns.load(Ordering::Relaxed);
        }
        self.epoch.elapsed().as_nanos() as u64
    }

    /// The moment `offset_ns` after the epoch.
    pub fn instant(&self, offset_ns: u64) -> Instant {
        self.epoch + std::time::Duration::from_nanos(offset_ns)
    }

    /// Nanoseconds from the epoch to a moment; 0 before the epoch.
    pub fn since_epoch_ns(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// The epoch in nanoseconds since 1970, by the wall clock as it stood when the trial began: later steps of the wall
    /// clock do not reach any measurement.
    pub fn epoch_unix_ns(&self) -> u64 {
        self.epoch_unix_ns
    }
}

impl Clock {
    /// How far the wall clock has moved against the monotonic one since the trial began, in nanoseconds: it was set, or its program has
    /// corrected it. `shift_ns`: as in [`Clock::shifted`].
    pub fn wall_clock_moved_ns(&self, shift_ns: i64) -> u64 {
        let Reading { before, unix_ns, after } = narrowest((0..READINGS).map(|_| Reading::now()));
        let elapsed = (before + (after - before) / 2).saturating_duration_since(self.epoch);
        let expected_ns = self.epoch_unix_ns + elapsed.as_nanos() as u64;
        unix_ns.saturating_add_signed(shift_ns).abs_diff(expected_ns)
    }
}

/// The wall clock between two readings of the monotonic one.
#[derive(Debug, Clone, Copy)]
struct Reading {
    before: Instant,
    unix_ns: u64,
    after: Instant,
}

impl Reading {
    fn now() -> Self {
        let before = Instant::now();
        let since_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reading { before, unix_ns: since_unix.as_nanos() as u64, after: Instant::now() }
    }
}

/// The one in which least can have come between.
fn narrowest(readings: impl Iterator<Item = Reading>) -> Reading {
    readings.min_by_key(|reading| reading.after - reading.before).unwrap_or_else(Reading::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_has_moved() {
        let clock = Clock::shifted(5_000);
        let moved_ns = clock.wall_clock_moved_ns(5_000);
        assert!(moved_ns < 100_000_000, "two clocks of one machine: {moved_ns}");
        // The trial began an hour earlier by the wall clock than by the monotonic one.
        let set = Clock { epoch_unix_ns: clock.epoch_unix_ns - 3_600_000_000_000, ..clock };
        assert!(set.wall_clock_moved_ns(5_000).abs_diff(3_600_000_000_000) < 100_000_000);
    }
    use std::time::Duration;

    #[test]
    fn an_epoch_is_read_where_least_came_between_both_clocks() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        // The thread waits for its core after the wall clock was read, and before.
        let waits = [(0, 0, 40), (50, 50, 51), (60, 95, 100)];
        let readings = waits.map(|(before, unix_ms, after)| Reading {
            before: at(before),
            unix_ns: unix_ms * 1_000_000,
            after: at(after),
        });
        let found = narrowest(readings.into_iter());
        assert_eq!((found.before, found.unix_ns), (at(50), 50_000_000));
    }

    #[test]
    fn an_epoch_lies_between_the_readings_around_it() {
        let before = Reading::now();
        let clock = Clock::shifted(5_000);
        let after = Reading::now();
        assert!((before.unix_ns..=after.unix_ns).contains(&(clock.epoch_unix_ns() - 5_000)), "{clock:?}");
        assert!((before.before..=after.after).contains(&clock.epoch), "{clock:?}");
    }
}
