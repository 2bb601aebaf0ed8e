//! What the whole machine did (`/proc/stat`, whose first line adds up all cores), how long its tasks waited for a resource
//! (`/proc/pressure`; kernel documentation, accounting/psi), and how far its wall clock may be from the true time, as the kernel knows it from
//! the program that synchronises it.

use std::fs;
use std::time::Duration;

/// Time of all cores since the machine started, in the kernel's ticks: only shares of it mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemTimes {
    pub busy: u64,
    /// Idle, or waiting for disks.
    pub idle: u64,
    /// Given to other guests by the hypervisor although this one wanted it.
    pub steal: u64,
}

/// Shares of all cores' time, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemLoad {
    pub busy: f64,
    /// Given to other guests by the hypervisor although this one wanted it.
    pub steal: f64,
}

impl SystemTimes {
    /// The counters; `None` without `/proc/stat`.
    pub fn now() -> Option<Self> {
        SystemTimes::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The fields are user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)); guest time after them is
    /// counted in user time already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, waiting, interrupts, soft_interrupts, steal, ..] = fields[..] else {
            return None;
        };
        Some(SystemTimes { busy: user + nice + system + interrupts + soft_interrupts, idle: idle + waiting, steal })
    }

    /// Shares of the time between `begin` and this; `None` when no tick has passed.
    pub fn load_since(self, begin: SystemTimes) -> Option<SystemLoad> {
        let busy = self.busy.saturating_sub(begin.busy);
        let steal = self.steal.saturating_sub(begin.steal);
        let all = busy + steal + self.idle.saturating_sub(begin.idle);
        (all > 0).then(|| SystemLoad { busy: busy as f64 / all as f64, steal: steal as f64 / all as f64 })
    }
}

/// The number of a line `Name:   1234 kB`.
pub fn kibibytes(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Time during which at least one task waited for the resource, since the machine started; `None` where the kernel does not
/// account for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PressureTotals {
    pub cpu: Option<Duration>,
    pub memory: Option<Duration>,
    pub io: Option<Duration>,
}

/// Shares (0 to 1) of a stretch of time during which at least one task waited for the resource.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    pub cpu: Option<f64>,
    pub memory: Option<f64>,
    pub io: Option<f64>,
}

impl PressureTotals {
    pub fn now() -> Self {
        let of = |resource: &str| parse_pressure(&fs::read_to_string(format!("/proc/pressure/{resource}")).ok()?);
        PressureTotals { cpu: of("cpu"), memory: of("memory"), io: of("io") }
    }

    /// Shares of the time `elapsed` since `begin`.
    pub fn since(self, begin: PressureTotals, elapsed: Duration) -> Pressure {
        let share = |now: Option<Duration>, begin: Option<Duration>| {
            let waited = now?.saturating_sub(begin?);
            (!elapsed.is_zero()).then(|| (waited.as_secs_f64() / elapsed.as_secs_f64()).min(1.0))
        };
        Pressure {
            cpu: share(self.cpu, begin.cpu),
            memory: share(self.memory, begin.memory),
            io: share(self.io, begin.io),
        }
    }
}

/// The line `some avg10=0.00 avg60=0.39 avg300=8.70 total=212608509`, whose total is in microseconds.
fn parse_pressure(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

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
        WallClock { boot_id: boot_id.map(|id| id.trim().to_owned()), most_error_ns: kernel_clock().flatten() }
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
    fn shares_are_of_the_time_in_between() {
        let begin = SystemTimes::parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n").unwrap();
        let end = SystemTimes::parse("cpu  130 10 70 820 60 5 5 0 0 0\n").unwrap();
        let load = end.load_since(begin).unwrap();
        assert_eq!((load.busy, load.steal), (0.7, 0.0));
        assert_eq!(end.load_since(end), None);
        assert_eq!(SystemTimes::parse("intr 1\n"), None);
        assert_eq!(SystemTimes::parse("cpu 1 2\n"), None);
    }

    #[test]
    fn a_number_of_kibibytes_is_found_by_its_name() {
        assert_eq!(kibibytes("VmPeak:\t 1 kB\nVmHWM:\t   2048 kB\n", "VmHWM:"), Some(2048));
        assert_eq!(kibibytes("VmPeak:\t 1 kB\n", "VmHWM:"), None);
    }

    #[test]
    fn pressure_is_a_share_of_the_time_in_between() {
        let text =
            "some avg10=0.00 avg60=0.39 avg300=8.70 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(text), Some(Duration::from_millis(2500)));
        assert_eq!(parse_pressure("full avg10=0.00 total=7\n"), None);
        let at = |cpu| PressureTotals { cpu: Some(Duration::from_secs(cpu)), ..PressureTotals::default() };
        let pressure = at(7).since(at(5), Duration::from_secs(8));
        assert_eq!(pressure, Pressure { cpu: Some(0.25), ..Pressure::default() });
        assert_eq!(at(7).since(at(5), Duration::from_secs(1)).cpu, Some(1.0));
        assert_eq!(at(7).since(at(5), Duration::ZERO).cpu, None);
    }

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
