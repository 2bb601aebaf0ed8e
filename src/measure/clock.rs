//! The one clock of a trial: nanoseconds since an epoch that all its threads share.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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
        let since_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            epoch: Instant::now(),
            epoch_unix_ns: (since_unix.as_nanos() as u64).saturating_add_signed(shift_ns),
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

    /// The epoch in nanoseconds since 1970, by the wall clock as it stood when the trial began: later steps of the wall
    /// clock do not reach any measurement.
    pub fn epoch_unix_ns(&self) -> u64 {
        self.epoch_unix_ns
    }
}
