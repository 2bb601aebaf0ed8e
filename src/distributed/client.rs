//! What the processes of all shares used, on each machine and together.
//!
//! A share takes the others on its machine for processes that have nothing to do with the load: what they say together is a
//! [`SharedMachine`].

use std::collections::{BTreeMap, BTreeSet};

use super::{KeptShare, sections};
use crate::evaluate;
use crate::measure::host::CoreSet;
use crate::record::ReasonKind::{ClientBound, HostContended};
use crate::record::saturating_sum;
use crate::record::{Client, HostLoad, Lateness, LimitedBy, Limiter, Pauses, Reason, Status, Verdict};
use crate::scenario::Scenario;

/// Where a share runs: shares of one machine have the same. Without both, that is not known.
pub(super) fn machine(share: &KeptShare) -> (Option<&str>, Option<&str>) {
    let boot_id = share.record.share.as_ref().and_then(|share| share.boot_id.as_deref());
    (boot_id, share.record.environment.hostname.as_deref().filter(|_| boot_id.is_none()))
}

/// The shares of each machine.
pub(super) fn by_machine<'a>(shares: impl IntoIterator<Item = &'a KeptShare>) -> Vec<Vec<&'a KeptShare>> {
    let mut by_machine: BTreeMap<_, Vec<&KeptShare>> = BTreeMap::new();
    shares.into_iter().for_each(|share| by_machine.entry(machine(share)).or_default().push(share));
    by_machine.into_values().collect()
}

/// On how many machines the shares ran.
pub(super) fn machines(shares: &[KeptShare]) -> usize {
    by_machine(shares).len()
}

/// The cores on which a share may run; `None` where it does not tell.
fn own_cores(share: &KeptShare) -> Option<CoreSet> {
    share.record.client.cores_allowed.as_deref()?.parse().ok()
}

/// The cores on which one of a machine's shares may run; `None` where one does not tell.
fn cores_allowed(of_machine: &[&KeptShare]) -> Option<CoreSet> {
    of_machine.iter().try_fold(CoreSet::default(), |all, share| Some(all | own_cores(share)?))
}

/// How many cores the shares of one machine may use together. A quota is that of a container, which has a host name of its own.
fn cores_available(of_machine: &[&KeptShare]) -> f64 {
    let allowed = cores_allowed(of_machine).map_or(f64::INFINITY, |cores| cores.count() as f64);
    let mut of_hosts: BTreeMap<Option<&str>, CoresOfHost> = BTreeMap::new();
    for share in of_machine {
        let (available, own) = (share.record.client.cores_available, own_cores(share));
        let host = of_hosts.entry(share.record.environment.hostname.as_deref()).or_default();
        host.allowed = host.allowed | own.unwrap_or_default();
        host.most = host.most.max(available);
        host.is_limited |= own.is_none_or(|own| available < own.count() as f64);
    }
    of_hosts.values().map(CoresOfHost::available).sum::<f64>().min(allowed)
}

/// What the shares of one host name may use.
#[derive(Default)]
struct CoresOfHost {
    allowed: CoreSet,
    /// Cores of the share that has the most.
    most: f64,
    /// Whether a quota is below what the affinity allows, or the affinity is not known.
    is_limited: bool,
}

impl CoresOfHost {
    fn available(&self) -> f64 {
        if self.is_limited { self.most } else { self.allowed.count() as f64 }
    }
}

