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
mod tests {
    use super::*;

    fn wait_for(mut condition: impl FnMut() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    #[test]
    fn every_millisecond_is_one_value() {
        let (probe, begin) = (PauseProbe::begin(HostShare::ALONE, Clock::start()), Instant::now());
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
    fn cpu_time_of_the_pause_probe_is_known() {
        let probe = PauseProbe::begin(HostShare { number: 1, count: 2 }, Clock::start());
        // Nothing is known before its first wake-up.
        let waits = || probe.noted().own.voluntary_context_switches.unwrap_or(0);
        wait_for(|| waits() >= u64::from(OWN_EVERY) || probe.noted().lateness.histogram().len() >= 5_000);
        assert!(waits() >= u64::from(OWN_EVERY), "it waits for each wake-up");
    }

    #[test]
    fn a_pause_counts_for_each_millisecond_that_it_lasts() {
        let probe = PauseProbe::begin(HostShare::ALONE, Clock::start());
        wait_for(|| !probe.noted().lateness.is_empty());
        let held = probe.shared.state.lock();
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

    /// A probe that is to wake at `due_ms`, and did at each of `woken_ms`, in milliseconds since the trial's epoch.
    fn noted(counts_from_ms: u64, due_ms: u64, woken_ms: &[u64]) -> Noted {
        let clock = Clock::start();
        let at = |ms: u64| clock.instant(ms * 1_000_000);
        let noted = Noted::default();
        let mut probed = Probed { noted, due: at(due_ms), counts_from: at(counts_from_ms), own_before: None };
        woken_ms.iter().for_each(|woken_ms| probed.note_until(at(*woken_ms), INTERVAL, clock));
        probed.noted
    }

    #[test]
    fn a_pause_of_20_ms_keeps_its_begin_and_end() {
        let pause =
            |begin_ms: u64, end_ms: u64| LongPause { begin_ns: begin_ms * 1_000_000, end_ns: end_ms * 1_000_000 };
        assert_eq!(noted(0, 5, &[24]).long, []);
        assert_eq!(noted(0, 5, &[25, 26, 27, 500, 501]).long, [pause(5, 25), pause(28, 500)]);
        let across_the_begin = noted(100, 5, &[105]);
        assert_eq!(across_the_begin.long, [pause(5, 105)], "seen whole");
        assert_eq!(across_the_begin.lateness.histogram().len(), 6, "and counted from 100 ms on");
    }

    #[test]
    fn of_too_many_pauses_the_longest_are_kept() {
        let mut noted = Noted::default();
        for number in 0..2 * MAX_LONG as u64 {
            noted.keep(LongPause { begin_ns: number * 1_000, end_ns: number * 1_000 + number % 100 });
        }
        assert_eq!(noted.long.len(), MAX_LONG);
        assert!(noted.long.iter().all(|pause| pause.end_ns - pause.begin_ns >= 50), "{:?}", noted.long);
        assert!(noted.long.is_sorted_by_key(|pause| pause.begin_ns));
    }

    #[test]
    fn paused_time_is_what_lies_between_two_moments() {
        let pauses = [LongPause { begin_ns: 10, end_ns: 20 }, LongPause { begin_ns: 30, end_ns: 60 }];
        assert_eq!(
            [(0, 100), (15, 40), (20, 30), (40, 50)].map(|(from, until)| paused_ns(&pauses, from, until)),
            [40, 15, 0, 10]
        );
    }
}
