//! The output of other tools' benchmarks, in their own words, so that their tables compare.
//!
//! Kafka's `kafka-producer-perf-test`, its last line. Its clock runs from `send` to the callback, which is our service time. It counts whole
//! milliseconds, also for the average, and divides by the time until the last answer (`ProducerPerformance.Stats` of Apache Kafka). Percentiles
//! are printed even if they rest on few messages, as there. The tool knows no invalid results: a line before the last one says what speaks
//! against them.
//!
//! NSQ's `bench_writer`, `bench_reader`, and the aggregate of `bench.py`. MB is 2^20 bytes of message bodies. `bench.py` takes the longest
//! duration and the sums of the rates, and computes its time per operation as `duration / rate`, which is too large by the duration in seconds:
//! that figure is printed as published, and the true one beside it. All connections of a trial share one measured window, so unlike the rates
//! that `bench.py` sums, a trial's overlap completely.
//!
//! The JSON lines of "Apache Pulsar Throughput Test Result", by its own program's field names and meanings: `MsgLength` is the *number* of
//! messages, `SpeedInCounter` messages per second, `SpeedInBytes` payload bytes per second, and the duration is cut off to whole milliseconds.
//! Its clock ran from the first send to the last acknowledgement.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use serde::Serialize;

use super::ExportError;
use crate::record::schema::{Record, Status};
use crate::scenario::tables::PayloadKind;

/// What a mebibyte is.
const MB: f64 = 1024.0 * 1024.0;

/// A line for each trial.
pub fn kafka_perf_lines(records: &[&Record]) -> Result<String, ExportError> {
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

/// One side of a trial.
struct Side {
    name: &'static str,
    seconds: f64,
    messages: f64,
    bytes: f64,
}

/// For each completed trial its lines, of the reader only where there was one.
pub fn nsq_bench_lines(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records.iter().filter(|record| record.status == Status::Completed) {
        for side in sides(record) {
            side.write(&mut text);
        }
    }
    text
}

fn sides(record: &Record) -> Vec<Side> {
    let (counts, throughput) = (&record.counts, &record.throughput);
    let acknowledged = counts.acknowledged as f64;
    let bytes = counts.payload_bytes_acknowledged as f64;
    // Its tools divide by the time until the last answer.
    let seconds = Duration::from_nanos(throughput.completion_ns()).as_secs_f64();
    let mut sides = vec![Side { name: "bench_writer", seconds, messages: acknowledged, bytes }];
    let rate =
        throughput.until_last_arrival.map(|arrival| arrival.messages_per_second).or(throughput.consumed_per_second);
    if let (Some(consumed), Some(rate)) = (counts.consumed, rate) {
        let consumed = consumed as f64;
        // Bodies are counted where they are published; what is read has the same mean size.
        let read = if acknowledged > 0.0 { bytes / acknowledged * consumed } else { 0.0 };
        let seconds = if rate > 0.0 { consumed / rate } else { 0.0 };
        sides.push(Side { name: "bench_reader", seconds, messages: consumed, bytes: read });
    }
    sides.retain(|side| side.seconds > 0.0 && side.messages > 0.0);
    sides
}

impl Side {
    fn write(&self, text: &mut String) {
        let Side { name, seconds, messages, bytes } = self;
        let (megabytes, operations) = (bytes / seconds / MB, messages / seconds);
        let each = 1e6 / operations;
        let inflated = seconds / operations * 1e6;
        let rates = format!("{megabytes:.3}mb/s - {operations:.3}ops/s");
        // Writing to a string cannot fail.
        let nanoseconds = format!("{seconds:.9}");
        let duration = nanoseconds.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(text, "[{name}] duration: {duration}s - {rates} - {each:.3}us/op");
        let _ = writeln!(text, "[{name}] {seconds:.6}s - {rates} - {inflated:.6}us/op (aggregate, as published)");
        let _ = writeln!(text, "[{name}] {seconds:.6}s - {rates} - {each:.6}us/op (aggregate, corrected)");
    }
}

/// Bytes of one vector element.
const ELEMENT_BYTES: u64 = 4;

/// A line, its fields in the order of the published program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    topic_num: u64,
    producer_num: u64,
    vector_dim: u64,
    msg_length: u64,
    duration_in_milliseconds: u64,
    speed_in_counter: f64,
    speed_in_bytes: f64,
}

