//! The sections of a merged record that are sums, or the worst of the shares.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::KeptShare;
use crate::measure::FailureClass;
use crate::measure::host::CoreSet;
use crate::record::{
    Client, Completion, Counts, ErrorCount, HostLoad, Pauses, ProducerShares, Record, Throughput, TimerLateness,
    WarmUpCounts, Wire,
};

/// The windows of all shares overlap by at least this much of the stretch that they cover, or the rate is not that of all.
pub(super) const LEAST_OVERLAP: f64 = 0.95;

/// Whether a share has producers.
pub(super) fn sends(share: &KeptShare) -> bool {
    share.record.share.as_ref().is_some_and(|share| share.producers > 0)
}

/// The measured windows of the shares that have producers: one that only consumes may receive later than others send.
pub(super) fn windows(shares: &[KeptShare]) -> impl Iterator<Item = (u64, u64)> {
    let any_sends = shares.iter().any(sends);
    shares.iter().filter(move |share| !any_sends || sends(share)).map(window_of)
}

/// Begin and end of the stretch that these windows cover, in nanoseconds since 1970.
pub(super) fn window(shares: &[KeptShare]) -> (u64, u64) {
    let windows = || windows(shares);
    (windows().map(|(begin_ns, _)| begin_ns).min().unwrap_or(0), windows().map(|(_, end_ns)| end_ns).max().unwrap_or(0))
}

/// Begin and end of a share's measured window, in nanoseconds since 1970.
pub(super) fn window_of(share: &KeptShare) -> (u64, u64) {
    let begin_ns = share.record.share.as_ref().map_or(0, |share| share.window_begin_unix_ns);
    (begin_ns, begin_ns + share.record.throughput.window_ns)
}

/// The part of the stretch that all windows cover which lies in every one of them.
pub(super) fn overlap(shares: &[KeptShare]) -> f64 {
    let (begin_ns, end_ns) = window(shares);
    let windows = || windows(shares);
    let latest_begin = windows().map(|(begin_ns, _)| begin_ns).max().unwrap_or(0);
    let first_end = windows().map(|(_, end_ns)| end_ns).min().unwrap_or(0);
    match end_ns - begin_ns {
        0 => 0.0,
        covered => first_end.saturating_sub(latest_begin) as f64 / covered as f64,
    }
}

/// Nanoseconds from the begin of the first share's load to that of the last one's, each by its first message; `None`: not known of every
/// share that has producers. Producers are due one after another, so that it is not the times of the messages that are compared, but by how much
/// each was late.
pub(super) fn start_skew_ns(shares: &[KeptShare]) -> Option<u64> {
    let begin = |share: &KeptShare| {
        let (start, share) = (share.record.start.as_ref()?, share.record.share.as_ref()?);
        let late_ns = share.first_sent_unix_ns?.saturating_sub(share.first_due_unix_ns?);
        Some(u64::try_from(start.began_at.as_nanosecond()).ok()? + late_ns)
    };
    let begins = shares.iter().filter(|share| sends(share)).map(begin).collect::<Option<Vec<u64>>>()?;
    Some(begins.iter().max()? - begins.iter().min()?)
}

pub(super) fn counts(shares: &[KeptShare]) -> Counts {
    let sum = |count: fn(&Counts) -> u64| shares.iter().map(|share| count(&share.record.counts)).sum();
    let consumed = shares.iter().filter_map(|share| share.record.counts.consumed);
    Counts {
        attempted: sum(|counts| counts.attempted),
        acknowledged: sum(|counts| counts.acknowledged),
        failed: sum(|counts| counts.failed),
        unresolved: sum(|counts| counts.unresolved),
        unsent: sum(|counts| counts.unsent),
        producers_that_differ: sum(|counts| counts.producers_that_differ),
        payload_bytes_acknowledged: sum(|counts| counts.payload_bytes_acknowledged),
        consumed: consumed.reduce(|sum, count| sum + count),
        warm_up: WarmUpCounts {
            attempted: sum(|counts| counts.warm_up.attempted),
            acknowledged: sum(|counts| counts.warm_up.acknowledged),
            failed: sum(|counts| counts.warm_up.failed),
            unresolved: sum(|counts| counts.warm_up.unresolved),
        },
    }
}

