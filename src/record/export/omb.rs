//! The result file of OpenMessaging Benchmark: `TestResult.java` as JSON, which its `bin/create_charts.py` reads.
//!
//! Its publish latency runs from the sending to the acknowledgement, which is our service time, in milliseconds. Its publish delay is
//! our schedule delay, in microseconds. Its end-to-end latency runs from the sending to the arrival (`LocalWorker.messageReceived`), ours from
//! when a message was due: it is `endToEndLatencyFromIntended`, and theirs is filled where both are the same to its own resolution of a
//! millisecond, in a closed loop or where messages left on time. Elsewhere theirs is not known and left out. Both are left out where consumers
//! fell further and further behind, because such values tell the length of the trial. Lists have a value for each 10 s: rates from the
//! series, latencies from the interval log; without that log, the one of the whole trial. A file has one result, so a line is printed for each trial.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::{Map, Value, json};

use super::ExportError;
use crate::record::current_series;
use crate::record::schema::{Latency, Phase, Record, SeriesRow, decode_histogram};

/// Seconds of an interval: `WorkloadGenerator.printAndCollectStats`.
const INTERVAL: f64 = 10.0;

/// Names of the percentiles and the quantiles that they are.
const PERCENTILES: [(&str, f64); 7] = [
    ("50pct", 0.5),
    ("75pct", 0.75),
    ("95pct", 0.95),
    ("99pct", 0.99),
    ("999pct", 0.999),
    ("9999pct", 0.9999),
    ("99999pct", 0.99999),
];

/// Points of a quantile curve for each halving of what is left.
const TICKS: u32 = 5;

/// A latency of theirs: its name, the tag of our interval log, and its unit in nanoseconds.
const LATENCIES: [(&str, &str, f64); 4] = [
    ("PublishLatency", "service", 1e6),
    ("PublishDelayLatency", "schedule_delay", 1e3),
    (END_TO_END, "end_to_end", 1e6),
    ("EndToEndLatencyFromIntended", "end_to_end", 1e6),
];

/// Latency from the sending to the arrival.
const END_TO_END: &str = "EndToEndLatency";

/// Most that messages may have waited to be sent where that is left out, in nanoseconds: it reads `System.currentTimeMillis`.
const THEIR_RESOLUTION_NS: u64 = 1_000_000;

/// Share of the messages, 0 to 1, that must have left by then.
const LEFT_ON_TIME: f64 = 0.999;

/// A line for each trial. `hlog`: the run's interval log; empty without one.
pub fn lines(records: &[&Record], series: &[SeriesRow], hlog: &[u8]) -> Result<String, ExportError> {
    let each = records.iter().map(|record| {
        let rows = current_series(series, record.point_index, record.trial);
        result(record, &rows, &intervals(hlog, record.started_at.as_duration().as_secs_f64(), &rows))
    });
    each.map(|result| result.map(|result| format!("{result}\n"))).collect()
}

/// `rows` and `intervals`: those of the trial.
fn result(record: &Record, rows: &[SeriesRow], intervals: &[Tagged]) -> Result<Value, ExportError> {
    let tables = record.tables();
    let topics = tables.topology.topics;
    let mut result = Map::new();
    let mut set = |key: &str, value: Value| result.insert(key.to_owned(), value);
    set("workload", json!(record.scenario_name));
    set("driver", json!(tables.broker.as_ref().map(|broker| &broker.kind)));
    set("messageSize", json!(record.counts.payload_bytes_acknowledged / record.counts.acknowledged.max(1)));
    set("topics", json!(topics));
    set("partitions", json!(tables.topology.partitions));
    set("producersPerTopic", json!(tables.producers.count / topics.max(1)));
    let members = tables.consumers.map_or(0, |consumers| consumers.members.unwrap_or(1));
    set("consumersPerTopic", json!(members));
    let rows: Vec<&SeriesRow> = rows.iter().filter(|row| row.phase == Phase::Measure).collect();
    set("publishRate", rates(&rows, record.throughput.messages_per_second, |row| row.acknowledged));
    let seconds = record.throughput.window_ns as f64 / 1e9;
    let failed_per_second = if seconds > 0.0 { record.counts.failed as f64 / seconds } else { 0.0 };
    set("publishErrorRate", rates(&rows, failed_per_second, |row| row.failed));
    set(
        "consumeRate",
        rates(&rows, record.throughput.consumed_per_second.unwrap_or(0.0), |row| row.consumed.unwrap_or(0)),
    );
    set("backlog", json!([]));
    // Fields that its tools do not read: they know no invalid results.
    set("brokermarkValid", json!(record.verdict.valid));
    set("brokermarkReasons", record.verdict.reasons.iter().map(|reason| json!(reason.kind)).collect());
    set("brokermarkNotes", record.verdict.notes.iter().map(|note| json!(note.kind)).collect());
    let left_on_time = left_on_time(record)?;
    let lag_grew = record.latency.end_to_end.as_ref().is_some_and(|latency| latency.lag_grew);
    let is_stated = |name: &str, tag: &str| match tag {
        "end_to_end" => !lag_grew && (left_on_time || name != END_TO_END),
        _ => true,
    };
    for (name, tag, unit) in LATENCIES.into_iter().filter(|&(name, tag, _)| is_stated(name, tag)) {
        let whole = histogram(record, record.latency.named(tag))?;
        let mut each = in_tens(intervals, tag);
        if each.is_empty() {
            each.push(whole.clone());
        }
        latencies(name, unit, &whole, &each, &mut set);
    }
    Ok(Value::Object(result))
}