/// A point's repetitions, as a later version of the published program printed them: the mean, and whole rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Summary {
    trials: usize,
    mean: Row,
    /// The row with the highest `SpeedInBytes`.
    max: Row,
    /// The row with the lowest.
    min: Row,
}

/// One line per record.
pub fn pulsar_sweep_lines(records: &[&Record]) -> Result<String, ExportError> {
    records.iter().map(|record| row(record).map(|row| line(&row))).collect()
}

/// One line per point.
pub fn pulsar_sweep_summary(records: &[&Record]) -> Result<String, ExportError> {
    let mut points: BTreeMap<usize, Vec<Row>> = BTreeMap::new();
    for record in records {
        points.entry(record.point_index).or_default().push(row(record)?);
    }
    Ok(points.values().filter_map(|rows| summarize(rows)).map(|summary| line(&summary)).collect())
}

fn row(record: &Record) -> Result<Row, ExportError> {
    let tables = record.tables();
    let lacks = |what, advice| ExportError::Lacks { point: record.point_index, trial: record.trial, what, advice };
    let is_vector = tables.payload.kind == PayloadKind::Vector;
    let dimension = tables.payload.dimension.map(|dimension| dimension.0).filter(|_| is_vector);
    let vector_dim = dimension.ok_or_else(|| lacks("vector dimension", "run it with `payload.kind = \"vector\"`"))?;
    let seconds = record.throughput.completion_ns() as f64 / 1e9;
    if seconds == 0.0 {
        return Err(lacks("duration", "nothing was acknowledged"));
    }
    let count = record.counts.acknowledged;
    Ok(Row {
        topic_num: tables.topology.topics.0,
        producer_num: tables.producers.count.0,
        vector_dim,
        msg_length: count,
        duration_in_milliseconds: record.throughput.completion_ns() / 1_000_000,
        speed_in_counter: count as f64 / seconds,
        speed_in_bytes: (count * vector_dim * ELEMENT_BYTES) as f64 / seconds,
    })
}

fn summarize(rows: &[Row]) -> Option<Summary> {
    let by_rate = |one: &&Row, other: &&Row| one.speed_in_bytes.total_cmp(&other.speed_in_bytes);
    let (max, min) = (rows.iter().max_by(by_rate)?, rows.iter().min_by(by_rate)?);
    let whole = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>() / rows.len() as u64;
    let real = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
    let mean = Row {
        msg_length: whole(|row| row.msg_length),
        duration_in_milliseconds: whole(|row| row.duration_in_milliseconds),
        speed_in_counter: real(|row| row.speed_in_counter),
        speed_in_bytes: real(|row| row.speed_in_bytes),
        ..*max
    };
    Some(Summary { trials: rows.len(), mean, max: *max, min: *min })
}

