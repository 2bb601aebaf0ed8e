//! This build accepts the scenarios in `configs`, with its own brokers.

use std::path::{Path, PathBuf};

use brokermark::broker::registry::find;
use brokermark::engine::kinds;
use brokermark::scenario::{ScenarioError, load};

/// Every TOML file of `configs`, however deep.
fn scenarios(folder: &Path) -> Vec<PathBuf> {
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
                let without_tls = cfg!(not(feature = "kafka-tls")) && path.ends_with("kafka-secure.toml");
                let without_native = cfg!(not(feature = "kafka-native")) && path.ends_with("kafka-native.toml");
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
