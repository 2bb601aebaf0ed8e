//! How figures differ from one partition, or one consumer, to the next: printed where one is more than 10 % above another.

use super::page::Page;
use crate::record::readable::{count, duration};
use crate::record::{ConsumerSpread, Extent, Record};

pub(super) fn partitions(page: &mut Page, record: &Record) {
    let Some(found) = record.partitions.as_ref().filter(|found| found.differ()) else { return };
    let messages = format!("{} took {} messages each", count(found.partitions), between(found.acknowledged, count));
    let latency = latencies(found.p50_ns, found.p99_ns);
    let text = if latency.is_empty() { messages } else { format!("{messages}; {} {latency}", record.headline) };
    page.labelled("partitions", &text);
}

pub(super) fn consumers(page: &mut Page, record: &Record) {
    let groups = record.consumers.as_ref().map(|consumers| consumers.groups.as_slice()).unwrap_or_default();
    for (index, group) in groups.iter().filter(|group| group.differs()).enumerate() {
        let name = if groups.len() > 1 { format!("group {}: ", group.group) } else { String::new() };
        page.labelled(if index == 0 { "consumers" } else { "" }, &format!("{name}{}", of_group(group)));
    }
}

fn of_group(group: &ConsumerSpread) -> String {
    let messages = format!("{} received {} messages each", count(group.consumers), between(group.consumed, count));
    let latency = latencies(group.end_to_end_p50_ns, group.end_to_end_p99_ns);
    if latency.is_empty() { messages } else { format!("{messages}; end to end {latency}") }
}

/// Median and 99th percentile, as far as they are known.
fn latencies(p50_ns: Option<Extent>, p99_ns: Option<Extent>) -> String {
    let known = [("p50", p50_ns), ("p99", p99_ns)].into_iter().filter_map(|(name, ns)| Some((name, ns?)));
    let texts = known.map(|(name, ns)| format!("{name} {}", between(ns, |ns| duration(ns as f64))));
    texts.collect::<Vec<_>>().join(", ")
}

fn between(extent: Extent, text: impl Fn(u64) -> String) -> String {
    format!("from {} to {}", text(extent.smallest), text(extent.largest))
}
