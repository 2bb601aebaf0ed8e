//! Payloads by a schema, on a real Kafka: fastavro, jsonschema and Google's protobuf read what was sent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brokermark::record::Record;
use serde_json::{Value, json};

use crate::harness::kafka::address;
use crate::harness::scripted_registry::{FIRST_ID, Registry};
use crate::harness::server::variable;
use crate::harness::{Bench, PATIENCE, Running, assert_delivered};

const MESSAGES: u64 = 60;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Sends and verifies messages with these keys in `[payload.schema]`, and returns the record, and the messages as kafka-python reads them, in
/// hexadecimal digits. The topic is removed.
fn sent(keys: &str, records: &str) -> (Record, String) {
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", client = \"native\", address = \"{}\" }}\ntopology.keep = true\n\
         consumers.verify = true\nrun.messages = {MESSAGES}\n\
         [payload]\nkind = \"schema\"\npool = 20\n[payload.schema]\n{keys}",
        address()
    ));
    bench.write("records.jsonl", records);
    for file in ["order.avsc", "order.json", "order.proto"] {
        std::fs::copy(root("tests/data/schemas").join(file), bench.path().join(file)).unwrap();
    }
    let record = bench.run(&[]).expect(0).record();
    assert_delivered(&record, MESSAGES, 1);
    let mut read = Command::new(variable("BROKERMARK_KAFKA_PYTHON"));
    read.arg(root("tests/harness/kafka_python.py")).args([
        "take",
        &address(),
        &record.topics[0],
        &MESSAGES.to_string(),
    ]);
    let read = Running::start(&mut read).finish(PATIENCE).expect(0).stdout;
    (record, read)
}

/// What other implementations read in these messages: the id, and the record.
fn decoded(arguments: &[&str], messages: &str) -> Vec<(u64, Value)> {
    let mut command = Command::new(variable("BROKERMARK_PYTHON"));
    command.arg(root("tests/harness/read_schemas.py")).args(arguments).current_dir(root("tests/data/schemas"));
    let mut python = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(messages.as_bytes()).unwrap();
    let done = python.wait_with_output().unwrap();
    assert!(done.status.success(), "{arguments:?}");
    let lines = String::from_utf8(done.stdout).unwrap();
    let read = |line: &str| {
        let mut read: Value = serde_json::from_str(line).unwrap();
        (read["id"].as_u64().unwrap(), read["record"].take())
    };
    lines.lines().map(read).collect()
}

/// The messages of the records that are in a file, and of generated ones.
fn assert_read(schema: &str, arguments: &[&str], records: &[(Value, Value)]) {
    let lines: Vec<String> = records.iter().map(|(written, _)| written.to_string()).collect();
    let (_, messages) = sent(&format!("{schema}\nrecords = \"records.jsonl\"\nid = 4_000_000_000"), &lines.join("\n"));
    let found = decoded(arguments, &messages);
    assert_eq!(found.len() as u64, MESSAGES);
    for (id, record) in found {
        assert_eq!(id, 4_000_000_000);
        let is_expected =
            |expected: &Value| expected.as_object().unwrap().iter().all(|(key, value)| record[key] == *value);
        assert!(records.iter().any(|(_, expected)| is_expected(expected)), "{record}");
    }
    let registry = Registry::start(None);
    let registered = format!("{schema}\nregistry = {{ url = \"{}\", subject = \"a\", register = true }}", registry.url);
    let (record, messages) = sent(&registered, "");
    assert_eq!(record.payload_schema.unwrap().id, FIRST_ID);
    let mut found = decoded(arguments, &messages);
    assert!(found.iter().all(|(id, _)| *id == u64::from(FIRST_ID)));
    assert_eq!(found.len() as u64, MESSAGES);
    found.dedup();
    assert!(found.len() > 10, "they differ: {found:?}");
}

#[test]
fn real_kafka_avro_is_read_by_fastavro() {
    let written = json!({
        "id": 5, "customer": "Zoë", "state": "PAID", "total": "\u{fb}.", "weight": 1.5, "at": 1_700_000_000_123_i64, "day": 19_000,
        "key": "550e8400-e29b-41d4-a716-446655440000", "hash": "\0\u{7f}\u{80}\u{ff}", "tags": {"a": "b"},
        "lines": [{"article": "x", "count": 2, "parts": [{"article": 300}]}],
    });
    let read = json!({
        "id": 5, "customer": "Zoë", "state": "PAID", "before": null, "total": "-12.34", "weight": 1.5, "day": "2022-01-08",
        "at": "2023-11-14 22:13:20.123000+00:00", "key": "550e8400-e29b-41d4-a716-446655440000", "tags": {"a": "b"},
        "lines": [{"article": "x", "count": 2, "parts": [{"article": 300, "count": 1, "parts": []}]}],
    });
    assert_read("type = \"avro\"\nfile = \"order.avsc\"", &["avro", "order.avsc"], &[(written, read)]);
}

#[test]
fn real_kafka_json_schema_is_read_by_jsonschema() {
    let records = [json!({"id": 1, "state": "NEW"}), json!({"id": 2, "state": "SENT", "customer": "abc"})];
    let records = records.map(|record| (record.clone(), record));
    assert_read("type = \"json\"\nfile = \"order.json\"", &["json", "order.json"], &records);
}

#[test]
fn real_kafka_protobuf_is_read_by_googles() {
    let record = json!({
        "id": "-5", "customer": {"name": "Zoë"}, "state": "PAID", "at": "2023-11-14T22:13:20.123Z", "note": "n",
        "stock": {"a": -3}, "lines": [{"article": "x", "count": 2, "parts": [{"article": "y"}]}],
        "weights": [1.5, -2.0], "hash": "AH+A/w==", "account": "77", "priority": 0,
    });
    let line = json!({"article": "x", "count": 2});
    let schema = |message: &str| format!("type = \"protobuf\"\nfile = \"order.proto\"\nmessage = \"shop.{message}\"");
    assert_read(&schema("Order"), &["protobuf", "order.pb", "shop.Order", "1"], &[(record.clone(), record)]);
    assert_read(&schema("Order.Line"), &["protobuf", "order.pb", "shop.Order.Line", "1", "0"], &[(line.clone(), line)]);
    let customer = json!({"name": "x"});
    assert_read(&schema("Customer"), &["protobuf", "order.pb", "shop.Customer", "0"], &[(customer.clone(), customer)]);
}
