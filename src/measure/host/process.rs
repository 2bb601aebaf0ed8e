//! What this process used: CPU time and context switches from `getrusage`, peak memory from `/proc`; which of its threads was the busiest; and how
//! the kernel runs a thread.
//!
//! A thread that fills a core is a limit however idle the others are. The kernel gives a thread a scheduling policy (sched(7)), and wakes it more or
//! less exactly when it sleeps. With `SCHED_OTHER`, a thread that wakes may take the core from the one that runs. With `SCHED_BATCH`, it waits
//! until that one gives the core up or has used its slice. Where its core is idle when it wakes, both are the same.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::tasks::polled_by_thread;

/// Counters since the process began, or the difference of two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUsage {
    pub cpu_user: Duration,
    pub cpu_system: Duration,
    pub voluntary_context_switches: Option<u64>,
    pub involuntary_context_switches: Option<u64>,
}

impl ProcessUsage {
    /// User and system time together.
    pub fn cpu(&self) -> Duration {
        self.cpu_user + self.cpu_system
    }

    /// What was used between `begin` and this.
    pub fn since(self, begin: ProcessUsage) -> ProcessUsage {
        let difference =
            |now: Option<u64>, begin: Option<u64>| now.zip(begin).map(|(now, begin)| now.saturating_sub(begin));
        ProcessUsage {
            cpu_user: self.cpu_user.saturating_sub(begin.cpu_user),
            cpu_system: self.cpu_system.saturating_sub(begin.cpu_system),
            voluntary_context_switches: difference(self.voluntary_context_switches, begin.voluntary_context_switches),
            involuntary_context_switches: difference(
                self.involuntary_context_switches,
                begin.involuntary_context_switches,
            ),
        }
    }

    /// The counters of all threads of this process, those that ended included; zero where the system has no such counter.
    #[cfg(unix)]
    pub fn now() -> Self {
        ProcessUsage::read(libc::RUSAGE_SELF)
    }

    /// The counters of the calling thread alone; zero where the system has no such counter.
    #[cfg(target_os = "linux")]
    pub fn this_thread() -> Self {
        ProcessUsage::read(libc::RUSAGE_THREAD)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn this_thread() -> Self {
        ProcessUsage::default()
    }

    #[cfg(unix)]
    fn read(whom: libc::c_int) -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is a valid place for an `rusage`, and the call writes nowhere else.
        let answer = unsafe { libc::getrusage(whom, usage.as_mut_ptr()) };
        if answer != 0 {
            return ProcessUsage::default();
        }
        // SAFETY: the call succeeded and so has filled it; before, it was zeroed, which is a valid `rusage` too.
        let usage = unsafe { usage.assume_init() };
        ProcessUsage {
            cpu_user: time(usage.ru_utime),
            cpu_system: time(usage.ru_stime),
            voluntary_context_switches: u64::try_from(usage.ru_nvcsw).ok(),
            involuntary_context_switches: u64::try_from(usage.ru_nivcsw).ok(),
        }
    }

    #[cfg(not(unix))]
    pub fn now() -> Self {
        ProcessUsage::default()
    }
}

#[cfg(unix)]
fn time(value: libc::timeval) -> Duration {
    let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(value.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

/// Most memory this process had resident at once, in bytes (`VmHWM`).
pub fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    super::system::kibibytes(&status, "VmHWM:").map(|kibibytes| kibibytes * 1024)
}

/// Memory of this process that is resident now, in bytes (`VmRSS`).
pub fn resident_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    super::system::kibibytes(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024)
}

/// Lets [`peak_memory_bytes`] count from now, so that each trial of a sweep has its own peak; whether that succeeded.
///
/// Writing 5 to `clear_refs` resets the high-water mark (proc(5)); some containers forbid it.
pub fn reset_peak_memory() -> bool {
    cfg!(target_os = "linux") && fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// CPU time of each thread that is alive, but for what it spent on polling.
#[derive(Debug, Clone, Default)]
pub struct ThreadTimes(HashMap<u32, (String, Duration)>);

/// The thread that used the most CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct BusiestThread {
    pub name: String,
    /// Its CPU time divided by elapsed time.
    pub cores: f64,
}

