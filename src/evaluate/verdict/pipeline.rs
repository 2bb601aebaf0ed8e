//! Findings from a pipeline: is everything where it belongs, and did it keep up.

use super::Evidence;
use super::finding::{Finding, against, note};
use crate::record::Pipeline;
use crate::record::ReasonKind::*;
use crate::record::readable::{count, percent};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(pipeline) = evidence.pipeline else { return Vec::new() };
    [not_written(pipeline), written_twice(pipeline), sink_errors(pipeline), unparsable(pipeline), fell_behind(pipeline)]
        .into_iter()
        .flatten()
        .collect()
}

/// What is missing from a database, or more than there should be of it.
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
        found.extend(pipeline.sinks.iter().map(|sink| match sink.row_count.delta {
            Some(delta) => format!("{} wrote {} and itself counts {}", sink.name, count(sink.written), count(delta)),
            None => format!("{} wrote {}", sink.name, count(sink.written)),
        }));
    }
    if found.is_empty() {
        return None;
    }
    let sum = |figure: fn(&crate::record::SinkRecord) -> u64| pipeline.sinks.iter().map(figure).sum::<u64>() as f64;
    Some(against(
        NotReconciled,
        format!("Not everything is in every database once: {}.", found.join("; ")),
        "See `pipeline.sinks` for why, by class. What was not written was not committed, so the same group will read it again (not with `commit = \"on_receipt\"`); what was refused will never be written.",
        &[("not_written", sum(|sink| sink.not_written)), ("refused", sum(|sink| sink.refused))],
    ))
}

fn written_twice(pipeline: &Pipeline) -> Option<Finding> {
    let duplicates: u64 = pipeline.sinks.iter().map(|sink| sink.duplicates).sum();
    (duplicates > 0).then(|| {
        note(
            WrittenTwice,
            format!("Databases had {} rows already when they were written.", count(duplicates)),
            "Messages that were written and not yet committed are read again after a crash, and a batch is written again whose answer was lost: at least once is not exactly once.",
            &[("duplicates", duplicates as f64)],
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
        "While a database is away nothing is taken from the broker, so the lag grows and latencies with it.",
        &[("errors", all as f64)],
    ))
}

fn unparsable(pipeline: &Pipeline) -> Option<Finding> {
    let unparsable = pipeline.reconciliation.unparsable;
    let first = pipeline.unparsable.first()?;
    Some(note(
        Unparsable,
        format!("{} messages could not be read (the first: {}, {}).", count(unparsable), first.class, first.first),
        "They were written nowhere and count as done, so that they stop nobody.",
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
        "The lag grew for as long as the load lasted, so latencies say more about its length than about the pipeline: lower the rate, or give the pipeline more of what bound it.",
        &[
            ("finished", kept_up.finished as f64),
            ("acknowledged", kept_up.acknowledged as f64),
            ("share", kept_up.share),
        ],
    ))
}
