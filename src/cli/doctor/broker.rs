//! Findings from the broker: whether its addresses resolve and answer, whether it lets us in, and what it says of itself.

use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::{Finding, bad, doubtful, good};
use crate::broker::{BrokerError, Durability, DurabilityLevel};
use crate::cli::run::{identity, new_run_id};
use crate::engine::{EngineError, Examined, examine_scenario};
use crate::net::address;
use crate::scenario::Scenario;

/// How long an address may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn findings(scenario: &Scenario) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in scenario.broker.addresses.iter().filter(|_| !scenario.broker.is_embedded()) {
        found.push(reachable("address", one).await);
    }
    for sink in scenario.pipeline.iter().flat_map(|pipeline| &pipeline.sinks) {
        let one = sink.options.get("address").and_then(|address| address.as_str());
        let several = sink.options.get("addresses").and_then(|addresses| addresses.as_array());
        for one in one.into_iter().chain(several.into_iter().flatten().filter_map(|address| address.as_str())) {
            found.push(reachable("sink", one).await);
        }
    }
    let identity = identity(&new_run_id("doctor"), 0);
    match examine_scenario(scenario, &identity).await {
        Ok(examined) => found.extend(of_examined(scenario, &examined)),
        Err(error) => found.push(of_error(scenario, &error)),
    }
    found
}

async fn reachable(subject: &'static str, text: &str) -> Finding {
    let Some((host, port)) = address::split(text) else {
        return good(subject, format!("{text}: its client connects by itself"));
    };
    let host = host.trim_matches(['[', ']']);
    let resolved = match lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect::<Vec<_>>(),
        Err(error) => return bad(subject, format!("{host} does not resolve: {error}"), format!("getent hosts {host}")),
    };
    let mut refusals = Vec::new();
    for one in &resolved {
        match timeout(PATIENCE, TcpStream::connect(one)).await {
            Ok(Ok(_)) => return good(subject, format!("{text} resolves to {} and accepts connections", one.ip())),
            Ok(Err(error)) => refusals.push(format!("{one}: {error}")),
            Err(_) => refusals.push(format!("{one}: no answer within {} s", PATIENCE.as_secs())),
        }
    }
    bad(subject, format!("{text} cannot be connected to ({})", refusals.join("; ")), format!("nc -vz {host} {port}"))
}

fn of_examined(scenario: &Scenario, examined: &Examined) -> Vec<Finding> {
    let named = examined.identity.broker.clone().unwrap_or_else(|| "it does not name its version".to_owned());
    let mut found = vec![
        good("broker", format!("{named}, logged in through {}", examined.identity.client)),
        topics(scenario, examined),
        durability(&examined.durability),
    ];
    if let Some(error) = &examined.removal_error {
        found.push(doubtful(
            "permissions",
            format!("topics can be made and not removed: {error}"),
            "grant the deletion of topics, or set topology.keep = true",
        ));
    }
    found
}

fn topics(scenario: &Scenario, examined: &Examined) -> Finding {
    let shape = |topics: usize, partitions: u32| format!("{topics} topic(s) of {partitions} partition(s)");
    let partitions = examined.topics.first().map_or(scenario.topology.partitions, |topic| topic.partitions);
    let all = shape(examined.topics.len(), partitions);
    match (scenario.topology.existing, examined.created) {
        (true, _) => doubtful(
            "topics",
            format!("{all} exist, and the run writes into them"),
            "check that nobody else reads or writes them",
        ),
        (false, 0) => doubtful(
            "topics",
            format!("{all} exist already, and the run adds to their data"),
            "leave `topology.name` out",
        ),
        (false, _) => good("topics", format!("{all} can be made, and were removed again")),
    }
}

fn durability(durability: &Durability) -> Finding {
    let settings: Vec<String> = durability.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
    let place = match durability.level {
        DurabilityLevel::Unknown => {
            return doubtful(
                "durability",
                "the broker does not tell what an acknowledgement means",
                "note it beside the results: runs of unknown durability compare with a warning",
            );
        }
        DurabilityLevel::Nowhere => "nothing: it is not kept",
        DurabilityLevel::Memory => "it is in the broker's memory",
        DurabilityLevel::PageCache => "it is in the operating system's memory",
        DurabilityLevel::Disk => "it is on disk",
    };
    let copies = durability.copies.map_or(String::new(), |copies| format!(", on {copies} node(s) at least"));
    good("durability", format!("an acknowledged message means {place}{copies}{settings}"))
}

fn of_error(scenario: &Scenario, error: &EngineError) -> Finding {
    let text = error.to_string();
    match error {
        EngineError::Broker(BrokerError::Unreachable { address: at, .. }) => {
            let (host, port) = address::split(at).unwrap_or((at.as_str(), 0));
            bad("broker", text, format!("nc -vz {host} {port}"))
        }
        EngineError::Broker(BrokerError::Authorisation { .. }) => {
            bad("login", text, "check name, password or token in `broker.security`: brokermark check")
        }
        EngineError::Broker(BrokerError::TopicMismatch { .. } | BrokerError::Topic { .. }) => {
            let remedy = format!(
                "grant the making of topics, or take those that exist: --set topology.existing=true ({})",
                scenario.broker.kind
            );
            bad("topics", text, remedy)
        }
        EngineError::Load(_) => bad("payload", text, "brokermark check prints what is sent"),
        _ => bad("broker", text, format!("brokermark new {} writes a scenario to compare with", scenario.broker.kind)),
    }
}
