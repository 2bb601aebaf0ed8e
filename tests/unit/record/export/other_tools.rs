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
fn points_of_several_runs_are_not_repetitions_of_each_other() {
    let other = Record { run_id: "other".to_owned(), ..record(0, 1, 20_000_000_000) };
    let text = pulsar_sweep_summary(&[&record(0, 1, 10_000_000_000), &other]).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (&line["Trials"], &line["Mean"]["DurationInMilliseconds"])).collect();
    assert_eq!(told, [(&json!(1), &json!(10_000)), (&json!(1), &json!(20_000))]);
}

#[test]
fn other_payloads_than_vectors_are_refused() {
    let mut record = record(3, 2, 1);
    record.scenario["payload"] = json!({ "kind": "zeros" });
    let error = pulsar_sweep_lines(&[&record]).unwrap_err().to_string();
    assert!(error.contains("trial 2 of point 3"), "{error}");
}
