//! CPU time that threads spent on looking for what had not come yet, where they might have slept until it came.
//!
//! Polling uses a core but does no work: it does not count when the verdict asks whether a thread could have done more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Nanoseconds of each thread that ever polled. Those are a runtime's workers: few, and alive as long as the process.
static POLLED: Mutex<BTreeMap<u32, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static MINE: Arc<AtomicU64> =
        POLLED.lock().entry(thread_id()).or_default().clone();

    static WALL_NS: Cell<u64> = const { Cell::new(0) };
}

/// Looks, and counts the CPU time of this thread that it took.
pub fn during<T>(look: impl FnOnce() -> T) -> T {
    let (began, begin) = (Instant::now(), thread_cpu());
    let found = look();
    let spent = thread_cpu().saturating_sub(begin);
    MINE.with(|mine| mine.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed));
    WALL_NS.set(WALL_NS.get() + began.elapsed().as_nanos() as u64);
    found
}

/// For how long this thread has looked until now, in nanoseconds, with the time in which others had its core.
pub(super) fn own_wall_ns() -> u64 {
    WALL_NS.get()
}

/// What each thread has spent until now, by its id.
pub(super) fn by_thread() -> BTreeMap<u32, Duration> {
    let polled = POLLED.lock();
    polled.iter().map(|(id, spent)| (*id, Duration::from_nanos(spent.load(Ordering::Relaxed)))).collect()
}

/// What all threads together have spent until now.
pub(super) fn total() -> Duration {
    by_thread().into_values().sum()
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
mod tests {
    use super::super::ThreadTimes;
    use super::*;

    #[test]
    fn polling_is_counted_and_is_no_work_of_its_thread() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let busy = |time: Duration| {
            let until = thread_cpu() + time;
            while thread_cpu() < until {}
        };
        let (polling, working) = (Duration::from_millis(200), Duration::from_millis(50));
        let (begin, spent, started) = (ThreadTimes::now(), total(), Instant::now());
        during(|| busy(polling));
        assert!(total() - spent >= polling);
        busy(working);
        let worked = ThreadTimes::now().time_since(&begin, thread_id());
        // The kernel brings its account up to date at its ticks.
        let slack = Duration::from_millis(20);
        assert!(worked + slack >= working && worked < working + polling / 2, "{worked:?} of {:?}", started.elapsed());
    }
}
