//! Whether a scenario's thresholds held, judged by the record alone.
//!
//! A figure that the record does not have never holds: silence is no success.

use crate::record::{Latency, Record, Status, ThresholdOutcome, readable};
use crate::scenario::{Comparison, LatencyKind, LatencyStatistic, Metric, Threshold};

/// One outcome for each threshold, in their order.
///
/// A failed trial holds no threshold. An interrupted one is judged by what had been measured.
pub fn evaluate(thresholds: &[Threshold], record: &Record) -> Vec<ThresholdOutcome> {
    thresholds.iter().map(|threshold| evaluate_one(threshold, record)).collect()
}

fn evaluate_one(threshold: &Threshold, record: &Record) -> ThresholdOutcome {
    let found = match record.status {
        Status::Failed => Err("the trial failed".to_owned()),
        Status::Completed | Status::Interrupted | Status::Running => measured(threshold.metric, record),
    };
    let (held, explanation) = match &found {
        Ok(value) => {
            let held = compare(*value, threshold.comparison, threshold.value);
            (held, format!("{} measured", readable_figure(threshold.metric, *value)))
        }
        Err(reason) => (false, format!("not known, so it counts as missed: {reason}")),
    };
    ThresholdOutcome { text: threshold.text.clone(), measured: found.ok(), held, explanation }
}

fn compare(measured: f64, comparison: Comparison, limit: f64) -> bool {
    match comparison {
        Comparison::Less => measured < limit,
        Comparison::LessOrEqual => measured <= limit,
        Comparison::Equal => measured == limit,
        Comparison::GreaterOrEqual => measured >= limit,
        Comparison::Greater => measured > limit,
    }
}

/// The metric's figure, or why the record has none.
fn measured(metric: Metric, record: &Record) -> Result<f64, String> {
    let verification = || {
        let found = record.verification.as_ref();
        found.ok_or("nothing was verified: set `consumers.verify = true`".to_owned()).and_then(|found| {
            match (found.saturated, metric) {
                // What was found is there all the same, but what was not found may be.
                (true, Metric::Lost | Metric::Unread | Metric::Duplicated | Metric::Reordered) => {
                    Err("the verifier's memory was exceeded, so its counts are not certain".to_owned())
                }
                (_, Metric::Reordered) if found.order_unchecked > 0 => {
                    Err("the order of some messages was not checked, for lack of memory".to_owned())
                }
                _ => Ok(found),
            }
        })
    };
    match metric {
        Metric::Latency(kind, statistic) => latency(record, kind, statistic),
        Metric::MessagesPerSecond => Ok(record.throughput.messages_per_second),
        Metric::PayloadBytesPerSecond => Ok(record.throughput.payload_bytes_per_second),
        Metric::ConsumedPerSecond => {
            record.throughput.consumed_per_second.ok_or("nothing was consumed: add a [consumers] table".to_owned())
        }
        Metric::WrittenPerSecond => {
            let sinks = record.pipeline.iter().flat_map(|pipeline| &pipeline.sinks);
            let slowest = sinks.map(|sink| sink.written_per_second).reduce(f64::min);
            slowest.ok_or("nothing was written: add `[[pipeline.sinks]]`".to_owned())
        }
        Metric::Lag => {
            let lag = record.pipeline.as_ref().and_then(|pipeline| pipeline.lag_at_end);
            lag.map(|lag| lag as f64).ok_or("nobody could tell how far the pipeline was behind".to_owned())
        }
        Metric::Failed => Ok(record.counts.failed as f64),
        Metric::Unresolved => Ok(record.counts.unresolved as f64),
        Metric::Lost => verification().map(|found| found.lost as f64),
        Metric::Unread => verification().map(|found| found.unread as f64),
        Metric::Duplicated => verification().map(|found| found.duplicated as f64),
        Metric::Reordered => verification().map(|found| found.reordered as f64),
        Metric::Corrupt => verification().map(|found| found.corrupt as f64),
        Metric::CpuPerMessage => record.client.cpu_ns_per_message.ok_or("no message was acknowledged".to_owned()),
    }
}

fn latency(record: &Record, kind: LatencyKind, statistic: LatencyStatistic) -> Result<f64, String> {
    let (latency, absent) = match kind {
        LatencyKind::Headline => (record.headline_latency(), "no message was acknowledged"),
        LatencyKind::Response => (record.latency.response.as_ref(), "a closed loop has no response time"),
        LatencyKind::Service => (record.latency.service.as_ref(), "no message was acknowledged"),
        LatencyKind::ScheduleDelay => (record.latency.schedule_delay.as_ref(), "a closed loop has no schedule"),
        LatencyKind::EndToEnd => (
            record.latency.end_to_end.as_ref(),
            "no end-to-end latency was recorded: set `consumers.end_to_end = true`",
        ),
    };
    let latency = latency.ok_or(absent)?;
    let beyond = || format!("{} values lay beyond the histogram's range", readable::count(latency.beyond_range));
    match statistic {
        LatencyStatistic::Quantile(quantile) => at_quantile(latency, quantile)?.ok_or_else(beyond),
        LatencyStatistic::Mean if latency.beyond_range == 0 => Ok(latency.mean_ns),
        LatencyStatistic::Max if latency.beyond_range == 0 => Ok(latency.max_ns as f64),
        LatencyStatistic::Mean | LatencyStatistic::Max => Err(beyond()),
    }
}

