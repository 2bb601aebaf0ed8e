//! The versions and the machine of a trial, for its record, and what the client, its machine, the wire and the broker's processes came to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::broker::BrokerInfo;
use crate::engine::{Outcome, WatchedUsage, WindowTotals};
use crate::measure::Distribution;
use crate::measure::host::{self, CoreSet, HostUsage, cores_available, kibibytes};
use crate::record::{
    BrokerSource, BrokerUsage, Client, Environment, HostLoad, Lateness, LongPause, Pauses, Record, Wire,
};
use crate::secrets::mask_arguments;

/// Everything that is known of this build, this machine and, if there was a connection, of the client and the broker.
///
/// `arguments` are those of the process; secrets in them are masked.
pub fn environment(arguments: impl IntoIterator<Item = String>, identity: Option<&BrokerInfo>) -> Environment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    Environment {
        brokermark_version: env!("CARGO_PKG_VERSION").to_owned(),
        brokermark_commit: option_env!("BROKERMARK_COMMIT").map(str::to_owned),
        rust_compiler: option_env!("BROKERMARK_RUST_COMPILER").map(str::to_owned),
        debug_build: cfg!(debug_assertions),
        client_library: identity.map(|identity| identity.client.clone()),
        broker: identity.and_then(|identity| identity.broker.clone()),
        embedded: identity.is_some_and(|identity| identity.embedded),
        operating_system: operating_system(),
        kernel: line("/proc/sys/kernel/osrelease"),
        cpu_model: cpu_model(&cpuinfo),
        cores: cores(&cpuinfo).unwrap_or_else(cores_available),
        physical_cores: physical_cores(Path::new("/sys/devices/system/cpu")),
        memory_bytes: kibibytes(&read("/proc/meminfo"), "MemTotal:").map(|kibibytes| kibibytes * 1024),
        hostname: line("/proc/sys/kernel/hostname").or_else(|| std::env::var("HOSTNAME").ok()),
        command_line: mask_arguments(arguments),
    }
}

/// Hardware threads of one core have the same list of siblings (kernel documentation, admin-guide/cputopology).
fn physical_cores(directory: &Path) -> Option<usize> {
    let siblings = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("topology/thread_siblings_list")).ok();
    let lists: BTreeSet<String> = fs::read_dir(directory).ok()?.flatten().filter_map(siblings).collect();
    (!lists.is_empty()).then_some(lists.len())
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn operating_system() -> String {
    let release = fs::read_to_string("/etc/os-release").ok();
    release.as_deref().and_then(pretty_name).unwrap_or_else(|| std::env::consts::OS.to_owned())
}

fn pretty_name(release: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// x86 has `model name` for every core, some boards a single `Model`.
fn cpu_model(text: &str) -> Option<String> {
    let value =
        |wanted: &str| text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == wanted);
    value("model name").or_else(|| value("Model")).map(|(_, model)| model.trim().to_owned())
}

fn cores(text: &str) -> Option<usize> {
    let cores =
        text.lines().filter(|line| line.split(':').next().is_some_and(|name| name.trim() == "processor")).count();
    (cores > 0).then_some(cores)
}

pub(super) fn client(outcome: &Outcome) -> Client {
    let telemetry = outcome.totals.telemetry;
    let delays = outcome.wake_up_delays.as_ref();
    Client {
        queue_full_ns: outcome.totals.window.queue_full_ns,
        connections_full_share: connections_full_share(&outcome.totals.window),
        queue_messages_max: telemetry.queue_messages,
        unmatched_answers: telemetry.unmatched_answers,
        timer_lateness: delays.and_then(|delays| lateness(&delays.timers)),
        wake_up_delay: delays.and_then(|delays| lateness(&delays.all)),
        broker_round_trip_p50_ns: telemetry.round_trip_p50_ns,
        broker_round_trip_p99_ns: telemetry.round_trip_p99_ns,
        long_pauses: long_pauses(&outcome.usage.long_pauses, outcome.times.measure_start_ns),
        ..used(&outcome.usage, outcome.totals.window.acknowledged)
    }
}

/// `None` without a value.
fn lateness(values: &Distribution) -> Option<Lateness> {
    let histogram = Some(values).filter(|values| !values.is_empty()).map(Distribution::histogram)?;
    Some(Lateness {
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p99_9_ns: histogram.value_at_quantile(0.999),
        p99_99_ns: histogram.value_at_quantile(0.9999),
        max_ns: histogram.max(),
    })
}

pub(super) fn wire(outcome: &Outcome, record: &Record) -> Option<Wire> {
    let seen = outcome.totals.telemetry.wire?;
    let over = |bytes: u64, divisor: f64| (divisor > 0.0).then(|| bytes as f64 / divisor);
    let inside = outcome.totals.window.wire.unwrap_or_default();
    let seconds = record.throughput.window_ns as f64 / 1e9;
    Some(Wire {
        requests: seen.requests,
        retried: seen.retried,
        quota_refusals: seen.quota_refusals,
        raw_bytes: seen.raw_bytes,
        body_bytes: seen.body_bytes,
        sent_bytes: seen.sent_bytes,
        fetches: seen.fetches,
        throttled_fetches: seen.throttled_fetches,
        compression_ratio: over(seen.body_bytes, seen.sent_bytes as f64),
        raw_bytes_per_second: over(inside.raw_bytes, seconds).unwrap_or_default(),
        sent_bytes_per_second: over(inside.sent_bytes, seconds).unwrap_or_default(),
        raw_bytes_per_cpu_second: over(inside.raw_bytes, record.client.cpu_seconds),
    })
}

