//! Which of the load's tasks was the busiest: one that always runs is a limit, even if it moves between threads and none of them is full.
//!
//! Two readings of the clock for each poll would cost too much, so polls are timed at random: one in `ONE_IN`, which then counts for
//! so many. After a timed poll that was long, the next one is always timed and counts once. As the choice never depends on the poll
//! itself, the expected sum is the true one, whatever the pattern of the polls (the estimator of Horvitz and Thompson, 1952).
//!
//! Threads may also spend CPU time on looking for messages that have not come yet, where they might have slept until one came. Polling uses a
//! core but does no work: it does not count when the verdict asks whether a thread could have done more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// One of so many polls is timed.
const ONE_IN: u64 = 32;

/// From this length on, two readings of the clock add less than 1 % to a poll.
const LONG: Duration = Duration::from_micros(10);

/// A task is judged by so many timed polls at least.
const MIN_TIMED: u64 = 30;

/// What a task is, and its number among those that are alive.
type TaskPlace = (&'static str, usize);

/// All that were ever watched. A task has the place of an earlier one that has ended, so they do not grow.
static TASKS: Mutex<BTreeMap<TaskPlace, Arc<Spent>>> = Mutex::new(BTreeMap::new());

/// What the polls of a task came to.
#[derive(Debug, Default)]
struct Spent {
    busy_ns: AtomicU64,
    timed: AtomicU64,
}

/// Runs `task`, and estimates for how long it is busy. It is called by its `kind` and `number`; where another task that is alive is
/// called so, by the next free number.
pub fn watched<T>(
    kind: &'static str,
    number: usize,
    task: impl Future<Output = T> + Send,
) -> impl Future<Output = T> + Send {
    let (spent, mut task) = (spent_at(kind, number), Box::pin(task));
    let mut choice = Choice { state: number as u64, was_long: true };
    poll_fn(move |context| match choice.weight() {
        None => task.as_mut().poll(context),
        Some(weight) => {
            let (begin, polled_ns) = (Instant::now(), own_polling_ns());
            let poll = task.as_mut().poll(context);
            let took = begin.elapsed().saturating_sub(Duration::from_nanos(own_polling_ns() - polled_ns));
            choice.was_long = took >= LONG;
            spent.busy_ns.fetch_add(took.as_nanos() as u64 * weight, Ordering::Relaxed);
            spent.timed.fetch_add(1, Ordering::Relaxed);
            poll
        }
    })
}

/// The first free place of `kind` from `number` on.
fn spent_at(kind: &'static str, number: usize) -> Arc<Spent> {
    let mut tasks = TASKS.lock();
    let is_free = |number: &usize| tasks.get(&(kind, *number)).is_none_or(|spent| Arc::strong_count(spent) == 1);
    let free = (number..).find(is_free).unwrap_or(number);
    tasks.entry((kind, free)).or_default().clone()
}

/// Chooses the polls that are timed.
struct Choice {
    state: u64,
    was_long: bool,
}

impl Choice {
    /// For how many polls the next one counts; `None`: it is not timed.
    #[inline]
    fn weight(&mut self) -> Option<u64> {
        if self.was_long {
            return Some(1);
        }
        // The linear congruential generator of Knuth's MMIX. Its lower bits are less random.
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40).is_multiple_of(ONE_IN).then_some(ONE_IN)
    }
}

/// How long each task was busy until now, and how many of its polls were timed.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskTimes(BTreeMap<TaskPlace, (Duration, u64)>);

/// The task that was busy for the longest.
#[derive(Debug, Clone, PartialEq)]
pub struct BusiestTask {
    pub name: String,
    /// The time for which its polls ran, divided by elapsed time; at most 1.
    pub cores: f64,
}

impl TaskTimes {
    /// Of all tasks that are watched, and of those that have ended.
    pub fn now() -> Self {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let times = |spent: &Arc<Spent>| (Duration::from_nanos(load(&spent.busy_ns)), load(&spent.timed));
        TaskTimes(TASKS.lock().iter().map(|(place, spent)| (*place, times(spent))).collect())
    }

    /// The task that was busy for the longest since `begin`, of those with enough timed polls.
    pub fn busiest_since(&self, begin: &TaskTimes, elapsed: Duration) -> Option<BusiestTask> {
        let since = |(place, (busy, timed)): (&TaskPlace, &(Duration, u64))| {
            let (busy_before, timed_before) = begin.0.get(place).copied().unwrap_or_default();
            (timed - timed_before >= MIN_TIMED).then(|| (busy.saturating_sub(busy_before), *place))
        };
        let (busy, (kind, number)) = self.0.iter().filter_map(since).max()?;
        Some(BusiestTask { name: format!("{kind} {number}"), cores: super::cores(busy, elapsed).min(1.0) })
    }
}

/// Nanoseconds of each thread that ever polled. Those are a runtime's workers: few, and alive as long as the process.
static POLLED: Mutex<BTreeMap<u32, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static MINE: Arc<AtomicU64> =
        POLLED.lock().entry(thread_id()).or_default().clone();

    static WALL_NS: Cell<u64> = const { Cell::new(0) };
}

/// Looks, and counts the CPU time of this thread that it took.
pub fn polling<T>(look: impl FnOnce() -> T) -> T {
    let (began, begin) = (Instant::now(), thread_cpu());
    let found = look();
    let spent = thread_cpu().saturating_sub(begin);
    MINE.with(|mine| mine.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed));
    WALL_NS.set(WALL_NS.get() + began.elapsed().as_nanos() as u64);
    found
}

/// For how long this thread has looked until now, in nanoseconds, with the time in which others had its core.
fn own_polling_ns() -> u64 {
    WALL_NS.get()
}

/// What each thread has spent until now, by its id.
pub(super) fn polled_by_thread() -> BTreeMap<u32, Duration> {
    let polled = POLLED.lock();
    polled.iter().map(|(id, spent)| (*id, Duration::from_nanos(spent.load(Ordering::Relaxed)))).collect()
}

/// What all threads together have spent until now.
pub(super) fn polled() -> Duration {
    polled_by_thread().into_values().sum()
}

/// As in `/proc/self/task`.
#[cfg(target_os = "linux")]
fn thread_id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// One sum for all threads on systems without figures per thread.
#[cfg(not(target_os = "linux"))]
fn thread_id() -> u32 {
    0
}

/// CPU time of the calling thread; zero where the system has no such counter.
#[cfg(unix)]
fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for a `timespec`, and the call writes nowhere else.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    match answer {
        0 => Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        _ => Duration::ZERO,
    }
}

#[cfg(not(unix))]
fn thread_cpu() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
#[path = "../../../tests/unit/measure/host/tasks.rs"]
mod tests;
