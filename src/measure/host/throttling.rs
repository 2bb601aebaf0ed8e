//! The CPU quota of this process's control groups, and how long it kept them from running (kernel documentation, admin-guide/cgroup-v2
//! and scheduler/sched-bwc).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    times.filter_map(|level| parse(&fs::read_to_string(level.join("cpu.stat")).ok()?)).reduce(|sum, time| sum + time)
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
fn parse(text: &str) -> Option<Duration> {
    let field =
        |name: &str| -> Option<u64> { text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()) };
    let microseconds = field("throttled_usec ").map(Duration::from_micros);
    microseconds.or_else(|| field("throttled_time ").map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files as control groups have them.
    fn mounted(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_time_is_found_in_both_versions_and_on_every_level() {
        let second = mounted(&[
            ("pods/one/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 1\nthrottled_usec 1500\n"),
            ("pods/cpu.stat", "throttled_usec 500\n"),
            ("cpu.stat", "usage_usec 5\n"),
        ]);
        let of = |root: &tempfile::TempDir, groups| throttled_below(root.path(), groups);
        assert_eq!(of(&second, "0::/pods/one\n"), Some(Duration::from_micros(2000)));
        let first = mounted(&[("cpu,cpuacct/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 7000\n")]);
        let groups = "9:memory:/elsewhere\n1:cpu,cpuacct:/path/of/the/machine\n0::/\n";
        assert_eq!(of(&first, groups), Some(Duration::from_nanos(7000)));
        assert_eq!(of(&mounted(&[]), groups), None);
        assert_eq!(of(&second, "0::/\n"), None, "the root group of version 2 is never throttled");
    }

    #[test]
    fn the_smallest_quota_of_all_levels_counts_and_need_not_be_whole() {
        let second = mounted(&[
            ("pods/one/cpu.stat", ""),
            ("pods/one/cpu.max", "150000 100000\n"),
            ("pods/cpu.max", "max 100000\n"),
            ("cpu.stat", ""),
        ]);
        assert_eq!(quota_below(second.path(), "0::/pods/one\n"), Some(1.5));
        assert_eq!(quota_below(second.path(), "0::/pods\n"), None);
        let first = mounted(&[
            ("cpu,cpuacct/a/cpu.stat", ""),
            ("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(quota_below(first.path(), "1:cpu,cpuacct:/a\n"), Some(0.5));
    }
}
