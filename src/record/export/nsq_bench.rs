//! The lines of NSQ's benchmark: `bench_writer`, `bench_reader`, and the aggregate of `bench.py`.
//!
//! MB is 2^20 bytes of message bodies. `bench.py` takes the longest duration and the sums of the rates, and computes its
//! time per operation as `duration / rate`, which is too large by the duration in seconds: that figure is printed as
//! published, and the true one beside it. All connections of a trial share one measured window, so unlike the rates that
//! `bench.py` sums, a trial's overlap completely.

use std::fmt::Write;
use std::time::Duration;

use crate::record::schema::{Record, Status};

/// What a mebibyte is.
const MB: f64 = 1024.0 * 1024.0;

/// One side of a trial.
struct Side {
    name: &'static str,
    seconds: f64,
    messages: f64,
    bytes: f64,
}

/// For each completed trial its lines, of the reader only where there was one.
pub fn bench_lines(records: &[Record]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_seconds_to_the_nanosecond_as_bench_py_reads_it() {
        for (seconds, printed) in [(0.759_604_474_000_000_1, "0.759604474s"), (10.0, "10s"), (2.5, "2.5s")] {
            let mut text = String::new();
            Side { name: "bench_reader", seconds, messages: 1e6, bytes: 1e8 }.write(&mut text);
            assert!(text.starts_with(&format!("[bench_reader] duration: {printed} - ")), "{text}");
        }
    }

    #[test]
    fn the_published_aggregate_is_inflated_by_the_duration_and_the_corrected_one_is_not() {
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
}
