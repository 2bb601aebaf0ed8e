//! Wakes producers at their intended times, to tens of microseconds: tokio's own timer counts in milliseconds.
//!
//! One thread sleeps until the earliest time that a producer asked for. How late a wake-up makes each message that waited for it is
//! recorded: it is the part of the schedule delay that the load generator itself causes. One part of it is the timer's lateness, the
//! other is chosen: `wake_interval`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use parking_lot::{Condvar, Mutex};

use crate::measure::host::make_timers_exact;
use crate::measure::host::tasks::polling;
use crate::measure::{Clock, Distribution};
use crate::scenario::Pacing;

/// How long before an alarm the thread begins to read the clock without a pause, if the scenario allows it: longer than a sleep
/// usually overshoots.
const SPIN_NS: u64 = 100_000;

/// Wakes the producers of one trial. Dropping it ends its thread.
pub struct Pacer {
    shared: Arc<PacerShared>,
    thread: Option<JoinHandle<()>>,
}

struct PacerShared {
    clock: Clock,
    pacing: Pacing,
    /// The earliest time asked for, for the thread to see while it does not hold the state.
    earliest_ns: AtomicU64,
    state: Mutex<PacerState>,
    earlier: Condvar,
    sleepers: Box<[Sleeper]>,
}

#[derive(Default)]
struct PacerState {
    /// Who wants to be woken when, in nanoseconds since the trial's epoch.
    alarms: BinaryHeap<Reverse<(u64, usize)>>,
    lateness: WakeUpDelays,
    ended: bool,
}

/// How late wake-ups made the messages that waited for them, one value for each message.
#[derive(Debug, Clone, Default)]
pub struct WakeUpDelays {
    /// What the timers were late.
    pub timers: Distribution,
    /// The same, and what `wake_interval` made the messages wait.
    pub all: Distribution,
}

/// How late a wake-up made one message, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUpDelay {
    pub timer_ns: u64,
    pub all_ns: u64,
}

struct Sleeper {
    due: AtomicBool,
    waker: AtomicWaker,
}

impl Pacer {
    /// For `producers`, by `clock`.
    pub fn start(clock: Clock, producers: usize, pacing: Pacing) -> Self {
        let sleepers = (0..producers).map(|_| Sleeper { due: AtomicBool::new(false), waker: AtomicWaker::new() });
        let shared = Arc::new(PacerShared {
            clock,
            pacing,
            earliest_ns: AtomicU64::new(u64::MAX),
            state: Mutex::default(),
            earlier: Condvar::new(),
            sleepers: sleepers.collect(),
        });
        let thread = {
            let shared = shared.clone();
            thread::Builder::new().name("brokermark-pacer".into()).spawn(move || shared.run())
        };
        Pacer { shared, thread: thread.ok() }
    }

    /// A producer is woken at most once in this time.
    pub fn wake_interval_ns(&self) -> u64 {
        self.shared.pacing.wake_interval.as_nanos() as u64
    }

