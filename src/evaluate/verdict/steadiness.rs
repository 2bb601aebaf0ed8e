//! Findings from the course of the trial: whether throughput and latency stayed the same from begin to end.
//!
//! Every load is judged. In an open loop, throughput is the share of the due messages that was acknowledged, so that a ramp or
//! a step does not count as unsteady; bursts are judged by whole periods.

use super::trend::Trend;
use super::{Evidence, Finding, against, limits};
use crate::record::ReasonKind::*;
use crate::record::readable::{SLEEPER, count, duration, percent, rate};
use crate::record::{LoadModel, SeriesRow};
use crate::statistics;

pub(super) fn not_steady(evidence: &Evidence<'_>) -> Option<Finding> {
    let rows: Vec<&SeriesRow> = evidence.measured_rows().collect();
    let bins = bins(&rows, evidence.shape.period_ns);
    let mut found = Vec::new();
    let mut figures = vec![("bins", bins.len() as f64)];
    if bins.len() >= limits::MIN_BINS_FOR_STEADINESS {
        throughput(&bins, &mut found, &mut figures);
    }
    if evidence.record.load_model == LoadModel::Open {
        for (name, percentile, largest) in [
            ("median", median_of as fn(&SeriesRow) -> Option<u64>, limits::MAX_LATENCY_DRIFT),
            ("99th percentile", |row| row.p99_ns, limits::MAX_TAIL_DRIFT),
        ] {
            found.extend(drift(&rows, name, percentile, largest, &mut figures));
        }
    }
    found.extend(standstill(evidence, &mut figures));
    if found.is_empty() {
        return None;
    }
    let length = rows.iter().map(|row| row.seconds()).sum::<f64>() * 1e9;
    Some(against(
        NotSteady,
        format!("Of the {} that were measured, {}.", duration(length), found.join("; ")),
        "Look at the series for when it changed; warm up longer, measure longer, or find what stalls (compaction, flushing, garbage collection, neighbours).",
        &figures,
    ))
}

pub(super) fn median_of(row: &SeriesRow) -> Option<u64> {
    row.p50_ns
}

pub(super) fn same_rate(one: &SeriesRow, other: &SeriesRow) -> bool {
    let due = |row: &SeriesRow| row.due.unwrap_or(0) as f64 / row.seconds();
    (due(one) - due(other)).abs() <= limits::SAME_RATE_SHARE * due(one).max(due(other))
}

/// A stretch of time that is compared with the others.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    seconds: f64,
    acknowledged: f64,
    /// `None` in a closed loop.
    due: Option<f64>,
}

/// One bin a row, or as many rows together as a period of the schedule takes.
fn bins(rows: &[&SeriesRow], period_ns: Option<u64>) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    let mut open = Bin::default();
    for row in rows {
        open.seconds += row.seconds();
        open.acknowledged += row.acknowledged as f64;
        open.due = row.due.map(|due| due as f64 + open.due.unwrap_or(0.0));
        if open.seconds * 1e9 >= period_ns.unwrap_or(0) as f64 {
            bins.push(std::mem::take(&mut open));
        }
    }
    bins
}

