//! What a server's Prometheus endpoint tells of its own process, in the text format (prometheus.io, "Exposition formats").

use std::time::Duration;

use super::OtherUsage;

/// Metrics with the CPU time of the process, and how many of their units a second has. The first is that of Prometheus' client
/// libraries, which Pulsar and the JMX exporter have too; the second is of RabbitMQ's plugin, where Erlang counts milliseconds.
const CPU: [(&str, f64); 2] = [("process_cpu_seconds_total", 1.0), ("erlang_vm_statistics_runtime_milliseconds", 1e3)];

/// Metrics with its resident memory.
const MEMORY: [&str; 2] = ["process_resident_memory_bytes", "rabbitmq_process_resident_memory_bytes"];

/// What a process has used by its metrics; `None` when they do not tell its CPU time.
pub fn parse(text: &str) -> Option<OtherUsage> {
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
    fn metrics_of_processes_are_found_with_and_without_labels() {
        let text = "# HELP process_cpu_seconds_total Total CPU.\n# TYPE process_cpu_seconds_total counter\n\
                    process_cpu_seconds_total 12.5\nprocess_cpu_seconds_total_more 9\nprocess_resident_memory_bytes 1.5e+06\n";
        let usage = OtherUsage { cpu: Duration::from_millis(12_500), memory_bytes: Some(1_500_000) };
        assert_eq!(parse(text), Some(usage));
        let labelled = text.replace("total 12.5", "total{cluster=\"a {b} c\",le=\"1\"} 12.5 1700000000000");
        assert_eq!(parse(&labelled), Some(usage));
        let rabbitmq =
            "erlang_vm_statistics_runtime_milliseconds 2500\nrabbitmq_process_resident_memory_bytes{node=\"a\"} 7\n";
        assert_eq!(parse(rabbitmq), Some(OtherUsage { cpu: Duration::from_millis(2_500), memory_bytes: Some(7) }));
        assert_eq!(parse("go_goroutines 5\nprocess_cpu_seconds_total NaN\n"), None);
    }
}