    /// Sleeps until `due_ns` since the trial's epoch and returns the time then; earlier if `stopped` is set and
    /// [`Pacer::wake_all`] called. Only the producer of `producer_index` may sleep there.
    pub async fn sleep_until(&self, producer_index: usize, due_ns: u64, stopped: &AtomicBool) -> u64 {
        let sleeper = &self.shared.sleepers[producer_index];
        sleeper.due.store(false, Ordering::SeqCst);
        let earliest = {
            let mut state = self.shared.state.lock();
            let earliest = state.alarms.peek().is_none_or(|Reverse((alarm, _))| due_ns < *alarm);
            state.alarms.push(Reverse((due_ns, producer_index)));
            earliest
        };
        if earliest {
            self.shared.earliest_ns.fetch_min(due_ns, Ordering::Relaxed);
            self.shared.earlier.notify_one();
        }
        poll_fn(|context| {
            sleeper.waker.register(context.waker());
            if sleeper.due.load(Ordering::SeqCst) || stopped.load(Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        self.shared.clock.now_ns()
    }

    /// Keeps how late a wake-up made each of the messages that waited for it.
    pub fn record_delays(&self, of_messages: &[WakeUpDelay]) {
        if !of_messages.is_empty() {
            let mut state = self.shared.state.lock();
            for delay in of_messages {
                state.lateness.timers.record(delay.timer_ns);
                state.lateness.all.record(delay.all_ns);
            }
        }
    }

    /// Wakes every sleeper to check its stop flag.
    pub fn wake_all(&self) {
        self.shared.sleepers.iter().for_each(|sleeper| sleeper.waker.wake());
    }

    /// How late wake-ups made messages: the values given to [`Pacer::record_delays`].
    pub fn delays(&self) -> WakeUpDelays {
        self.shared.state.lock().lateness.clone()
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.earlier.notify_one();
        if let Some(thread) = self.thread.take() {
            // A pacer that panicked has nothing left to clean up.
            let _ = thread.join();
        }
    }
}

impl PacerShared {
    fn run(&self) {
        make_timers_exact();
        let mut state = self.state.lock();
        while !state.ended {
            let now_ns = self.clock.now_ns();
            match state.alarms.peek() {
                Some(Reverse((due_ns, producer_index))) if *due_ns <= now_ns => {
                    let sleeper = &self.sleepers[*producer_index];
                    state.alarms.pop();
                    sleeper.due.store(true, Ordering::SeqCst);
                    sleeper.waker.wake();
                }
                Some(Reverse((due_ns, _))) => {
                    let due_ns = *due_ns;
                    let slept_until_ns = if self.pacing.spin { due_ns.saturating_sub(SPIN_NS) } else { due_ns };
                    if slept_until_ns <= now_ns {
                        self.earliest_ns.store(due_ns, Ordering::Relaxed);
                        drop(state);
                        self.spin_until(due_ns);
                        state = self.state.lock();
                        continue;
                    }
                    let wait = self.clock.instant(slept_until_ns).saturating_duration_since(Instant::now());
                    let wait = wait.max(Duration::from_nanos(1));
                    self.earlier.wait_for(&mut state, wait);
                }
                None => self.earlier.wait(&mut state),
            }
        }
    }

    /// Reads the clock until the time has come, or a producer asks for an earlier one. Polling is not work: a thread that polls is
    /// not full.
    fn spin_until(&self, due_ns: u64) {
        polling(|| {
            while self.clock.now_ns() < due_ns && self.earliest_ns.load(Ordering::Relaxed) >= due_ns {
                hint::spin_loop();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sleepers_wake_in_their_order_and_never_early() {
        for spin in [false, true] {
            wakes_in_order(Pacing { spin, ..Pacing::default() }).await;
        }
    }

    async fn wakes_in_order(pacing: Pacing) {
        let clock = Clock::start();
        let pacer = Arc::new(Pacer::start(clock, 3, pacing));
        let stopped = Arc::new(AtomicBool::new(false));
        let begin = clock.now_ns();
        let sleeps = [30, 10, 20].into_iter().enumerate().map(|(producer_index, milliseconds)| {
            let (pacer, stopped) = (pacer.clone(), stopped.clone());
            tokio::spawn(async move {
                let due = begin + milliseconds * 1_000_000;
                (pacer.sleep_until(producer_index, due, &stopped).await, due)
            })
        });
        for sleep in sleeps.collect::<Vec<_>>() {
            let (woken, due) = sleep.await.unwrap();
            assert!(woken >= due);
        }
    }

    #[tokio::test]
    async fn a_stop_wakes_a_sleeper_before_its_time() {
        let clock = Clock::start();
        let pacer = Arc::new(Pacer::start(clock, 1, Pacing::default()));
        let stopped = Arc::new(AtomicBool::new(false));
        let sleeping = {
            let (pacer, stopped) = (pacer.clone(), stopped.clone());
            tokio::spawn(async move { pacer.sleep_until(0, u64::MAX / 4, &stopped).await })
        };
        tokio::task::yield_now().await;
        stopped.store(true, Ordering::SeqCst);
        pacer.wake_all();
        assert!(sleeping.await.unwrap() < u64::MAX / 4);
    }
}
