use super::*;

#[test]
fn the_text_is_the_kernel_s_and_is_read_again() {
    for (text, count) in [("", 0), ("0", 1), ("0-3,8", 5), ("63-64,1023", 3), ("0-1023", 1_024)] {
        let set: CoreSet = text.parse().unwrap();
        assert_eq!((set.to_string().as_str(), set.count()), (text, count));
    }
    for text in ["1024", "0-2000", "x", "1-", "-1"] {
        assert_eq!(text.parse::<CoreSet>(), Err(NoCoreSet), "{text}");
    }
}

#[test]
fn two_sets_together() {
    let [one, other] = ["0-1", "1-2,70"].map(|text| text.parse::<CoreSet>().unwrap());
    assert_eq!((one | other).to_string(), "0-2,70");
}

#[test]
#[cfg(target_os = "linux")]
fn the_kernel_tells_the_same() {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    assert_eq!(CoreSet::allowed().unwrap().to_string(), list);
}

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
fn cgroup_quota_is_the_smallest_of_all_levels() {
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
