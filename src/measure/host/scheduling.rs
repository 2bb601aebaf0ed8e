//! How the kernel runs a thread: its scheduling policy (sched(7)), and how exactly it is woken when it sleeps.
//!
//! With `SCHED_OTHER`, a thread that wakes may take the core from the one that runs. With `SCHED_BATCH`, it waits until that one gives
//! the core up or has used its slice. Where its core is idle when it wakes, both are the same.

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hands_its_policy_to_those_that_it_starts() {
        for (is_batch, policy) in [(true, "batch"), (false, "other")] {
            set_batch(is_batch);
            assert_eq!(scheduling_policy(), Some(policy));
            assert_eq!(std::thread::spawn(scheduling_policy).join().unwrap(), Some(policy));
        }
    }
}

/// Lets the kernel wake the calling thread when its time has come, instead of up to 50 µs later together with others: its
/// "timer slack" (prctl(2), `PR_SET_TIMERSLACK`). Where the system has no such thing, nothing happens.
pub fn make_timers_exact() {
    #[cfg(target_os = "linux")]
    // SAFETY: the option takes one number, and changes nothing but the calling thread's timers. It fails only on kernels
    // without it, which then go on as they did.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}