/// Numbers and fixed names always serialise.
fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::{Reason, ReasonKind, sample};

    #[test]
    fn a_line_is_that_of_the_tool() {
        let record = sample::record();
        assert_eq!(
            kafka_perf_lines(&[&record]).unwrap(),
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
        let line = kafka_perf_lines(&[&record]).unwrap();
        record.verdict.reasons.push(Reason {
            kind: ReasonKind::Losses,
            evidence: String::new(),
            advice: String::new(),
            figures: Default::default(),
        });
        record.verdict.valid = false;
        let expected = format!("trial 1 of point 0 is not valid (losses): do not use the next line.\n{line}");
        assert_eq!(kafka_perf_lines(&[&record]).unwrap(), expected);
    }

    #[test]
    fn a_trial_without_acknowledgements_lacks_its_figures() {
        let mut record = sample::record();
        record.latency.service = None;
        assert!(matches!(kafka_perf_lines(&[&record]), Err(ExportError::Lacks { what: "service time", .. })));
    }

    #[test]
    fn nsq_bench_duration_is_in_seconds_to_the_nanosecond() {
        for (seconds, printed) in [(0.759_604_474_000_000_1, "0.759604474s"), (10.0, "10s"), (2.5, "2.5s")] {
            let mut text = String::new();
            Side { name: "bench_reader", seconds, messages: 1e6, bytes: 1e8 }.write(&mut text);
            assert!(text.starts_with(&format!("[bench_reader] duration: {printed} - ")), "{text}");
        }
    }

    #[test]
    fn nsq_bench_aggregate_is_printed_published_and_corrected() {
        // The published line: 10.002 s, 2,070,549.631 ops/s, 197.463 mb/s, 4.830 us/op, where the truth is 0.483.
        let side = Side { name: "bench_writer", seconds: 10.002, messages: 20_709_637.0, bytes: 2_070_963_700.0 };
        let mut text = String::new();
        side.write(&mut text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "[bench_writer] duration: 10.002s - 197.463mb/s - 2070549.590ops/s - 0.483us/op");
        // The script prints six decimals; when it was published, it printed three.
        assert!(lines[1].contains(" - 4.830602us/op (aggregate, as published)"), "{}", lines[1]);
        assert!(lines[2].contains(" - 0.482964us/op (aggregate, corrected)"), "{}", lines[2]);
    }

    fn record(point_index: usize, trial: u32, duration_ns: u64) -> Record {
        let mut record = sample::record();
        (record.point_index, record.trial) = (point_index, trial);
        record.counts.acknowledged = 1_048_576;
        record.throughput.window_ns = duration_ns;
        record.throughput.until_last_acknowledgement = None;
        record.scenario = json!({
            "topology": { "topics": 4 }, "producers": { "count": 512 }, "payload": { "kind": "vector", "dimension": 512 },
        });
        record
    }

    #[test]
    fn a_line_is_the_seeds() {
        // 2 GiB in 16 s.
        let record = record(0, 1, 16_000_999_999);
        let expected = "{\"TopicNum\":4,\"ProducerNum\":512,\"VectorDim\":512,\"MsgLength\":1048576,\
                        \"DurationInMilliseconds\":16000,\"SpeedInCounter\":65531.90";
        let line = pulsar_sweep_lines(&[&record]).unwrap();
        assert!(line.starts_with(expected) && line.ends_with("}\n"), "{line}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        let bytes = parsed["SpeedInBytes"].as_f64().unwrap();
        assert!((bytes / parsed["SpeedInCounter"].as_f64().unwrap() - 2048.0).abs() < 1e-9);
    }

    #[test]
    fn repetitions_become_mean_highest_and_lowest() {
        let records = [record(0, 1, 10_000_000_000), record(1, 1, 1_000_000_000), record(0, 2, 20_000_000_000)];
        let text = pulsar_sweep_summary(&records.iter().collect::<Vec<_>>()).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((text.lines().count(), &first["Trials"]), (2, &json!(2)));
        assert_eq!(first["Max"]["DurationInMilliseconds"], 10_000);
        assert_eq!(first["Min"]["DurationInMilliseconds"], 20_000);
        assert_eq!(first["Mean"]["SpeedInCounter"], (104_857.6 + 52_428.8) / 2.0);
    }

    #[test]
    fn other_payloads_than_vectors_are_refused() {
        let mut record = record(3, 2, 1);
        record.scenario["payload"] = json!({ "kind": "zeros" });
        let error = pulsar_sweep_lines(&[&record]).unwrap_err().to_string();
        assert!(error.contains("trial 2 of point 3"), "{error}");
    }
}
