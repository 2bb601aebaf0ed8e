//! The sections of a record that tell of a set time and of a share.

use jiff::Timestamp;

use crate::engine::Outcome;
use crate::record::{Share, Start};

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
        clock_error_ns: found.wall_clock.most_error_ns,
        boot_id: found.wall_clock.boot_id.clone(),
        before_intended: outcome.totals.arrivals.arrived.before_intended,
    });
    (start, share)
}

fn timestamp(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::UNIX_EPOCH)
}