/// Messages that all shares carried in their windows, over the stretch that the windows cover together: shares that began apart have
/// a lower rate together than the sum of theirs.
pub(super) fn throughput(shares: &[KeptShare], counts: &Counts) -> Throughput {
    let (begin_ns, end_ns) = window(shares);
    let window_ns = end_ns - begin_ns;
    let all = || shares.iter().map(|share| &share.record.throughput);
    let per_second = |rate: fn(&Throughput) -> f64| {
        let messages: f64 = all().map(|of| rate(of) * of.window_ns as f64).sum();
        if window_ns == 0 { 0.0 } else { messages / window_ns as f64 }
    };
    let payload_bytes = counts.payload_bytes_acknowledged as f64;
    Throughput {
        window_ns,
        messages_per_second: per_second(|of| of.messages_per_second),
        payload_bytes_per_second: per_second(|of| of.payload_bytes_per_second),
        sent_per_second: per_second(|of| of.sent_per_second),
        target_per_second: all().filter_map(|of| of.target_per_second).reduce(|sum, rate| sum + rate),
        consumed_per_second: consumed_per_second(shares, window_ns),
        in_flight_by_littles_law: None,
        until_last_acknowledgement: last(shares, |of| of.until_last_acknowledgement)
            .and_then(|ns| Completion::of(ns.saturating_sub(begin_ns), counts.acknowledged, payload_bytes)),
        until_last_arrival: last(shares, |of| of.until_last_arrival).and_then(|ns| {
            let bytes = all().filter_map(|of| of.until_last_arrival);
            let bytes = bytes.map(|of| of.payload_bytes_per_second * of.duration_ns as f64 / 1e9).sum();
            Completion::of(ns.saturating_sub(begin_ns), counts.consumed.unwrap_or(0), bytes)
        }),
        longest_gap_ns: None,
        producer_shares: producer_shares(shares),
    }
}

/// What all shares received in their windows, over the stretch that the windows cover together. A share that only consumes has a window
/// of its own, and its rate is that of this window.
fn consumed_per_second(shares: &[KeptShare], window_ns: u64) -> Option<f64> {
    let rate = |share: &KeptShare| {
        let Throughput { consumed_per_second, window_ns: own_ns, .. } = &share.record.throughput;
        let part = if sends(share) { *own_ns as f64 / window_ns as f64 } else { 1.0 };
        Some((*consumed_per_second)? * part)
    };
    shares.iter().filter_map(rate).reduce(|sum, rate| sum + rate).filter(|_| window_ns > 0)
}

/// When the last of it happened in any share, in nanoseconds since 1970.
fn last(shares: &[KeptShare], of: fn(&Throughput) -> Option<Completion>) -> Option<u64> {
    shares.iter().filter_map(|share| Some(window_of(share).0 + of(&share.record.throughput)?.duration_ns)).max()
}

/// From each share's index and its sum of messages follows its sum of squares, and from these the index of all.
fn producer_shares(shares: &[KeptShare]) -> Option<ProducerShares> {
    let of_shares =
        || shares.iter().filter_map(|share| Some((&share.record, share.record.throughput.producer_shares?)));
    let smallest_messages = of_shares().map(|(_, of)| of.smallest_messages).min()?;
    let producers = |record: &Record| record.share.as_ref().map_or(0, |share| share.producers) as f64;
    let sum: f64 = of_shares().map(|(record, _)| record.counts.attempted as f64).sum();
    let squares: f64 = of_shares()
        .map(|(record, of)| (record.counts.attempted as f64).powi(2) / (producers(record) * of.jain_index))
        .sum();
    let all: f64 = shares.iter().map(|share| producers(&share.record)).sum();
    let senders = shares.iter().filter(|share| sends(share)).count();
    Some(ProducerShares {
        smallest_messages: if of_shares().count() < senders { 0 } else { smallest_messages },
        largest_messages: of_shares().map(|(_, of)| of.largest_messages).max()?,
        jain_index: sum * sum / (all * squares),
    })
}

