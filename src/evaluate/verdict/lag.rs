//! Findings on groups of consumers that were behind, whether anything is verified or not: end-to-end latency of a lag that grows tells how
//! long the trial lasted, and messages that never came are in no latency.

use std::ops::Range;

use super::steadiness::same_rate;
use super::trend::Trend;
use super::{Evidence, Finding, against, limits, note};
use crate::limits::MAX_GROUPS_APART;
use crate::record::ReasonKind::*;
use crate::record::readable::{count, duration};
use crate::record::{GroupRow, Phase, SeriesRow, Status};

/// Groups that are described; of others only how many there are.
const NAMED: usize = 3;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    [grew(evidence), never_arrived(evidence)].into_iter().flatten().collect()
}

/// A group that fell further behind.
struct Growth {
    group: u32,
    /// How much longer a message waited for the group at the end of the stretch than at its begin, in nanoseconds.
    longer_ns: f64,
    /// Lag after the first second and after the last one, where that is known.
    lag: Option<(i64, i64)>,
}

/// By their numbers, those that fell further and further behind.
pub fn groups_that_fell_behind(evidence: &Evidence<'_>) -> Vec<u32> {
    growths(evidence).into_iter().map(|growth| growth.group).collect()
}

/// The largest first.
fn growths(evidence: &Evidence<'_>) -> Vec<Growth> {
    let rows = rows(evidence);
    let mut groups: Vec<u32> = rows.iter().flat_map(|row| row.groups.iter().map(|of| of.group)).collect();
    groups.sort_unstable();
    groups.dedup();
    // Of many groups, one that is not listed at the end is only known to be no further behind than those that are.
    let is_listed = |row: &SeriesRow, group| row.groups.len() < MAX_GROUPS_APART || group_row(row, group).is_some();
    groups.retain(|group| rows.last().copied().is_some_and(|last| is_listed(last, *group)));
    let mut grown: Vec<Growth> = groups.into_iter().filter_map(|group| growth(evidence, &rows, group)).collect();
    grown.sort_by(|one, other| other.longer_ns.total_cmp(&one.longer_ns));
    grown
}

fn grew(evidence: &Evidence<'_>) -> Option<Finding> {
    let grown = growths(evidence);
    let longest_ns = grown.first()?.longer_ns;
    let describe = |growth: &Growth| {
        let lag = growth.lag.map(|(first, last)| {
            let [first, last] = [first, last].map(|lag| count(lag.max(0) as u64));
            format!(" (lag: {first} messages after the first second, {last} after the last one)")
        });
        let longer = duration(growth.longer_ns);
        let name = evidence.record.group_name(growth.group as usize);
        format!("in group {name}, messages waited {longer} longer at the end{}", lag.unwrap_or_default())
    };
    let mut described: Vec<String> = grown.iter().take(NAMED).map(describe).collect();
    if grown.len() > NAMED {
        described.push(format!("and so on in {} more groups", grown.len() - NAMED));
    }
    Some(note(
        LagGrew,
        format!("Consumers fell further and further behind: {}.", described.join("; ")),
        "End-to-end latency grew for as long as the load lasted, so it tells the length of the trial: p99 and higher percentiles are left out, and no threshold on it holds. Add members (each needs a partition, where topics have them), or lower the load.",
        &[("groups", grown.len() as f64), ("grew_ns", longest_ns)],
    ))
}

/// The measured ones, without remainders between two phases: a lag is that of a moment, so rows may be cut off.
fn rows<'a>(evidence: &Evidence<'a>) -> Vec<&'a SeriesRow> {
    let measured = || evidence.series.iter().filter(|row| row.phase == Phase::Measure);
    let longest = measured().map(SeriesRow::seconds).fold(0.0, f64::max);
    measured().filter(|row| row.seconds() > longest / 4.0).collect()
}

