//! Findings from the databases that a pipeline writes to: whether they answer, let us in and may be written to. No row is written.

use super::{Finding, bad, doubtful, good, reachable};
use crate::measure::FailureClass;
use crate::pipeline::{self, ExaminedSink, Refusal};
use crate::scenario::{Pipeline, Scenario, Sink};

pub(super) async fn findings(scenario: &Scenario) -> Vec<Finding> {
    let Some(config) = &scenario.pipeline else { return Vec::new() };
    let mut found = Vec::new();
    for address in config.sinks.iter().flat_map(addresses) {
        found.push(reachable::finding("sink", address).await);
    }
    let topic = scenario.topology.name.as_deref().unwrap_or("brokermark");
    match pipeline::examine(config, topic).await {
        Ok(examined) => found.extend(examined.iter().map(|sink| of_examined(sink, config))),
        Err(reason) => {
            found.push(bad("sink", reason, "set the variable or the file of the secret that the sink names"))
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
