//! Sections of a record, and what they have in common: rates, latencies and errors by class; the rows of the series, the backlog with what single
//! groups were told to do, the set time and the share; and how many events made the tail of a latency, and whether the load generator itself
//! did.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::engine::{self, BacklogOutcome, GroupSecond, Outcome, PartOutcome, Second, StretchTotals};
use crate::measure::host::{LongPause, paused_ns};
use crate::measure::{self, Bin, Distribution, ErrorTally, Errors, Slowest};
use crate::record::{
    Backlog, BacklogPhase, Condition, ErrorCount, GroupDrain, GroupRow, GroupTask, IdleConnections, Latency, Phase,
    SeriesRow, Share, SlowestMessages, Start, Tail, WorkDistribution,
};
use crate::scenario::{ConsumerGroup, Trial, WorkLaw};

/// 0 over no time.
pub(super) fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

/// The latency of messages whose ends became known at so many moments.
pub(super) fn independent(distribution: &Distribution, moments: u64) -> Option<Latency> {
    Latency::from_histogram(distribution.histogram(), distribution.beyond_range(), Some(moments))
}

/// The latency of what happened one by one.
pub(super) fn latency(distribution: &Distribution) -> Option<Latency> {
    Latency::from_histogram(distribution.histogram(), distribution.beyond_range(), None)
}

/// Most frequent first.
pub(super) fn errors_by_class(errors: &Errors, begin_ns: u64) -> Vec<ErrorCount> {
    let count = |(class, tally): (_, &ErrorTally)| {
        let (at_ns, message) = tally.first.clone().unwrap_or_default();
        ErrorCount { class, count: tally.count, first_message: message, first_at_ns: at_ns.saturating_sub(begin_ns) }
    };
    let mut errors: Vec<ErrorCount> = errors.iter().map(count).collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors
}

/// What became of connections that carried no messages.
pub(super) fn idle_connections(outcome: &Outcome) -> Option<IdleConnections> {
    let tally = outcome.idle_connections.as_ref()?;
    let errors = |errors| errors_by_class(errors, outcome.times.measure_start_ns);
    Some(IdleConnections {
        wanted: tally.wanted,
        opened: tally.opened,
        open_at_end: tally.open,
        replaced: tally.replaced,
        opened_per_second: per_second(tally.opened_at_first, tally.opening_ns),
        time_to_ready: latency(&tally.time_to_ready),
        memory_bytes_each: tally.memory_bytes.and_then(|bytes| bytes.checked_div(tally.opened_at_first)),
        failed: errors(&tally.failed),
        lost: errors(&tally.lost),
    })
}

/// What held messages up, by the load's time.
pub(super) fn conditions(outcome: &Outcome) -> Vec<Condition> {
    let (clock, load_start_ns, window) = (outcome.clock, outcome.times.load_start_ns, &outcome.totals.window);
    let since_load = |moment| clock.since_epoch_ns(moment).saturating_sub(load_start_ns);
    let now = std::time::Instant::now();
    let condition = |found: &measure::Condition| {
        let (begin_ns, end_ns) = (since_load(found.begin), found.end.map(since_load));
        let lasted_ns = found.lasted(now).as_nanos() as u64;
        let in_window = end_ns.unwrap_or(u64::MAX).min(window.end_ns).saturating_sub(begin_ns.max(window.begin_ns));
        Condition {
            kind: found.kind,
            subject: found.subject,
            subjects_max: found.most,
            subjects: found.all,
            names: found.names.clone(),
            words: found.words.clone(),
            begin_ns,
            end_ns,
            lasted_ns,
            in_window_ns: in_window.min(lasted_ns),
        }
    };
    outcome.conditions.iter().map(condition).collect()
}

/// A row that lasted less than this share of what was intended is cut off by the end of a phase.
const FULL_SHARE: f64 = 0.95;

