//! The schema that `brokermark schema` prints accepts a record, and refuses one that was altered.

use brokermark::cli::schema::{schema, series_schema};
use brokermark::record::{Phase, Record, SeriesRow};
use jsonschema::Validator;
use serde_json::{Value, json};

/// Changes a record in one place.
type Alteration = fn(&mut Value);

/// A complete record, made up; the unit tests read the same one.
fn record() -> Value {
    serde_json::from_str(include_str!("data/record.json")).unwrap()
}

fn validator() -> Validator {
    let mut text = Vec::new();
    schema(&mut text).unwrap();
    let schema: Value = serde_json::from_slice(&text).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn a_record_is_valid_before_and_after_it_went_through_the_types() {
    let validator = validator();
    assert_eq!(validator.validate(&record()).map_err(|error| error.to_string()), Ok(()));
    let typed: Record = serde_json::from_value(record()).unwrap();
    let written: Value = serde_json::from_str(&typed.to_line()).unwrap();
    assert_eq!(written, record());
}

#[test]
fn a_record_without_what_is_not_known_is_valid() {
    let mut record: Record = serde_json::from_value(record()).unwrap();
    record.latency = Default::default();
    record.verification = None;
    record.host_load = None;
    record.client = Default::default();
    record.environment = Default::default();
    let value: Value = serde_json::from_str(&record.to_line()).unwrap();
    assert_eq!(validator().validate(&value).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn every_alteration_is_refused() {
    let validator = validator();
    let alterations: [(&str, Alteration); 12] = [
        ("another format", |record| record["schema"] = json!("brokermark.record/2")),
        ("no status", |record| drop(record.as_object_mut().unwrap().remove("status"))),
        ("an unknown status", |record| record["status"] = json!("finished")),
        ("an unknown field", |record| record["extra"] = json!(1)),
        ("a misspelt nested field", |record| record["counts"]["acknowleged"] = json!(1)),
        ("a negative count", |record| record["counts"]["failed"] = json!(-1)),
        ("a count as text", |record| record["counts"]["failed"] = json!("4")),
        ("a trial numbered 0", |record| record["trial"] = json!(0)),
        ("an unknown class of failure", |record| record["errors"][0]["class"] = json!("bad_luck")),
        ("an unknown reason", |record| record["verdict"]["notes"][0]["kind"] = json!("moon")),
        ("a share above 1", |record| record["host_load"]["system_cpu_busy"] = json!(1.5)),
        ("a latency without its histogram", |record| {
            drop(record["latency"]["response"].as_object_mut().unwrap().remove("histogram"))
        }),
    ];
    for (what, alter) in alterations {
        let mut altered = record();
        alter(&mut altered);
        assert!(!validator.is_valid(&altered), "accepted: {what}");
    }
}

#[test]
fn every_field_is_described() {
    let mut text = Vec::new();
    schema(&mut text).unwrap();
    let schema: Value = serde_json::from_slice(&text).unwrap();
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for definition in definitions {
        for (name, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{}.{name} has no description", definition["title"]);
        }
    }
}

#[test]
fn a_second_is_valid_and_an_altered_one_is_not() {
    let mut text = Vec::new();
    series_schema(&mut text).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_slice(&text).unwrap()).unwrap();
    let row = SeriesRow {
        point_index: 0,
        trial: 1,
        second: 3,
        phase: Phase::Measure,
        full: true,
        attempted: 10,
        acknowledged: 9,
        failed: 0,
        payload_bytes: 900,
        consumed: None,
        in_flight: 1,
        p50_ns: Some(1),
        p99_ns: None,
        queue_messages: None,
        cpu_cores: 0.5,
    };
    let mut value: Value = serde_json::from_str(&row.to_line()).unwrap();
    assert!(validator.is_valid(&value));
    value["phase"] = json!("lunch");
    assert!(!validator.is_valid(&value));
}