/// The value at a quantile of *all* values, those beyond the range counted as larger than the rest; `None` when it is
/// among them.
fn at_quantile(latency: &Latency, quantile: f64) -> Result<Option<f64>, String> {
    let within = latency.count as f64;
    let all = within + latency.beyond_range as f64;
    if quantile * all > within {
        return Ok(None);
    }
    let histogram = latency.decode_histogram().map_err(|error| error.to_string())?;
    Ok(Some(histogram.value_at_quantile(quantile * all / within) as f64))
}

fn readable_figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Latency(..) | Metric::CpuPerMessage => readable::duration(value),
        Metric::MessagesPerSecond | Metric::ConsumedPerSecond | Metric::WrittenPerSecond => {
            format!("{}/s", readable::rate(value))
        }
        Metric::PayloadBytesPerSecond => format!("{}/s", readable::bytes(value)),
        Metric::Lag
        | Metric::Failed
        | Metric::Unresolved
        | Metric::Lost
        | Metric::Unread
        | Metric::Duplicated
        | Metric::Reordered
        | Metric::Corrupt => readable::count(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use hdrhistogram::Histogram;

    fn threshold(metric: Metric, comparison: Comparison, value: f64) -> Threshold {
        Threshold { text: "as written".to_owned(), metric, comparison, value }
    }

    fn outcome(metric: Metric, comparison: Comparison, value: f64, record: &Record) -> ThresholdOutcome {
        evaluate(&[threshold(metric, comparison, value)], record).remove(0)
    }

    #[test]
    fn each_comparison_at_its_boundary() {
        let record = sample::record();
        let failed = record.counts.failed as f64;
        let held = |comparison, limit| outcome(Metric::Failed, comparison, limit, &record).held;
        assert!(held(Comparison::Equal, failed) && !held(Comparison::Equal, failed + 1.0));
        assert!(held(Comparison::LessOrEqual, failed) && !held(Comparison::Less, failed));
        assert!(held(Comparison::GreaterOrEqual, failed) && !held(Comparison::Greater, failed));
        assert!(held(Comparison::Less, failed + 1.0) && held(Comparison::Greater, failed - 1.0));
    }

    #[test]
    fn the_headline_s_quantile_is_the_record_s_own() {
        let record = sample::record();
        let metric = Metric::Latency(LatencyKind::Headline, LatencyStatistic::Quantile(0.99));
        let outcome = outcome(metric, Comparison::Less, 1e9, &record);
        assert_eq!(outcome.measured, Some(record.headline_latency().unwrap().p99_ns as f64));
        assert!(outcome.held);
    }

    #[test]
    fn values_beyond_the_range_count_as_the_largest() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
        for value in 1..=90 {
            histogram.record(value).unwrap();
        }
        let mut record = sample::record();
        record.latency.response = Latency::from_histogram(&histogram, 10);
        let held = |quantile| {
            let metric = Metric::Latency(LatencyKind::Response, LatencyStatistic::Quantile(quantile));
            outcome(metric, Comparison::Less, 1e9, &record)
        };
        assert_eq!(held(0.5).measured, Some(50.0));
        assert_eq!(held(0.9).measured, Some(90.0));
        let unknown = held(0.91);
        assert_eq!((unknown.measured, unknown.held), (None, false));
        assert!(unknown.explanation.contains("beyond"), "{}", unknown.explanation);
        let maximum = Metric::Latency(LatencyKind::Response, LatencyStatistic::Max);
        assert!(!outcome(maximum, Comparison::Less, 1e12, &record).held);
    }

    #[test]
    fn what_is_not_known_does_not_hold_and_says_why() {
        let mut record = Record { verification: None, ..sample::record() };
        let lost = outcome(Metric::Lost, Comparison::Equal, 0.0, &record);
        assert_eq!((lost.measured, lost.held), (None, false));
        assert!(lost.explanation.contains("consumers.verify"), "{}", lost.explanation);
        record.status = Status::Failed;
        assert!(!outcome(Metric::Failed, Comparison::Equal, record.counts.failed as f64, &record).held);
    }

    #[test]
    fn an_order_that_was_not_checked_proves_no_order() {
        let mut record = sample::record();
        record.verification = Some(crate::record::Verification { order_unchecked: 1, ..Default::default() });
        assert!(!outcome(Metric::Reordered, Comparison::Equal, 0.0, &record).held);
        assert!(outcome(Metric::Lost, Comparison::Equal, 0.0, &record).held);
        assert!(outcome(Metric::Unread, Comparison::Equal, 0.0, &record).held);
    }

    #[test]
    fn a_saturated_verifier_proves_no_absence() {
        let mut record = sample::record();
        record.verification = Some(crate::record::Verification { saturated: true, ..Default::default() });
        assert!(!outcome(Metric::Duplicated, Comparison::Equal, 0.0, &record).held);
    }
}