/// One second of a trial.
pub fn series_row(trial: &Trial, second: &Second) -> SeriesRow {
    SeriesRow {
        point_index: trial.point_index,
        trial: trial.trial,
        second: second.begin_ns / 1_000_000_000,
        begin_ns: Some(second.begin_ns),
        length_ns: second.end_ns - second.begin_ns,
        due: second.due,
        phase: match second.phase {
            engine::Phase::Prepare | engine::Phase::WarmUp => Phase::WarmUp,
            engine::Phase::Measure => Phase::Measure,
            engine::Phase::Drain | engine::Phase::Verify => Phase::Drain,
        },
        full: (second.end_ns - second.begin_ns) as f64 >= FULL_SHARE * second.intended_length_ns as f64,
        attempted: second.attempted,
        acknowledged: second.acknowledged,
        failed: second.failed,
        payload_bytes: second.payload_bytes,
        consumed: trial.scenario.consumers.is_some().then_some(second.consumed),
        groups: second.groups.iter().map(group_row).collect(),
        finished: second.finished,
        consumer_lag: second.consumer_lag,
        in_flight: second.in_flight,
        p50_ns: second.p50_ns,
        p99_ns: second.p99_ns,
        queue_messages: second.queue_messages,
        cpu_cores: second.cpu_cores,
        memory_bytes: second.memory_bytes,
        broker_cpu_cores: second.broker_cores,
        broker_memory_bytes: second.broker_memory_bytes,
        faults: second.faults.clone(),
    }
}

fn group_row(second: &GroupSecond) -> GroupRow {
    let GroupSecond { group, consumed, consumer_lag, end_to_end_p50_ns, end_to_end_p99_ns } = *second;
    GroupRow { group, consumed, consumer_lag, end_to_end_p50_ns, end_to_end_p99_ns }
}

/// `None` where the scenario does not ask for a backlog.
pub(super) fn backlog(trial: &Trial, outcome: &Outcome) -> Option<Backlog> {
    trial.scenario.consumers.as_ref()?.backlog?;
    let built = outcome.backlog.as_ref();
    let mut phases = outcome.totals.stretches.iter().map(phase);
    Some(Backlog {
        messages: built.map(|built| built.messages),
        payload_bytes: built.map(|built| built.payload_bytes),
        build: phases.next()?,
        drain: phases.next(),
        after: phases.next(),
        groups: built.map(groups).unwrap_or_default(),
    })
}

fn phase(stretch: &StretchTotals) -> BacklogPhase {
    let per_second = |count| per_second(count, stretch.length_ns);
    BacklogPhase {
        begin_ns: stretch.begin_ns,
        duration_ns: stretch.length_ns,
        sent_per_second: per_second(stretch.attempted),
        messages_per_second: per_second(stretch.acknowledged),
        consumed_per_second: per_second(stretch.consumed),
        response: independent(&stretch.response, stretch.moments),
    }
}

fn groups(built: &BacklogOutcome) -> Vec<GroupDrain> {
    let drain = |(group, drain): (usize, &engine::GroupDrain)| {
        let duration_ns = drain.drained_ns.zip(drain.first_arrival_ns).map(|(end, begin)| end - begin);
        GroupDrain {
            group,
            first_arrival_ns: drain.first_arrival_ns.map(|at_ns| at_ns - built.built_ns),
            duration_ns,
            received: drain.received,
            behind: drain.behind,
            received_per_second: duration_ns.filter(|ns| *ns > 0).map(|ns| per_second(drain.received, ns)),
        }
    };
    built.groups.iter().enumerate().map(drain).collect()
}

/// `None`: to receive as fast as it can, from before the load on.
pub(super) fn task(group: &ConsumerGroup) -> Option<GroupTask> {
    let task = GroupTask {
        work_mean_ns: group.work.map(|work| work.mean.as_nanos() as u64),
        work_distribution: group.work.map(|work| match work.law {
            WorkLaw::Fixed => WorkDistribution::Fixed,
            WorkLaw::Exponential => WorkDistribution::Exponential,
            WorkLaw::Lognormal { .. } => WorkDistribution::Lognormal,
            WorkLaw::Pareto { .. } => WorkDistribution::Pareto,
        }),
        rate_limit_per_second: group.rate,
        start_after_ns: (!group.start_after.is_zero()).then_some(group.start_after.as_nanos() as u64),
    };
    (task != GroupTask::default()).then_some(task)
}

