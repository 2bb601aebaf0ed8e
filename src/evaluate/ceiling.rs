//! The load generator's own ceiling: a scenario's shape without its broker, and which share of it a run used.

use serde_json::{Value, json};

use crate::record::readable::{percent, rate};
use crate::record::{Environment, Record};
use crate::scenario::{BrokerConfig, Load, RunLimits, Scenario, SchedulingPolicy, Security, Stop, Threads, Trial};

/// From this share on, what was measured may be the load generator.
const NEAR: f64 = 0.8;

/// The tables of a scenario that the ceiling does not depend on.
const OTHER_TABLES: [&str; 10] =
    ["name", "broker", "load", "run", "sweep", "thresholds", "output", "pipeline", "idle_connections", "faults"];

/// The parts of a trial's scenario on which the ceiling depends.
pub fn ceiling_shape(trial: &Trial) -> Value {
    let mut shape = trial.document.clone();
    if let Some(tables) = shape.as_object_mut() {
        tables.retain(|key, _| !OTHER_TABLES.contains(&key.as_str()));
        tables.insert("connections".to_owned(), json!(trial.scenario.broker.connections));
        if let Some(count) = trial.scenario.threads.count {
            tables.insert("threads".to_owned(), json!(count));
        }
    }
    shape
}

/// The machine and the build of which a ceiling is known.
pub fn ceiling_machine(environment: &Environment) -> String {
    let unknown = || "unknown".to_owned();
    format!(
        "{}, {} cores of {}, {}",
        environment.hostname.clone().unwrap_or_else(unknown),
        environment.cores,
        environment.cpu_model.clone().unwrap_or_else(unknown),
        environment.build()
    )
}

/// The same producers, payloads, batches and consumers, as fast as they can, on the null broker.
pub fn ceiling_trial(trial: &Trial, limits: RunLimits) -> Trial {
    let mut trial = trial.clone();
    let Scenario { broker, topology, .. } = &trial.scenario;
    let broker = BrokerConfig {
        kind: "null".to_owned(),
        client: None,
        addresses: Vec::new(),
        connections: broker.connections,
        properties: Vec::new(),
        security: Security::default(),
        options: toml::Table::new(),
    };
    let mut topology = topology.clone();
    (topology.replication, topology.existing, topology.name) = (1, false, None);
    topology.config.clear();
    trial.document["broker"] = json!({ "kind": "null", "connections": broker.connections });
    if let Some(tables) = trial.document.as_object_mut() {
        tables.remove("faults");
    }
    trial.document["load"] = json!({ "model": "closed" });
    trial.defaults.retain(|key, _| !key.starts_with("broker.") && !key.starts_with("load."));
    trial.defaults.insert("run.scheduling_policy".to_owned(), json!(SchedulingPolicy::for_load(&Load::Closed)));
    trial.scenario = Scenario {
        broker,
        topology,
        load: Load::Closed,
        threads: Threads { scheduling_policy: SchedulingPolicy::for_load(&Load::Closed), ..trial.scenario.threads },
        idle_connections: None,
        pipeline: None,
        run: RunLimits { stop: Stop { duration: limits.stop.duration, ..Stop::default() }, ..limits },
        thresholds: Vec::new(),
        faults: Vec::new(),
        ..trial.scenario
    };
    trial
}

/// Says in the verdict which share of the ceiling was used.
pub fn mention_ceiling(record: &mut Record, ceiling_per_second: f64) {
    let share = record.throughput.messages_per_second / ceiling_per_second;
    let near = if share >= NEAR { " That is near it: the figure may be the load generator's own." } else { "" };
    let limited_by = &mut record.verdict.limited_by.evidence;
    let sentence = format!(
        "{} of the client's ceiling of {} messages/s was used.{near}",
        percent(share),
        rate(ceiling_per_second)
    );
    *limited_by = [limited_by.as_str(), &sentence].join(" ").trim_start().to_owned();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn the_verdict_says_what_share_was_used() {
        let said = |share: f64| {
            let mut record = sample::record();
            let rate = record.throughput.messages_per_second;
            mention_ceiling(&mut record, rate / share);
            record.verdict.limited_by.evidence
        };
        assert!(said(0.25).contains(" 25 % of the client's ceiling of 199,9"), "{}", said(0.25));
        assert!(!said(0.79).contains("near it") && said(0.81).contains("near it"));
    }
}