/// Errors of a class are added; the message is that of the first one by the wall clock.
pub(super) fn errors(shares: &[KeptShare], of: fn(&Record) -> &[ErrorCount]) -> Vec<ErrorCount> {
    let (begin_ns, _) = window(shares);
    let mut by_class: BTreeMap<FailureClass, ErrorCount> = BTreeMap::new();
    for share in shares {
        let later_ns = window_of(share).0.saturating_sub(begin_ns);
        for error in of(&share.record) {
            let first_at_ns = if error.first_at_ns == 0 { 0 } else { error.first_at_ns + later_ns };
            let error = ErrorCount { first_at_ns, ..error.clone() };
            by_class
                .entry(error.class)
                .and_modify(|sum| {
                    let count = sum.count + error.count;
                    let first = if error.first_at_ns < sum.first_at_ns { error.clone() } else { sum.clone() };
                    *sum = ErrorCount { count, ..first };
                })
                .or_insert(error);
        }
    }
    let mut errors: Vec<ErrorCount> = by_class.into_values().collect();
    errors.sort_by_key(|error| Reverse(error.count));
    errors
}

pub(super) fn wire(shares: &[KeptShare], throughput: &Throughput, cpu_seconds: f64) -> Option<Wire> {
    let found =
        || shares.iter().filter_map(|share| Some((share.record.wire.as_ref()?, share.record.throughput.window_ns)));
    found().next()?;
    let sum = |count: fn(&Wire) -> u64| found().map(|(wire, _)| count(wire)).sum::<u64>();
    let inside =
        |rate: fn(&Wire) -> f64| found().map(|(wire, window_ns)| rate(wire) * window_ns as f64 / 1e9).sum::<f64>();
    let seconds = throughput.window_ns as f64 / 1e9;
    let over = |bytes: f64, divisor: f64| (divisor > 0.0).then(|| bytes / divisor);
    let (body_bytes, sent_bytes) = (sum(|wire| wire.body_bytes), sum(|wire| wire.sent_bytes));
    Some(Wire {
        requests: sum(|wire| wire.requests),
        retried: sum(|wire| wire.retried),
        quota_refusals: sum(|wire| wire.quota_refusals),
        raw_bytes: sum(|wire| wire.raw_bytes),
        body_bytes,
        sent_bytes,
        fetches: sum(|wire| wire.fetches),
        throttled_fetches: sum(|wire| wire.throttled_fetches),
        compression_ratio: over(body_bytes as f64, sent_bytes as f64),
        raw_bytes_per_second: over(inside(|wire| wire.raw_bytes_per_second), seconds).unwrap_or_default(),
        sent_bytes_per_second: over(inside(|wire| wire.sent_bytes_per_second), seconds).unwrap_or_default(),
        raw_bytes_per_cpu_second: over(inside(|wire| wire.raw_bytes_per_second), cpu_seconds),
    })
}

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

/// The cores on which one of a machine's shares may run; `None` where one does not tell.
fn cores_allowed(of_machine: &[&KeptShare]) -> Option<CoreSet> {
    let of_share = |share: &&KeptShare| share.record.client.cores_allowed.as_deref()?.parse::<CoreSet>().ok();
    of_machine.iter().map(of_share).try_fold(CoreSet::default(), |all, cores| Some(all | cores?))
}

/// How many cores the shares of one machine may use together. A quota is that of a container, which has a host name of its own.
fn cores_available(of_machine: &[&KeptShare]) -> usize {
    let allowed = cores_allowed(of_machine).map_or(usize::MAX, |cores| cores.count());
    let mut of_hosts: BTreeMap<Option<&str>, CoresOfHost> = BTreeMap::new();
    for share in of_machine {
        let Client { cores_available, cores_allowed, .. } = &share.record.client;
        let own: Option<CoreSet> = cores_allowed.as_deref().and_then(|cores| cores.parse().ok());
        let host = of_hosts.entry(share.record.environment.hostname.as_deref()).or_default();
        host.allowed = host.allowed | own.unwrap_or_default();
        host.most = host.most.max(*cores_available);
        host.is_limited |= own.is_none_or(|own| *cores_available < own.count());
    }
    of_hosts.values().map(CoresOfHost::available).sum::<usize>().min(allowed)
}

/// What the shares of one host name may use.
#[derive(Default)]
struct CoresOfHost {
    allowed: CoreSet,
    /// Of one share.
    most: usize,
    /// Whether a quota is below what the affinity allows, or the affinity is not known.
    is_limited: bool,
}

impl CoresOfHost {
    fn available(&self) -> usize {
        if self.is_limited { self.most } else { self.allowed.count() }
    }
}

