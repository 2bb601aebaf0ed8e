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
use crate::record::schema::{Record, Status, line, saturating_sum};
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

const ELEMENT_BYTES: f64 = 4.0;

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

/// One line per point of each run.
pub fn pulsar_sweep_summary(records: &[&Record]) -> Result<String, ExportError> {
    let mut text = String::new();
    // Points of several runs have the same numbers.
    for run in records.chunk_by(|one, other| one.run_id == other.run_id) {
        let mut points: BTreeMap<usize, Vec<Row>> = BTreeMap::new();
        for record in run {
            points.entry(record.point_index).or_default().push(row(record)?);
        }
        text.extend(points.values().filter_map(|rows| summarize(rows)).map(|summary| line(&summary)));
    }
    Ok(text)
}

fn row(record: &Record) -> Result<Row, ExportError> {
    let tables = record.tables();
    let lacks = |what, advice| ExportError::Lacks { point: record.point_index, trial: record.trial, what, advice };
    let is_vector = tables.payload.kind == PayloadKind::Vector;
    let dimension = tables.payload.dimension.map(|dimension| dimension as u64).filter(|_| is_vector);
    let vector_dim = dimension.ok_or_else(|| lacks("vector dimension", "run it with `payload.kind = \"vector\"`"))?;
    let seconds = record.throughput.completion_ns() as f64 / 1e9;
    if seconds == 0.0 {
        return Err(lacks("duration", "nothing was acknowledged"));
    }
    let count = record.counts.acknowledged;
    Ok(Row {
        topic_num: tables.topology.topics as u64,
        producer_num: tables.producers.count as u64,
        vector_dim,
        msg_length: count,
        duration_in_milliseconds: record.throughput.completion_ns() / 1_000_000,
        speed_in_counter: count as f64 / seconds,
        speed_in_bytes: count as f64 * (vector_dim as f64 * ELEMENT_BYTES) / seconds,
    })
}

fn summarize(rows: &[Row]) -> Option<Summary> {
    let by_rate = |one: &&Row, other: &&Row| one.speed_in_bytes.total_cmp(&other.speed_in_bytes);
    let (max, min) = (rows.iter().max_by(by_rate)?, rows.iter().min_by(by_rate)?);
    let whole = |of: fn(&Row) -> u64| saturating_sum(rows.iter().map(of)) / rows.len() as u64;
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

#[cfg(test)]
#[path = "../../../tests/unit/record/export/other_tools.rs"]
mod tests;
