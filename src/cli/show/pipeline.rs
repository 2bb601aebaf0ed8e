//! The section on a pipeline.

use super::errors::errors;
use super::latency::stated;
use super::page::Page;
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{Latency, Pipeline, PublishedFigures, Record, SinkRecord};

/// Prints nothing without a pipeline.
pub(super) fn pipeline(page: &mut Page, record: &Record) {
    let Some(pipeline) = &record.pipeline else { return };
    page.blank();
    let mut parts = vec![format!(
        "{} messages, {}/s, by {} instance(s) in {} batches",
        count(pipeline.consumed),
        rate(pipeline.consumed_per_second),
        pipeline.instances,
        count(pipeline.batches)
    )];
    parts.extend(pipeline.cpu_ns_per_message.map(|cpu| format!("{} CPU a message", duration(cpu))));
    page.labelled("pipeline", &parts.join(", "));
    page.labelled("received", &took(pipeline.receipt.as_ref()));
    for sink in &pipeline.sinks {
        self::sink(page, sink);
    }
    stages(page, pipeline);
    progress(page, pipeline);
    errors(page, "committing", &pipeline.commit_errors);
    account(page, pipeline);
    as_published(page, &pipeline.as_published);
}

fn stages(page: &mut Page, pipeline: &Pipeline) {
    let stages = pipeline.stages.iter().filter(|stage| stage.total_ns > 0);
    let stages: Vec<String> = stages.map(|stage| format!("{} {}", stage.stage, percent(stage.share))).collect();
    page.labelled("time", &stages.join(", "));
    let bottleneck = pipeline.bottleneck.stage.as_deref().unwrap_or("unknown");
    page.labelled("bottleneck", &format!("{bottleneck}: {}", pipeline.bottleneck.evidence));
}

/// Consumer lag, and messages that were not parsed.
fn progress(page: &mut Page, pipeline: &Pipeline) {
    if let Some(kept_up) = &pipeline.consumer_kept_up {
        let word = if kept_up.held { "yes" } else { "no" };
        let share = percent(kept_up.share);
        page.labelled(
            "kept up",
            &format!("{word}: {share} of the acknowledged messages were done when the load ended"),
        );
    }
    if let Some(consumer_lag) = pipeline.consumer_lag_at_end {
        page.labelled("lag", &format!("{} messages at the end", count(consumer_lag)));
    }
    for unparsable in &pipeline.unparsable {
        let text = format!("{} × {}, first {}", count(unparsable.count), unparsable.class, unparsable.first);
        page.labelled("unparsable", &text);
    }
}

/// Produced = consumed = written.
fn account(page: &mut Page, pipeline: &Pipeline) {
    let sum = &pipeline.reconciliation;
    let produced = sum.produced.map(|produced| format!("{} produced", count(produced)));
    let consumed = format!("{} consumed", count(sum.consumed));
    let written = pipeline.sinks.iter().map(|sink| format!("{} in {}", count(sink.written), sink.name));
    let parts: Vec<String> = produced.into_iter().chain([consumed]).chain(written).collect();
    let balanced = match sum.balanced {
        Some(true) => ": balanced",
        Some(false) => ": not balanced",
        None => "",
    };
    page.labelled("account", &format!("{}{balanced}", parts.join(", ")));
}

fn as_published(page: &mut Page, published: &PublishedFigures) {
    if let (Some(mean), Some(p99)) = (published.mean_ns, published.mean_of_p99s_ns) {
        page.labelled(
            "as published",
            &format!(
                "(computed as the published benchmark does) {}/s since the trial began; the last 1,000 messages of each instance were received {} after they were due on average, mean of p99s {}",
                rate(published.messages_per_second),
                duration(mean),
                duration(p99)
            ),
        );
    }
}

fn took(latency: Option<&Latency>) -> String {
    match latency {
        Some(latency) => format!(
            "p50 {}, p99 {}, max {} after it was due",
            stated(latency, 0.5, latency.p50_ns),
            stated(latency, 0.99, latency.p99_ns),
            duration(latency.max_ns as f64)
        ),
        None => "unknown, because no message has an intended time".to_owned(),
    }
}

fn sink(page: &mut Page, sink: &SinkRecord) {
    let more = [
        ("duplicates", sink.duplicates),
        ("refused", sink.refused),
        ("written again after a revocation", sink.repeated),
        ("not written", sink.not_written),
        ("retries", sink.retries),
    ];
    let more: String = more
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(name, number)| format!(", {} {name}", count(*number)))
        .collect();
    let mut held = match (sink.row_count.delta, &sink.row_count.error) {
        (Some(delta), _) => format!("; the database counts {} more ({})", count(delta), sink.row_count.of),
        (None, Some(error)) => format!("; the count of the database is unknown: {error}"),
        (None, None) => String::new(),
    };
    if let Some(sample) = &sink.read_back {
        let (found, keys) = (count(sample.found), count(sample.keys));
        held.push_str(&format!("; {found} of {keys} keys read back hold what was written to them last"));
    }
    let text = format!(
        "{} rows, {}/s{more}; {}{held}",
        count(sink.written),
        rate(sink.written_per_second),
        took(sink.latency.as_ref())
    );
    page.labelled(&sink.name, &text);
    errors(page, "", &sink.errors);
    errors(page, "refused", &sink.refused_by_class);
}
