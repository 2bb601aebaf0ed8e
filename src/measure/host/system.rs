//! What the whole machine did: `/proc/stat`, whose first line adds up all cores.

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
        SystemTimes::parse(&std::fs::read_to_string("/proc/stat").ok()?)
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
}
