//! A second of a trial as a row of its series.

use crate::engine::{self, GroupSecond, Second};
use crate::record::{GroupRow, Phase, SeriesRow};
use crate::scenario::Trial;

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
