//! How exactly the kernel wakes a thread that sleeps.

/// Lets the kernel wake the calling thread when its time has come, instead of up to 50 µs later together with others: its
/// "timer slack" (prctl(2), `PR_SET_TIMERSLACK`). Where the system has no such thing, nothing happens.
pub fn be_exact() {
    #[cfg(target_os = "linux")]
    // SAFETY: the option takes one number, and changes nothing but the calling thread's timers. It fails only on kernels
    // without it, which then go on as they did.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}
