//! The schemas that `brokermark schema` prints accept records and scenarios, made up and real, and refuse what was altered.

use std::collections::BTreeMap;
use std::path::Path;

use brokermark::cli::{record_schema, series_schema};
use brokermark::engine;
use brokermark::record::{GroupRow, Phase, Record, SeriesRow};
use brokermark::scenario::units::parse_duration;
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
    record_schema(&mut text).unwrap();
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
    record_schema(&mut text).unwrap();
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
        begin_ns: Some(3_000_000_000),
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
        faults: vec!["true".to_owned()],
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

/// How many lines there are, all of which are valid.
fn valid_lines(file: &str, text: &str, validator: &Validator) -> usize {
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{file}: {errors:#?}");
    }
    text.lines().count()
}

/// Every line of a run's records and seconds, of trials that completed and of one that could not begin.
fn assert_run_is_valid(scenario: &str, code: i32, seconds: usize) {
    let bench = Bench::new(scenario);
    bench.run(&[]).expect(code);
    let (records, series) = (printed(&["schema"]), printed(&["schema", "--series"]));
    let mut counts = Vec::new();
    for (file, validator) in [("records.jsonl", records), ("series.jsonl", series)] {
        let text = std::fs::read_to_string(bench.run_directory().join(file)).unwrap();
        counts.push(valid_lines(file, &text, &validator));
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
    let printed_records = Bench::new(scenario).run(&[]).expect(1).stdout;
    assert_eq!(valid_lines("standard output", &printed_records, &printed(&["schema"])), 2);
}

/// The scenarios that this repository ships, and those that `new` writes, by where they are from.
fn shipped_scenarios() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("configs")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "toml") {
                found.push((entry.display().to_string(), std::fs::read_to_string(&entry).unwrap()));
            }
        }
    }
    let made =
        engine::kinds().names().into_iter().map(|kind| (kind.to_owned(), execute(&["new", kind]).expect(0).stdout));
    found.extend(made);
    found
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
}

#[test]
fn every_shipped_scenario_is_valid() {
    let validator = printed(&["schema", "--scenario"]);
    let scenarios = shipped_scenarios();
    assert!(scenarios.len() >= 10, "{}", scenarios.len());
    for (name, text) in scenarios {
        let scenario = as_json(&text);
        let errors: Vec<String> =
            validator.iter_errors(&scenario).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
}

#[test]
fn scenario_schema_refuses_wrong_keys_types_and_units() {
    let validator = printed(&["schema", "--scenario"]);
    let valid = "broker.kind = \"null\"\nrun.duration = \"10s\"\n";
    assert!(validator.is_valid(&as_json(valid)));
    for wrong in [
        "producers.cuont = 4",
        "producers.count = \"many\"",
        "producers.count = 0",
        "producers.placement = \"anywhere\"",
        "run.warm_up = 5",
        "run.warm_up = \"5 parsecs\"",
        "load.rate = \"10k\"",
        "load.schedule = { kind = \"ramp\", from = \"1/s\", to = \"2/s\" }",
        "payload.size = { uniform = [\"1B\"] }",
        "broker.null.lose = 2.0",
        "broker.null.loose = 0.5",
        "[[consumers.group]]\nwork = { kind = \"fixed\", mean = 5 }",
        "thresholds.require = []",
    ] {
        assert!(!validator.is_valid(&as_json(&format!("{valid}{wrong}"))), "accepted: {wrong}");
    }
    assert!(!validator.is_valid(&json!({})), "no broker");
}

#[test]
fn every_key_of_a_scenario_is_described() {
    fn assert_described(path: &str, schema: &Value) {
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (name, property) in properties.filter(|(_, property)| property.get("x-own").is_none()) {
            let path = format!("{path}.{name}");
            // The only key of a table may be described by the table.
            let is_described = property["description"].is_string() || schema["description"].is_string();
            assert!(is_described || property.get("const").is_some(), "{path}: {property}");
            assert_described(&path, property);
        }
        let inner = ["anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).flatten();
        let inner = inner.chain(schema.get("items")).filter(|inner| inner.get("x-own").is_none());
        inner.for_each(|inner| assert_described(path, inner));
    }
    let schema: Value = serde_json::from_str(&execute(&["schema", "--scenario"]).expect(0).stdout).unwrap();
    for (table, schema) in schema["properties"].as_object().unwrap() {
        assert_described(table, schema);
    }
}

/// The line of the reference that shows a key's value, without its comment.
fn shown_values(reference: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for block in reference.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let mut table = String::new();
        for line in block.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
                table = name.trim_start_matches('[').to_owned();
                continue;
            }
            // An example of a key that has no default is marked.
            let line = line.split("#!").next().filter(|_| !line.contains("#!")).unwrap_or_default();
            let Ok(keys) = toml::from_str::<toml::Table>(line) else { continue };
            for (key, value) in keys {
                found.entry(format!("{table}.{key}")).or_insert_with(|| serde_json::to_value(value).unwrap());
            }
        }
    }
    found
}

/// The keys of the language's tables with their schemas.
fn keys_of<'a>(path: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if property.get("x-own").is_none() {
            found.push((path.clone(), property));
            keys_of(&path, property, found);
        }
    }
}

#[test]
fn the_reference_has_every_key_with_its_default() {
    let schema: Value = serde_json::from_str(&execute(&["schema", "--scenario"]).expect(0).stdout).unwrap();
    let mut keys = Vec::new();
    keys_of("", &schema, &mut keys);
    let reference = include_str!("../../docs/SCENARIO.md");
    let pipelines = include_str!("../../docs/PIPELINE.md");
    let shown = shown_values(&format!("{reference}{pipelines}"));
    let is_table = |property: &Value| property["properties"].is_object();
    for (key, property) in keys.iter().filter(|(_, property)| !is_table(property)) {
        let name = key.rsplit('.').next().unwrap();
        let section = if key.starts_with("pipeline.") { pipelines } else { reference };
        let is_shown =
            [format!("{name} ="), format!("`{name}`"), format!("[[{key}]]")].iter().any(|text| section.contains(text));
        assert!(is_shown, "{key} is missing");
        if let (Some(default), Some(shown)) = (property.get("default"), shown.get(key)) {
            let length = |value: &Value| value.as_str().and_then(|text| parse_duration(text).ok());
            assert!(
                shown == default || length(shown).is_some_and(|_| length(shown) == length(default)),
                "{key}: {default}"
            );
        }
    }
    let known = |shown: &String| {
        let (table, _) = shown.rsplit_once('.').unwrap_or_default();
        let is_of_the_language = keys.iter().any(|(key, property)| key == table && is_table(property));
        !is_of_the_language || keys.iter().any(|(key, _)| key == shown)
    };
    let unknown: Vec<&String> = shown.keys().filter(|shown| !known(shown)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(shown.len() > 40, "{}", shown.len());
}
