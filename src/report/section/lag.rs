//! How far consumers were behind in each second, and how long messages took to them.

use super::timeline::{Timeline, figure};
use crate::record::readable::{count, duration};
use crate::record::{GroupRow, SeriesRow};
use crate::report::figure::Figure;
use crate::report::svg::lines::Line;
use crate::report::svg::unit::Unit;

/// Groups that have a line each; of more, only the worst is drawn.
const MAX_LINES: u32 = 4;

/// Messages that groups lack at the end of each second; `None`: that is not known.
pub(super) fn behind(timeline: &Timeline<'_>) -> Option<Figure> {
    let lag = |of: &GroupRow| of.consumer_lag.map(|lag| lag.max(0) as f64);
    // What a share lacks of its own messages is no lag.
    let is_known = timeline.record.share.is_none() && any(timeline, lag);
    let lines = is_known.then(|| lines(timeline, lag))?;
    let worst: Vec<f64> = timeline.measured_rows().filter_map(|(_, row)| worst(row, lag)).collect();
    let (first, last) = (worst.first().copied().unwrap_or(0.0), worst.last().copied().unwrap_or(0.0));
    let sentence = format!(
        "The group that was the furthest behind lacked {} messages after the first measured second and {} after the last one, at most {}.",
        count(first as u64),
        count(last as u64),
        count(worst.into_iter().fold(0.0, f64::max) as u64)
    );
    Some(figure("consumer-lag", "Consumer lag", sentence, timeline, "messages not received yet", Unit::Count, lines))
}

/// 99th percentile of the end-to-end latency of each second; `None`: it was not recorded.
pub(super) fn end_to_end(timeline: &Timeline<'_>) -> Option<Figure> {
    let p99 = |of: &GroupRow| of.end_to_end_p99_ns.map(|ns| ns as f64);
    let lines = any(timeline, p99).then(|| lines(timeline, p99))?;
    let worst: Vec<f64> = timeline.measured_rows().filter_map(|(_, row)| worst(row, p99)).collect();
    let has_grown = timeline.record.latency.end_to_end.as_ref().is_some_and(|latency| latency.lag_grew);
    let verdict =
        if has_grown { " It grew for as long as the load lasted, so there is no percentile of the trial." } else { "" };
    let sentence = format!(
        "The p99 of the slowest group was {} in the first measured second and {} in the last one, at most {}.{verdict}",
        duration(worst.first().copied().unwrap_or(0.0)),
        duration(worst.last().copied().unwrap_or(0.0)),
        duration(worst.iter().copied().fold(0.0, f64::max))
    );
    let title = "End-to-end latency (p99) of each second";
    Some(figure("end-to-end-over-time", title, sentence, timeline, "end-to-end latency", Unit::Nanoseconds, lines))
}

fn any(timeline: &Timeline<'_>, of: impl Fn(&GroupRow) -> Option<f64>) -> bool {
    timeline.rows.iter().any(|(_, row)| worst(row, &of).is_some())
}

fn worst(row: &SeriesRow, figure: impl Fn(&GroupRow) -> Option<f64>) -> Option<f64> {
    row.groups.iter().filter_map(figure).reduce(f64::max)
}

fn lines(timeline: &Timeline<'_>, of: impl Fn(&GroupRow) -> Option<f64>) -> Vec<Line> {
    let last = timeline.rows.iter().flat_map(|(_, row)| &row.groups).map(|of| of.group).max().unwrap_or(0);
    if last >= MAX_LINES {
        return vec![timeline.line("the worst group", 2, |row| worst(row, &of))];
    }
    let line = |group: u32| {
        let of_group = |row: &SeriesRow| row.groups.iter().find(|row| row.group == group).and_then(&of);
        timeline.line(&format!("group {group}"), group as usize + 1, of_group)
    };
    (0..=last).map(line).collect()
}
