//! What processes other than this one use, as the broker's: from proc_pid_stat(5) and proc_pid_status(5) on the same machine, or from what a
//! server's Prometheus endpoint tells of its own process, in the text format (prometheus.io, "Exposition formats").

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::system::kibibytes;

/// What a process has used since it began, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherUsage {
    pub cpu: Duration,
    /// Resident.
    pub memory_bytes: Option<u64>,
}

impl OtherUsage {
    /// Both together.
    pub fn plus(self, other: OtherUsage) -> OtherUsage {
        let memory_bytes = match (self.memory_bytes, other.memory_bytes) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        OtherUsage { cpu: self.cpu + other.cpu, memory_bytes }
    }
}

/// A process and its descendants: a server is often a child of the script that starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFamily {
    ids: Vec<u32>,
    /// The name of the one that has used the most CPU time.
    name: String,
}

impl ProcessFamily {
    /// The process `id` with the descendants that it has now; `None` without such a process, or where the system does not tell.
    pub fn from_id(id: u32) -> Option<Self> {
        let parents = parents();
        let mut ids = vec![id];
        let mut next = 0;
        while let Some(parent) = ids.get(next).copied() {
            ids.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child));
            next += 1;
        }
        let used = |id: &u32| Some((usage(*id)?.cpu, *id));
        let (_, busiest) = ids.iter().filter_map(used).max()?;
        let name = fs::read_to_string(format!("/proc/{busiest}/comm")).unwrap_or_default();
        Some(ProcessFamily { ids, name: name.trim().to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What those of them that live have used; `None` when none does.
    pub fn usage(&self) -> Option<OtherUsage> {
        self.ids.iter().filter_map(|id| usage(*id)).reduce(OtherUsage::plus)
    }
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| Some((id, Stat::read(id)?.parent))).collect()
}

fn usage(id: u32) -> Option<OtherUsage> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let memory_bytes = kibibytes(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024);
    Some(OtherUsage { cpu: Stat::read(id)?.cpu(ticks_per_second()), memory_bytes })
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// CPU time in user mode and in the kernel, of all its threads.
    ticks: u64,
}

impl Stat {
    fn read(id: u32) -> Option<Self> {
        Stat::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// The second field is a name in brackets, which may itself have blanks and brackets. Of the fields after it, the second is the
    /// parent, and the twelfth and thirteenth are the times.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // A process that has ended and is not yet buried uses nothing.
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Stat { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
    }

    fn cpu(&self, ticks_per_second: u64) -> Duration {
        Duration::from_nanos(self.ticks * (1_000_000_000 / ticks_per_second.max(1)))
    }
}

#[cfg(unix)]
fn ticks_per_second() -> u64 {
    // SAFETY: the call takes a number and returns one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}

#[cfg(not(unix))]
fn ticks_per_second() -> u64 {
    100
}

/// Metrics with the CPU time of the process, and how many of their units a second has. The first is that of Prometheus' client
/// libraries, which Pulsar and the JMX exporter have too; the second is of RabbitMQ's plugin, where Erlang counts milliseconds.
const CPU: [(&str, f64); 2] = [("process_cpu_seconds_total", 1.0), ("erlang_vm_statistics_runtime_milliseconds", 1e3)];

/// Metrics with its resident memory.
const MEMORY: [&str; 2] = ["process_resident_memory_bytes", "rabbitmq_process_resident_memory_bytes"];

/// What a process has used by its metrics; `None` when they do not tell its CPU time.
pub fn parse_metrics(text: &str) -> Option<OtherUsage> {
    let cpu = CPU.iter().find_map(|(name, per_second)| Some(sum(text, name)? / per_second))?;
    let memory_bytes = MEMORY.iter().find_map(|name| sum(text, name)).map(|bytes| bytes as u64);
    Some(OtherUsage { cpu: Duration::try_from_secs_f64(cpu).ok()?, memory_bytes })
}

/// The sum of a metric over its labels; `None` without it.
fn sum(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        // Else it is another metric whose name begins alike.
        let rest = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix([' ', '\t'])?,
        };
        // A time may follow the value.
        rest.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.filter(|value| value.is_finite()).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 150 50 3 4 20 0 1 0 100 1000 200";
        let parsed = Stat::parse(stat).unwrap();
        assert_eq!(parsed, Stat { parent: 7, ticks: 200 });
        assert_eq!(parsed.cpu(100), Duration::from_secs(2));
        assert_eq!(Stat::parse("42 (x) Z 7 1 1 0 -1 0 1 0 0 0 150 50 3"), None);
        assert_eq!(Stat::parse("42"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_that_works_is_found_and_counted_with_its_parent() {
        // The shell waits for the loop that it starts, which is the one to be found.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "(while :; do :; done) & trap 'kill $!' TERM; wait"])
            .spawn()
            .unwrap();
        let grown = |before: Duration| loop {
            let usage = ProcessFamily::from_id(shell.id()).and_then(|family| family.usage()).unwrap_or_default();
            if usage.cpu > before {
                return usage;
            }
            std::thread::yield_now();
        };
        let (first, second) = (grown(Duration::ZERO), grown(grown(Duration::ZERO).cpu));
        // SAFETY: the call sends a signal to a child of this process, and touches no memory.
        unsafe { libc::kill(shell.id() as libc::pid_t, libc::SIGTERM) };
        shell.wait().unwrap();
        assert!(second.cpu > first.cpu && second.memory_bytes.unwrap() > 0, "{first:?} {second:?}");
        assert_eq!(ProcessFamily::from_id(shell.id()), None, "it has ended");
    }

    #[test]
    fn metrics_of_processes_are_found_with_and_without_labels() {
        let text = "# HELP process_cpu_seconds_total Total CPU.\n# TYPE process_cpu_seconds_total counter\n\
                    process_cpu_seconds_total 12.5\nprocess_cpu_seconds_total_more 9\nprocess_resident_memory_bytes 1.5e+06\n";
        let usage = OtherUsage { cpu: Duration::from_millis(12_500), memory_bytes: Some(1_500_000) };
        assert_eq!(parse_metrics(text), Some(usage));
        let labelled = text.replace("total 12.5", "total{cluster=\"a {b} c\",le=\"1\"} 12.5 1700000000000");
        assert_eq!(parse_metrics(&labelled), Some(usage));
        let rabbitmq =
            "erlang_vm_statistics_runtime_milliseconds 2500\nrabbitmq_process_resident_memory_bytes{node=\"a\"} 7\n";
        assert_eq!(
            parse_metrics(rabbitmq),
            Some(OtherUsage { cpu: Duration::from_millis(2_500), memory_bytes: Some(7) })
        );
        assert_eq!(parse_metrics("go_goroutines 5\nprocess_cpu_seconds_total NaN\n"), None);
    }
}