/// Whether messages were sent when they were due, so far as the other tool can tell; those of a closed loop always are.
fn left_on_time(record: &Record) -> Result<bool, ExportError> {
    let delay = histogram(record, record.latency.schedule_delay.as_ref())?;
    Ok(delay.is_empty() || delay.value_at_quantile(LEFT_ON_TIME) <= THEIR_RESOLUTION_NS)
}

/// An empty one where the trial did not measure it.
fn histogram(record: &Record, latency: Option<&Latency>) -> Result<Histogram<u64>, ExportError> {
    let lacks = || ExportError::Lacks {
        point: record.point_index,
        trial: record.trial,
        what: "readable histogram",
        advice: "run the trial again",
    };
    match latency {
        Some(latency) => latency.decode_histogram().map_err(|_| lacks()),
        None => Histogram::new(3).map_err(|_| lacks()),
    }
}

/// The fields of one latency: of the whole trial, and of each interval.
fn latencies(
    name: &str,
    unit: f64,
    whole: &Histogram<u64>,
    each: &[Histogram<u64>],
    set: &mut impl FnMut(&str, Value) -> Option<Value>,
) {
    let field = format!("{}{}", name[..1].to_lowercase(), &name[1..]);
    let amount = |nanoseconds: f64| nanoseconds / unit;
    let mut both = |suffix: &str, figure: &dyn Fn(&Histogram<u64>) -> f64| {
        set(&format!("{field}{suffix}"), each.iter().map(|one| json!(amount(figure(one)))).collect());
        set(&format!("aggregated{name}{suffix}"), json!(amount(figure(whole))));
    };
    both("Avg", &|histogram| histogram.mean());
    for (suffix, quantile) in PERCENTILES {
        both(suffix, &move |histogram| histogram.value_at_quantile(quantile) as f64);
    }
    both("Max", &|histogram| histogram.max() as f64);
    let curve = whole.iter_quantiles(TICKS).map(|step| {
        let percentile = 100.0 * step.quantile_iterated_to();
        (percentile.to_string(), json!(amount(step.value_iterated_to() as f64)))
    });
    set(&format!("aggregated{name}Quantiles"), Value::Object(curve.collect()));
}

/// Per second, for each whole interval; of the whole trial where it was shorter than one.
fn rates(rows: &[&SeriesRow], whole: f64, count: impl Fn(&SeriesRow) -> u64) -> Value {
    let mut rates = Vec::new();
    let (mut seconds, mut sum) = (0.0, 0);
    for row in rows {
        seconds += row.seconds();
        sum = u64::saturating_add(sum, count(row));
        // A row is a second to within a scheduler's delay.
        if seconds >= INTERVAL - 0.5 {
            rates.push(json!(sum as f64 / seconds));
            (seconds, sum) = (0.0, 0);
        }
    }
    if rates.is_empty() {
        rates.push(json!(whole));
    }
    Value::Array(rates)
}

/// An interval of the log.
struct Tagged {
    tag: String,
    start_seconds: f64,
    histogram: Histogram<u64>,
}

/// The intervals of a trial that began at `from`, in seconds since the epoch: the first after that, and those for as long as its rows go on. The
/// log has those of all trials of a run. What cannot be read is left out.
fn intervals(hlog: &[u8], from: f64, rows: &[SeriesRow]) -> Vec<Tagged> {
    let begin = |row: &SeriesRow| row.begin_ns.map_or(row.second as f64, |begin_ns| begin_ns as f64 / 1e9);
    // A row without a latency has no interval.
    let Some((first, last)) = rows.iter().find(|row| row.p50_ns.is_some()).zip(rows.last()) else { return Vec::new() };
    let length = begin(last) + last.seconds() - begin(first);
    let entries = IntervalLogIterator::new(hlog).filter_map(|entry| match entry {
        Ok(LogEntry::Interval(interval)) => Some((interval.start_timestamp().as_secs_f64(), interval)),
        _ => None,
    });
    // The log counts in milliseconds.
    let mut entries = entries.filter(|(start, _)| *start >= from - 0.001).peekable();
    let until = entries.peek().map_or(from, |(start, _)| start + length);
    entries
        .filter(|(start, _)| *start < until)
        .filter_map(|(start_seconds, interval)| {
            let histogram = decode_histogram(interval.encoded_histogram()).ok()?;
            let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
            Some(Tagged { tag, start_seconds, histogram })
        })
        .collect()
}

/// The histograms of a latency, merged over 10 s each.
fn in_tens(intervals: &[Tagged], tag: &str) -> Vec<Histogram<u64>> {
    let mut merged: Vec<(u64, Histogram<u64>)> = Vec::new();
    let mut of_tag = intervals.iter().filter(|interval| interval.tag == tag).peekable();
    let begin = of_tag.peek().map_or(0.0, |first| first.start_seconds);
    for interval in of_tag {
        let number = ((interval.start_seconds - begin) / INTERVAL) as u64;
        match merged.last_mut() {
            // Both have the same bounds, so that adding cannot fail.
            Some((last, histogram)) if *last == number => {
                let _ = histogram.add(&interval.histogram);
            }
            _ => merged.push((number, interval.histogram.clone())),
        }
    }
    merged.into_iter().map(|(_, histogram)| histogram).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/record/export/omb.rs"]
mod tests;
