use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::record::{HlogInterval, HlogLines, sample};

/// The fields that `bin/create_charts.py` reads.
const READ: [&str; 11] = [
    "workload",
    "driver",
    "publishLatency99pct",
    "publishDelayLatency99pct",
    "publishRate",
    "endToEndLatency95pct",
    "consumeRate",
    "endToEndLatencyAvg",
    "aggregatedPublishLatencyQuantiles",
    "aggregatedPublishDelayLatencyQuantiles",
    "aggregatedEndToEndLatencyQuantiles",
];

fn exported(hlog: &[u8]) -> Value {
    let record = sample::record();
    let text = lines(&[&record], &rows(0, 1), hlog).unwrap();
    serde_json::from_str(text.trim_end()).unwrap()
}

/// 25 s of a trial.
fn rows(point_index: usize, trial: u32) -> Vec<SeriesRow> {
    let row = |second| SeriesRow {
        point_index,
        trial,
        second,
        begin_ns: Some(second * 1_000_000_000),
        ..sample::series()[5].clone()
    };
    (0..25).map(row).collect()
}

/// Adds an interval of each of these seconds, with one latency, in milliseconds.
fn log_seconds(log: &mut HlogLines, started: Timestamp, millisecond: impl Fn(u64) -> u64) {
    for second in 0..25 {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
        histogram.record(millisecond(second) * 1_000_000).unwrap();
        let (started, length) = (started + Duration::from_secs(second), Duration::from_secs(1));
        log.push(&HlogInterval { tag: "service", started, length, histogram: &histogram }).unwrap();
    }
}

fn maxima(result: &Value) -> Vec<f64> {
    result["publishLatencyMax"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap().round()).collect()
}

#[test]
fn the_chart_script_finds_what_it_reads() {
    let result = exported(&[]);
    for field in READ {
        assert!(!result[field].is_null(), "{field}");
    }
    for list in READ.iter().filter(|field| result[**field].is_array()) {
        assert!(!result[*list].as_array().unwrap().is_empty(), "its maximum is taken: {list}");
    }
    let service = sample::record().latency.service.unwrap();
    let p99 = result["aggregatedPublishLatency99pct"].as_f64().unwrap();
    let expected = service.decode_histogram().unwrap().value_at_quantile(0.99) as f64 / 1e6;
    assert!((p99 - expected).abs() < 1e-9, "{p99} {expected}");
    let curve = result["aggregatedPublishLatencyQuantiles"].as_object().unwrap();
    assert!(curve.len() > 5 && curve.keys().all(|key| key.parse::<f64>().is_ok_and(|key| key <= 100.0)));
}

#[test]
fn end_to_end_latency_is_theirs_where_messages_left_on_time() {
    let delayed = |delay_ns: Option<u64>| {
        let mut record = sample::record();
        let mut delays = crate::measure::Distribution::default();
        delays.record_n(delay_ns.unwrap_or(0), 1_000);
        let delay = Latency::from_histogram(delays.histogram(), 0, None);
        record.latency.schedule_delay = delay.filter(|_| delay_ns.is_some());
        let text = lines(&[&record], &sample::series(), &[]).unwrap();
        let result: Value = serde_json::from_str(text.trim_end()).unwrap();
        let ours = &result["aggregatedEndToEndLatencyFromIntended99pct"];
        assert!(ours.is_number(), "{result}");
        (result["aggregatedEndToEndLatency99pct"] == *ours, result["endToEndLatencyAvg"].is_null())
    };
    assert_eq!(delayed(None), (true, false), "a closed loop");
    assert_eq!(delayed(Some(100_000)), (true, false));
    assert_eq!(delayed(Some(5_000_000)), (false, true), "from when they were sent is not known");
}

#[test]
fn end_to_end_latency_of_a_growing_lag_is_left_out() {
    let mut record = sample::record();
    record.latency.end_to_end = record.latency.end_to_end.map(Latency::with_growing_lag);
    let text = lines(&[&record], &sample::series(), &[]).unwrap();
    assert!(!text.to_lowercase().contains("endtoend"), "{text}");
    assert!(text.contains("aggregatedPublishLatency99pct"), "{text}");
}

#[test]
fn what_speaks_against_a_trial_is_a_field_of_our_own() {
    let result = exported(&[]);
    assert_eq!((&result["brokermarkValid"], &result["brokermarkReasons"]), (&json!(true), &json!([])));
}

#[test]
fn latencies_of_ten_seconds_are_merged_from_the_interval_log() {
    let mut log = HlogLines::default();
    log_seconds(&mut log, sample::record().started_at, |second| 1 + second / 10);
    assert_eq!(maxima(&exported(log.text())), [1.0, 2.0, 3.0]);
}

/// Trials of two points take turns, and are listed point by point.
#[test]
fn failures_of_a_short_trial_are_in_its_error_rate() {
    let mut record = sample::record();
    record.counts.failed = 50;
    let text = lines(&[&record], &rows(0, 1)[..5], &[]).unwrap();
    let result: Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!(result["publishErrorRate"], json!([5.0]));
}

#[test]
fn a_trial_has_no_intervals_of_other_trials() {
    let (mut log, mut records, mut series) = (HlogLines::default(), Vec::new(), Vec::new());
    for (number, (point_index, trial)) in [(1, 1), (0, 1), (1, 2), (0, 2)].into_iter().enumerate() {
        let started_at = sample::record().started_at + Duration::from_secs(30 * number as u64);
        log_seconds(&mut log, started_at, |_| number as u64 + 1);
        series.extend(rows(point_index, trial));
        records.push(Record { point_index, trial, started_at, ..sample::record() });
    }
    records.sort_by_key(|record| (record.point_index, record.trial));
    let exported = |records: &[&Record]| -> Vec<Vec<f64>> {
        let text = lines(records, &series, log.text()).unwrap();
        text.lines().map(|line| maxima(&serde_json::from_str(line).unwrap())).collect()
    };
    assert_eq!(exported(&records.iter().collect::<Vec<_>>()), [[2.0; 3], [4.0; 3], [1.0; 3], [3.0; 3]]);
    assert_eq!(exported(&[&records[2]]), [[1.0; 3]], "one trial alone");
}
