//! This build accepts the scenarios in `configs`, with its own brokers.

use std::path::{Path, PathBuf};

use brokermark::broker::registry::{descriptors, find};
use brokermark::engine::kinds;
use brokermark::scenario::{Descriptor, ScenarioError, load, parse_for};

/// Every TOML file of `configs`, however deep.
pub fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { scenarios(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect()
}

#[test]
fn every_scenario_of_a_broker_that_is_built_in_is_accepted() {
    let mut accepted = 0;
    for path in scenarios(&Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")) {
        match load(&path, &[], kinds()) {
            Ok(plan) => {
                assert!(!plan.trials.is_empty(), "{}", path.display());
                accepted += 1;
            }
            Err(error) => {
                let kind = kind(&path);
                let has_tls = cfg!(any(feature = "kafka-tls", feature = "kafka-native"));
                let without_tls = !has_tls && path.ends_with("kafka-secure.toml");
                let is_native = path.to_string_lossy().contains("kafka-native");
                let without_native = cfg!(not(feature = "kafka-native")) && is_native;
                let without_librdkafka = cfg!(not(feature = "kafka")) && kind == "kafka";
                let is_left_out = without_tls || without_native || without_librdkafka;
                assert!(find(&kind).is_none() || is_left_out, "{error}");
                assert_names(&error, &kind);
            }
        }
    }
    assert!(accepted > 0);
    if cfg!(feature = "kafka") {
        assert!(accepted >= 8, "only {accepted} were accepted");
    }
}

fn kind(path: &Path) -> String {
    let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    table["broker"]["kind"].as_str().unwrap().to_owned()
}

/// What was left out of this build, a broker or its TLS, is the only reason to refuse a scenario that ships.
fn assert_names(error: &ScenarioError, kind: &str) {
    assert!(error.to_string().contains(kind), "{error}");
}

/// The keys of a broker's own table, as its schema has them.
fn keys(descriptor: &Descriptor) -> Vec<String> {
    let schema = (descriptor.options_schema)().to_value();
    schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

#[test]
fn broker_page_has_every_key_and_no_other() {
    for descriptor in descriptors() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/brokers/{}.md", descriptor.kind));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let keys = keys(descriptor);
        assert!(!keys.is_empty(), "{}", descriptor.kind);
        for key in keys {
            let is_shown = text.lines().map(|line| line.trim_start_matches("# ")).any(|line| {
                line.strip_prefix(&key).is_some_and(|rest| rest.starts_with(" ="))
                    || line.starts_with(&format!("[broker.{}.{key}]", descriptor.kind))
                    || line.starts_with(&format!("[[broker.{}.{key}]]", descriptor.kind))
            });
            assert!(is_shown, "{} does not show `{key}`", page.display());
        }
        let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a table");
        let text = format!("{block}\n");
        let refused = parse_for(kinds(), &text, "page", &["run.messages=1".to_owned()], Path::new("."));
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!refused.contains("unknown key") && !refused.contains("not TOML"), "{}: {refused}", page.display());
    }
}
