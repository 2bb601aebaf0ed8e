//! Findings from the pace of the trial: was it long enough, at the rate it should have, and steady.

use super::finding::{Finding, against, note};
use super::{Evidence, limits};
use crate::record::Latency;
use crate::record::ReasonKind::*;
use crate::record::readable::{count, duration, percent, rate};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let all = [too_short, rate_missed, cold_start, not_steady];
    all.into_iter().filter_map(|find| find(evidence)).collect()
}

fn too_short(evidence: &Evidence<'_>) -> Option<Finding> {
    // Where nobody sends, the pipeline is what is measured.
    let (duration_ns, messages, what) = match evidence.pipeline.filter(|_| evidence.counts.attempted == 0) {
        Some(pipeline) => (pipeline.working_ns, pipeline.consumed, "consumed"),
        None => (evidence.throughput.duration_ns, evidence.counts.acknowledged, "acknowledged"),
    };
    let advice = match (duration_ns < limits::LEAST_DURATION_NS, messages < limits::LEAST_MESSAGES) {
        (false, false) => return None,
        (true, _) => {
            "Measure for 5 s or more (`run.duration`, or a larger `run.messages`); 30 s and several trials are better."
        }
        (false, true) => {
            "Measure longer, until there are 1,000 messages or more: below that the upper percentiles are single messages."
        }
    };
    Some(against(
        TooShort,
        format!("Only {} and {} {what} messages were measured.", duration(duration_ns as f64), count(messages)),
        advice,
        &[("duration_ns", duration_ns as f64), (what, messages as f64)],
    ))
}

/// What an open loop's rate came to: `None` when it held, or in a closed loop.
pub(super) fn rate_missed(evidence: &Evidence<'_>) -> Option<Finding> {
    let target = evidence.throughput.target_per_second?;
    let sent = evidence.throughput.sent_per_second;
    let share = if target > 0.0 { sent / target } else { 1.0 };
    let delay_ns = evidence.latency.schedule_delay.as_ref().map_or(0, p99_of_all);
    let evidence = match (share < limits::LEAST_RATE_SHARE, delay_ns > limits::LARGEST_SCHEDULE_DELAY_P99_NS) {
        (false, false) => return None,
        (true, _) => format!(
            "The schedule wanted {} messages/s and {}/s were sent ({}); 1 in 100 left {} late or later.",
            rate(target),
            rate(sent),
            percent(share),
            duration(delay_ns as f64)
        ),
        (false, true) => format!(
            "{} messages/s were sent as the schedule wanted, but 1 in 100 left {} late or later.",
            rate(sent),
            duration(delay_ns as f64)
        ),
    };
    Some(against(
        RateMissed,
        evidence,
        "Response times are right for what was sent, but grow with the length of the run: lower the rate, raise `producers.in_flight`, or remove what `limited_by` names.",
        &[
            ("target_per_second", target),
            ("sent_per_second", sent),
            ("share", share),
            ("schedule_delay_p99_ns", delay_ns as f64),
        ],
    ))
}

/// The 99th percentile of what was recorded, also where too few independent values lie beyond it to state it as a figure: that
/// so many messages left late is a fact.
fn p99_of_all(latency: &Latency) -> u64 {
    let recorded = || latency.decode_histogram().map_or(0, |histogram| histogram.value_at_quantile(0.99));
    latency.p99_ns.unwrap_or_else(recorded)
}

fn not_steady(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.even_load {
        return None;
    }
    let seconds: Vec<f64> = evidence.measured_seconds().map(|row| row.acknowledged as f64).collect();
    if seconds.len() < limits::LEAST_SECONDS_FOR_STEADINESS {
        return None;
    }
    let steadiness = Steadiness::of(&seconds);
    let mut found = Vec::new();
    if steadiness.variation > steadiness.allowed(limits::LARGEST_VARIATION, 1.0) {
        found.push(format!("single seconds vary by {} (standard deviation / mean)", percent(steadiness.variation)));
    }
    // Both halves' counts vary by chance, so a difference of 3 standard deviations is allowed on top.
    let chance = 3.0 * 2.0 / (seconds.len() as f64).sqrt();
    if steadiness.halves > steadiness.allowed(limits::LARGEST_HALVES_DIFFERENCE, chance) {
        found.push(format!(
            "the first half carried {}/s and the second {}/s",
            rate(steadiness.first_half),
            rate(steadiness.second_half)
        ));
    }
    if steadiness.empty > 0 && steadiness.mean >= limits::LEAST_RATE_FOR_EMPTY_SECONDS {
        found.push(match steadiness.empty {
            1 => "1 second passed without an acknowledgement".to_owned(),
            seconds => format!("{seconds} seconds passed without an acknowledgement"),
        });
    }
    if found.is_empty() {
        return None;
    }
    Some(against(
        NotSteady,
        format!("Of {} measured seconds, {}.", seconds.len(), found.join("; ")),
        "Look at the series for when it changed; warm up longer, measure longer, or find what stalls (compaction, flushing, garbage collection, neighbours).",
        &[
            ("seconds", seconds.len() as f64),
            ("coefficient_of_variation", steadiness.variation),
            ("first_half_per_second", steadiness.first_half),
            ("second_half_per_second", steadiness.second_half),
            ("empty_seconds", steadiness.empty as f64),
        ],
    ))
}