impl ThreadTimes {
    /// From `/proc/self/task`; empty on systems without it.
    pub fn now() -> Self {
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return ThreadTimes::default() };
        // Asked first: what is spent in between looks like work rather than the other way round.
        let polling = polled_by_thread();
        let times = tasks.flatten().filter_map(|task| {
            let id = task.file_name().to_str()?.parse().ok()?;
            // The first field of schedstat is the time on a core in nanoseconds (kernel: scheduler/sched-stats).
            let on_core = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let nanoseconds = on_core.split_whitespace().next()?.parse().ok()?;
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let polled = polling.get(&id).copied().unwrap_or_default();
            let worked = Duration::from_nanos(nanoseconds).saturating_sub(polled);
            Some((id, (name.trim_end().to_owned(), worked)))
        });
        ThreadTimes(times.collect())
    }

    /// What a thread that is alive now has used since `begin`.
    pub(super) fn time_since(&self, begin: &ThreadTimes, id: u32) -> Duration {
        let of = |times: &ThreadTimes| times.0.get(&id).map_or(Duration::ZERO, |(_, time)| *time);
        of(self).saturating_sub(of(begin))
    }

    /// The thread alive now that used the most since `begin`; a thread begun since counts from its begin.
    pub fn busiest_since(&self, begin: &ThreadTimes, elapsed: Duration) -> Option<BusiestThread> {
        let used = self.0.iter().map(|(id, (name, _))| (self.time_since(begin, *id), name));
        let (time, name) = used.max()?;
        Some(BusiestThread { name: name.clone(), cores: super::cores(time, elapsed) })
    }
}

/// The policy of the calling thread, by its name in sched(7), in lower case and without its prefix; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn scheduling_policy() -> Option<&'static str> {
    match policy() {
        libc::SCHED_OTHER => Some("other"),
        libc::SCHED_BATCH => Some("batch"),
        libc::SCHED_IDLE => Some("idle"),
        libc::SCHED_FIFO => Some("fifo"),
        libc::SCHED_RR => Some("rr"),
        libc::SCHED_DEADLINE => Some("deadline"),
        _ => None,
    }
}

/// Gives the calling thread, and those that it starts from now on, `SCHED_BATCH` or `SCHED_OTHER`, if it has the other one of the two. Who
/// started the process with another policy wants that one. A system that refuses leaves the policy as it is.
#[cfg(target_os = "linux")]
pub fn set_batch(is_batch: bool) {
    let (from, to) =
        if is_batch { (libc::SCHED_OTHER, libc::SCHED_BATCH) } else { (libc::SCHED_BATCH, libc::SCHED_OTHER) };
    if policy() == from {
        // `struct sched_param` of the kernel. A policy that is not of real time has the priority 0.
        let priority: libc::c_int = 0;
        // SAFETY: the call only reads the integer that it is given.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, to, &raw const priority) };
    }
}

/// That of the calling thread; negative where the system does not tell.
#[cfg(target_os = "linux")]
fn policy() -> libc::c_int {
    // By a system call, as musl's function always fails.
    // SAFETY: the call takes a number, of which 0 is the calling thread, and reads and writes no memory of this process.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    // A thread whose children do not inherit its policy says so in a bit of it.
    policy as libc::c_int & !libc::SCHED_RESET_ON_FORK
}

#[cfg(not(target_os = "linux"))]
pub fn scheduling_policy() -> Option<&'static str> {
    None
}

#[cfg(not(target_os = "linux"))]
pub fn set_batch(_is_batch: bool) {}

/// Lets the kernel wake the calling thread when its time has come, instead of up to 50 µs later together with others: its
/// "timer slack" (prctl(2), `PR_SET_TIMERSLACK`). Where the system has no such thing, nothing happens.
pub fn make_timers_exact() {
    #[cfg(target_os = "linux")]
    // SAFETY: the option takes one number, and changes only the timers of the calling thread. It fails only on kernels
    // without it, which then go on as they did.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(entries: &[(u32, &str, u64)]) -> ThreadTimes {
        let entry = |(id, name, millis): &(u32, &str, u64)| (*id, ((*name).to_owned(), Duration::from_millis(*millis)));
        ThreadTimes(entries.iter().map(entry).collect())
    }

    #[test]
    fn the_busiest_is_the_one_with_the_largest_difference() {
        let begin = times(&[(1, "main", 5000), (2, "sender", 100)]);
        let end = times(&[(1, "main", 5100), (2, "sender", 1050), (3, "late", 400)]);
        let busiest = end.busiest_since(&begin, Duration::from_secs(1)).unwrap();
        assert_eq!((busiest.name.as_str(), busiest.cores), ("sender", 0.95));
        assert_eq!(times(&[]).busiest_since(&begin, Duration::from_secs(1)), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_reset_forgets_the_former_peak() {
        let block = std::hint::black_box(vec![1u8; 96 << 20]);
        let high = peak_memory_bytes().unwrap();
        assert!(high >= 96 << 20, "{high}");
        assert!(resident_memory_bytes().unwrap() >= 96 << 20);
        drop(block);
        if reset_peak_memory() {
            assert!(peak_memory_bytes().unwrap() < high - (48 << 20));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_hands_its_policy_to_those_that_it_starts() {
        for (is_batch, policy) in [(true, "batch"), (false, "other")] {
            set_batch(is_batch);
            assert_eq!(scheduling_policy(), Some(policy));
            assert_eq!(std::thread::spawn(scheduling_policy).join().unwrap(), Some(policy));
        }
    }
}
