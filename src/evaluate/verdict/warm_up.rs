//! Whether the measurement began before the load was steady.

use super::steadiness::{median_of, same_rate};
use super::{Evidence, Finding, limits, note};
use crate::record::ReasonKind::WarmUpTooShort;
use crate::record::readable::{duration, rate};
use crate::record::{LoadModel, SeriesRow};
use crate::statistics::{mean, steady_from};

/// A figure of each second, and by how much its begin may differ from the rest.
struct SteadySeries {
    name: &'static str,
    of: fn(&SeriesRow) -> Option<f64>,
    largest: f64,
    readable: fn(f64) -> String,
}

const SERIES: [SteadySeries; 3] = [
    SteadySeries {
        name: "messages/s",
        of: |row| Some(row.acknowledged as f64 / row.seconds()),
        largest: limits::MAX_BEGIN_DIFFERENCE,
        readable: rate,
    },
    SteadySeries {
        name: "p50",
        of: |row| median_of(row).map(|value| value as f64),
        largest: limits::MAX_BEGIN_DIFFERENCE,
        readable: duration,
    },
    SteadySeries {
        name: "p99",
        of: |row| row.p99_ns.map(|value| value as f64),
        largest: limits::MAX_TAIL_DRIFT,
        readable: duration,
    },
];

/// Says from when on the load was steady, where that was after the begin of the measurement. A load that never became steady,
/// changes its rate or has bursts is not judged here.
pub(super) fn too_short(evidence: &Evidence<'_>) -> Option<Finding> {
    let rows: Vec<&SeriesRow> = evidence.measured_rows().collect();
    let one_rate =
        evidence.record.load_model == LoadModel::Closed || rows.windows(2).all(|pair| same_rate(pair[0], pair[1]));
    if evidence.shape.period_ns.is_some() || !one_rate {
        return None;
    }
    let begins: Vec<Begin> = SERIES.iter().filter_map(|series| begin(series, &rows)).collect();
    let seconds = begins.iter().map(|begin| begin.seconds).reduce(f64::max)?;
    let found: Vec<String> = begins.into_iter().map(|begin| begin.text).collect();
    Some(note(
        WarmUpTooShort,
        format!(
            "The load was steady only {} after the measurement had begun: {}.",
            duration(seconds * 1e9),
            found.join("; ")
        ),
        "Lengthen `run.warm_up` by as much.",
        &[("steady_after_seconds", seconds)],
    ))
}

/// What differs at the begin.
struct Begin {
    seconds: f64,
    text: String,
}

fn begin(series: &SteadySeries, rows: &[&SeriesRow]) -> Option<Begin> {
    let figures: Option<Vec<f64>> = rows.iter().map(|row| (series.of)(row)).collect();
    let figures = figures?;
    let cut = steady_from(&figures).filter(|cut| *cut > 0)?;
    let (before, after) = (mean(&figures[..cut]), mean(&figures[cut..]));
    if (before - after).abs() <= series.largest * after {
        return None;
    }
    let seconds = rows[..cut].iter().map(|row| row.seconds()).sum();
    let (before, after) = ((series.readable)(before), (series.readable)(after));
    Some(Begin { seconds, text: format!("{} was {before} before and {after} after that", series.name) })
}

#[cfg(test)]
mod tests {
    use super::super::sound::judged;
    use super::*;
    use crate::record::{Phase, Verdict};

    /// Sixty measured seconds, the first ones changed.
    fn with(slow: usize, change: fn(&mut SeriesRow)) -> Verdict {
        judged(|record, series, _| {
            record.throughput.window_ns = 60_000_000_000;
            let measured: Vec<SeriesRow> = series.iter().filter(|row| row.phase == Phase::Measure).cloned().collect();
            *series = (0..60).map(|second| SeriesRow { second, ..measured[second as usize % 10].clone() }).collect();
            series[..slow].iter_mut().for_each(change);
        })
    }

    fn seconds(verdict: &Verdict) -> Option<f64> {
        let found = verdict.notes.iter().find(|note| note.kind == WarmUpTooShort)?;
        found.figures.get("steady_after_seconds").copied()
    }

    #[test]
    fn a_begin_that_differs_is_named_with_its_length() {
        assert_eq!(seconds(&with(0, |_| {})), None);
        assert_eq!(seconds(&with(10, |row| row.acknowledged = row.acknowledged * 9 / 10)), Some(10.0));
        assert_eq!(seconds(&with(15, |row| row.p50_ns = row.p50_ns.map(|value| value * 2))), Some(15.0));
        let tail = with(5, |row| row.p99_ns = row.p99_ns.map(|value| value * 2));
        let text = &tail.notes[0].evidence;
        assert!(seconds(&tail) == Some(5.0) && text.contains("p99 was 6.") && text.contains("before and 3."), "{text}");
    }

    #[test]
    fn a_small_difference_and_a_rate_that_changes_are_not_named() {
        assert_eq!(seconds(&with(10, |row| row.acknowledged = row.acknowledged * 99 / 100)), None);
        let other_rate = with(10, |row| {
            row.due = Some(40_000);
            row.acknowledged = 40_000;
        });
        assert_eq!(seconds(&other_rate), None);
    }
}