/// Whether the slowest messages are those of the first second because nothing had been warmed up: connections, caches, code
/// that is compiled when it is first used. The first second counts as the tail if its 99th percentile is the highest of all
/// seconds, and not by chance.
fn cold_start(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.even_load || evidence.counts.warm_up.attempted > 0 {
        return None;
    }
    let seconds: Vec<u64> = evidence.measured_seconds().filter_map(|row| row.p99_ns).collect();
    if seconds.len() < limits::LEAST_SECONDS_FOR_STEADINESS {
        return None;
    }
    let (first, mut later) = (seconds[0], seconds[1..].to_vec());
    later.sort_unstable();
    let (median, highest) = (later[later.len() / 2], later[later.len() - 1]);
    if first <= highest || (first as f64) < limits::COLD_START_FACTOR * median as f64 {
        return None;
    }
    Some(note(
        ColdStart,
        format!(
            "Nothing was warmed up, and the slowest messages are those of the first second: its p99 was {}, that of the others {} (median; at most {}).",
            duration(first as f64),
            duration(median as f64),
            duration(highest as f64)
        ),
        "Set `run.warm_up` to a few seconds, unless first contacts are what is to be measured.",
        &[("first_second_p99_ns", first as f64), ("later_seconds_p99_ns", median as f64)],
    ))
}

/// How the throughput of seconds is spread.
struct Steadiness {
    mean: f64,
    /// Standard deviation (of the sample) divided by the mean.
    variation: f64,
    first_half: f64,
    second_half: f64,
    /// Difference of the halves' means as a share of the larger.
    halves: f64,
    empty: usize,
}

impl Steadiness {
    fn of(seconds: &[f64]) -> Self {
        let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mean = mean_of(seconds);
        let squares: f64 = seconds.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (seconds.len() - 1) as f64).sqrt();
        // Of an odd number of seconds, the middle one is in neither half.
        let half = seconds.len() / 2;
        let (first_half, second_half) = (mean_of(&seconds[..half]), mean_of(&seconds[seconds.len() - half..]));
        let larger = first_half.max(second_half);
        Steadiness {
            mean,
            variation: if mean > 0.0 { deviation / mean } else { 0.0 },
            first_half,
            second_half,
            halves: if larger > 0.0 { (first_half - second_half).abs() / larger } else { 0.0 },
            empty: seconds.iter().filter(|value| **value == 0.0).count(),
        }
    }

    /// A limit widened by what counting alone makes vary: the standard deviation of a count is about its root, so that
    /// of a second's share is `1 / √mean`, times `factor` standard deviations. At 1,000/s this is next to nothing.
    fn allowed(&self, limit: f64, factor: f64) -> f64 {
        if self.mean > 0.0 { (limit * limit + factor * factor / self.mean).sqrt() } else { limit }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sound::{judged, notes, reasons};
    use super::*;
    use crate::record::{LoadModel, Phase, SeriesRow};

    #[test]
    fn too_short_at_its_boundaries() {
        assert_eq!(reasons(|record, _, _| record.throughput.duration_ns = 5_000_000_000), []);
        assert_eq!(reasons(|record, _, _| record.throughput.duration_ns = 4_999_999_999), [TooShort]);
        let with = |messages: u64| {
            reasons(move |record, _, _| {
                record.counts.attempted = messages;
                record.counts.acknowledged = messages;
            })
        };
        assert_eq!((with(1_000), with(999)), (vec![], vec![TooShort]));
    }

    #[test]
    fn rate_missed_by_count_and_by_delay_at_their_boundaries() {
        assert_eq!(reasons(|record, _, _| record.throughput.sent_per_second = 49_950.0), []);
        assert_eq!(reasons(|record, _, _| record.throughput.sent_per_second = 49_949.0), [RateMissed]);
        let delayed = |delay: u64| {
            reasons(move |record, _, _| record.latency.schedule_delay.as_mut().unwrap().p99_ns = Some(delay))
        };
        assert_eq!((delayed(10_000_000), delayed(10_000_001)), (vec![], vec![RateMissed]));
    }

    #[test]
    fn a_closed_loop_has_no_rate_to_miss() {
        let kinds = reasons(|record, _, _| {
            record.load_model = LoadModel::Closed;
            record.throughput.target_per_second = None;
            record.throughput.sent_per_second = 1.0;
        });
        assert_eq!(kinds, []);
    }

    #[test]
    fn a_slow_first_second_is_noted_where_nothing_was_warmed_up() {
        use crate::record::WarmUpCounts;
        let with = |first: u64, worst_later: u64, warmed_up: bool| {
            notes(move |record, series, _| {
                if !warmed_up {
                    record.counts.warm_up = WarmUpCounts::default();
                }
                let mut rows = series.iter_mut().filter(|row| row.phase == Phase::Measure);
                rows.next().unwrap().p99_ns = Some(first);
                rows.by_ref().for_each(|row| row.p99_ns = Some(1_000_000));
                series[7].p99_ns = Some(worst_later);
            })
        };
        assert_eq!(with(2_000_000, 1_999_999, false), [ColdStart]);
        assert_eq!(with(1_999_999, 1_000_000, false), [], "seconds differ by chance");
        assert_eq!(with(2_000_000, 2_000_000, false), [], "a later second is as slow");
        assert_eq!(with(9_000_000, 1_000_000, true), []);
    }

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
    fn partial_seconds_few_seconds_and_uneven_loads_are_not_judged() {
        let jump = [1_000, 90_000, 1_000, 90_000, 1_000, 90_000, 1_000, 90_000, 1_000, 90_000];
        assert_eq!(reasons(|_, series, _| measured(series, &jump)), [NotSteady]);
        assert_eq!(
            reasons(|_, series, shape| {
                measured(series, &jump);
                shape.even_load = false;
            }),
            []
        );
        assert_eq!(
            reasons(|_, series, _| {
                measured(series, &jump);
                series.iter_mut().filter(|row| row.phase == Phase::Measure).skip(4).for_each(|row| row.full = false);
            }),
            []
        );
    }
}
