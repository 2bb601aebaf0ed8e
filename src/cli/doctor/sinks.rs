//! Findings from the databases that a pipeline writes to: whether they answer, let us in and may be written to. No row is written.

use super::broker::reachable;
use super::plan::DoctorTargets;
use super::{Finding, bad, doubtful, good};
use crate::measure::FailureClass;
use crate::pipeline::{self, ExaminedSink, Refusal};
use crate::scenario::{Pipeline, Scenario, Sink};

/// Of each of the points whose pipelines differ.
pub(super) async fn findings(targets: &DoctorTargets<'_>) -> Vec<Finding> {
    let (mut found, mut examined) = (Vec::new(), Vec::new());
    for target in targets.iter() {
        let pipeline = &target.trial.scenario.pipeline;
        if !examined.contains(&pipeline) {
            examined.push(pipeline);
            let of_point = of_scenario(&target.trial.scenario).await;
            found.extend(target.named(of_point));
        }
    }
    found
}

async fn of_scenario(scenario: &Scenario) -> Vec<Finding> {
    let Some(config) = &scenario.pipeline else { return Vec::new() };
    let mut found = Vec::new();
    for address in config.sinks.iter().flat_map(addresses) {
        found.push(reachable("sink", address).await);
    }
    let topic = scenario.topology.name.as_deref().unwrap_or("brokermark");
    match pipeline::examine(config, topic).await {
        Ok(examined) => found.extend(examined.iter().map(|sink| of_examined(sink, config))),
        Err(reason) => {
            let missing = config.sinks.iter().find_map(missing_variable);
            let remedy = missing.map_or_else(
                || "correct the file of the secret that the sink names".to_owned(),
                |name| format!("export {name}=…"),
            );
            found.push(bad("sink", reason, remedy))
        }
    }
    found
}

/// Each `host:port` of a sink's own keys.
fn addresses(sink: &Sink) -> impl Iterator<Item = &str> {
    let one = sink.options.get("address").and_then(|address| address.as_str());
    let several = sink.options.get("addresses").and_then(|addresses| addresses.as_array());
    one.into_iter().chain(several.into_iter().flatten().filter_map(|address| address.as_str()))
}

/// The variable of a secret of the sink that is not set.
fn missing_variable(sink: &Sink) -> Option<&str> {
    let named = sink.options.values().filter_map(|value| value.as_table()?.get("env")?.as_str());
    let mut missing = named.filter(|name| std::env::var_os(name).is_none());
    missing.next()
}

fn of_examined(sink: &ExaminedSink, config: &Pipeline) -> Finding {
    let place = &sink.place;
    let refusal = match &sink.found {
        Ok(settings) => {
            let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
            return good("sink", format!("{place} lets us in and can be written to{settings}"));
        }
        Err(refusal) => refusal,
    };
    let text = format!("{place} {refusal}");
    // The pipeline would wait for it.
    match (refusal, config.wait_for_sinks) {
        (Refusal::HoldsRows, _) => bad("sink", text, "--set pipeline.remove_rows=false"),
        (_, true) => doubtful("sink", text, remedy(refusal)),
        (_, false) => bad("sink", text, remedy(refusal)),
    }
}

fn remedy(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unwritable(error) if error.class == FailureClass::Authorisation => {
            "correct `username` and `password` in [[pipeline.sinks]], or let the user write: \
             --set 'pipeline.sinks[0].password={ env = \"SINK_PASSWORD\" }'"
        }
        _ => "correct [[pipeline.sinks]]; to begin without it: --set pipeline.wait_for_sinks=true",
    }
}
