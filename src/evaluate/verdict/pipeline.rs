//! Findings from a pipeline: whether every database has every row once, and whether the pipeline kept up.

use super::{Evidence, Finding, against, note};
use crate::record::ReasonKind::*;
use crate::record::readable::{count, percent};
use crate::record::{Pipeline, ReadBack};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(pipeline) = evidence.pipeline else { return Vec::new() };
    [not_written(pipeline), written_twice(pipeline), sink_errors(pipeline), unparsable(pipeline), fell_behind(pipeline)]
        .into_iter()
        .flatten()
        .collect()
}

/// Rows that a database lacks, or has too often.
fn not_written(pipeline: &Pipeline) -> Option<Finding> {
    let missing = pipeline.sinks.iter().filter(|sink| sink.not_written + sink.refused > 0);
    let mut found: Vec<String> = missing
        .map(|sink| {
            let (missing, refused) = (count(sink.not_written), count(sink.refused));
            format!("{} has not written {missing} rows and refused {refused}", sink.name)
        })
        .collect();
    let produced = pipeline.reconciliation.produced.unwrap_or(pipeline.consumed);
    if found.is_empty() && pipeline.reconciliation.balanced == Some(false) {
        found.push(format!("{} messages were produced and {} consumed", count(produced), count(pipeline.consumed)));
        found.extend(pipeline.sinks.iter().map(|sink| match (sink.row_count.delta, sink.read_back) {
            (Some(delta), _) => format!("{} wrote {} rows and counts {}", sink.name, count(sink.written), count(delta)),
            (None, Some(ReadBack { keys, found })) if found < keys => format!(
                "{} wrote {} rows, and {} of {} keys that were read back did not hold the last value that was written",
                sink.name,
                count(sink.written),
                count(keys - found),
                count(keys)
            ),
            _ => format!("{} wrote {}", sink.name, count(sink.written)),
        }));
    }
    if found.is_empty() {
        return None;
    }
    let sum = |figure: fn(&crate::record::SinkRecord) -> u64| pipeline.sinks.iter().map(figure).sum::<u64>() as f64;
    Some(against(
        NotReconciled,
        format!("Not every row is in every database exactly once: {}.", found.join("; ")),
        "See `pipeline.sinks` for the causes, by class. Rows that were not written were not committed, so the same group reads them again (except with `commit = \"on-receipt\"`). Refused rows will never be written.",
        &[("not_written", sum(|sink| sink.not_written)), ("refused", sum(|sink| sink.refused))],
    ))
}

fn written_twice(pipeline: &Pipeline) -> Option<Finding> {
    let duplicates: u64 = pipeline.sinks.iter().map(|sink| sink.duplicates).sum();
    let repeated: u64 = pipeline.sinks.iter().map(|sink| sink.repeated).sum();
    let all = duplicates.max(repeated);
    (all > 0).then(|| {
        note(
            WrittenTwice,
            format!("{} rows were written twice, or were there already when they were written.", count(all)),
            "After a crash, and when partitions were revoked before a write ended, messages that were written and not yet committed are read again. A batch whose answer was lost is written again. The pipeline delivers at least once, not exactly once.",
            &[("duplicates", duplicates as f64), ("repeated", repeated as f64)],
        )
    })
}

fn sink_errors(pipeline: &Pipeline) -> Option<Finding> {
    let errors = || pipeline.sinks.iter().flat_map(|sink| sink.errors.iter().map(move |error| (&sink.name, error)));
    let (name, most) = errors().max_by_key(|(_, error)| error.count)?;
    let all: u64 = errors().map(|(_, error)| error.count).sum();
    Some(note(
        SinkErrors,
        format!(
            "Writing failed {} times (mostly in {name}, of class {}: {}) and was tried again each time.",
            count(all),
            most.class,
            most.first_message.trim_end_matches('.')
        ),
        "While a database is unavailable the pipeline takes nothing from the broker, so consumer lag and latencies grow.",
        &[("errors", all as f64)],
    ))
}

fn unparsable(pipeline: &Pipeline) -> Option<Finding> {
    let unparsable = pipeline.reconciliation.unparsable;
    let first = pipeline.unparsable.first()?;
    Some(note(
        Unparsable,
        format!("{} messages could not be read (the first: {}, {}).", count(unparsable), first.class, first.first),
        "They were not written and count as done, so that they do not block the messages behind them.",
        &[("unparsable", unparsable as f64)],
    ))
}

fn fell_behind(pipeline: &Pipeline) -> Option<Finding> {
    let kept_up = pipeline.consumer_kept_up.filter(|kept_up| !kept_up.held)?;
    Some(note(
        FellBehind,
        format!(
            "When the load ended, {} of {} acknowledged messages were done ({}). {}",
            count(kept_up.finished),
            count(kept_up.acknowledged),
            percent(kept_up.share),
            pipeline.bottleneck.evidence
        ),
        "Consumer lag grew for as long as the load lasted, so latencies depend on its length more than on the pipeline. Lower the rate, or give the bottleneck more resources.",
        &[
            ("finished", kept_up.finished as f64),
            ("acknowledged", kept_up.acknowledged as f64),
            ("share", kept_up.share),
        ],
    ))
}
