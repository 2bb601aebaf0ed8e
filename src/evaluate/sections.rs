//! Sections of a record, and what they have in common: rates, latencies and errors by class; the rows of the series, the backlog with what single
//! groups were told to do, and the set time and the share.

use jiff::Timestamp;

use crate::engine::{self, BacklogOutcome, GroupSecond, Outcome, PartOutcome, Second, Segment};
use crate::measure::{Distribution, ErrorTally, Errors};
use crate::record::{
    Backlog, BacklogPhase, ErrorCount, GroupDrain, GroupRow, GroupTask, Latency, Phase, SeriesRow, Share, Start,
    WorkDistribution,
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

/// A row that lasted less than this share of what was intended is cut off by the end of a phase.
const FULL_SHARE: f64 = 0.95;

/// One second of a trial.
pub fn series_row(trial: &Trial, second: &Second) -> SeriesRow {
    SeriesRow {
        point_index: trial.point_index,
        trial: trial.trial,
        second: second.begin_ns / 1_000_000_000,
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

fn phase(stretch: &Segment) -> BacklogPhase {
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
        consumers: found.part.consumers.len(),
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
