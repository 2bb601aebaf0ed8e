//! How late a thread wakes that sleeps a millisecond at a time.
//!
//! It sees what keeps this process from running: other processes on its cores, a hypervisor, a quota, memory that is being
//! reclaimed. Every thread of the client may have to wait as long, so that much of a latency may be the tool's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::Distribution;
use super::{ProcessUsage, timers};

/// From one wake-up to the next.
const INTERVAL: Duration = Duration::from_millis(1);

/// A thread that notes how late it wakes, until it is dropped.
#[derive(Debug)]
pub struct PauseProbe {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    noted: Mutex<Noted>,
    ended: AtomicBool,
}

/// What a probe has noted.
#[derive(Debug, Clone, Default)]
pub struct Noted {
    /// How late it woke, in nanoseconds: one value for each millisecond.
    pub lateness: Distribution,
    /// What its own thread used for it.
    pub own: ProcessUsage,
}

impl PauseProbe {
    /// Begins here and now. Without a thread for it, nothing is noted.
    pub fn begin() -> Self {
        let shared = Arc::new(Shared::default());
        let probe = shared.clone();
        // The thread ends by itself, within an interval of the probe's end.
        let _ = thread::Builder::new().name("pause-probe".into()).spawn(move || probe.run());
        PauseProbe { shared }
    }

    /// What it noted so far.
    pub fn noted(&self) -> Noted {
        self.shared.noted.lock().clone()
    }
}

impl Drop for PauseProbe {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn run(&self) {
        timers::be_exact();
        let mut due = Instant::now() + INTERVAL;
        while !self.ended.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let woken = Instant::now();
            let mut noted = self.noted.lock();
            noted.own = ProcessUsage::of_this_thread();
            // After a long pause each millisecond in it counts, with what was left of it: a pause of 100 ms is not one late
            // wake-up among thousands, but 100 of them.
            while due <= woken {
                noted.lateness.record((woken - due).as_nanos() as u64);
                due += INTERVAL;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for(mut condition: impl FnMut() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    #[test]
    fn every_millisecond_is_one_value() {
        let (probe, begin) = (PauseProbe::begin(), Instant::now());
        wait_for(|| probe.noted().lateness.histogram().len() >= 50);
        // A millisecond that the probe began before, and one that it has noted meanwhile.
        assert!(begin.elapsed() >= 48 * INTERVAL, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_pause_counts_for_each_millisecond_that_it_lasts() {
        let probe = PauseProbe::begin();
        wait_for(|| !probe.noted().lateness.is_empty());
        let held = probe.shared.noted.lock();
        let begin = Instant::now();
        wait_for(|| begin.elapsed() >= 100 * INTERVAL);
        drop(held);
        let before = begin.elapsed().as_millis() as u64;
        wait_for(|| probe.noted().lateness.histogram().len() >= before);
        let lateness = probe.noted().lateness;
        assert!(lateness.histogram().max() >= 95_000_000, "{}", lateness.histogram().max());
        let long = lateness.histogram().count_between(45_000_000, u64::MAX);
        assert!(long >= 50, "half of the pause was left for half of its milliseconds: {long}");
    }
}
