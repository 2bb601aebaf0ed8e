//! A trial without a flaw, for the tests of each finding to spoil.

use super::*;
use crate::record::{Share, sample};

/// The second of three.
pub(super) fn share() -> Share {
    Share {
        number: 2,
        count: 3,
        first_producer: 4,
        producers: 4,
        consumers: 0,
        window_begin_unix_ns: 0,
        first_sent_unix_ns: None,
        first_due_unix_ns: None,
        clock_shift_ns: None,
        clock_error_ns: None,
        boot_id: None,
        before_intended: 0,
        most_before_intended_ns: 0,
    }
}

pub(super) fn judged(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Verdict {
    let (mut record, mut series) = (sample::record(), sample::series());
    record.counts.acknowledged += record.counts.failed;
    record.counts.failed = 0;
    record.broker_usage = None;
    let mut shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
    spoil(&mut record, &mut series, &mut shape);
    judge(&Evidence { record: &record, series: &series, shape })
}

pub(super) fn reasons(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Vec<ReasonKind> {
    judged(spoil).reasons.iter().map(|reason| reason.kind).collect()
}

pub(super) fn notes(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Vec<ReasonKind> {
    judged(spoil).notes.iter().map(|note| note.kind).collect()
}
