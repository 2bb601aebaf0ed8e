//! Whether the system keeps its clock synchronised.

/// `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn clock_is_synchronised() -> Option<bool> {
    // SAFETY: the call writes to the structure only, and changes nothing while its `modes` are 0 (adjtimex(2)).
    let state = unsafe {
        let mut clock: libc::timex = std::mem::zeroed();
        libc::adjtimex(&raw mut clock)
    };
    (state >= 0).then_some(state != libc::TIME_ERROR)
}

/// `None`: the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn clock_is_synchronised() -> Option<bool> {
    None
}
