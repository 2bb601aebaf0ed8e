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

use super::super::{Clock, Distribution};
use super::{ProcessUsage, make_timers_exact};

/// Time from one wake-up of a host to the next.
const INTERVAL: Duration = Duration::from_millis(1);

/// The most milliseconds from one wake-up of a process to its next: with fewer values a second, the upper percentiles would say little.
const MAX_MILLISECONDS: usize = 10;

/// A pause of this length or longer is kept with its begin: many times what a thread waits for a core on a healthy machine, and a tenth of
/// the shortest outage.
const MIN_LONG: Duration = Duration::from_millis(20);

/// Most pauses that are kept with their begin. Where there are more, the shortest are dropped.
const MAX_LONG: usize = 1_000;

/// The probe's own use is read so often, in wake-ups: what is missing of it is less than any figure shows.
const OWN_EVERY: u32 = 16;

/// Which of the processes that load from one host this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostShare {
    /// The number of this process on its host, from 0.
    pub number: usize,
    pub count: usize,
}

impl HostShare {
    /// The share of a process that knows of no other.
    pub const ALONE: HostShare = HostShare { number: 0, count: 1 };

    /// From one wake-up of this process to the next.
    fn interval(self) -> Duration {
        INTERVAL * self.count.clamp(1, MAX_MILLISECONDS) as u32
    }

    /// From `now` to its first wake-up. All processes of a host read one wall clock, by which each has milliseconds of its own.
    fn first_after(self, now: SystemTime) -> Duration {
        let interval_ns = self.interval().as_nanos();
        let own_ns = self.number as u128 * INTERVAL.as_nanos() % interval_ns;
        let since_own_ns = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() + interval_ns - own_ns;
        self.interval() - Duration::from_nanos((since_own_ns % interval_ns) as u64)
    }
}

/// A time in which this process did not run, or at least not its probe, in nanoseconds since the trial's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPause {
    /// When the probe was to wake: the pause began less than a millisecond before.
    pub begin_ns: u64,
    pub end_ns: u64,
}

/// For how long the client stood still between two moments. `pauses` are in order of time and do not overlap.
pub fn paused_ns(pauses: &[LongPause], from_ns: u64, until_ns: u64) -> u64 {
    let inside = |pause: &LongPause| pause.end_ns.min(until_ns).saturating_sub(pause.begin_ns.max(from_ns));
    let first = pauses.partition_point(|pause| pause.end_ns <= from_ns);
    pauses[first..].iter().take_while(|pause| pause.begin_ns < until_ns).map(inside).sum()
}

/// A thread that notes how late it wakes, until it is dropped.
#[derive(Debug)]
pub struct PauseProbe {
    shared: Arc<ProbeShared>,
}

#[derive(Debug)]
struct ProbeShared {
    interval: Duration,
    clock: Clock,
    state: Mutex<Probed>,
    ended: AtomicBool,
}

/// What a probe knows.
#[derive(Debug)]
struct Probed {
    noted: Noted,
    /// When it is to wake next.
    due: Instant,
    /// Wake-ups that were due before are not in [`Noted::lateness`].
    counts_from: Instant,
    /// What its thread had used then; `None`: it had not begun.
    own_before: Option<ProcessUsage>,
}

/// What a probe has noted.
#[derive(Debug, Clone, Default)]
pub struct Noted {
    /// How late it woke, in nanoseconds: one value for each millisecond that is this process's.
    pub lateness: Distribution,
    /// What its own thread used for it.
    pub own: ProcessUsage,
    /// Long pauses in order of time, also before the probe counted anew.
    pub long: Vec<LongPause>,
}

impl Noted {
    fn keep(&mut self, pause: LongPause) {
        self.long.push(pause);
        if self.long.len() > MAX_LONG {
            let shortest = self.long.iter().enumerate().min_by_key(|(_, pause)| pause.end_ns - pause.begin_ns);
            if let Some((index, _)) = shortest {
                self.long.remove(index);
            }
        }
    }
}

impl Probed {
    fn note_until(&mut self, woken: Instant, interval: Duration, clock: Clock) {
        if woken.saturating_duration_since(self.due) >= MIN_LONG {
            let [begin_ns, end_ns] = [self.due, woken].map(|moment| clock.since_epoch_ns(moment));
            self.noted.keep(LongPause { begin_ns, end_ns });
        }
        // After a long pause each interval in it counts, with what was left of it: a pause of 100 ms is not one late wake-up among
        // thousands, but 100 of them.
        while self.due <= woken {
            if self.due >= self.counts_from {
                self.noted.lateness.record((woken - self.due).as_nanos() as u64);
            }
            self.due += interval;
        }
    }
}

impl PauseProbe {
    /// Begins here and now, for a trial that goes by `clock`. Without a thread for it, nothing is noted.
    pub fn begin(host_share: HostShare, clock: Clock) -> Self {
        let now = Instant::now();
        let state = Mutex::new(Probed {
            noted: Noted::default(),
            due: now + host_share.first_after(SystemTime::now()),
            counts_from: now,
            own_before: None,
        });
        let shared =
            Arc::new(ProbeShared { interval: host_share.interval(), clock, state, ended: AtomicBool::new(false) });
        let probe = shared.clone();
        // The thread ends by itself, within an interval of the probe's end.
        let _ = thread::Builder::new().name("pause-probe".into()).spawn(move || probe.run());
        PauseProbe { shared }
    }

    /// Counts anew from now on. The same probe goes on, so that a pause is seen whole that lasts from before until after this.
    pub fn count_anew(&self) {
        let mut state = self.shared.state.lock();
        (state.noted.lateness, state.counts_from) = (Distribution::default(), Instant::now());
        state.own_before = Some(state.noted.own);
    }

    /// What it noted so far. After a pause, another thread may ask before the probe's own has woken: the pause is noted then.
    pub fn noted(&self) -> Noted {
        let mut state = self.shared.state.lock();
        let now = Instant::now();
        if now.saturating_duration_since(state.due) >= MIN_LONG {
            state.note_until(now, self.shared.interval, self.shared.clock);
        }
        let own = state.own_before.map_or(state.noted.own, |before| state.noted.own.since(before));
        Noted { own, ..state.noted.clone() }
    }
}

impl Drop for PauseProbe {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

impl ProbeShared {
    fn run(&self) {
        make_timers_exact();
        let mut wake_ups = 0u32;
        let mut due = self.state.lock().due;
        while !self.ended.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let woken = Instant::now();
            let mut state = self.state.lock();
            if wake_ups.is_multiple_of(OWN_EVERY) {
                state.noted.own = ProcessUsage::this_thread();
            }
            wake_ups = wake_ups.wrapping_add(1);
            state.note_until(woken, self.interval, self.clock);
            due = state.due;
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/measure/host/pauses.rs"]
mod tests;
