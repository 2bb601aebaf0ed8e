//! Findings from the course of the trial: whether throughput and latency stayed the same from begin to end.
//!
//! Every load is judged. In an open loop, throughput is the share of the due messages that was acknowledged, so that a ramp or
//! a step does not count as unsteady; bursts are judged by whole periods.

use super::trend::Trend;
use super::{Evidence, Finding, against, limits};
use crate::record::ReasonKind::*;
use crate::record::readable::{SLEEPER, count, duration, percent, rate};
use crate::record::{LoadModel, SeriesRow};

pub(super) fn not_steady(evidence: &Evidence<'_>) -> Option<Finding> {
    let rows: Vec<&SeriesRow> = evidence.measured_rows().collect();
    let bins = bins(&rows, evidence.period_ns);
    let mut found = Vec::new();
    let mut figures = vec![("bins", bins.len() as f64)];
    if bins.len() >= limits::MIN_BINS_FOR_STEADINESS {
        throughput(&bins, &mut found, &mut figures);
    }
    if evidence.load_model == LoadModel::Open {
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
    let mean = acknowledged / seconds;
    if steadiness.halves() > allowed(limits::MAX_HALVES_DIFFERENCE, chance, each) {
        found.push(format!(
            "the first half carried {}/s and the second {}/s",
            rate(mean * steadiness.first_half),
            rate(mean * steadiness.second_half)
        ));
    }
    let empty = bins.iter().filter(|bin| bin.acknowledged == 0.0 && expected(bin) >= limits::MIN_EXPECTED_OF_EMPTY);
    let empty_seconds: f64 = empty.map(|bin| bin.seconds).sum();
    if empty_seconds > 0.0 {
        found.push(format!("{} passed without an acknowledgement", duration(empty_seconds * 1e9)));
    }
    figures.extend([
        ("coefficient_of_variation", steadiness.variation),
        ("first_half_per_second", mean * steadiness.first_half),
        ("second_half_per_second", mean * steadiness.second_half),
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
    let target = evidence.throughput.target_per_second?;
    let response = evidence.latency.response.as_ref()?;
    let longest_ns = response.max_ns as f64;
    if longest_ns <= limits::MAX_STANDSTILL_SHARE * evidence.throughput.window_ns as f64 {
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
    let mut gaps = evidence.outages.iter().filter(|outage| outage.longest_gap_ns as f64 >= longest_ns / 2.0);
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
        let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mean = mean_of(relative);
        let squares: f64 = relative.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (relative.len() - 1) as f64).sqrt();
        // Of an odd number of bins, the middle one is in neither half.
        let half = relative.len() / 2;
        Steadiness {
            variation: if mean > 0.0 { deviation / mean } else { 0.0 },
            first_half: mean_of(&relative[..half]),
            second_half: mean_of(&relative[relative.len() - half..]),
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
mod tests {
    use hdrhistogram::Histogram;

    use super::super::sound::{judged, reasons};
    use super::*;
    use crate::record::{Latency, Outage, Phase, ReasonKind, SeriesRow};

    fn measured(series: &mut [SeriesRow], acknowledged: &[u64]) {
        let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
        rows.zip(acknowledged).for_each(|(row, acknowledged)| row.acknowledged = *acknowledged);
    }

    #[test]
    fn variation_at_its_boundary() {
        // Alternating by ±d around the mean: the sample's deviation is d × √(10/9).
        let alternating = |difference: u64| {
            let seconds: Vec<u64> = (0..10)
                .map(|second| if second % 2 == 0 { 100_000 + difference } else { 100_000 - difference })
                .collect();
            reasons(move |_, series, _| measured(series, &seconds))
        };
        assert_eq!((alternating(14_200), alternating(14_300)), (vec![], vec![NotSteady]));
    }

    #[test]
    fn halves_at_their_boundary() {
        let falling = |second_half: u64| {
            let seconds = [[100_000; 5], [second_half; 5]].concat();
            reasons(move |_, series, _| measured(series, &seconds))
        };
        assert_eq!((falling(90_100), falling(89_500)), (vec![], vec![NotSteady]));
    }

    #[test]
    fn an_empty_second_counts_unless_messages_are_rare() {
        let with_gap = |each: u64| {
            let mut seconds = [each; 10];
            seconds[4] = 0;
            judged(move |_, series, _| measured(series, &seconds))
        };
        let verdict = with_gap(50_000);
        assert!(verdict.reasons[0].evidence.contains("without an acknowledgement"), "{verdict:?}");
        assert!(with_gap(5).valid, "at 5 messages a second a gap may be chance");
    }

    #[test]
    fn only_pauses_within_a_standstill_are_named_with_it() {
        let outage = |gap_ms: u64, paused_ms: u64| Outage {
            begin_ns: 2_000_000_000,
            longest_gap_ns: gap_ms * 1_000_000,
            first_acknowledgement_ns: Some(gap_ms * 1_000_000),
            recovered_ns: None,
            expected_per_second: 50_000.0,
            client_paused_ns: paused_ms * 1_000_000,
            caused_by_client: false,
        };
        let names_pause = |outages: Vec<Outage>| {
            let verdict = judged(move |record, _, _| {
                let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
                histogram.record_n(1_000_000, 450_000).unwrap();
                histogram.record_n(1_000_000_000, 50_000).unwrap();
                record.latency.response = Latency::from_histogram(&histogram, 0, None);
                record.outages = outages;
            });
            let found = verdict.reasons.iter().find(|reason| reason.kind == NotSteady).expect("a standstill");
            assert!(found.evidence.contains("nearly nothing was answered for about 1.00 s"), "{found:?}");
            found.evidence.contains("was not woken for 800 ms of it")
        };
        assert!(names_pause(vec![outage(1_000, 800), outage(100, 0)]));
        assert!(!names_pause(vec![outage(1_000, 300)]), "the smaller part");
        assert!(!names_pause(vec![outage(1_000, 0), outage(300, 300)]), "a pause elsewhere");
        assert!(!names_pause(vec![outage(1_000, 800), outage(900, 800)]), "of two, it is not known which it was");
        assert!(!names_pause(Vec::new()));
    }

    #[test]
    fn partial_rows_and_few_rows_are_not_judged() {
        let jump = [1_000, 90_000, 1_000, 90_000, 1_000, 90_000, 1_000, 90_000, 1_000, 90_000];
        assert_eq!(reasons(|_, series, _| measured(series, &jump)), [NotSteady]);
        assert_eq!(
            reasons(|_, series, _| {
                measured(series, &jump);
                series.iter_mut().filter(|row| row.phase == Phase::Measure).skip(4).for_each(|row| row.full = false);
            }),
            []
        );
    }

    #[test]
    fn rows_of_unequal_length_are_compared_by_their_rates() {
        let with = |lengths: [u64; 10]| {
            reasons(move |_, series, _| {
                let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
                for (row, tenths) in rows.zip(lengths) {
                    row.length_ns = tenths * 100_000_000;
                    row.acknowledged = 5_000 * tenths;
                    row.due = Some(5_000 * tenths);
                }
            })
        };
        assert_eq!(with([10, 14, 6, 10, 10, 5, 15, 10, 10, 10]), []);
    }

    #[test]
    fn a_ramp_that_is_followed_is_steady_and_one_that_is_not_is_not() {
        let ramp = |carried: fn(u64) -> u64| {
            reasons(move |record, series, _| {
                let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
                for (index, row) in rows.enumerate() {
                    let due = 10_000 * (1 + index as u64);
                    (row.due, row.acknowledged) = (Some(due), carried(due));
                }
                record.throughput.target_per_second = Some(55_000.0);
                record.throughput.sent_per_second = 55_000.0;
            })
        };
        assert_eq!(ramp(|due| due), []);
        assert_eq!(ramp(|due| due.min(40_000)), [NotSteady], "it stops growing at 40,000/s");
    }

    #[test]
    fn bursts_are_judged_by_whole_periods() {
        let bursts = |period_ns| {
            reasons(move |_, series, shape| {
                shape.period_ns = period_ns;
                let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
                // What is due in the burst of a second is carried half a second later.
                for (index, row) in rows.enumerate() {
                    let odd = index % 2 == 1;
                    row.due = Some(if odd { 1_000 } else { 9_000 });
                    row.acknowledged = 5_000;
                }
            })
        };
        assert_eq!(bursts(Some(2_000_000_000)), []);
        assert_eq!(bursts(None), [NotSteady]);
    }

    #[test]
    fn a_latency_that_drifts_is_not_steady() {
        let drifting = |per_mille: u64| -> Vec<ReasonKind> {
            reasons(move |_, series, _| {
                let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
                for (index, row) in rows.enumerate() {
                    row.p50_ns = Some(2_000_000 + 2_000_000 * per_mille * index as u64 / 9_000);
                }
            })
        };
        assert_eq!((drifting(20), drifting(30)), (vec![], vec![NotSteady]));
        let kinds = reasons(|_, series, _| {
            let rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
            for (index, row) in rows.enumerate() {
                (row.p50_ns, row.due) =
                    (Some(2_000_000 + 500_000 * (index as u64 / 5)), Some([45_000, 55_000][index / 5]));
                row.acknowledged = row.due.unwrap();
            }
        });
        assert_eq!(kinds, [], "another rate may have another latency");
    }
}
