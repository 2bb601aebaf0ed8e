//! How late a thread wakes that sleeps a millisecond at a time. Processes that load from one host share its milliseconds, so that it has one such
//! wake-up in each, however many they are.
//!
//! It sees what keeps this process from running: other processes on its cores, a hypervisor, a quota, memory that is being
//! reclaimed. Every thread of the client may have to wait as long, so that much of a latency may be the tool's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::super::Distribution;
use super::{ProcessUsage, timers};

/// From one wake-up of a host to the next.
const INTERVAL: Duration = Duration::from_millis(1);

/// The most milliseconds from one wake-up of a process to its next: with fewer values a second, the upper percentiles would say little.
const MOST_MILLISECONDS: usize = 10;

/// The probe's own use is read so often, in wake-ups: what is missing of it is less than any figure shows.
const OWN_EVERY: u32 = 16;

/// Which of the processes that load from one host this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostShare {
    /// From 0.
    pub number: usize,
    pub count: usize,
}

impl HostShare {
    /// Of a process that knows of no other.
    pub const ALONE: HostShare = HostShare { number: 0, count: 1 };

    /// From one wake-up of this process to the next.
    fn interval(self) -> Duration {
        INTERVAL * self.count.clamp(1, MOST_MILLISECONDS) as u32
    }

    /// From `now` to its first wake-up. All processes of a host read one wall clock, by which each has milliseconds of its own.
    fn first_after(self, now: SystemTime) -> Duration {
        let interval_ns = self.interval().as_nanos();
        let own_ns = self.number as u128 * INTERVAL.as_nanos() % interval_ns;
        let since_own_ns = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() + interval_ns - own_ns;
        self.interval() - Duration::from_nanos((since_own_ns % interval_ns) as u64)
    }
}

/// A thread that notes how late it wakes, until it is dropped.
#[derive(Debug)]
pub struct PauseProbe {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host_share: HostShare,
    noted: Mutex<Noted>,
    ended: AtomicBool,
}

/// What a probe has noted.
#[derive(Debug, Clone, Default)]
pub struct Noted {
    /// How late it woke, in nanoseconds: one value for each millisecond that is this process's.
    pub lateness: Distribution,
    /// What its own thread used for it.
    pub own: ProcessUsage,
}

impl PauseProbe {
    /// Begins here and now. Without a thread for it, nothing is noted.
    pub fn begin(host_share: HostShare) -> Self {
        let shared = Arc::new(Shared { host_share, noted: Mutex::default(), ended: AtomicBool::new(false) });
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
        let interval = self.host_share.interval();
        let mut due = Instant::now() + self.host_share.first_after(SystemTime::now());
        let mut wake_ups = 0u32;
        while !self.ended.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let woken = Instant::now();
            let mut noted = self.noted.lock();
            if wake_ups.is_multiple_of(OWN_EVERY) {
                noted.own = ProcessUsage::of_this_thread();
            }
            wake_ups = wake_ups.wrapping_add(1);
            // After a long pause each interval in it counts, with what was left of it: a pause of 100 ms is not one late wake-up among
            // thousands, but 100 of them.
            while due <= woken {
                noted.lateness.record((woken - due).as_nanos() as u64);
                due += interval;
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
        let (probe, begin) = (PauseProbe::begin(HostShare::ALONE), Instant::now());
        wait_for(|| probe.noted().lateness.histogram().len() >= 50);
        // A millisecond that the probe began before, and one that it has noted meanwhile.
        assert!(begin.elapsed() >= 48 * INTERVAL, "{:?}", begin.elapsed());
    }

    #[test]
    fn processes_on_one_host_have_its_milliseconds_in_turn() {
        let now = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_300_000);
        let wake_ups = |count: usize| {
            let of = |number| now + HostShare { number, count }.first_after(now);
            let since = |at: SystemTime| at.duration_since(now).unwrap().as_micros();
            let mut all: Vec<u128> = (0..count).map(of).map(since).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(wake_ups(1), [700]);
        assert_eq!(wake_ups(4), [700, 1_700, 2_700, 3_700]);
        assert_eq!(HostShare { number: 3, count: 4 }.interval(), 4 * INTERVAL);
        let many = wake_ups(25);
        assert_eq!((many[0], many[24], HostShare { number: 0, count: 25 }.interval()), (700, 9_700, 10 * INTERVAL));
        assert!(many.windows(2).all(|pair| pair[1] - pair[0] <= 1_000), "none without a wake-up: {many:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_probe_itself_used_is_known_but_for_its_last_wake_ups() {
        let probe = PauseProbe::begin(HostShare { number: 1, count: 2 });
        // Nothing is known before its first wake-up.
        let waits = || probe.noted().own.voluntary_context_switches.unwrap_or(0);
        wait_for(|| waits() >= u64::from(OWN_EVERY) || probe.noted().lateness.histogram().len() >= 5_000);
        assert!(waits() >= u64::from(OWN_EVERY), "it waits for each wake-up");
    }

    #[test]
    fn a_pause_counts_for_each_millisecond_that_it_lasts() {
        let probe = PauseProbe::begin(HostShare::ALONE);
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
