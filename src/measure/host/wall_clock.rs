//! How far the machine's wall clock may be from the true time, as the kernel knows it from the program that synchronises it.

use std::fs;

/// The state of the wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WallClock {
    /// The kernel that keeps it, by the id of its boot: processes with the same one read the same clock, whatever their host names
    /// and containers. `None` where the system does not tell.
    pub boot_id: Option<String>,
    /// Most that it may be off, in nanoseconds; `None`: it is not synchronised, or the system does not tell.
    pub most_error_ns: Option<u64>,
}

impl WallClock {
    /// As it is now.
    pub fn now() -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        WallClock { boot_id: boot_id.map(|id| id.trim().to_owned()), most_error_ns: most_error_ns() }
    }

    /// Most that times are off that were counted from an epoch which this clock gave, when later it is as `later` says and has moved by
    /// `moved_ns` against the monotonic clock: an error that was corrected in between is in all of them.
    pub fn most_error_since_ns(&self, later: &WallClock, moved_ns: u64) -> Option<u64> {
        Some(self.most_error_ns?.max(later.most_error_ns?) + moved_ns)
    }
}

/// Whether the system keeps its clock synchronised; `None` where it does not tell.
pub fn clock_is_synchronised() -> Option<bool> {
    kernel_clock().map(|error_ns| error_ns.is_some())
}

fn most_error_ns() -> Option<u64> {
    kernel_clock().flatten()
}

/// `maxerror` of the kernel's clock discipline (RFC 5905, "maximum error"; adjtimex(2)): the root distance of the time source, which
/// grows by 500 µs/s while nothing synchronises the clock. `Some(None)`: it is not synchronised; `None`: the system does not tell.
#[cfg(target_os = "linux")]
fn kernel_clock() -> Option<Option<u64>> {
    // SAFETY: `timex` is a struct of integers, for which zero is a value; with `modes` 0 the call only reads, and writes to nothing
    // but the struct that it is given.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    let is_synchronised = timex.status & libc::STA_UNSYNC == 0;
    (state >= 0).then(|| is_synchronised.then(|| u64::try_from(timex.maxerror).unwrap_or(0) * 1_000))
}

#[cfg(not(target_os = "linux"))]
fn kernel_clock() -> Option<Option<u64>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_was_corrected_during_the_trial_counts() {
        let clock = |most_error_ns| WallClock { boot_id: None, most_error_ns };
        let since = |begin, end, moved_ns| clock(begin).most_error_since_ns(&clock(end), moved_ns);
        assert_eq!(since(Some(100), Some(1), 0), Some(100));
        assert_eq!(since(Some(1), Some(100), 40), Some(140));
        assert_eq!((since(None, Some(1), 0), since(Some(1), None, 0)), (None, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn processes_of_one_machine_read_the_same_clock() {
        let (one, again) = (WallClock::now(), WallClock::now());
        assert!(one.boot_id.is_some());
        assert_eq!(one.boot_id, again.boot_id);
    }
}
