//! The interval logs of several shares: as one log, and as the histograms of single seconds.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::record::decode_histogram;

/// All lines of several logs in the order of their times, under the head of the one that begins first. What reads such a log adds up
/// the intervals of all shares.
pub(super) fn merged(logs: &[&str]) -> String {
    let mut lines: Vec<(f64, &str)> = logs.iter().flat_map(|log| log.lines()).filter_map(timed).collect();
    lines.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let begins = |log: &&&str| log.lines().filter_map(timed).map(|(begin, _)| begin).next().unwrap_or(f64::INFINITY);
    let first = logs.iter().min_by(|one, other| begins(one).total_cmp(&begins(other)));
    let head = first.iter().flat_map(|log| log.lines()).filter(|line| timed(line).is_none());
    head.chain(lines.iter().map(|(_, line)| *line)).map(|line| format!("{line}\n")).collect()
}

/// When the interval of a line begins, in seconds since 1970; `None`: it has none.
fn timed(line: &str) -> Option<(f64, &str)> {
    let mut columns = line.split(',');
    let first = columns.next()?;
    let begin = if first.starts_with("Tag=") { columns.next()? } else { first };
    Some((begin.parse().ok()?, line))
}

/// The histograms of one tag in the order of the log, one for each second in which there was a value; `None`: the log cannot be read.
pub(super) fn histograms(log: &str, tag: &str) -> Option<Vec<Histogram<u64>>> {
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(interval) = entry.ok()? else { continue };
        if interval.tag().is_some_and(|of| of.as_str() == tag) {
            found.push(decode_histogram(interval.encoded_histogram()).ok()?);
        }
    }
    Some(found)
}