/// From when the group began on: what came before waited for it as the scenario wanted.
fn growth(evidence: &Evidence<'_>, rows: &[&SeriesRow], group: u32) -> Option<Growth> {
    let rows: Vec<&SeriesRow> =
        rows.iter().copied().skip_while(|row| group_row(row, group).is_none_or(|of| of.consumed == 0)).collect();
    // A share does not know what others sent, but it sees how long its consumers' messages took.
    let lags: Option<Vec<i64>> = rows.iter().map(|row| lag(row, group)).collect();
    let lags = lags.filter(|_| evidence.record.share.is_none());
    let medians: Vec<Option<f64>> =
        rows.iter().map(|row| group_row(row, group)?.end_to_end_p50_ns.map(|ns| ns as f64)).collect();
    let waits = lags.as_ref().map_or(medians.clone(), |lags| waits_of(evidence, &rows, lags));
    let longer_ns = stretches(&rows).into_iter().filter_map(|stretch| {
        let trend = |values: &[Option<f64>]| {
            let known: Vec<f64> = values[stretch.clone()].iter().flatten().copied().collect();
            Trend::new(&[known]).filter(|_| stretch.len() >= limits::MIN_BINS_FOR_LAG)
        };
        // A lag is one look a second, so by chance alone it rises in a few of a thousand groups: the messages that came must say so as well.
        let is_confirmed = trend(&medians).is_none_or(|medians| medians.score >= limits::MIN_SCORE_OF_A_SECOND_TREND);
        let has_grown = |trend: &Trend| {
            trend.score >= limits::MIN_TREND_SCORE
                && trend.relative_change > limits::MAX_TAIL_DRIFT
                && trend.change > limits::MIN_LAG_GROWTH_NS
        };
        trend(&waits).filter(|trend| is_confirmed && has_grown(trend)).map(|trend| trend.change)
    });
    let longer_ns = longer_ns.reduce(f64::max)?;
    Some(Growth { group, longer_ns, lag: lags.and_then(|lags| Some((*lags.first()?, *lags.last()?))) })
}

fn group_row(row: &SeriesRow, group: u32) -> Option<&GroupRow> {
    row.groups.iter().find(|of| of.group == group)
}

/// A group that is not among the worst is at most as far behind as these.
fn lag(row: &SeriesRow, group: u32) -> Option<i64> {
    let least_listed = || row.groups.iter().filter_map(|of| of.consumer_lag).min();
    group_row(row, group).map_or_else(least_listed, |of| of.consumer_lag)
}

/// How long messages wait that are so many behind, in nanoseconds, by Little's law: at the rate of the row, or, where bursts make it change
/// within rows, at that of all.
fn waits_of(evidence: &Evidence<'_>, rows: &[&SeriesRow], lags: &[i64]) -> Vec<Option<f64>> {
    let seconds: f64 = rows.iter().map(|row| row.seconds()).sum();
    let all = rows.iter().map(|row| row.acknowledged as f64).sum::<f64>() / seconds;
    let rate = |row: &SeriesRow| match row.acknowledged_per_second() {
        own if own > 0.0 && evidence.shape.period_ns.is_none() => own,
        _ => all,
    };
    let wait =
        |(row, lag): (&&SeriesRow, &i64)| Some((*lag).max(0) as f64 * 1e9 / rate(row)).filter(|ns| ns.is_finite());
    rows.iter().zip(lags).map(wait).collect()
}

/// Stretches at one rate, in which consumers may fall behind that keep up in others; all rows together where none is long enough.
fn stretches(rows: &[&SeriesRow]) -> Vec<Range<usize>> {
    let mut begin = 0;
    let mut found = Vec::new();
    for chunk in rows.chunk_by(|one, other| same_rate(one, other)) {
        found.push(begin..begin + chunk.len());
        begin += chunk.len();
    }
    found.retain(|stretch| stretch.len() >= limits::MIN_BINS_FOR_LAG);
    if found.is_empty() {
        found.push(0..rows.len());
    }
    found
}

/// Messages that a group lacked when the wait for it ended. What is verified has an account of its own.
fn never_arrived(evidence: &Evidence<'_>) -> Option<Finding> {
    let has_ended = matches!(evidence.record.status, Status::Completed | Status::Interrupted | Status::Stalled);
    let is_judged_elsewhere = evidence.verification().is_some() || evidence.record.pipeline.is_some();
    if !has_ended || is_judged_elsewhere || evidence.record.share.is_some() {
        return None;
    }
    let lacking = || {
        let last = evidence.series.last().into_iter().flat_map(|row| &row.groups);
        last.filter_map(|of| Some((of.group, of.consumer_lag.filter(|lag| *lag > 0)? as u64)))
    };
    let groups = lacking().count();
    let acknowledged =
        count(evidence.record.counts.acknowledged.saturating_add(evidence.record.counts.warm_up.acknowledged));
    let mut described: Vec<String> = lacking()
        .take(NAMED)
        .map(|(group, lag)| {
            let name = evidence.record.group_name(group as usize);
            format!("group {name} lacks {} of {acknowledged} acknowledged messages", count(lag))
        })
        .collect();
    if groups > NAMED {
        described.push(format!("and so on in {} more groups", groups - NAMED));
    }
    (groups > 0).then(|| {
        against(
            Unread,
            format!("When the wait for consumers ended, {}.", described.join("; ")),
            "Nothing was verified, so it is not known whether they were lost or only not read: set `consumers.verify = true`. If the consumers were too slow, add members (each needs a partition, where topics have them), lower the load, or raise `run.drain_deadline` (without progress) or `run.catch_up_deadline` (with progress).",
            &[("unread", lacking().map(|(_, lag)| lag as f64).sum())],
        )
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/lag.rs"]
mod tests;
