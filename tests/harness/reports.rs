//! Runs of every kind that a report is made of, written down without running anything.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

mod unequal;

/// Runs, and the page that is to be made of them.
pub struct Case {
    pub name: &'static str,
    pub runs: Vec<PathBuf>,
}

/// Every kind of page.
pub const KINDS: [&str; 14] = [
    "single",
    "unequal",
    "repeated",
    "one-axis",
    "categories",
    "two-axes",
    "comparison",
    "pipeline",
    "failed",
    "client-bound",
    "demonstration",
    "search",
    "thousand-points",
    "day",
];

/// One of them, its runs below `base`.
pub fn case(base: &Path, name: &'static str) -> Case {
    let run = |name: &str, records: Vec<Value>, seconds| write(&base.join(name), &records, seconds);
    let runs = match name {
        "single" => vec![run(name, vec![record()], 13)],
        "unequal" => vec![run(name, vec![unequal::record(record())], 13)],
        "repeated" => vec![run(name, (0..5).map(|trial| trial_of(0, trial, json!({}), 1.0)).collect(), 13)],
        "one-axis" => vec![run(name, one_axis(), 0)],
        "categories" => vec![run(name, categories(), 0)],
        "two-axes" => vec![run(name, two_axes(), 0)],
        "comparison" => vec![run("a", side(1.0), 13), run("b", side(0.8), 13)],
        "pipeline" => vec![pipeline()],
        "failed" => vec![run(name, vec![failed()], 0)],
        "client-bound" => vec![run(name, vec![client_bound()], 13)],
        "demonstration" => vec![run(name, vec![demonstration()], 13)],
        "search" => vec![search(&base.join(name))],
        "thousand-points" => vec![run(name, thousand(), 0)],
        "day" => vec![run(name, vec![record()], 86_400)],
        unknown => panic!("no case is called {unknown}"),
    };
    Case { name, runs }
}

/// The record that `tests/local/schema.rs` validates.
fn record() -> Value {
    serde_json::from_str(include_str!("../data/record.json")).unwrap()
}

/// A repetition of a point whose rate and latency are those of the record times a factor.
fn trial_of(point: usize, trial: usize, values: Value, factor: f64) -> Value {
    let mut record = record();
    record["point_index"] = point.into();
    record["trial"] = (trial + 1).into();
    record["point"] = values;
    // Every trial a little different, without chance.
    let factor = factor * (1.0 + (trial * 37 % 11) as f64 / 500.0);
    for field in ["messages_per_second", "payload_bytes_per_second"] {
        record["throughput"][field] = (record["throughput"][field].as_f64().unwrap() * factor).into();
    }
    let response = &mut record["latency"]["response"];
    for field in ["p50_ns", "p99_ns", "p99_9_ns"] {
        response[field] = ((response[field].as_f64().unwrap() / factor) as u64).into();
    }
    record["verdict"]["valid"] = (!(point + trial).is_multiple_of(7)).into();
    record
}

fn one_axis() -> Vec<Value> {
    let point = |index: usize| {
        (0..4)
            .map(move |trial| trial_of(index, trial, json!({"producers.count": 1 << index}), 1.0 + index as f64 * 0.4))
    };
    (0..7).flat_map(point).collect()
}

fn categories() -> Vec<Value> {
    let names: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
    let point = |index: usize| {
        (0..3).map(move |trial| {
            trial_of(index, trial, json!({"broker.kafka.compression": names[index]}), 2.0 - index as f64 * 0.3)
        })
    };
    (0..5).flat_map(point).collect()
}

fn two_axes() -> Vec<Value> {
    let point = |index: usize| {
        let size = ["100 B", "1 KiB", "10 KiB"][index % 3];
        let values = json!({"payload.size": size, "producers.count": 1 + index / 3});
        (0..3).map(move |trial| trial_of(index, trial, values.clone(), 1.0 + index as f64 * 0.7))
    };
    (0..12).flat_map(point).collect()
}

fn side(factor: f64) -> Vec<Value> {
    (0..6).map(|trial| trial_of(0, trial, json!({}), factor)).collect()
}

fn thousand() -> Vec<Value> {
    let point = |index: usize| {
        let mut record =
            trial_of(index, 0, json!({"producers.in_flight": index + 1}), 1.0 + (index as f64 / 100.0).sin().abs());
        for unused in ["service", "schedule_delay", "end_to_end"] {
            record["latency"][unused] = Value::Null;
        }
        record
    };
    (0..1000).map(point).collect()
}

fn failed() -> Value {
    let mut record = record();
    record["status"] = "failed".into();
    record["error"] = "the broker at 10.0.0.7:9092 refused the connection: <closed> & \"gone\"".into();
    record["verdict"]["valid"] = false.into();
    record["latency"] = json!({"response": null, "service": null, "schedule_delay": null, "end_to_end": null});
    for count in ["attempted", "acknowledged", "failed", "unresolved", "payload_bytes_acknowledged"] {
        record["counts"][count] = 0.into();
    }
    record["verification"] = Value::Null;
    record["errors"] = json!([]);
    record
}

