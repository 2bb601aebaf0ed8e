//! The last line of Kafka's `kafka-producer-perf-test`.
//!
//! Its clock runs from `send` to the callback, which is our service time. It counts whole milliseconds, also for the average, and divides by
//! the time until the last answer (`ProducerPerformance.Stats` of Apache Kafka). Percentiles are printed even if they rest on few messages, as
//! there. The tool knows no invalid results: a line before the last one says what speaks against them.

use std::fmt::Write;

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;

use super::ExportError;
use crate::record::schema::Record;

/// What a mebibyte is.
const MB: f64 = 1024.0 * 1024.0;

/// A line for each trial.
pub fn lines(records: &[&Record]) -> Result<String, ExportError> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for record in records {
        let lacks = |what| ExportError::Lacks {
            point: record.point_index,
            trial: record.trial,
            what,
            advice: "it needs messages that were acknowledged",
        };
        let service = record.latency.service.as_ref().ok_or(lacks("service time"))?;
        let histogram = service.decode_histogram().map_err(|_| lacks("readable histogram"))?;
        let seconds = record.throughput.completion_ns() as f64 / 1e9;
        if seconds <= 0.0 {
            return Err(lacks("duration"));
        }
        if let Some(kinds) = record.verdict.kinds_against() {
            let (point, trial) = (record.point_index, record.trial);
            let _ = writeln!(text, "trial {trial} of point {point} is not valid ({kinds}): do not use the next line.");
        }
        let at = |quantile| histogram.value_at_quantile(quantile) / 1_000_000;
        let (messages, payload) = (record.counts.acknowledged, record.counts.payload_bytes_acknowledged as f64);
        let _ = writeln!(
            text,
            "{messages} records sent, {:.6} records/sec ({:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, \
             {} ms 50th, {} ms 95th, {} ms 99th, {} ms 99.9th.",
            messages as f64 / seconds,
            payload / seconds / MB,
            mean_of_whole_ms(&histogram),
            (service.max_ns / 1_000_000) as f64,
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999),
        );
    }
    Ok(text)
}

/// So that it is no larger than the maximum in whole milliseconds.
fn mean_of_whole_ms(histogram: &Histogram<u64>) -> f64 {
    let sum = |values: u128, step: IterationValue<u64>| {
        values + u128::from(step.value_iterated_to() / 1_000_000) * u128::from(step.count_since_last_iteration())
    };
    histogram.iter_recorded().fold(0, sum) as f64 / histogram.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Reason, ReasonKind, sample};

    #[test]
    fn a_line_is_that_of_the_tool() {
        let record = sample::record();
        assert_eq!(
            lines(&[&record]).unwrap(),
            "499996 records sent, 49993.700743 records/sec (4.77 MB/sec), 0.66 ms avg latency, 22.00 ms max latency, \
             1 ms 50th, 1 ms 95th, 2 ms 99th, 4 ms 99.9th.\n"
        );
    }

    #[test]
    fn the_average_is_that_of_whole_milliseconds() {
        let mut histogram = crate::measure::Distribution::default();
        histogram.record_n(1_900_000, 3);
        histogram.record(999_000);
        assert_eq!(mean_of_whole_ms(histogram.histogram()), 0.75);
    }

    #[test]
    fn what_speaks_against_a_trial_stands_before_its_line() {
        let mut record = sample::record();
        let line = lines(&[&record]).unwrap();
        record.verdict.reasons.push(Reason {
            kind: ReasonKind::Losses,
            evidence: String::new(),
            advice: String::new(),
            figures: Default::default(),
        });
        record.verdict.valid = false;
        let expected = format!("trial 1 of point 0 is not valid (losses): do not use the next line.\n{line}");
        assert_eq!(lines(&[&record]).unwrap(), expected);
    }

    #[test]
    fn a_trial_without_acknowledgements_lacks_its_figures() {
        let mut record = sample::record();
        record.latency.service = None;
        assert!(matches!(lines(&[&record]), Err(ExportError::Lacks { what: "service time", .. })));
    }
}