/// CPU time, memory and waits are added; quantiles are those of the worst share.
pub(super) fn client<'a>(shares: impl IntoIterator<Item = &'a KeptShare>, acknowledged_inside: f64) -> Client {
    let shares: Vec<&KeptShare> = shares.into_iter().collect();
    let all = || shares.iter().map(|share| &share.record.client);
    let sum = |figure: fn(&Client) -> f64| all().map(figure).sum::<f64>();
    let total = |figure: fn(&Client) -> Option<u64>| all().filter_map(figure).reduce(|sum, count| sum + count);
    let worst = |figure: fn(&Client) -> Option<u64>| all().filter_map(figure).max();
    let busiest = all().max_by(|one, other| {
        let cores = |client: &Client| client.busiest_thread_cores.unwrap_or(0.0);
        cores(one).total_cmp(&cores(other))
    });
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
        busiest_thread_cores: busiest.and_then(|client| client.busiest_thread_cores),
        busiest_thread: busiest.and_then(|client| client.busiest_thread.clone()),
        cpu_ns_per_message: (acknowledged_inside > 0.0).then(|| cpu_seconds * 1e9 / acknowledged_inside),
        peak_memory_bytes: total(|client| client.peak_memory_bytes),
        voluntary_context_switches: total(|client| client.voluntary_context_switches),
        involuntary_context_switches: total(|client| client.involuntary_context_switches),
        queue_full_ns: all().map(|client| client.queue_full_ns).sum(),
        connections_full_share: all().filter_map(|client| client.connections_full_share).reduce(f64::max),
        unmatched_answers: all().map(|client| client.unmatched_answers).sum(),
        queue_messages_max: worst(|client| client.queue_messages_max),
        timer_lateness: all().filter_map(|client| client.timer_lateness).reduce(|one, other| TimerLateness {
            p50_ns: one.p50_ns.max(other.p50_ns),
            p99_ns: one.p99_ns.max(other.p99_ns),
            max_ns: one.max_ns.max(other.max_ns),
        }),
        pauses: all().filter_map(|client| client.pauses).reduce(|one, other| Pauses {
            count: one.count + other.count,
            p50_ns: one.p50_ns.max(other.p50_ns),
            p99_ns: one.p99_ns.max(other.p99_ns),
            p99_9_ns: one.p99_9_ns.max(other.p99_9_ns),
            max_ns: one.max_ns.max(other.max_ns),
        }),
        broker_round_trip_p50_ns: worst(|client| client.broker_round_trip_p50_ns),
        broker_round_trip_p99_ns: worst(|client| client.broker_round_trip_p99_ns),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::merge::made_up::share;

    #[test]
    fn rates_are_of_the_stretch_that_all_windows_cover() {
        let second = 1_000_000_000;
        let shares = [share(1, 2, 0, 10 * second, 1_000.0), share(2, 2, 2 * second, 10 * second, 3_000.0)];
        let counts = counts(&shares);
        let throughput = throughput(&shares, &counts);
        assert_eq!(throughput.window_ns, 12 * second);
        assert!((throughput.messages_per_second - 40_000.0 / 12.0).abs() < 1e-6, "{throughput:?}");
        assert_eq!(counts.acknowledged, 40_000);
        assert!(counts.balances());
    }

    #[test]
    fn policies_and_full_connections_of_all_shares_are_told() {
        let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
        let told = |shares: &[KeptShare]| {
            let client = client(shares, 1.0);
            (client.scheduling_policy, client.connections_full_share)
        };
        for (share, (policy, full)) in
            shares.iter_mut().zip([("batch", Some(0.2)), ("batch", Some(0.9)), ("other", None)])
        {
            let client = &mut share.record.client;
            (client.scheduling_policy, client.connections_full_share) = (Some(policy.to_owned()), full);
        }
        assert_eq!(told(&shares[..2]), (Some("batch".to_owned()), Some(0.9)));
        assert_eq!(told(&shares), (Some("batch, other".to_owned()), Some(0.9)));
    }

    #[test]
    fn loads_are_compared_by_how_late_their_first_messages_were() {
        let second = 1_000_000_000;
        let mut shares =
            [share(1, 3, second, second, 1.0), share(2, 3, second, second, 1.0), share(3, 3, 0, second, 0.0)];
        shares[2].record.share.as_mut().unwrap().producers = 0;
        let mut first = |index: usize, due_ns, sent_ns| {
            let share = shares[index].record.share.as_mut().unwrap();
            (share.first_due_unix_ns, share.first_sent_unix_ns) = (Some(due_ns), sent_ns);
            start_skew_ns(&shares)
        };
        assert_eq!(first(0, second, Some(second + 300)), Some(300));
        assert_eq!(first(1, second + 900, Some(second + 1_000)), Some(200), "due 900 ns later by its schedule");
        assert_eq!(first(1, second, None), None);
    }

    #[test]
    fn a_share_that_only_consumes_does_not_stretch_the_window() {
        let second = 1_000_000_000;
        let mut shares = [share(1, 2, 0, 10 * second, 1_000.0), share(2, 2, 5 * second, 20 * second, 0.0)];
        shares[0].record.throughput.consumed_per_second = Some(0.0);
        shares[1].record.throughput.consumed_per_second = Some(500.0);
        shares[1].record.share.as_mut().unwrap().producers = 0;
        let throughput = throughput(&shares, &counts(&shares));
        assert_eq!(throughput.window_ns, 10 * second);
        assert_eq!((throughput.messages_per_second, throughput.consumed_per_second), (1_000.0, Some(500.0)));
    }

    #[test]
    fn the_fairness_of_all_producers_follows_from_that_of_the_shares() {
        let mut shares = [share(1, 2, 0, 1, 1.0), share(2, 2, 0, 1, 1.0)];
        let messages: [&[u64]; 2] = [&[10, 20, 30], &[40, 5]];
        for (share, messages) in shares.iter_mut().zip(messages) {
            share.record.counts.attempted = messages.iter().sum();
            share.record.throughput.producer_shares = ProducerShares::of(messages.iter().copied());
            share.record.share.as_mut().unwrap().producers = messages.len();
        }
        let merged = producer_shares(&shares).unwrap();
        let expected = ProducerShares::of(messages.concat().into_iter()).unwrap();
        assert!((merged.jain_index - expected.jain_index).abs() < 1e-12, "{merged:?}");
        assert_eq!((merged.smallest_messages, merged.largest_messages), (5, 40));
    }

    #[test]
    fn the_cores_of_a_machine_count_once() {
        let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
        shares[2].record.share.as_mut().unwrap().boot_id = Some("another".to_owned());
        let cores = shares[0].record.client.cores_available;
        assert_eq!((client(&shares, 1.0).cores_available, machines(&shares)), (2 * cores, 2));
    }

    #[test]
    fn shares_that_are_bound_to_cores_have_those_of_all_and_containers_their_quotas() {
        let told = |places: [(&str, &str, usize); 3]| {
            let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
            for (share, (host, cores, available)) in shares.iter_mut().zip(places) {
                share.record.environment.hostname = Some(host.to_owned());
                let client = &mut share.record.client;
                (client.cores_allowed, client.cores_available) = (Some(cores.to_owned()), available);
            }
            let client = client(&shares, 1.0);
            (client.cores_available, client.cores_allowed.unwrap())
        };
        assert_eq!(told([("a", "0", 1), ("a", "1", 1), ("a", "2-3", 2)]), (4, "0-3".to_owned()), "bound");
        assert_eq!(told([("a", "0-1", 2), ("a", "0-1", 2), ("a", "0-1", 2)]), (2, "0-1".to_owned()), "not bound");
        let quotas = [("a", "0-63", 2), ("a", "0-63", 2), ("b", "0-63", 3)];
        assert_eq!(told(quotas), (5, "0-63".to_owned()), "two containers");
        assert_eq!(told([("a", "0-1", 2), ("b", "0-1", 2), ("c", "0-1", 2)]), (2, "0-1".to_owned()), "one machine");
    }

    #[test]
    fn errors_of_a_class_are_one_with_the_message_of_the_first() {
        let second = 1_000_000_000;
        let mut shares = [share(1, 2, 3 * second, second, 1.0), share(2, 2, 0, second, 1.0)];
        let error = |count, first_at_ns, message: &str| ErrorCount {
            class: FailureClass::Timeout,
            count,
            first_message: message.to_owned(),
            first_at_ns,
        };
        shares[0].record.errors = vec![error(2, second, "later")];
        shares[1].record.errors = vec![error(3, 2 * second, "first")];
        assert_eq!(errors(&shares, |record| &record.errors), [error(5, 2 * second, "first")]);
    }
}
