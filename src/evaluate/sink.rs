//! The record of each sink of a pipeline.

use std::collections::BTreeMap;

use super::figures::{errors_by_class, independent, per_second};
use crate::engine::Outcome;
use crate::pipeline::sink::ReadBack;
use crate::pipeline::{self, Counted, Figures, SinkFigures};
use crate::record::{self, RowCount, SinkRecord};

pub(super) fn sinks(names: &[String], measured: &pipeline::Outcome, outcome: &Outcome) -> Vec<SinkRecord> {
    let asked = measured.row_counts.iter().zip(&measured.read_back).zip(&measured.durability);
    let sinks = names.iter().zip(&measured.figures.sinks).zip(asked);
    sinks
        .map(|((name, sink), ((row_counts, read_back), durability))| SinkRecord {
            durability: durability.clone(),
            row_count: row_count(row_counts),
            read_back: read_back.as_ref().ok().copied().flatten().map(sample),
            ..self::sink(name, sink, &measured.figures, outcome)
        })
        .collect()
}

fn sample(ReadBack { keys, found }: ReadBack) -> record::ReadBack {
    record::ReadBack { keys, found }
}

/// Without what the database itself tells.
fn sink(name: &str, sink: &SinkFigures, figures: &Figures, outcome: &Outcome) -> SinkRecord {
    let refused = sink.refused();
    let rows = figures.consumed.saturating_sub(figures.unparsable_messages() + figures.abandoned);
    let not_written = (rows + sink.repeated).saturating_sub(sink.written + sink.duplicates + refused);
    // What is not written was tried until the end.
    let ended_ns = if not_written > 0 { sink.last_tried_ns } else { sink.last_written_ns };
    let working_ns = ended_ns.saturating_sub(figures.first_received_ns);
    SinkRecord {
        name: name.to_owned(),
        written: sink.written,
        written_per_second: per_second(sink.written, working_ns),
        duplicates: sink.duplicates,
        refused,
        refused_by_class: errors_by_class(&sink.refused, outcome.times.measure_start_ns),
        repeated: sink.repeated,
        not_written,
        errors: errors_by_class(&sink.errors, outcome.times.measure_start_ns),
        retries: sink.retries,
        // The rows of a batch are acknowledged together.
        latency: independent(&sink.latency, sink.time.per_batch.histogram().len()),
        row_count: RowCount::default(),
        durability: BTreeMap::new(),
        read_back: None,
    }
}

fn row_count((before, after): &(Counted, Counted)) -> RowCount {
    let error = match (before, after) {
        (Err(error), _) => Some(format!("before: {error}")),
        (_, Err(error)) => Some(format!("after: {error}")),
        (Ok(Some(before)), Ok(Some(after))) if before.life != after.life => {
            Some("the database was restarted meanwhile".to_owned())
        }
        _ => None,
    };
    let (before, after) = (before.as_ref().ok().and_then(Option::as_ref), after.as_ref().ok().and_then(Option::as_ref));
    let delta = match (before, after) {
        (Some(before), Some(after)) if before.life == after.life => after.count.checked_sub(before.count),
        _ => None,
    };
    RowCount {
        of: after.or(before).map(|held| held.of.clone()).unwrap_or_default(),
        before: before.map(|held| held.count),
        after: after.map(|held| held.count),
        delta,
        error,
    }
}

/// A row that was there already may be one whose first answer was lost, or another's: the count of the database decides. A row
/// that was read again has two outcomes, and is there once or twice.
pub(super) fn is_complete(sink: &SinkRecord, rows: u64) -> bool {
    sink.written + sink.duplicates == rows + sink.repeated
        && sink.read_back.is_none_or(|sample| sample.found == sample.keys)
        && match sink.row_count.delta {
            Some(delta) => (rows..=rows + sink.repeated).contains(&delta),
            None => sink.duplicates == 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink_record(written: u64, duplicates: u64, delta: Option<u64>) -> SinkRecord {
        let row_count = RowCount { delta, ..RowCount::default() };
        SinkRecord { written, duplicates, row_count, ..SinkRecord::default() }
    }

    #[test]
    fn a_row_that_was_there_already_is_accounted_for_if_the_database_counts_it_once() {
        assert!(is_complete(&sink_record(10, 0, None), 10));
        assert!(is_complete(&sink_record(7, 3, Some(10)), 10), "an answer was lost");
        assert!(!is_complete(&sink_record(7, 3, None), 10), "they may be rows of another program");
        assert!(!is_complete(&sink_record(7, 3, Some(7)), 10), "they are another's");
        assert!(!is_complete(&sink_record(9, 0, None), 10));
        assert!(!is_complete(&sink_record(10, 0, Some(11)), 10));
    }

    #[test]
    fn a_row_that_was_written_after_its_partition_was_revoked_is_a_duplicate_and_no_mismatch() {
        let repeated = |sink: SinkRecord| SinkRecord { repeated: 2, ..sink };
        assert!(is_complete(&repeated(sink_record(10, 2, Some(10))), 10), "the database has ids of its own");
        assert!(is_complete(&repeated(sink_record(12, 0, None)), 10), "the same value was written again");
        assert!(is_complete(&repeated(sink_record(12, 0, Some(12))), 10), "the same entry was appended again");
        assert!(!is_complete(&repeated(sink_record(10, 0, None)), 10), "two are missing");
        assert!(!is_complete(&repeated(sink_record(12, 0, Some(13))), 10));
    }

    #[test]
    fn a_key_that_lost_its_value_is_a_mismatch() {
        let with =
            |found| SinkRecord { read_back: Some(record::ReadBack { keys: 3, found }), ..sink_record(10, 0, None) };
        assert!(is_complete(&with(3), 10) && !is_complete(&with(2), 10));
    }
}