/// CPU time, memory and waits are added; quantiles are those of the worst share.
pub(super) fn client<'a>(shares: impl IntoIterator<Item = &'a KeptShare>, acknowledged_inside: f64) -> Client {
    let shares: Vec<&KeptShare> = shares.into_iter().collect();
    let all = || shares.iter().map(|share| &share.record.client);
    let sum = |figure: fn(&Client) -> f64| all().map(figure).sum::<f64>();
    let total = |figure: fn(&Client) -> Option<u64>| all().filter_map(figure).reduce(u64::saturating_add);
    let worst = |figure: fn(&Client) -> Option<u64>| all().filter_map(figure).max();
    let busiest = |cores: fn(&Client) -> Option<f64>| {
        all().max_by(|one, other| cores(one).unwrap_or(0.0).total_cmp(&cores(other).unwrap_or(0.0)))
    };
    let busiest_thread = busiest(|client| client.busiest_thread_cores);
    let busiest_task = busiest(|client| client.busiest_task_cores);
    let by_machine = by_machine(shares.iter().copied());
    let cpu_seconds = sum(|client| client.cpu_seconds);
    Client {
        cpu_seconds,
        cpu_user_seconds: sum(|client| client.cpu_user_seconds),
        cpu_system_seconds: sum(|client| client.cpu_system_seconds),
        polling_cpu_seconds: all().filter_map(|client| client.polling_cpu_seconds).reduce(|sum, seconds| sum + seconds),
        cores_used: sum(|client| client.cores_used),
        cores_available: by_machine.iter().map(|shares| cores_available(shares)).sum(),
        cores_allowed: match by_machine.as_slice() {
            [shares] => cores_allowed(shares).map(|cores| cores.to_string()),
            _ => None,
        },
        scheduling_policy: scheduling_policy(all()),
        busiest_thread_cores: busiest_thread.and_then(|client| client.busiest_thread_cores),
        busiest_thread: busiest_thread.and_then(|client| client.busiest_thread.clone()),
        busiest_task_cores: busiest_task.and_then(|client| client.busiest_task_cores),
        busiest_task: busiest_task.and_then(|client| client.busiest_task.clone()),
        cpu_ns_per_message: (acknowledged_inside > 0.0).then(|| cpu_seconds * 1e9 / acknowledged_inside),
        peak_memory_bytes: total(|client| client.peak_memory_bytes),
        voluntary_context_switches: total(|client| client.voluntary_context_switches),
        involuntary_context_switches: total(|client| client.involuntary_context_switches),
        queue_full_ns: saturating_sum(all().map(|client| client.queue_full_ns)),
        connections_full_share: all().filter_map(|client| client.connections_full_share).reduce(f64::max),
        unmatched_answers: saturating_sum(all().map(|client| client.unmatched_answers)),
        queue_messages_max: worst(|client| client.queue_messages_max),
        timer_lateness: all().filter_map(|client| client.timer_lateness).reduce(worst_lateness),
        wake_up_delay: all().filter_map(|client| client.wake_up_delay).reduce(worst_lateness),
        pauses: all().filter_map(|client| client.pauses).reduce(|one, other| Pauses {
            count: one.count + other.count,
            p50_ns: one.p50_ns.max(other.p50_ns),
            p99_ns: one.p99_ns.max(other.p99_ns),
            p99_9_ns: one.p99_9_ns.max(other.p99_9_ns),
            p99_99_ns: one.p99_99_ns.max(other.p99_99_ns),
            max_ns: one.max_ns.max(other.max_ns),
        }),
        // Each share's clock has an epoch of its own.
        long_pauses: Vec::new(),
        broker_round_trip_p50_ns: worst(|client| client.broker_round_trip_p50_ns),
        broker_round_trip_p99_ns: worst(|client| client.broker_round_trip_p99_ns),
    }
}

fn worst_lateness(one: Lateness, other: Lateness) -> Lateness {
    Lateness {
        p50_ns: one.p50_ns.max(other.p50_ns),
        p99_ns: one.p99_ns.max(other.p99_ns),
        p99_9_ns: one.p99_9_ns.max(other.p99_9_ns),
        p99_99_ns: one.p99_99_ns.max(other.p99_99_ns),
        max_ns: one.max_ns.max(other.max_ns),
    }
}

/// That of all shares, or each that one of them has.
fn scheduling_policy<'a>(clients: impl Iterator<Item = &'a Client>) -> Option<String> {
    let policies: BTreeSet<&str> = clients.filter_map(|client| client.scheduling_policy.as_deref()).collect();
    (!policies.is_empty()).then(|| policies.into_iter().collect::<Vec<_>>().join(", "))
}

