//! The last line of Kafka's `kafka-producer-perf-test`.
//!
//! Its clock runs from `send` to the callback, which is our service time. It counts whole milliseconds, and divides by the time
//! until the last answer (`ProducerPerformance.Stats` of Apache Kafka). Percentiles are printed even if they rest on few messages, as there.

use std::fmt::Write;

use super::ExportError;
use crate::record::schema::Record;

/// What a mebibyte is.
const MB: f64 = 1024.0 * 1024.0;

/// A line for each trial.
pub fn lines(records: &[&Record]) -> Result<String, ExportError> {
    let mut text = String::new();
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
        let at = |quantile| histogram.value_at_quantile(quantile) / 1_000_000;
        let (messages, payload) = (record.counts.acknowledged, record.counts.payload_bytes_acknowledged as f64);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{messages} records sent, {:.6} records/sec ({:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, \
             {} ms 50th, {} ms 95th, {} ms 99th, {} ms 99.9th.",
            messages as f64 / seconds,
            payload / seconds / MB,
            service.mean_ns / 1e6,
            (service.max_ns / 1_000_000) as f64,
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn a_line_is_that_of_the_tool() {
        let record = sample::record();
        assert_eq!(
            lines(&[&record]).unwrap(),
            "499996 records sent, 49993.700743 records/sec (4.77 MB/sec), 1.20 ms avg latency, 22.00 ms max latency, \
             1 ms 50th, 1 ms 95th, 2 ms 99th, 4 ms 99.9th.\n"
        );
    }

    #[test]
    fn a_trial_without_acknowledgements_lacks_its_figures() {
        let mut record = sample::record();
        record.latency.service = None;
        assert!(matches!(lines(&[&record]), Err(ExportError::Lacks { what: "service time", .. })));
    }
}
