//! Runs the producers of an open loop when their messages are due.
//!
//! The producers of a load thread are parts of one task, which keeps the times that they wait for in a heap. It sleeps until the earliest one, and
//! then polls what is due in place: no thread wakes another for it, and nothing is locked. It sleeps in the runtime's wait for input and output,
//! by a timer of the kernel, because tokio's own timers count in milliseconds.
//!
//! A wake-up costs as much as many messages, so the task is woken at most once in a slice. What falls due within it is sent together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::future::poll_fn;
use std::hint;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::sync::mpsc;
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::task::yield_now;

use super::window::TrialWindow;
use crate::measure::Clock;
use crate::measure::host::tasks::polling;
use crate::scenario::Pacing;

/// How long before an alarm the task begins to read the clock without a pause, if the scenario allows it: longer than a sleep
/// usually overshoots.
const SPIN_NS: u64 = 100_000;

/// How long it reads the clock before the other tasks of the thread run.
const TURN_NS: u64 = 50_000;

/// CPU time that a wake-up takes before the task runs and after it, about.
const WAKE_UP_NS: u64 = 5_000;

/// An adaptive slice is so many times as long as the work in the last one.
const SLICE_PER_WORK: u64 = 5;

const NEVER: u64 = u64::MAX;

/// What the producers of a load thread and their task tell each other, in nanoseconds since the trial's epoch. Only one of them runs at a time:
/// these are atomic because the runtime may move the task to another thread.
pub struct Pace {
    clock: Clock,
    pacing: Pacing,
    /// When the producer that was polled wants to run next; `NEVER`: it does not wait for a time.
    wanted_ns: AtomicU64,
    /// The time until which the task slept last, as it was set, and when it began to run what was due.
    alarm_ns: AtomicU64,
    woken_ns: AtomicU64,
}

/// The end of a producer's sleep, in nanoseconds since the trial's epoch: as the producer or a slice set it, and as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeUp {
    pub alarm_ns: u64,
    pub woken_ns: u64,
}

impl Pace {
    pub fn new(clock: Clock, pacing: Pacing) -> Self {
        let [alarm_ns, woken_ns] = [0; 2].map(AtomicU64::new);
        Pace { clock, pacing, wanted_ns: AtomicU64::new(NEVER), alarm_ns, woken_ns }
    }

    /// A producer is woken at most once in this time.
    pub fn wake_interval_ns(&self) -> u64 {
        self.pacing.wake_interval.as_nanos() as u64
    }

    /// Sleeps until `due_ns`, or until the load is stopped. Only a producer that [`run`] polls may sleep here.
    pub async fn sleep_until(&self, due_ns: u64, trial_window: &TrialWindow) -> WakeUp {
        self.wanted_ns.store(due_ns, Ordering::Relaxed);
        let is_over = || self.woken_ns.load(Ordering::Relaxed) >= due_ns || trial_window.is_stopped();
        poll_fn(|_| if is_over() { Poll::Ready(()) } else { Poll::Pending }).await;
        WakeUp { alarm_ns: self.alarm_ns.load(Ordering::Relaxed).max(due_ns), woken_ns: self.clock.now_ns() }
    }

    /// How long after it was woken the task may be woken again, if its work took so long.
    fn slice_ns(&self, work_ns: u64) -> u64 {
        match self.pacing {
            Pacing { slice: Some(slice), .. } => slice.as_nanos() as u64,
            Pacing { spin: true, .. } => 0,
            _ => ((work_ns + WAKE_UP_NS) * SLICE_PER_WORK).min(self.wake_interval_ns()),
        }
    }

    /// Sleeps until `alarm_ns`. The thread's other tasks run meanwhile, also when that time has passed. Cancel-safe.
    async fn rest_until(&self, alarm_ns: u64, timer: &Timer) {
        self.alarm_ns.store(alarm_ns, Ordering::Relaxed);
        let spin_ns = if self.pacing.spin { SPIN_NS } else { 0 };
        let mut now_ns = self.clock.now_ns();
        match alarm_ns.saturating_sub(now_ns + spin_ns) {
            0 => yield_now().await,
            wait_ns => timer.sleep(Duration::from_nanos(wait_ns)).await,
        }
        while self.pacing.spin && now_ns < alarm_ns {
            let turn_ends_ns = alarm_ns.min(self.clock.now_ns() + TURN_NS);
            // Polling is not work: a thread that polls is not full.
            polling(|| {
                while now_ns < turn_ends_ns {
                    hint::spin_loop();
                    now_ns = self.clock.now_ns();
                }
            });
            yield_now().await;
        }
    }
}

