//! Findings from the scenario alone: what would make its records invalid.

use super::{Finding, bad, doubtful, good};
use crate::engine;
use crate::evaluate::verdict::limits::MIN_DURATION_NS;
use crate::record::readable::duration;
use crate::scenario::{Load, Plan};

/// From this many trials on, intervals can be compared.
const MIN_TRIALS: usize = 4;

pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let scenarios = || plan.trials.iter().map(|trial| &trial.scenario);
    let points = plan.trials.iter().map(|trial| trial.point_index + 1).max().unwrap_or(1);
    let mut found =
        vec![good("scenario", format!("{}: {} trial(s) of {points} point(s)", plan.name, plan.trials.len()))];
    let shortest = scenarios().filter_map(|scenario| scenario.run.stop.duration).min();
    if let Some(window) = shortest.filter(|window| (window.as_nanos() as u64) < MIN_DURATION_NS) {
        let text = format!("{} is too short for a valid record", duration(window.as_nanos() as f64));
        found.push(bad("duration", text, "--set run.duration=30s"));
    }
    if scenarios().any(|scenario| scenario.run.warm_up.is_zero()) {
        found.push(doubtful(
            "warm-up",
            "nothing is warmed up: connections are made while it is measured",
            "--set run.warm_up=5s",
        ));
    }
    if scenarios().any(|scenario| scenario.load == Load::Closed) {
        let text = "without a rate, latency is only the length of the queue";
        found.push(doubtful("load", text, "for latencies, set a rate: --set load.rate=10k/s"));
    }
    if plan.trials.len() / points < MIN_TRIALS {
        let text = format!("{} trial(s) of a point: too few to compare runs by", plan.trials.len() / points);
        found.push(doubtful("trials", text, "to compare, --set sweep.trials=10"));
    }
    if let Some(embedded) = scenarios().find(|scenario| scenario.broker.is_embedded()) {
        let port = engine::kinds().broker(&embedded.broker.kind).and_then(|kind| kind.default_port);
        let port = port.map_or("PORT".to_owned(), |port| port.to_string());
        found.push(doubtful(
            "broker",
            "the embedded broker is a demonstration: its records are not valid",
            format!("--set broker.address=HOST:{port}"),
        ));
    }
    if cfg!(debug_assertions) {
        let text = "brokermark was built without optimisation: its own cost for each message is many times higher";
        found.push(doubtful("build", text, "cargo build --release"));
    }
    found
}
