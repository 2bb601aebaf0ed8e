//! The seconds of all shares as one series, and their interval logs as one log. Rows are aligned by the wall clock, to the second: shares that
//! began together agree in every row.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::KeptShare;
use crate::record::{GroupRow, Phase, SeriesRow, decode_histogram, saturating_sum};

/// Which row of the merged series a row belongs to: the second, the phase, and which of several rows of both.
type RowPlace = (u64, u8, usize);

/// A share's row with the histogram of its headline latency, where that is known.
type Found<'a> = (&'a SeriesRow, Option<Histogram<u64>>);

/// Of each share, the groups in its latest row: they are as far behind as then, once it has no more rows.
type Latest<'a> = BTreeMap<usize, &'a [GroupRow]>;

/// One series of all shares.
pub(super) fn merged_series(shares: &[KeptShare]) -> Vec<SeriesRow> {
    let began = |share: &KeptShare| share.record.start.as_ref().map_or(0, |start| start.began_at.as_nanosecond());
    let first = shares.iter().map(began).min().unwrap_or(0);
    let mut rows: BTreeMap<RowPlace, Vec<(usize, Found<'_>)>> = BTreeMap::new();
    for (index, share) in shares.iter().enumerate() {
        let later = ((began(share) - first) as f64 / 1e9).round() as u64;
        let mut last = None;
        for found in with_histograms(share) {
            let at = (found.0.second.saturating_add(later), order(found.0.phase));
            let number = last.filter(|(of, _)| *of == at).map_or(0, |(_, number): (_, usize)| number + 1);
            last = Some((at, number));
            rows.entry((at.0, at.1, number)).or_default().push((index, found));
        }
    }
    let mut latest = Latest::new();
    let mut merged = Vec::with_capacity(rows.len());
    for ((second, ..), of_shares) in rows {
        let groups = groups(&of_shares, &mut latest);
        let found: Vec<Found<'_>> = of_shares.into_iter().map(|(_, found)| found).collect();
        merged.push(SeriesRow { groups, ..row(second, &found, shares.len()) });
    }
    merged
}

/// The groups that all shares list. What each share's consumers lack of its own messages adds up to what the group lacks.
fn groups<'a>(found: &[(usize, Found<'a>)], latest: &mut Latest<'a>) -> Vec<GroupRow> {
    latest.extend(found.iter().map(|(share, (row, _))| (*share, row.groups.as_slice())));
    let Some(first) = latest.values().next() else { return Vec::new() };
    let merged = |group: u32| {
        let of = |groups: &[GroupRow]| groups.iter().find(|row| row.group == group).copied();
        let here: Vec<GroupRow> = found.iter().filter_map(|(_, (row, _))| of(&row.groups)).collect();
        let behind: Option<Vec<i64>> = latest.values().map(|groups| of(groups)?.consumer_lag).collect();
        let mut timed = here.iter().filter(|row| row.end_to_end_p50_ns.is_some());
        let only = timed.next().filter(|_| timed.next().is_none());
        GroupRow {
            group,
            consumed: saturating_sum(here.iter().map(|row| row.consumed)),
            consumer_lag: behind.map(|behind| behind.iter().sum::<i64>().max(0)),
            end_to_end_p50_ns: only.and_then(|row| row.end_to_end_p50_ns),
            end_to_end_p99_ns: only.and_then(|row| row.end_to_end_p99_ns),
        }
    };
    first.iter().map(|row| merged(row.group)).collect()
}

fn order(phase: Phase) -> u8 {
    match phase {
        Phase::WarmUp => 0,
        Phase::Measure => 1,
        Phase::Drain => 2,
    }
}

/// The log has a histogram for each row in which a message was acknowledged.
fn with_histograms(share: &KeptShare) -> Vec<Found<'_>> {
    let tag = share.record.headline.to_string();
    let logged = histograms(&share.interval_log, &tag).unwrap_or_default();
    let rows_with_values = share.series.iter().filter(|row| row.p50_ns.is_some()).count();
    let mut logged = logged.into_iter().take(if logged_all(rows_with_values, share, &tag) { usize::MAX } else { 0 });
    share.series.iter().map(|row| (row, if row.p50_ns.is_some() { logged.next() } else { None })).collect()
}

/// Whether the log has one histogram for each of these rows.
fn logged_all(rows: usize, share: &KeptShare, tag: &str) -> bool {
    histograms(&share.interval_log, tag).is_some_and(|logged| logged.len() == rows)
}

fn row(second: u64, found: &[Found<'_>], shares: usize) -> SeriesRow {
    let rows = || found.iter().map(|(row, _)| *row);
    let sum = |count: fn(&SeriesRow) -> u64| saturating_sum(rows().map(count));
    let optional = |count: fn(&SeriesRow) -> Option<u64>| rows().filter_map(count).reduce(u64::saturating_add);
    let (p50_ns, p99_ns) = quantiles(found);
    SeriesRow {
        second,
        begin_ns: None,
        length_ns: rows().map(|row| row.length_ns).max().unwrap_or(0),
        due: optional(|row| row.due),
        full: found.len() == shares && rows().all(|row| row.full),
        attempted: sum(|row| row.attempted),
        acknowledged: sum(|row| row.acknowledged),
        failed: sum(|row| row.failed),
        payload_bytes: sum(|row| row.payload_bytes),
        consumed: optional(|row| row.consumed),
        in_flight: sum(|row| row.in_flight),
        p50_ns,
        p99_ns,
        queue_messages: rows().filter_map(|row| row.queue_messages).max(),
        cpu_cores: rows().map(|row| row.cpu_cores).sum(),
        memory_bytes: optional(|row| row.memory_bytes),
        ..found[0].0.clone()
    }
}

/// Of the values of all shares; unknown where the histogram of a share that had values is.
fn quantiles(found: &[Found<'_>]) -> (Option<u64>, Option<u64>) {
    let with_values: Vec<&Found<'_>> = found.iter().filter(|(row, _)| row.p50_ns.is_some()).collect();
    if let [(only, _)] = with_values.as_slice() {
        return (only.p50_ns, only.p99_ns);
    }
    let added = with_values.into_iter().map(|(_, histogram)| histogram.clone()).reduce(|sum, histogram| {
        let (mut sum, histogram) = (sum?, histogram?);
        sum.add(histogram).ok().map(|()| sum)
    });
    let at =
        |quantile| added.as_ref()?.as_ref().map(|histogram: &Histogram<u64>| histogram.value_at_quantile(quantile));
    (at(0.5), at(0.99))
}

/// All lines of several logs in the order of their times, under the head of the one that begins first. What reads such a log adds up
/// the intervals of all shares.
pub(super) fn merged_logs(logs: &[&str]) -> String {
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

#[cfg(test)]
#[path = "../../tests/unit/distributed/series.rs"]
mod tests;
