//! The scheduling policy that the kernel gives a thread (sched(7)).
//!
//! With `SCHED_OTHER`, a thread that wakes may take the core from the one that runs. With `SCHED_BATCH`, it waits until that one gives
//! the core up or has used its slice. Where its core is idle when it wakes, both are the same.

/// A policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingPolicy {
    Other,
    Batch,
    Idle,
    Fifo,
    RoundRobin,
    Deadline,
}

impl SchedulingPolicy {
    /// Its name in sched(7), in lower case and without its prefix.
    pub fn name(self) -> &'static str {
        match self {
            SchedulingPolicy::Other => "other",
            SchedulingPolicy::Batch => "batch",
            SchedulingPolicy::Idle => "idle",
            SchedulingPolicy::Fifo => "fifo",
            SchedulingPolicy::RoundRobin => "rr",
            SchedulingPolicy::Deadline => "deadline",
        }
    }

    /// That of the calling thread; `None` where the system does not tell.
    #[cfg(target_os = "linux")]
    pub fn of_this_thread() -> Option<Self> {
        // musl's own function always fails.
        // SAFETY: the call takes a number, of which 0 is the calling thread, and reads and writes no memory of this process.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int;
        // A thread whose children do not inherit its policy says so in a bit of it.
        match policy & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_OTHER => Some(SchedulingPolicy::Other),
            libc::SCHED_BATCH => Some(SchedulingPolicy::Batch),
            libc::SCHED_IDLE => Some(SchedulingPolicy::Idle),
            libc::SCHED_FIFO => Some(SchedulingPolicy::Fifo),
            libc::SCHED_RR => Some(SchedulingPolicy::RoundRobin),
            libc::SCHED_DEADLINE => Some(SchedulingPolicy::Deadline),
            _ => None,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn of_this_thread() -> Option<Self> {
        None
    }
}

/// Gives the calling thread, and those that it starts from now on, `SCHED_BATCH` or `SCHED_OTHER`, if it has the other one of the two. Who
/// started the process with another policy wants that one. A system that refuses leaves the policy as it is.
pub fn set_batch(is_batch: bool) {
    use SchedulingPolicy::{Batch, Other};
    match (SchedulingPolicy::of_this_thread(), is_batch) {
        (Some(Other), true) | (Some(Batch), false) => set(is_batch),
        _ => {}
    }
}

#[cfg(target_os = "linux")]
fn set(is_batch: bool) {
    let policy = if is_batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    // `struct sched_param` of the kernel. A policy that is not of real time has the priority 0.
    let priority: libc::c_int = 0;
    // SAFETY: the call only reads the integer that it is given.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority);
    }
}

#[cfg(not(target_os = "linux"))]
fn set(_is_batch: bool) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hands_its_policy_to_those_that_it_starts() {
        for (is_batch, policy) in [(true, SchedulingPolicy::Batch), (false, SchedulingPolicy::Other)] {
            set_batch(is_batch);
            assert_eq!(SchedulingPolicy::of_this_thread(), Some(policy));
            let child = std::thread::spawn(SchedulingPolicy::of_this_thread).join().unwrap();
            assert_eq!(child, Some(policy));
        }
    }
}
