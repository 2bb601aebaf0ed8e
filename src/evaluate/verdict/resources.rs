//! Findings from the machine: whether the load generator was the limit, its machine was short of CPU, or time was withheld.

use super::{Evidence, Finding, against, limits, note};
use crate::record::ReasonKind::*;
use crate::record::Record;
use crate::record::readable::{duration, percent};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let all = [client_bound, time_withheld, host_contended, shared_cores, broker_unwatched];
    all.into_iter().filter_map(|find| find(evidence)).collect()
}

/// The client used up what CPU it could have: all of it, or one thread or task all of a core, or so much of a full machine that
/// its own timers came late. A full queue does not count: the broker fills it by taking no messages.
fn client_bound(evidence: &Evidence<'_>) -> Option<Finding> {
    let client = &evidence.record.client;
    let available = client.cores_available;
    // A polling thread could have worked instead.
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
    if let Some(cores) = full_task(evidence, worked) {
        let name = client.busiest_task.as_deref().unwrap_or("unnamed");
        found.push(format!(
            "its task '{name}', which may move between threads, was busy for {} of the time: a serial part of the load generator",
            percent(cores)
        ));
    }
    let lateness_ns = client.timer_lateness.map_or(0, |lateness| lateness.p99_ns);
    if lateness_ns > limits::MAX_TIMER_LATENESS_P99_NS
        && machine_is_full(evidence)
        && client_share_of_busy(evidence) > 0.5
    {
        found.push(format!(
            "the machine was out of CPU, mostly for the client, and late timers made 1 in 100 messages {} late or later",
            duration(lateness_ns as f64)
        ));
    }
    if found.is_empty() {
        return None;
    }
    Some(against(
        ClientBound,
        format!("The load generator was at its own limit: {}.", found.join("; ")),
        "The broker may carry more: run the load from a machine of its own or from several, batch more, use more producers (`producers.count`) or connections (`broker.connections`), raise `run.threads` where it is set, or send larger messages.",
        &[
            ("cores_used", client.cores_used),
            ("cores_polling", client.cores_polling()),
            ("cores_available", available),
            ("busiest_thread_cores", client.busiest_thread_cores.unwrap_or(0.0)),
            ("busiest_task_cores", client.busiest_task_cores.unwrap_or(0.0)),
            ("timer_lateness_p99_ns", lateness_ns as f64),
        ],
    ))
}

/// How busy the busiest task was, if it could do no more. It also counts as busy while others have its core: it says nothing on a full
/// machine, or if the whole client worked for less than a core.
fn full_task(evidence: &Evidence<'_>, worked: f64) -> Option<f64> {
    let can_tell = !machine_is_full(evidence) && worked >= limits::FULL_THREAD_CORES;
    evidence.record.client.busiest_task_cores.filter(|cores| can_tell && *cores >= limits::FULL_THREAD_CORES)
}

/// The evidence of [`client_bound`], if the client was the limit.
pub(super) fn client_is_the_limit(evidence: &Evidence<'_>) -> Option<String> {
    client_bound(evidence).map(|finding| finding.reason.evidence)
}

/// Time that was withheld from this process or from the whole machine, as the system counts it. Every latency contains
/// it, and it cannot be separated from the broker's time.
fn time_withheld(evidence: &Evidence<'_>) -> Option<Finding> {
    let load = evidence.record.host_load?;
    let (throttled, memory) = (load.cgroup_throttled_share.unwrap_or(0.0), load.memory_pressure_share.unwrap_or(0.0));
    let causes = [
        (load.steal > limits::MAX_STEAL_SHARE)
            .then(|| format!("the hypervisor withheld {} of the machine's time", percent(load.steal))),
        (throttled > limits::MAX_THROTTLED_SHARE).then(|| {
            format!("a CPU quota kept this process from running for {} of its cores' time", percent(throttled))
        }),
        (memory > limits::MAX_MEMORY_PRESSURE_SHARE)
            .then(|| format!("tasks waited for memory for {} of the time", percent(memory))),
    ];
    let found: Vec<String> = causes.into_iter().flatten().collect();
    (!found.is_empty()).then(|| {
        against(
            TimeWithheld,
            format!("Time was withheld: {}.", found.join("; ")),
            "Latencies contain it, and throughput lacks it: run on a machine whose cores and memory are not shared, or with a larger quota.",
            &[("steal", load.steal), ("cgroup_throttled_share", throttled), ("memory_pressure_share", memory)],
        )
    })
}