/// Runs the producers of one load thread until all have ended.
pub async fn run<F: Future>(pace: &Pace, producers: Vec<F>, trial_window: &TrialWindow) -> Vec<F::Output> {
    let (timer, mut stopped) = (Timer::new(), pin!(trial_window.stopped().fuse()));
    let (sender, mut woken) = mpsc::unbounded_channel();
    let waker = |number| Waker::from(Arc::new(ProducerWaker { number, woken: sender.clone() }));
    let mut group = Group {
        pace,
        wakers: (0..producers.len()).map(waker).collect(),
        producers: producers.into_iter().map(|producer| Some(Box::pin(producer))).collect(),
        alarms: BinaryHeap::new(),
        outputs: Vec::new(),
    };
    group.poll_all();
    let mut rested_ns = 0;
    while group.outputs.len() < group.producers.len() {
        let earliest_ns = group.alarms.peek().map_or(NEVER, |earliest| earliest.0.0);
        tokio::select! {
            biased;
            () = &mut stopped => group.poll_all(),
            Some(number) = woken.recv() => group.poll(number),
            () = pace.rest_until(earliest_ns.max(rested_ns), &timer) => {}
        }
        let woken_ns = pace.clock.now_ns();
        pace.woken_ns.store(woken_ns, Ordering::Relaxed);
        while let Some(number) = group.next_due(woken_ns) {
            group.poll(number);
            if !has_budget_remaining() {
                consume_budget().await;
            }
        }
        rested_ns = woken_ns + pace.slice_ns(pace.clock.now_ns() - woken_ns);
    }
    group.outputs
}

/// The producers of one load thread.
struct Group<'a, F: Future> {
    pace: &'a Pace,
    /// `None`: it has ended.
    producers: Vec<Option<Pin<Box<F>>>>,
    wakers: Vec<Waker>,
    /// Who wants to run when.
    alarms: BinaryHeap<Reverse<(u64, usize)>>,
    outputs: Vec<F::Output>,
}

impl<F: Future> Group<'_, F> {
    /// A producer whose time has come.
    fn next_due(&mut self, now_ns: u64) -> Option<usize> {
        let earliest = self.alarms.peek_mut().filter(|earliest| earliest.0.0 <= now_ns)?;
        Some(PeekMut::pop(earliest).0.1)
    }

    fn poll_all(&mut self) {
        (0..self.producers.len()).for_each(|number| self.poll(number));
    }

    fn poll(&mut self, number: usize) {
        let Some(producer) = &mut self.producers[number] else { return };
        if let Poll::Ready(output) = producer.as_mut().poll(&mut Context::from_waker(&self.wakers[number])) {
            self.outputs.push(output);
            self.producers[number] = None;
        }
        let wanted_ns = self.pace.wanted_ns.load(Ordering::Relaxed);
        if wanted_ns != NEVER {
            self.pace.wanted_ns.store(NEVER, Ordering::Relaxed);
            self.alarms.push(Reverse((wanted_ns, number)));
        }
    }
}

/// Wakes a producer that waits for something else than a time: an acknowledgement, or room in a client.
struct ProducerWaker {
    number: usize,
    woken: mpsc::UnboundedSender<usize>,
}

impl Wake for ProducerWaker {
    fn wake(self: Arc<Self>) {
        // The receiver is gone once all producers have ended.
        let _ = self.woken.send(self.number);
    }
}

/// Sleeps in the runtime's wait for input and output, to microseconds where the kernel has such timers.
struct Timer {
    #[cfg(target_os = "linux")]
    of_kernel: Option<AsyncFd<OwnedFd>>,
}

impl Timer {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        // SAFETY: the call takes two numbers.
        let file = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        // SAFETY: the file is new, so nothing else closes it, and it has the same number for as long as it is open.
        let registered =
            |file| unsafe { AsyncFd::register_with_interest(OwnedFd::from_raw_fd(file), Interest::READABLE) };
        Timer { of_kernel: Some(file).filter(|file| *file >= 0).and_then(|file| registered(file).ok()) }
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Timer {}
    }

    /// Cancel-safe: an earlier sleep that was not waited for may end the next one before its time.
    async fn sleep(&self, wait: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(timer) = &self.of_kernel {
            let timespec = |time: Duration| libc::timespec {
                tv_sec: time.as_secs() as libc::time_t,
                tv_nsec: time.subsec_nanos() as libc::c_long,
            };
            let once = libc::itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(wait) };
            // SAFETY: `once` outlives the call, and nothing is written where the last argument is null.
            unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const once, std::ptr::null_mut()) };
            if let Ok(mut ready) = timer.readable().await {
                ready.clear_ready();
                return;
            }
        }
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/engine/send/pacer.rs"]
mod tests;