/// Most by which two clocks that their systems discipline drift apart in a second: the frequency tolerance of either (RFC 5905, PHI).
const DRIFT_NS_PER_SECOND: u64 = 2 * 15_000;

/// When the load began, where a time was set, and which share of a scenario this is.
pub(super) fn share(outcome: &Outcome) -> (Option<Start>, Option<Share>) {
    let unix_ns = |since_epoch_ns: u64| outcome.times.epoch_unix_ns + since_epoch_ns;
    let began_ns = unix_ns(outcome.times.load_start_ns);
    let start = outcome.planned_unix_ns.map(|planned_ns| Start {
        planned_at: timestamp(planned_ns),
        began_at: timestamp(began_ns),
        late_ns: began_ns.saturating_sub(planned_ns),
    });
    let first_sent = outcome.times.first_sent;
    let share = outcome.part.as_ref().map(|found| Share {
        number: found.part.share.number,
        count: found.part.share.count,
        first_producer: found.part.producers.start,
        producers: found.part.producers.len(),
        consumers: found.part.consumers,
        window_begin_unix_ns: unix_ns(outcome.times.measure_start_ns),
        first_sent_unix_ns: first_sent.map(|first| unix_ns(first.sent_ns)),
        first_due_unix_ns: first_sent.map(|first| unix_ns(first.due_ns)),
        clock_shift_ns: found.compared.as_ref().map(|compared| compared.shift_ns),
        clock_error_ns: clock_error_ns(found, outcome.times.load_ended_ns),
        boot_id: found.compared.as_ref().map(|compared| compared.name.clone()).or(found.wall_clock.boot_id.clone()),
        before_intended: outcome.totals.arrivals.arrived.before_intended,
        most_before_intended_ns: outcome.totals.arrivals.arrived.most_before_intended_ns,
    });
    (start, share)
}

/// Most that the times of a share are off. `since_compared_ns`: how long ago its clock was compared with others, if it was.
fn clock_error_ns(found: &PartOutcome, since_compared_ns: u64) -> Option<u64> {
    match &found.compared {
        None => found.first_wall_clock.most_error_since_ns(&found.wall_clock, found.wall_clock_moved_ns),
        // It is the other clock.
        Some(compared) if compared.error_ns == Some(0) => Some(0),
        Some(compared) => Some(compared.error_ns? + since_compared_ns / 1_000_000_000 * DRIFT_NS_PER_SECOND),
    }
}