/// The load generator could do no more.
fn client_bound() -> Value {
    let mut record = record();
    record["verdict"] = json!({
        "valid": false,
        "reasons": [{
            "kind": "client-bound",
            "evidence": "brokermark used 1.97 of 2 cores",
            "advice": "Send larger batches, or run the load from a machine with more cores.",
            "figures": {"cores_used": 1.97},
        }],
        "notes": [],
        "limited_by": {"limiter": "client", "evidence": "brokermark used 1.97 of the 2 cores that it may use."},
    });
    record["client"]["cores_used"] = 1.97.into();
    record["client"]["cores_available"] = 2.into();
    // The longest of all figures: no broker, and as many messages as the load generator makes.
    record["throughput"]["messages_per_second"] = 61_295_639.4.into();
    record["thresholds"] = json!([]);
    record
}

/// A broker inside the program, and a short run of it.
fn demonstration() -> Value {
    let mut record = record();
    record["environment"]["embedded"] = true.into();
    let reason = |kind: &str, evidence: &str| json!({"kind": kind, "evidence": evidence, "advice": "", "figures": {}});
    record["verdict"] = json!({
        "valid": false,
        "reasons": [
            reason("embedded", "The broker ran inside this process."),
            reason("too-short", "Only 3 s were measured."),
        ],
        "notes": [],
        "limited_by": {"limiter": "unknown", "evidence": "Nothing was near its limit."},
    });
    record["thresholds"] = json!([]);
    record["broker_usage"] = Value::Null;
    record
}

/// A search whose third probe is its answer.
fn search(directory: &Path) -> PathBuf {
    let rates = [50_000, 200_000, 96_840, 110_000, 103_000, 98_500];
    let held = [true, false, true, false, false, true];
    let mut probes = Vec::new();
    let mut records = Vec::new();
    for (index, (rate, held)) in rates.into_iter().zip(held).enumerate() {
        let mut record = trial_of(index, 0, json!({"load.rate": rate}), 1.0);
        record["verdict"]["limited_by"] =
            json!({"limiter": if held { "schedule" } else { "broker" }, "evidence": "The broker's cores were busy."});
        records.push(record);
        probes.push(json!({
            "point_index": index, "trial": 1, "rate_per_second": rate, "window_ns": 10_000_000_000u64,
            "outcome": if held { "held" } else { "missed" },
            "reason": if held { "" } else { "p99 < 20ms: 3.20 s measured; 60 % of the messages were sent in time" },
            "messages_per_second": rate.min(104_000),
            "p99_ns": if held { 2_000_000 + index * 1_100_000 } else { 120_000_000 + rate as usize * 2000 },
            "doubts": [],
        }));
    }
    let search = json!({
        "schema": "brokermark.search/1", "scenario_name": "orders-sustained",
        "requirements": ["p99 < 20ms", "lost = 0"], "least_per_second": 1e3, "most_per_second": 2e6,
        "within_ns": 600_000_000_000u64, "took_ns": 301_000_000_000u64, "probes": probes,
        "answer": {
            "end": "found", "rate_per_second": 98_500, "capacity_per_second": 100_100,
            "capacity_low": 97_700, "capacity_high": 102_400, "doubts": [],
        },
    });
    write(directory, &records, 13);
    fs::write(directory.join("search.json"), search.to_string() + "\n").unwrap();
    directory.to_owned()
}

/// A run directory with these records, and of each so many seconds.
fn write(directory: &Path, records: &[Value], seconds: u64) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    let lines: String = records.iter().map(|record| record.to_string() + "\n").collect();
    fs::write(directory.join("records.jsonl"), lines).unwrap();
    let series = records.iter().flat_map(|record| (0..seconds).map(|second| second_of(record, second, seconds)));
    fs::write(directory.join("series.jsonl"), series.collect::<String>()).unwrap();
    fs::write(directory.join("scenario.toml"), "name = \"orders-sustained\"\nbroker.kind = \"kafka\"\n").unwrap();
    directory.to_owned()
}

/// A line of a series: two seconds of warm-up, and a wave with a spike in its middle.
fn second_of(record: &Value, second: u64, seconds: u64) -> String {
    let wave = second * 7919 % 101;
    let spike = if second == seconds / 2 { 40 } else { 1 };
    let row = json!({
        "point_index": record["point_index"], "trial": record["trial"], "second": second, "length_ns": 1_000_000_000,
        "due": 50_000, "phase": if second < 2 { "warm-up" } else { "measure" }, "full": true, "attempted": 50_000,
        "acknowledged": 50_000 / spike.min(2) - wave, "failed": 0, "payload_bytes": 5_000_000, "consumed": 50_000 - wave,
        "in_flight": 60 * spike + wave, "p50_ns": 1_250_000 + wave * 1000, "p99_ns": (2_900_000 + wave * 9000) * spike,
        "queue_messages": 40, "cpu_cores": 0.3 + wave as f64 / 1000.0, "memory_bytes": 24_000_000 + wave * 20_000,
        "broker_cpu_cores": 1.2 + wave as f64 / 300.0, "broker_memory_bytes": 900_000_000 + wave * 1_000_000,
    });
    row.to_string() + "\n"
}

/// A run of the published pipeline, as it was recorded.
fn pipeline() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pipeline-v2")
}