/// `None` where no connection tells.
fn connections_full_share(window: &WindowTotals) -> Option<f64> {
    let all = window.length_ns() as f64 * window.connections as f64;
    (all > 0.0).then(|| (window.connections_full_ns as f64 / all).min(1.0))
}

/// The part of it that the system knows.
fn used(usage: &HostUsage, acknowledged: u64) -> Client {
    let cpu = usage.process.cpu();
    Client {
        cpu_seconds: cpu.as_secs_f64(),
        cpu_user_seconds: usage.process.cpu_user.as_secs_f64(),
        cpu_system_seconds: usage.process.cpu_system.as_secs_f64(),
        polling_cpu_seconds: (!usage.polling.is_zero()).then_some(usage.polling.as_secs_f64()),
        cores_used: host::cores(cpu, usage.elapsed),
        cores_available: host::cores_limit(),
        cores_allowed: CoreSet::allowed().map(|cores| cores.to_string()),
        scheduling_policy: usage.scheduling_policy.map(str::to_owned),
        busiest_thread_cores: usage.busiest_thread.as_ref().map(|thread| thread.cores),
        busiest_thread: usage.busiest_thread.as_ref().map(|thread| thread.name.clone()),
        busiest_task_cores: usage.busiest_task.as_ref().map(|task| task.cores),
        busiest_task: usage.busiest_task.as_ref().map(|task| task.name.clone()),
        cpu_ns_per_message: (acknowledged > 0).then(|| cpu.as_nanos() as f64 / acknowledged as f64),
        peak_memory_bytes: usage.peak_memory_bytes,
        pauses: pauses(&usage.pauses),
        voluntary_context_switches: usage.process.voluntary_context_switches,
        involuntary_context_switches: usage.process.involuntary_context_switches,
        ..Client::default()
    }
}

/// `None` when there is not one value, and no thread to note any.
fn pauses(lateness: &Distribution) -> Option<Pauses> {
    let histogram = Some(lateness).filter(|lateness| !lateness.is_empty()).map(Distribution::histogram)?;
    Some(Pauses {
        count: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p99_9_ns: histogram.value_at_quantile(0.999),
        p99_99_ns: histogram.value_at_quantile(0.9999),
        max_ns: histogram.max(),
    })
}

/// Those that had not ended when the measured phase began.
fn long_pauses(pauses: &[host::LongPause], measure_start_ns: u64) -> Vec<LongPause> {
    let in_window = |pause: &&host::LongPause| pause.end_ns > measure_start_ns;
    let told = |pause: &host::LongPause| {
        let begin_ns = pause.begin_ns.max(measure_start_ns);
        LongPause { begin_ns: begin_ns - measure_start_ns, length_ns: pause.end_ns - begin_ns }
    };
    pauses.iter().filter(in_window).map(told).collect()
}

pub(super) fn host_load(usage: &HostUsage) -> Option<HostLoad> {
    let cores = host::cores_limit();
    usage.system.map(|load| HostLoad {
        system_cpu_busy: load.busy,
        steal: load.steal,
        cgroup_throttled_share: usage.throttled.map(|time| (host::cores(time, usage.elapsed) / cores).min(1.0)),
        cpu_pressure_share: usage.pressure.cpu,
        memory_pressure_share: usage.pressure.memory,
        io_pressure_share: usage.pressure.io,
    })
}

/// `None` where the scenario watches nothing.
pub(super) fn broker_usage(watched: &[WatchedUsage], cores: usize) -> Option<BrokerUsage> {
    let source = |watched: &WatchedUsage| BrokerSource {
        name: watched.name.clone(),
        cores_used: watched.cores,
        memory_bytes_max: watched.memory_bytes_max,
        failures: watched.failures,
        first_failure: watched.first_failure.clone(),
    };
    (!watched.is_empty()).then(|| BrokerUsage {
        cores_used: watched.iter().filter_map(|watched| watched.cores).reduce(|sum, cores| sum + cores),
        cores_of_machine: watched.iter().all(|watched| watched.is_local).then_some(cores),
        memory_bytes_max: watched
            .iter()
            .filter_map(|watched| watched.memory_bytes_max)
            .reduce(|sum, bytes| sum + bytes),
        sources: watched.iter().map(source).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_own_files_are_understood() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 3 GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!((cores(cpuinfo), cores("")), (Some(2), None));
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"Some Linux 1\"\n").as_deref(), Some("Some Linux 1"));
    }

    #[test]
    fn an_environment_names_build_and_machine() {
        let identity = BrokerInfo { client: "client 1".into(), broker: None, embedded: true };
        let environment = environment(["brokermark".to_owned()], Some(&identity));
        assert_eq!(environment.brokermark_version, env!("CARGO_PKG_VERSION"));
        assert!(environment.embedded && environment.debug_build && environment.cores > 0);
        assert!(!environment.operating_system.is_empty());
    }

    #[test]
    fn full_connections_are_a_share_of_the_window_or_unknown() {
        let share = |connections, connections_full_ns| {
            connections_full_share(&WindowTotals {
                begin_ns: 1_000,
                end_ns: 2_000,
                connections,
                connections_full_ns,
                ..WindowTotals::default()
            })
        };
        assert_eq!(share(0, 0), None);
        assert_eq!(share(2, 0), Some(0.0));
        assert_eq!(share(2, 500), Some(0.25));
        assert_eq!(share(2, 5_000), Some(1.0));
    }
}