fn timestamp(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Bins in a second.
const BINS_PER_SECOND: u64 = 10;

/// Completes a latency: `bins` have the slowest message of each tenth of a second, of which `slowest_ns` chooses this latency.
pub(super) fn with_tails(
    latency: Option<Latency>,
    bins: &[Bin],
    pauses: &[LongPause],
    slowest_ns: impl Fn(&Slowest) -> f32,
) -> Option<Latency> {
    let latency = latency?;
    let (mut of_tenths, mut of_seconds) = (Distribution::new(), Distribution::new());
    let mut seconds: BTreeMap<u64, u64> = BTreeMap::new();
    let moments: Vec<(&Bin, u64)> =
        bins.iter().map(|bin| (bin, slowest_ns(&bin.slowest) as u64)).filter(|(_, value_ns)| *value_ns > 0).collect();
    for (bin, value_ns) in &moments {
        of_tenths.record(*value_ns);
        let second = seconds.entry(bin.number() / BINS_PER_SECOND).or_default();
        *second = (*second).max(*value_ns);
    }
    seconds.values().for_each(|value_ns| of_seconds.record(*value_ns));
    let tail = |(quantile, value_ns): (f64, u64)| {
        let least_ns = of_tenths.histogram().lowest_equivalent(value_ns);
        let beyond = || moments.iter().filter(|(_, value_ns)| *value_ns >= least_ns);
        // A message that took so long was on its way, or due, while the client stood still.
        let is_paused = |(bin, value_ns): &&(&Bin, u64)| {
            2 * paused_ns(pauses, bin.first_ns.saturating_sub(*value_ns), bin.last_ns) >= *value_ns
        };
        Tail {
            percentile: quantile * 100.0,
            tenths: beyond().count() as u64,
            seconds: seconds.values().filter(|value_ns| **value_ns >= least_ns).count() as u64,
            client_paused_tenths: Some(beyond().filter(is_paused).count() as u64),
        }
    };
    let tails = latency.high_percentiles().map(tail).collect();
    let slowest = SlowestMessages::new(of_tenths.histogram(), of_seconds.histogram());
    Some(Latency { tails, slowest: Some(slowest), ..latency })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Timeline;

    const MILLISECOND: u64 = 1_000_000;

    /// 30 s at 10,000/s, answered in 1 ms, except for what was due in the stalls, each with its begin and length in milliseconds. Each
    /// millisecond is one moment of `connections`.
    fn response(stalls: &[(u64, u64)], connections: u64, pauses: &[LongPause]) -> Latency {
        let (mut timeline, mut response, mut moments) = (Timeline::default(), Distribution::new(), 0);
        for due_ms in 0..30_000 {
            let stall = stalls.iter().find(|(begin_ms, for_ms)| (*begin_ms..begin_ms + for_ms).contains(&due_ms));
            let answered_ms = stall.map_or(due_ms + 1, |(begin_ms, for_ms)| begin_ms + for_ms);
            let response_ns = (answered_ms - due_ms) * MILLISECOND;
            let slowest = Slowest { response_ns: response_ns as f32, ..Slowest::default() };
            timeline.add(answered_ms * MILLISECOND, 10, slowest);
            response.record_n(response_ns, 10);
            moments += connections;
        }
        let latency = independent(&response, moments);
        with_tails(latency, timeline.bins(), pauses, |slowest| slowest.response_ns).unwrap()
    }

    #[test]
    fn a_stall_is_one_event_however_many_connections_saw_it() {
        for connections in [1, 100] {
            let latency = response(&[(15_000, 90)], connections, &[]);
            assert!(latency.p99_9_ns.unwrap() > 50 * MILLISECOND, "{latency:?}");
            let tail = latency.tail(0.999).unwrap();
            assert_eq!(tail.tenths, 1);
            assert_eq!(tail.seconds, 1);
            assert_eq!(tail.client_paused_tenths, Some(0));
            assert!(latency.is_of_few_events(0.999) && !latency.is_of_few_events(0.99), "{:?}", latency.tails);
        }
    }

    #[test]
    fn many_stalls_are_a_tail_of_their_own() {
        let stalls: Vec<(u64, u64)> = (0..30).map(|second| (second * 1_000 + 450, 10)).collect();
        let latency = response(&stalls, 1, &[]);
        assert!(latency.p99_9_ns.unwrap() > 5 * MILLISECOND);
        assert!(!latency.is_of_few_events(0.999), "{:?}", latency.tails);
    }

    #[test]
    fn a_tail_that_lies_in_a_pause_of_the_client_is_its_own() {
        let pause =
            |begin_ms: u64, end_ms: u64| LongPause { begin_ns: begin_ms * MILLISECOND, end_ns: end_ms * MILLISECOND };
        let is_the_clients = |pause| response(&[(15_000, 90)], 1, &[pause]).tail(0.999).unwrap().is_the_clients();
        assert!(is_the_clients(pause(15_001, 15_090)));
        assert!(!is_the_clients(pause(15_070, 15_090)), "a pause of 20 ms does not make a stall of 90 ms");
        assert!(!is_the_clients(pause(14_000, 14_500)), "it was over");
    }
}