fn throughput(bins: &[Bin], found: &mut Vec<String>, figures: &mut Vec<(&'static str, f64)>) {
    let seconds: f64 = bins.iter().map(|bin| bin.seconds).sum();
    let acknowledged: f64 = bins.iter().map(|bin| bin.acknowledged).sum();
    let due: Option<f64> = bins.iter().map(|bin| bin.due).sum();
    // A schedule's bins are weighed against what was due in each of them, others against the clock.
    let expected = |bin: &Bin| match (due, bin.due) {
        (Some(all), Some(due)) if all > 0.0 => acknowledged * due / all,
        _ => acknowledged * bin.seconds / seconds,
    };
    let relative: Vec<f64> =
        bins.iter().filter(|bin| expected(bin) > 0.0).map(|bin| bin.acknowledged / expected(bin)).collect();
    if relative.len() < limits::MIN_BINS_FOR_STEADINESS {
        return;
    }
    let each = acknowledged / relative.len() as f64;
    let steadiness = Steadiness::new(&relative);
    if steadiness.variation > allowed(limits::MAX_VARIATION, 1.0, each) {
        found.push(format!(
            "the rate of single stretches of {} varied by {} (standard deviation / mean)",
            duration(seconds / bins.len() as f64 * 1e9),
            percent(steadiness.variation)
        ));
    }
    // Both halves' counts vary by chance, so a difference of 3 standard deviations is allowed on top.
    let chance = 3.0 * 2.0 / (relative.len() as f64).sqrt();
    // Both halves of a schedule may have rates of their own, so they are told by the share that they carried.
    let carried = due.filter(|due| *due > 0.0).map(|due| acknowledged / due);
    let whole = carried.unwrap_or(acknowledged / seconds);
    let [first, second] = [steadiness.first_half, steadiness.second_half].map(|half| whole * half);
    if steadiness.halves() > allowed(limits::MAX_HALVES_DIFFERENCE, chance, each) {
        found.push(match carried {
            Some(_) => format!(
                "stretches of the first half carried {} of what was due in them on average, those of the second {}",
                percent(first),
                percent(second)
            ),
            None => format!("the first half carried {}/s and the second {}/s", rate(first), rate(second)),
        });
    }
    let empty = bins.iter().filter(|bin| bin.acknowledged == 0.0 && expected(bin) >= limits::MIN_EXPECTED_OF_EMPTY);
    let empty_seconds: f64 = empty.map(|bin| bin.seconds).sum();
    if empty_seconds > 0.0 {
        found.push(format!("{} passed without an acknowledgement", duration(empty_seconds * 1e9)));
    }
    let names = match carried {
        Some(_) => ["first_half_share_of_due", "second_half_share_of_due"],
        None => ["first_half_per_second", "second_half_per_second"],
    };
    figures.extend([
        ("coefficient_of_variation", steadiness.variation),
        (names[0], first),
        (names[1], second),
        ("empty_seconds", empty_seconds),
    ]);
}

/// Whether a latency went one way for the whole trial, and how far.
fn drift(
    rows: &[&SeriesRow],
    name: &str,
    percentile: fn(&SeriesRow) -> Option<u64>,
    largest: f64,
    figures: &mut Vec<(&'static str, f64)>,
) -> Option<String> {
    // Latency may change with the rate, so only rows at one rate are compared.
    let stretches: Vec<Vec<f64>> = rows
        .chunk_by(|one, other| same_rate(one, other))
        .map(|stretch| stretch.iter().filter_map(|row| percentile(row)).map(|value| value as f64).collect())
        .collect();
    let enough = stretches.iter().map(Vec::len).sum::<usize>() >= limits::MIN_BINS_FOR_TREND;
    let trend = Trend::new(&stretches).filter(|_| enough)?;
    let far = trend.relative_change.abs() > largest && trend.change.abs() > limits::MIN_DRIFT_NS;
    if !far || trend.score.abs() < limits::MIN_TREND_SCORE {
        return None;
    }
    figures.push(if name == "median" { ("p50_change_ns", trend.change) } else { ("p99_change_ns", trend.change) });
    let way = if trend.change > 0.0 { "grew" } else { "fell" };
    Some(format!(
        "the {name} of the response time {way} by {} ({}) while the rate was the same",
        duration(trend.change.abs()),
        percent(trend.relative_change.abs())
    ))
}

/// Whether the broker stood still for a good part of the window: then all that was due meanwhile waited, the first for as long as
/// it lasted and half of it for half as long. A single late message does not look like that.
fn standstill(evidence: &Evidence<'_>, figures: &mut Vec<(&'static str, f64)>) -> Option<String> {
    let target = evidence.record.throughput.target_per_second?;
    let response = evidence.record.latency.response.as_ref()?;
    let longest_ns = response.max_ns as f64;
    if longest_ns <= limits::MAX_STANDSTILL_SHARE * evidence.record.throughput.window_ns as f64 {
        return None;
    }
    let histogram = response.decode_histogram().ok()?;
    let waited_half = histogram.count_between(response.max_ns / 2, response.max_ns) as f64;
    let due_in_half = target * longest_ns / 2.0 / 1e9;
    if waited_half < limits::STANDSTILL_WAITING_SHARE * due_in_half {
        return None;
    }
    figures.push(("standstill_ns", longest_ns));
    // When it was is known where no other gap is as long.
    let mut gaps = evidence.record.outages.iter().filter(|outage| outage.longest_gap_ns as f64 >= longest_ns / 2.0);
    let paused_ns = match (gaps.next(), gaps.next()) {
        (Some(gap), None) => gap.client_paused_ns as f64,
        _ => 0.0,
    };
    // Then it is not known whether the broker did anything.
    let paused = if paused_ns >= longest_ns / 2.0 {
        format!("; {SLEEPER} for {} of it", duration(paused_ns))
    } else {
        String::new()
    };
    Some(format!(
        "nearly nothing was answered for about {}: {} messages waited for half of it or longer{paused}",
        duration(longest_ns),
        count(waited_half as u64)
    ))
}

/// How bins are spread around their mean of 1.
struct Steadiness {
    /// Standard deviation (of the sample) divided by the mean.
    variation: f64,
    first_half: f64,
    second_half: f64,
}

impl Steadiness {
    fn new(relative: &[f64]) -> Self {
        let mean = statistics::mean(relative);
        let squares: f64 = relative.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (relative.len() - 1) as f64).sqrt();
        // Of an odd number of bins, the middle one is in neither half.
        let half = relative.len() / 2;
        Steadiness {
            variation: if mean > 0.0 { deviation / mean } else { 0.0 },
            first_half: statistics::mean(&relative[..half]),
            second_half: statistics::mean(&relative[relative.len() - half..]),
        }
    }

    /// Difference of the halves as a share of the larger.
    fn halves(&self) -> f64 {
        let larger = self.first_half.max(self.second_half);
        if larger > 0.0 { (self.first_half - self.second_half).abs() / larger } else { 0.0 }
    }
}

/// A limit widened by what counting alone makes vary: the standard deviation of a count is about its root, so that of a
/// bin's share is `1 / √each`, times `factor` standard deviations. At 1,000 messages a bin this is next to nothing.
fn allowed(limit: f64, factor: f64, each: f64) -> f64 {
    if each > 0.0 { (limit * limit + factor * factor / each).sqrt() } else { limit }
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/steadiness.rs"]
mod tests;
