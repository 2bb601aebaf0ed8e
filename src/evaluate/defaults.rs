//! The values of keys that the scenario leaves out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::scenario::{Scenario, StartFrom, Trial};

/// Most names of topics that a record carries.
const MAX_NAMES: usize = 100;

/// The keys that decide what a load is, as far as the scenario leaves them to their defaults.
pub(super) fn defaults(trial: &Trial) -> BTreeMap<String, Value> {
    let is_absent = |key: &str| trial.document.pointer(&format!("/{}", key.replace('.', "/"))).is_none();
    let keys = settings(&trial.scenario).into_iter().filter(|(key, _)| is_absent(key));
    keys.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The topics' names, or the first of very many.
pub(super) fn names<'a>(topics: impl Iterator<Item = &'a str>) -> Vec<String> {
    topics.take(MAX_NAMES).map(str::to_owned).collect()
}

fn settings(scenario: &Scenario) -> Vec<(&'static str, Value)> {
    let Scenario { broker, topology, producers, payload, run, .. } = scenario;
    let time = |duration: Duration| json!(format!("{duration:?}"));
    let mut settings = vec![
        ("broker.connections", json!(broker.connections)),
        ("topology.topics", json!(topology.topics)),
        ("producers.count", json!(producers.count)),
        ("producers.in_flight", json!(producers.in_flight)),
        ("producers.batch", json!(producers.batch)),
        ("payload.pool", json!(payload.pool)),
        ("payload.seed", json!(payload.seed)),
        ("run.warm_up", time(run.warm_up)),
        ("run.drain_deadline", time(run.drain_deadline)),
        ("run.stall_deadline", time(run.stall_deadline)),
        ("run.catch_up_deadline", time(run.catch_up_deadline)),
        ("run.scheduling_policy", json!(scenario.threads.scheduling_policy.name())),
    ];
    if !topology.existing {
        settings.push(("topology.partitions", json!(topology.partitions)));
        settings.push(("topology.replication", json!(topology.replication)));
    }
    // Without it, there are as many as the record has in `client.cores_available`.
    if let Some(threads) = scenario.threads.count {
        settings.push(("run.threads", json!(threads)));
    }
    if let Some(client) = broker.client {
        settings.push(("broker.client", json!(client)));
    }
    if let Some(consumers) = &scenario.consumers {
        settings.push(("consumers.members", json!(consumers.members)));
        let from = match consumers.from {
            StartFrom::Earliest => "earliest",
            StartFrom::Latest => "latest",
        };
        settings.push(("consumers.from", json!(from)));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> BTreeMap<String, Value> {
        let plan = crate::scenario::parse_for(crate::engine::kinds(), text, "x.toml", &[], std::path::Path::new("."));
        defaults(&plan.unwrap().trials[0])
    }

    #[test]
    fn what_the_scenario_leaves_out_is_told_with_its_value() {
        let text =
            "[broker]\nkind = \"null\"\n[payload]\nsize = 100\n[run]\nduration = \"10s\"\n[producers]\nbatch = 10\n";
        let found = of(text);
        assert_eq!((&found["producers.count"], &found["producers.in_flight"]), (&json!(1), &json!(1000)));
        assert_eq!((&found["run.warm_up"], &found["topology.topics"]), (&json!("0ns"), &json!(1)));
        assert!(!found.contains_key("producers.batch") && !found.contains_key("consumers.members"), "{found:?}");
        assert_eq!(of(&format!("{text}[consumers]\nverify = true\n"))["consumers.from"], json!("earliest"));
        assert_eq!(names((0..200).map(|_| "x")).len(), MAX_NAMES);
    }
}
