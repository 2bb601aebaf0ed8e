//! What a pipeline did: messages in, rows out, where time went, and whether all of it adds up.

use super::account::errors;
use super::{Fact, above_zero, known, several, stated};
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{Latency, Pipeline, PublishedFigures, SinkRecord};

pub fn facts(pipeline: &Pipeline) -> Vec<Fact> {
    let batches = if pipeline.batches == 1 { "batch" } else { "batches" };
    let worked = format!(
        "{}, {}/s, by {} in {} {batches}",
        several(pipeline.consumed as usize, "message"),
        rate(pipeline.consumed_per_second),
        several(pipeline.instances, "instance"),
        count(pipeline.batches)
    );
    let cpu = pipeline.cpu_ns_per_message.map(|cpu| format!("{} CPU a message", duration(cpu)));
    let worked = std::iter::once(worked).chain(cpu).collect::<Vec<_>>().join(", ");
    let mut facts =
        vec![Fact::new("pipeline", worked), Fact::new("received", took(pipeline.receipt.as_ref(), pipeline.consumed))];
    for sink in &pipeline.sinks {
        facts.push(Fact::list(&sink.name, std::iter::once(self::sink(sink)).chain(errors(&sink.errors)).collect()));
        facts.push(Fact::list("refused", errors(&sink.refused_by_class)));
    }
    let stages = pipeline.stages.iter().filter(|stage| stage.total_ns > 0);
    let stages: Vec<String> = stages.map(|stage| format!("{} {}", stage.stage, percent(stage.share))).collect();
    let bottleneck = pipeline.bottleneck.stage.as_deref().unwrap_or("unknown");
    let kept_up = pipeline.consumer_kept_up.as_ref().map(|kept_up| {
        let word = if kept_up.held { "yes" } else { "no" };
        format!("{word}: {} of the acknowledged messages were done when the load ended", percent(kept_up.share))
    });
    let lag = pipeline.consumer_lag_at_end.map(|lag| format!("{} at the end", several(lag as usize, "message")));
    let unparsable = pipeline.unparsable.iter();
    let unparsable = unparsable.map(|of| format!("{} × {}, first {}", count(of.count), of.class, of.first));
    facts.extend([
        Fact::new("time", stages.join(", ")),
        Fact::new("bottleneck", format!("{bottleneck}: {}", pipeline.bottleneck.evidence)),
        Fact::new("kept up", kept_up.unwrap_or_default()),
        Fact::new("lag", lag.unwrap_or_default()),
        Fact::list("unparsable", unparsable.collect()),
        Fact::list("committing", errors(&pipeline.commit_errors)),
        Fact::new("account", account(pipeline)),
        Fact::new("as published", as_published(&pipeline.as_published)),
    ]);
    known(facts)
}

/// Produced = consumed = written.
fn account(pipeline: &Pipeline) -> String {
    let sum = &pipeline.reconciliation;
    let produced = sum.produced.map(|produced| format!("{} produced", count(produced)));
    let consumed = match (sum.foreign, sum.produced) {
        (1.., Some(_)) => format!("{} consumed ({} of other programs)", count(sum.consumed), count(sum.foreign)),
        _ => format!("{} consumed", count(sum.consumed)),
    };
    let written = pipeline.sinks.iter().map(|sink| format!("{} in {}", count(sink.written), sink.name));
    let parts: Vec<String> = produced.into_iter().chain([consumed]).chain(written).collect();
    let balanced = match sum.balanced {
        Some(true) => ": balanced",
        Some(false) => ": not balanced",
        None => "; others may send or receive as well, so this does not tell whether it is balanced",
    };
    format!("{}{balanced}", parts.join(", "))
}

fn as_published(published: &PublishedFigures) -> String {
    let Some((mean, p99)) = published.mean_ns.zip(published.mean_of_p99s_ns) else { return String::new() };
    format!(
        "(computed as the published benchmark does) {}/s since the trial began; the last 1,000 messages of each instance were received {} after they were due on average, mean of p99s {}",
        rate(published.messages_per_second),
        duration(mean),
        duration(p99)
    )
}

/// The latency of so many messages, in words.
fn took(latency: Option<&Latency>, messages: u64) -> String {
    match latency {
        None if messages == 0 => "none was timed".to_owned(),
        Some(latency) => format!(
            "p50 {}, p99 {}, max {} after it was due",
            stated(latency, 0.5, latency.p50_ns),
            stated(latency, 0.99, latency.p99_ns),
            duration(latency.max_ns as f64)
        ),
        None => "unknown, because no message has an intended time".to_owned(),
    }
}

fn sink(sink: &SinkRecord) -> String {
    let more = above_zero(&[
        (sink.duplicates, "duplicates"),
        (sink.refused, "refused"),
        (sink.repeated, "written again after a revocation"),
        (sink.not_written, "not written"),
        (sink.retries, "retries"),
    ]);
    let more: String = more.iter().map(|text| format!(", {text}")).collect();
    let mut held = match (sink.row_count.delta, &sink.row_count.error) {
        (Some(delta), _) => format!("; the database counts {} more ({})", count(delta), sink.row_count.of),
        (None, Some(error)) => format!("; the count of the database is unknown: {error}"),
        (None, None) => String::new(),
    };
    if let Some(sample) = &sink.read_back {
        let (found, keys) = (count(sample.found), count(sample.keys));
        held += &format!("; {found} of {keys} keys read back hold what was written to them last");
    }
    let latency = took(sink.latency.as_ref(), sink.written);
    let written = several(sink.written as usize, "row");
    format!("{written}, {}/s{more}; {latency}{held}", rate(sink.written_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_instance_and_batch_are_told_in_the_singular() {
        let worked = |consumed, instances, batches| {
            facts(&Pipeline { consumed, instances, batches, ..Pipeline::default() })[0].sentences[0].clone()
        };
        assert_eq!(worked(1, 1, 1), "1 message, 0.00/s, by 1 instance in 1 batch");
        assert_eq!(worked(3_000, 2, 2), "3,000 messages, 0.00/s, by 2 instances in 2 batches");
    }
}