/// What else ran or waited on the machine: the client's figures are right, but others had a part in them.
fn host_contended(evidence: &Evidence<'_>) -> Option<Finding> {
    let load = evidence.record.host_load?;
    let waiting = load.io_pressure_share.unwrap_or(0.0);
    let mut found = Vec::new();
    if machine_is_full(evidence) && client_share_of_busy(evidence) <= 0.5 {
        found.push(format!(
            "The machine's cores were {} busy, {} of that with other processes.",
            percent(load.system_cpu_busy),
            percent(1.0 - client_share_of_busy(evidence))
        ));
    }
    if waiting > limits::NOTED_IO_PRESSURE_SHARE {
        found.push(format!("Tasks of the machine waited for disks for {} of the time.", percent(waiting)));
    }
    (!found.is_empty()).then(|| {
        note(
            HostContended,
            found.join(" "),
            "What else ran took CPU or disks from client and broker, and stretched their latencies: run on a quiet machine, and the broker on another.",
            &[("system_cpu_busy", load.system_cpu_busy), ("steal", load.steal), ("io_pressure_share", waiting)],
        )
    })
}

/// Hardware threads that share a physical core do less than cores of their own, so that a machine with half of its threads idle may have
/// little left.
fn shared_cores(evidence: &Evidence<'_>) -> Option<Finding> {
    let load = evidence.record.host_load?;
    let physical =
        evidence.record.environment.physical_cores.filter(|physical| *physical < evidence.record.environment.cores)?
            as f64;
    let busy = (load.system_cpu_busy + load.steal) * evidence.record.environment.cores as f64;
    if machine_is_full(evidence) || busy < limits::FULL_MACHINE_SHARE * physical {
        return None;
    }
    Some(note(
        SharedCores,
        format!(
            "{busy:.1} of {} hardware threads were busy, and they share {physical} physical cores: what is idle is worth less than it seems.",
            evidence.record.environment.cores
        ),
        "A second thread on a physical core adds a part of what the first one does: take the machine for nearly full, or run client and broker on cores of their own.",
        &[("busy_hardware_threads", busy), ("physical_cores", physical)],
    ))
}

/// Cores that processes other than the client kept busy.
pub(super) fn cores_of_others(evidence: &Evidence<'_>) -> Option<f64> {
    let busy = evidence.record.host_load?.system_cpu_busy * evidence.record.environment.cores as f64;
    Some((busy - evidence.record.client.cores_used).max(0.0))
}

/// Where the scenario watches the broker's processes, and some of them told nothing or not always.
fn broker_unwatched(evidence: &Evidence<'_>) -> Option<Finding> {
    let failed =
        || evidence.record.broker_usage.iter().flat_map(|usage| &usage.sources).filter(|source| source.failures > 0);
    let first = failed().next()?;
    let reason = first.first_failure.as_deref().unwrap_or("unknown");
    let failures = crate::record::saturating_sum(failed().map(|source| source.failures));
    Some(note(
        BrokerUnwatched,
        format!("What {} used was not read {failures} times, first because: {reason}.", first.name),
        "CPU and memory of the broker are missing for that time: see `broker.watch`.",
        &[("failures", failures as f64)],
    ))
}

/// How the cores of a machine were used that had none left; `None` where some were idle.
pub(super) fn machine_is_the_limit(evidence: &Evidence<'_>) -> Option<String> {
    let load = evidence.record.host_load.filter(|_| machine_is_full(evidence))?;
    let withheld = if load.steal > 0.0 {
        format!(" and {} withheld by the hypervisor", percent(load.steal))
    } else {
        String::new()
    };
    let client_share = client_share_of_busy(evidence);
    Some(format!(
        "The machine's cores were {} busy{withheld}: {} of the busy time was the client's ({}), {} other processes'. A broker on this machine is among those and has the same cores: run it on another machine to see what it can carry.",
        percent(load.system_cpu_busy),
        percent(client_share),
        evidence.record.client.cores(),
        percent(1.0 - client_share),
    ))
}

/// That other programs kept tasks waiting for a core, though some core was idle at times; `None` where the client used more than they did.
pub(super) fn others_are_the_limit(evidence: &Evidence<'_>) -> Option<String> {
    let Record { client, environment, .. } = evidence.record;
    let waited = evidence.record.host_load?.cpu_pressure_share.filter(|share| *share >= limits::CPU_PRESSURE_SHARE)?;
    let own = client.cores_used / environment.cores.max(1) as f64;
    let others = evidence.record.cpu_share_of_others().filter(|others| *others > own)?;
    Some(format!(
        "Tasks waited for a core for {} of the time: other programs used {} of the machine's CPU, the client {}. A broker on this machine that `broker.watch` does not name is among them. Stop them, or measure on a quiet machine.",
        percent(waited),
        percent(others),
        percent(own)
    ))
}

/// Withheld time counts as the machine's: the cores were wanted.
fn machine_is_full(evidence: &Evidence<'_>) -> bool {
    evidence.record.host_load.is_some_and(|load| load.system_cpu_busy + load.steal >= limits::FULL_MACHINE_SHARE)
}

/// The client's part of all CPU time spent.
fn client_share_of_busy(evidence: &Evidence<'_>) -> f64 {
    let Some(load) = evidence.record.host_load else { return 0.0 };
    let busy_cores = load.system_cpu_busy * evidence.record.environment.cores as f64;
    if busy_cores > 0.0 { (evidence.record.client.cores_used / busy_cores).min(1.0) } else { 0.0 }
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/resources.rs"]
mod tests;
