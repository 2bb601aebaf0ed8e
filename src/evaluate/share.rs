//! The sections of a record that tell of a set time and of a share.

use jiff::Timestamp;

use crate::engine::{Outcome, PartOutcome};
use crate::record::{Share, Start};

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
