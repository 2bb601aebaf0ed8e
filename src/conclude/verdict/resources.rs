//! Findings from CPU: was the load generator itself the limit, or its machine short of CPU.

use super::finding::{Finding, against, note};
use super::{Evidence, limits};
use crate::record::ReasonKind::*;
use crate::record::readable::{duration, percent};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    [client_bound(evidence), host_contended(evidence)].into_iter().flatten().collect()
}

/// The client used up what CPU it could have: all of it, or one thread all of a core, or so much of a full machine that
/// its own timers came late. A full queue is no evidence here: that is the broker not taking messages away.
fn client_bound(evidence: &Evidence<'_>) -> Option<Finding> {
    let client = evidence.client;
    let available = client.cores_available as f64;
    // Who polls could have worked instead.
    let worked = client.cores_used - client.cores_polling();
    let worked_share = if available > 0.0 { worked / available } else { 0.0 };
    let mut found = Vec::new();
    if worked_share >= limits::CLIENT_CPU_SHARE {
        found.push(format!("the client used {}", client.cores()));
    }
    if let Some(cores) = client.busiest_thread_cores.filter(|cores| *cores >= limits::FULL_THREAD_CORES) {
        let name = client.busiest_thread.as_deref().unwrap_or("unnamed");
        found.push(format!("its thread '{name}' was busy for {} of the time", percent(cores.min(1.0))));
    }
    let lag_ns = client.send_loop_lag.map_or(0, |lag| lag.p99_ns);
    if lag_ns > limits::LARGEST_PACING_LAG_P99_NS && machine_is_full(evidence) && client_share_of_busy(evidence) > 0.5 {
        found.push(format!(
            "the machine was out of CPU, mostly for the client, and 1 in 100 pacing timers woke {} late or later",
            duration(lag_ns as f64)
        ));
    }
    if found.is_empty() {
        return None;
    }
    Some(against(
        ClientBound,
        format!("The load generator was at its own limit: {}.", found.join("; ")),
        "The broker may carry more: run the load from a machine of its own or from several, batch more, use more connections, or send larger messages.",
        &[
            ("cores_used", client.cores_used),
            ("cores_polling", client.cores_polling()),
            ("cores_available", available),
            ("busiest_thread_cores", client.busiest_thread_cores.unwrap_or(0.0)),
            ("pacing_lag_p99_ns", lag_ns as f64),
        ],
    ))
}

/// Whether [`client_bound`] finds something: what may not be blamed on the broker.
pub(super) fn client_is_the_limit(evidence: &Evidence<'_>) -> Option<String> {
    client_bound(evidence).map(|finding| finding.reason.evidence)
}

fn host_contended(evidence: &Evidence<'_>) -> Option<Finding> {
    let load = evidence.host_load?;
    let crowded = machine_is_full(evidence) && client_share_of_busy(evidence) <= 0.5;
    let stolen = load.steal > limits::LARGEST_STEAL_SHARE;
    let advice = "What else ran took CPU from client and broker, and stretched their latencies: run on a quiet machine, and the broker on another.";
    let sentence = match (crowded, stolen) {
        (false, false) => return None,
        (true, false) => format!(
            "The machine's cores were {} busy, {} of that with other processes.",
            percent(load.system_cpu_busy),
            percent(1.0 - client_share_of_busy(evidence))
        ),
        (false, true) => format!("The hypervisor withheld {} of the machine's time.", percent(load.steal)),
        (true, true) => format!(
            "The machine's cores were {} busy, mostly with other processes, and the hypervisor withheld {} of their time.",
            percent(load.system_cpu_busy),
            percent(load.steal)
        ),
    };
    Some(note(HostContended, sentence, advice, &[("system_cpu_busy", load.system_cpu_busy), ("steal", load.steal)]))
}

fn machine_is_full(evidence: &Evidence<'_>) -> bool {
    evidence.host_load.is_some_and(|load| load.system_cpu_busy >= limits::FULL_MACHINE_SHARE)
}

/// The client's part of all CPU time spent. A container's quota below the machine's cores makes it look larger.
fn client_share_of_busy(evidence: &Evidence<'_>) -> f64 {
    let Some(load) = evidence.host_load else { return 0.0 };
    let busy_cores = load.system_cpu_busy * evidence.client.cores_available as f64;
    if busy_cores > 0.0 { (evidence.client.cores_used / busy_cores).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::sound::{notes, reasons};
    use super::*;
    use crate::record::{HostLoad, SendLoopLag};

    #[test]
    fn all_cores_at_the_boundary() {
        assert_eq!(reasons(|record, _, _| record.client.cores_used = 3.59), []);
        assert_eq!(reasons(|record, _, _| record.client.cores_used = 3.6), [ClientBound]);
    }

    #[test]
    fn one_thread_at_the_boundary() {
        assert_eq!(reasons(|record, _, _| record.client.busiest_thread_cores = Some(0.94)), []);
        assert_eq!(reasons(|record, _, _| record.client.busiest_thread_cores = Some(0.95)), [ClientBound]);
    }

    #[test]
    fn what_polls_could_have_worked() {
        let with = |polling: f64| {
            reasons(move |record, _, _| {
                (record.client.cpu_seconds, record.client.cores_used) = (40.0, 4.0);
                record.client.polling_cpu_seconds = Some(polling);
            })
        };
        assert_eq!(with(3.9), [ClientBound]);
        assert_eq!(with(4.1), []);
    }

    #[test]
    fn late_timers_count_only_on_a_machine_full_with_the_client() {
        let with = |lag: u64, busy: f64, cores: f64| {
            reasons(move |record, _, _| {
                record.client.send_loop_lag = Some(SendLoopLag { p50_ns: 0, p99_ns: lag, max_ns: lag });
                record.host_load = Some(HostLoad { system_cpu_busy: busy, steal: 0.0 });
                record.client.cores_used = cores;
            })
        };
        assert_eq!(with(5_000_001, 0.95, 2.0), [ClientBound]);
        assert_eq!(with(5_000_000, 0.95, 2.0), []);
        assert_eq!(with(5_000_001, 0.94, 2.0), []);
        assert_eq!(with(5_000_001, 1.0, 2.0), [], "half of the load is not more than half");
    }

    #[test]
    fn others_load_and_stolen_time_are_notes_at_their_boundaries() {
        let with = |busy: f64, steal: f64| {
            notes(move |record, _, _| record.host_load = Some(HostLoad { system_cpu_busy: busy, steal }))
        };
        assert_eq!(with(0.95, 0.0), [HostContended]);
        assert_eq!(with(0.94, 0.0), []);
        assert_eq!(with(0.5, 0.02), []);
        assert_eq!(with(0.5, 0.021), [HostContended]);
    }

    #[test]
    fn a_full_queue_does_not_make_the_client_the_limit() {
        assert_eq!(reasons(|record, _, _| record.client.queue_full_ns = u64::MAX / 2), []);
    }
}
