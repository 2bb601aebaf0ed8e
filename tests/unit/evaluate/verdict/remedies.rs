//! What findings of the machine and of tails advise makes them go: a record with the finding, and what the same trial would have recorded with
//! the advice. Advice that a scenario can follow is followed by real runs, in `tests/local/remedies.rs`.

use super::ReasonKind::*;
use super::sound::judged;
use super::*;
use crate::record::{Latency, Lateness, Phase, Tail};

type Change = fn(&mut Record, &mut Vec<SeriesRow>);

/// The finding, how the record comes to have it, and by the words of each advice what changes with it.
struct Row(ReasonKind, Change, &'static [(&'static str, Change)]);

const MILLISECOND: u64 = 1_000_000;

fn load(record: &mut Record) -> &mut crate::record::HostLoad {
    record.host_load.as_mut().unwrap()
}

fn response(record: &mut Record) -> &mut Latency {
    record.latency.response.as_mut().unwrap()
}

fn tail(record: &mut Record, tenths: u64, seconds: u64) {
    let percentile = 99.9;
    let tails = &mut response(record).tails;
    tails.retain(|tail| tail.percentile != percentile);
    tails.push(Tail { percentile, tenths, seconds, client_paused_tenths: Some(0) });
}

/// Sixty measured seconds.
fn a_minute(record: &mut Record, series: &mut Vec<SeriesRow>) {
    record.throughput.window_ns = 60_000_000_000;
    let measured: Vec<SeriesRow> = series.iter().filter(|row| row.phase == Phase::Measure).cloned().collect();
    *series = (0..60).map(|second| SeriesRow { second, ..measured[second as usize % 10].clone() }).collect();
}

const ROWS: [Row; 10] = [
    Row(
        ClientBound,
        |record, _| record.client.cores_used = 3.8,
        &[
            ("a machine of its own", |record, _| record.client.cores_available = 16.0),
            ("or from several", |record, _| record.client.cores_used /= 2.0),
            ("batch more", |record, _| record.client.cores_used /= 1.5),
        ],
    ),
    Row(
        ClientBound,
        |record, _| record.client.busiest_thread_cores = Some(0.99),
        &[("raise `run.threads`", |record, _| record.client.busiest_thread_cores = Some(0.5))],
    ),
    Row(
        TimeWithheld,
        |record, _| load(record).steal = 0.1,
        &[("whose cores and memory are not shared", |record, _| load(record).steal = 0.0)],
    ),
    Row(
        TimeWithheld,
        |record, _| load(record).cgroup_throttled_share = Some(0.2),
        &[("with a larger quota", |record, _| load(record).cgroup_throttled_share = Some(0.0))],
    ),
    Row(
        HostContended,
        |record, _| load(record).system_cpu_busy = 0.97,
        &[
            ("run on a quiet machine", |record, _| {
                load(record).system_cpu_busy = record.client.cores_used / record.environment.cores as f64;
            }),
            ("the broker on another", |record, _| load(record).system_cpu_busy -= 0.4),
        ],
    ),
    Row(
        SharedCores,
        |record, _| {
            record.environment.physical_cores = Some(record.environment.cores / 2);
            load(record).system_cpu_busy = 0.6;
        },
        &[("client and broker on cores of their own", |record, _| load(record).system_cpu_busy = 0.3)],
    ),
    Row(
        OwnDelay,
        |record, _| {
            record.client.wake_up_delay = Some(Lateness { p99_ns: 40 * MILLISECOND, ..Lateness::default() });
        },
        &[("Leave a core idle", |record, _| {
            record.client.wake_up_delay = Some(Lateness { p99_ns: MILLISECOND / 20, ..Lateness::default() });
        })],
    ),
    Row(
        BeyondRange,
        |record, _| response(record).beyond_range = 5,
        &[("lower the load or repair the broker", |record, _| response(record).beyond_range = 0)],
    ),
    Row(FewEventsInTail, |record, _| tail(record, 4, 3), &[("measure longer", |record, _| tail(record, 40, 30))]),
    Row(
        WarmUpTooShort,
        |record, series| {
            a_minute(record, series);
            series[..10].iter_mut().for_each(|row| row.p50_ns = row.p50_ns.map(|value| value * 2));
        },
        &[("Lengthen `run.warm_up` by as much", |record, series| {
            // The first ten seconds are not measured any more.
            record.throughput.window_ns -= 10_000_000_000;
            series[..10].iter_mut().for_each(|row| row.phase = Phase::WarmUp);
        })],
    ),
];

fn of_kind(verdict: &Verdict, kind: ReasonKind) -> Option<&Reason> {
    verdict.reasons.iter().chain(&verdict.notes).find(|reason| reason.kind == kind)
}

#[test]
fn advice_on_machines_and_tails_makes_findings_go() {
    for Row(kind, spoil, remedies) in ROWS {
        let before = judged(|record, series, _| spoil(record, series));
        let found = of_kind(&before, kind).unwrap_or_else(|| panic!("no {kind:?}: {before:#?}"));
        for (words, follow) in remedies {
            assert!(found.advice.contains(words), "{kind:?}: not '{words}' but: {}", found.advice);
            let after = judged(|record, series, _| {
                spoil(record, series);
                follow(record, series);
            });
            assert_eq!(of_kind(&after, kind), None, "{kind:?}: '{words}' does not help");
        }
    }
}
