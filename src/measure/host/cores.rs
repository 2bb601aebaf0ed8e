//! Which cores of the machine a process may use; the CPU quota of this process's control groups, and how long it kept them from running
//! (kernel documentation, admin-guide/cgroup-v2 and scheduler/sched-bwc).

use std::ops::BitOr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs};

/// Bits in a word of a set.
const WORD: usize = u64::BITS as usize;

/// How many words a set has: `cpu_set_t` of glibc and of musl has 1,024 bits.
const WORDS: usize = 1_024 / WORD;

/// Cores by the numbers that the kernel gives them. Its text is the kernel's, as in `Cpus_allowed_list` of `/proc/self/status`: "0-3,8".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreSet([u64; WORDS]);

impl CoreSet {
    /// Those on which the calling thread may run (`sched_getaffinity`); `None` where the system does not tell, or has more than 1,024.
    #[cfg(target_os = "linux")]
    pub fn allowed() -> Option<Self> {
        let mut set = CoreSet::default();
        // SAFETY: the call writes at most so many bytes, which are there. 0 is the calling thread.
        let written =
            unsafe { libc::sched_getaffinity(0, size_of_val(&set.0), set.0.as_mut_ptr().cast::<libc::cpu_set_t>()) };
        (written == 0).then_some(set)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn allowed() -> Option<Self> {
        None
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The words of the set, the first core in the lowest bit of the first one.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    fn contains(&self, core: usize) -> bool {
        self.0.get(core / WORD).is_some_and(|word| word >> (core % WORD) & 1 == 1)
    }
}

impl BitOr for CoreSet {
    type Output = Self;

    fn bitor(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut core = 0;
        while core < WORDS * WORD {
            let first = core;
            while self.contains(core) {
                core += 1;
            }
            match core - first {
                0 => {}
                1 => write!(text, "{separator}{first}")?,
                _ => write!(text, "{separator}{first}-{}", core - 1)?,
            }
            if core > first {
                separator = ",";
            }
            core += 1;
        }
        Ok(())
    }
}

/// The text is not a list of cores.
#[derive(Debug, PartialEq, Eq)]
pub struct NoCoreSet;

impl FromStr for CoreSet {
    type Err = NoCoreSet;

    fn from_str(text: &str) -> Result<Self, NoCoreSet> {
        let mut set = CoreSet::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|number| number.parse::<usize>().ok());
            for core in first.ok_or(NoCoreSet)?..=last.ok_or(NoCoreSet)?.min(WORDS * WORD) {
                *set.0.get_mut(core / WORD).ok_or(NoCoreSet)? |= 1 << (core % WORD);
            }
        }
        Ok(set)
    }
}

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Time for which this process's control group and those above it were throttled since they were made, summed over cores;
/// `None` where the system keeps no such account.
pub fn throttled() -> Option<Duration> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    throttled_below(Path::new(ROOT), &groups)
}

/// A quota above the process's own group throttles it too, so the times of all levels count.
fn throttled_below(root: &Path, groups: &str) -> Option<Duration> {
    let times = levels(root, groups)?.into_iter();
    times
        .filter_map(|level| parse_throttled(&fs::read_to_string(level.join("cpu.stat")).ok()?))
        .reduce(|sum, time| sum + time)
}

/// How many cores' time this process's control group and those above it may use, which need not be a whole number; `None` without a quota.
pub fn quota_cores() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    quota_below(Path::new(ROOT), &groups)
}

fn quota_below(root: &Path, groups: &str) -> Option<f64> {
    levels(root, groups)?.iter().filter_map(|level| quota_of(level)).reduce(f64::min)
}

/// `cpu.max` of version 2 has the quota and the period, or `max`; version 1 has a file for each, and -1.
fn quota_of(level: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(level.join(name)).ok();
    let text = read("cpu.max").or_else(|| Some(read("cpu.cfs_quota_us")? + " " + &read("cpu.cfs_period_us")?))?;
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The folders of this process's control group and of those above it.
fn levels(root: &Path, groups: &str) -> Option<Vec<PathBuf>> {
    let (mount, group) = groups.lines().find_map(|line| cpu_group(root, line))?;
    Some(Path::new(group.trim_start_matches('/')).ancestors().map(|level| mount.join(level)).collect())
}

/// Where the group of the line `hierarchy:controllers:path` of `/proc/self/cgroup` has its account of CPU, if it has one: the
/// hierarchy's mount and the path below it. The hierarchy without controllers is that of version 2.
fn cpu_group<'a>(root: &Path, line: &'a str) -> Option<(PathBuf, &'a str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let mount = match controllers {
        "" => root.to_owned(),
        controllers if controllers.split(',').any(|controller| controller == "cpu") => root.join(controllers),
        _ => return None,
    };
    // Where both versions are mounted, the controller is in one of them only; and a container may see a path of the machine
    // that does not exist below its own mount.
    let has_account = |directory: PathBuf| directory.join("cpu.stat").is_file();
    let known = has_account(mount.join(group.trim_start_matches('/'))) || has_account(mount.clone());
    known.then_some((mount, group))
}

/// `throttled_usec` of version 2, `throttled_time` (nanoseconds) of version 1.
fn parse_throttled(text: &str) -> Option<Duration> {
    let field =
        |name: &str| -> Option<u64> { text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()) };
    let microseconds = field("throttled_usec ").map(Duration::from_micros);
    microseconds.or_else(|| field("throttled_time ").map(Duration::from_nanos))
}

#[cfg(test)]
#[path = "../../../tests/unit/measure/host/cores.rs"]
mod tests;