/// Of each figure, that of the machine that had the most of it.
pub(super) fn host_load(shares: &[KeptShare]) -> Option<HostLoad> {
    let worst = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    };
    shares.iter().filter_map(|share| share.record.host_load).reduce(|one, other| HostLoad {
        system_cpu_busy: one.system_cpu_busy.max(other.system_cpu_busy),
        steal: one.steal.max(other.steal),
        cgroup_throttled_share: worst(one.cgroup_throttled_share, other.cgroup_throttled_share),
        cpu_pressure_share: worst(one.cpu_pressure_share, other.cpu_pressure_share),
        memory_pressure_share: worst(one.memory_pressure_share, other.memory_pressure_share),
        io_pressure_share: worst(one.io_pressure_share, other.io_pressure_share),
    })
}

/// A machine on which several shares ran.
pub(super) struct SharedMachine {
    /// The numbers of its shares, in their order.
    numbers: Vec<usize>,
    /// The verdict on what they used together.
    verdict: Verdict,
}

impl SharedMachine {
    /// The machines that several of these shares had at one time, as far as it is known where they ran. `scenario`: the one that all ran.
    pub fn all(shares: &[KeptShare], scenario: &Scenario) -> Vec<Self> {
        if sections::overlap(shares) < sections::MIN_OVERLAP {
            return Vec::new();
        }
        let known = shares.iter().filter(|share| machine(share) != (None, None));
        let several = by_machine(known).into_iter().filter(|shares| shares.len() > 1);
        several.map(|shares| SharedMachine::new(&shares, scenario)).collect()
    }

    fn new(shares: &[&KeptShare], scenario: &Scenario) -> Self {
        let mut numbers: Vec<usize> = shares.iter().map(|share| share.number()).collect();
        numbers.sort_unstable();
        // The load that they put on the broker together is judged with the whole record.
        let has_measured =
            |share: &KeptShare| (share.record.status != Status::Failed, share.record.counts.acknowledged);
        let loader = shares.iter().max_by_key(|share| has_measured(share)).unwrap_or(&shares[0]);
        let mut record = loader.record.clone();
        record.client = client(shares.iter().copied(), 0.0);
        evaluate::evaluate(&mut record, scenario, &loader.series);
        SharedMachine { numbers, verdict: record.verdict }
    }

    /// What its shares say only together, of one list of their verdicts.
    pub fn findings<'a>(
        &'a self,
        shares: &'a [KeptShare],
        list: fn(&Verdict) -> &Vec<Reason>,
    ) -> impl Iterator<Item = &'a Reason> {
        let mut own = shares.iter().filter(|share| self.has(share)).flat_map(|share| &share.record.verdict.reasons);
        let is_bound_alone = own.any(|reason| reason.kind == ClientBound);
        list(&self.verdict).iter().filter(move |reason| match reason.kind {
            ClientBound => !is_bound_alone,
            kind => kind == HostContended,
        })
    }

    /// What limited the shares, if it is the CPU.
    pub fn limited_by(&self) -> Option<&LimitedBy> {
        Some(&self.verdict.limited_by).filter(|limit| matches!(limit.limiter, Limiter::Client | Limiter::Machine))
    }

    /// Whether this share ran on it.
    pub fn has(&self, share: &KeptShare) -> bool {
        self.numbers.binary_search(&share.number()).is_ok()
    }

    /// How many shares ran on it.
    pub fn shares(&self) -> usize {
        self.numbers.len()
    }

    /// Its shares in words: "1 to 4", or "1, 3".
    pub fn numbers(&self) -> String {
        match self.numbers.as_slice() {
            [first, .., last] if last - first + 1 == self.numbers.len() => format!("{first} to {last}"),
            numbers => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/distributed/client.rs"]
mod tests;
