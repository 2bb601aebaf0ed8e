//! The section on a pipeline.

use super::errors::errors;
use super::latency::stated;
use super::page::Page;
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{Latency, Record, SinkRecord};

/// Nothing where there was no pipeline.
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
    let stages = pipeline.stages.iter().filter(|stage| stage.total_ns > 0);
    let stages: Vec<String> = stages.map(|stage| format!("{} {}", stage.stage, percent(stage.share))).collect();
    page.labelled("time", &stages.join(", "));
    page.labelled(
        "bottleneck",
        &format!("{}: {}", pipeline.bottleneck.stage.as_deref().unwrap_or("unknown"), pipeline.bottleneck.evidence),
    );
    if let Some(kept_up) = &pipeline.consumer_kept_up {
        let word = if kept_up.held { "yes" } else { "no" };
        let text =
            format!("{word}: {} of the acknowledged messages were done when the load ended", percent(kept_up.share));
        page.labelled("kept up", &text);
    }
    if let Some(consumer_lag) = pipeline.consumer_lag_at_end {
        page.labelled("lag", &format!("{} messages at the end", count(consumer_lag)));
    }
    for unparsable in &pipeline.unparsable {
        page.labelled(
            "unparsable",
            &format!("{} × {}, first {}", count(unparsable.count), unparsable.class, unparsable.first),
        );
    }
    errors(page, "committing", &pipeline.commit_errors);
    let sum = &pipeline.reconciliation;
    let produced = sum.produced.map(|produced| format!("{} produced, ", count(produced))).unwrap_or_default();
    let written: Vec<String> =
        pipeline.sinks.iter().map(|sink| format!("{} in {}", count(sink.written), sink.name)).collect();
    let balanced = match sum.balanced {
        Some(true) => ": balanced",
        Some(false) => ": not balanced",
        None => "",
    };
    page.labelled(
        "account",
        &format!(
            "{produced}{} consumed{}{}{balanced}",
            count(sum.consumed),
            if written.is_empty() { "" } else { ", " },
            written.join(", ")
        ),
    );
    let published = &pipeline.as_published;
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
        ("not written", sink.not_written),
        ("retries", sink.retries),
    ];
    let more: String = more
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(name, number)| format!(", {} {name}", count(*number)))
        .collect();
    let held = match (sink.row_count.delta, &sink.row_count.error) {
        (Some(delta), _) => format!("; the database counts {} more ({})", count(delta), sink.row_count.of),
        (None, Some(error)) => format!("; the count of the database is unknown: {error}"),
        (None, None) => String::new(),
    };
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
