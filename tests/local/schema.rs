//! The schema that `brokermark schema` prints accepts records, made up and real, and refuses what was altered.

use brokermark::cli::schema::{schema, series_schema};
use brokermark::record::{GroupRow, Phase, Record, SeriesRow};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::harness::{Bench, execute};

/// Changes a record in one place.
type Alteration = fn(&mut Value);

/// A complete record, made up; the unit tests read the same one.
fn record() -> Value {
    serde_json::from_str(include_str!("../data/record.json")).unwrap()
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
        length_ns: 1_000_000_000,
        due: Some(50_000),
        phase: Phase::Measure,
        full: true,
        attempted: 10,
        acknowledged: 9,
        failed: 0,
        payload_bytes: 900,
        consumed: None,
        groups: vec![GroupRow {
            group: 0,
            consumed: 9,
            consumer_lag: Some(-2),
            end_to_end_p50_ns: None,
            end_to_end_p99_ns: Some(5),
        }],
        finished: None,
        consumer_lag: None,
        in_flight: 1,
        p50_ns: Some(1),
        p99_ns: None,
        queue_messages: None,
        cpu_cores: 0.5,
        memory_bytes: Some(20 << 20),
        broker_cpu_cores: Some(1.5),
        broker_memory_bytes: None,
    };
    let mut value: Value = serde_json::from_str(&row.to_line()).unwrap();
    assert!(validator.is_valid(&value));
    value["phase"] = json!("lunch");
    assert!(!validator.is_valid(&value));
}

/// The schemas as the program prints them.
fn printed(arguments: &[&str]) -> Validator {
    jsonschema::validator_for(&serde_json::from_str(&execute(arguments).expect(0).stdout).unwrap()).unwrap()
}

/// Every line of a run's records and seconds, of trials that completed and of one that could not begin.
fn assert_run_is_valid(scenario: &str, code: i32, seconds: usize) {
    let bench = Bench::new(scenario);
    bench.run(&[]).expect(code);
    let (records, series) = (printed(&["schema"]), printed(&["schema", "--series"]));
    let mut counts = Vec::new();
    for (file, validator) in [("records.jsonl", records), ("series.jsonl", series)] {
        let text = std::fs::read_to_string(bench.run_directory().join(file)).unwrap();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{file}: {errors:#?}");
        }
        counts.push(text.lines().count());
    }
    assert_eq!(counts[0], 2);
    assert!(counts[1] >= seconds, "{counts:?}");
}

#[test]
fn a_runs_own_records_of_the_null_broker_are_valid() {
    let scenario = "broker.null = { fail = 0.01, ignore = 0.001, lose = 0.01 }
        broker.kind = \"null\"
        [consumers.backlog]
        messages = 800
        [[consumers.group]]
        work = \"10us\"
        [run]
        duration = \"1500ms\"
        warm_up = \"200ms\"
        drain_deadline = \"100ms\"
        [thresholds]
        require = [\"lost = 0\", \"response.p99.9 < 1ms\"]
        [sweep.over]
        \"load.rate\" = [\"1k/s\", \"2k/s\"]";
    assert_run_is_valid(scenario, 3, 2);
}

#[test]
#[cfg(feature = "kafka")]
fn a_runs_own_records_of_the_embedded_kafka_are_valid() {
    let scenario = "broker = { kind = \"kafka\", address = \"embedded\" }
        load.rate = \"500/s\"
        run.duration = \"1500ms\"
        [consumers]
        [consumers.properties]
        \"fetch.wait.max.ms\" = 5
        [sweep.over]
        \"producers.keys\" = [\"none\", { kind = \"random\", distinct = 10 }]";
    assert_run_is_valid(scenario, 0, 2);
}

#[test]
#[cfg(feature = "kafka")]
fn records_of_trials_that_could_not_begin_are_valid() {
    let scenario = "broker = { kind = \"kafka\", address = \"127.0.0.1:1\" }\nrun.messages = 1\nsweep.trials = 2";
    assert_run_is_valid(scenario, 1, 0);
}
