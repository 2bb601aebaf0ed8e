//! Which of this process's threads was the busiest: one that fills a core is a limit however idle the others are.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::polling;

/// CPU time of each thread that is alive, but for what it spent on polling.
#[derive(Debug, Clone, Default)]
pub struct ThreadTimes(HashMap<u32, (String, Duration)>);

/// The thread that used the most CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct BusiestThread {
    pub name: String,
    /// Its CPU time divided by elapsed time.
    pub cores: f64,
}

impl ThreadTimes {
    /// From `/proc/self/task`; empty on systems without it.
    pub fn now() -> Self {
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return ThreadTimes::default() };
        // Asked first: what is spent in between looks like work rather than the other way round.
        let polling = polling::by_thread();
        let times = tasks.flatten().filter_map(|task| {
            let id = task.file_name().to_str()?.parse().ok()?;
            // The first field of schedstat is the time on a core in nanoseconds (kernel: scheduler/sched-stats).
            let on_core = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let nanoseconds = on_core.split_whitespace().next()?.parse().ok()?;
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let polled = polling.get(&id).copied().unwrap_or_default();
            let worked = Duration::from_nanos(nanoseconds).saturating_sub(polled);
            Some((id, (name.trim_end().to_owned(), worked)))
        });
        ThreadTimes(times.collect())
    }

    /// What a thread that is alive now has used since `begin`.
    pub(super) fn time_since(&self, begin: &ThreadTimes, id: u32) -> Duration {
        let of = |times: &ThreadTimes| times.0.get(&id).map_or(Duration::ZERO, |(_, time)| *time);
        of(self).saturating_sub(of(begin))
    }

    /// The thread alive now that used the most since `begin`; a thread begun since counts from its begin.
    pub fn busiest_since(&self, begin: &ThreadTimes, elapsed: Duration) -> Option<BusiestThread> {
        let used = self.0.iter().map(|(id, (name, _))| (self.time_since(begin, *id), name));
        let (time, name) = used.max()?;
        Some(BusiestThread { name: name.clone(), cores: super::cores(time, elapsed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(entries: &[(u32, &str, u64)]) -> ThreadTimes {
        let entry = |(id, name, millis): &(u32, &str, u64)| (*id, ((*name).to_owned(), Duration::from_millis(*millis)));
        ThreadTimes(entries.iter().map(entry).collect())
    }

    #[test]
    fn the_busiest_is_the_one_with_the_largest_difference() {
        let begin = times(&[(1, "main", 5000), (2, "sender", 100)]);
        let end = times(&[(1, "main", 5100), (2, "sender", 1050), (3, "late", 400)]);
        let busiest = end.busiest_since(&begin, Duration::from_secs(1)).unwrap();
        assert_eq!((busiest.name.as_str(), busiest.cores), ("sender", 0.95));
        assert_eq!(times(&[]).busiest_since(&begin, Duration::from_secs(1)), None);
    }
}
