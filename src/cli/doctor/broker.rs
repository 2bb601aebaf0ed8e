//! Findings from the broker: whether its addresses answer, whether it lets us in, and what it says of itself.

use super::{Finding, bad, doubtful, good, reachable, remedies};
use crate::broker::{BrokerError, Durability, DurabilityLevel};
use crate::cli::run::{identity, new_run_id};
use crate::engine::{self, EngineError, Examined, examine_scenario};
use crate::scenario::Scenario;

pub(super) async fn findings(scenario: &Scenario) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in scenario.broker.addresses.iter().filter(|_| !scenario.broker.is_embedded()) {
        found.push(reachable::finding("address", one).await);
    }
    // Its client would try the same addresses for as long as it may.
    if !found.is_empty() && found.iter().all(Finding::is_bad) {
        return found;
    }
    let identity = identity(&new_run_id("doctor"), 0);
    match examine_scenario(scenario, &identity).await {
        Ok(examined) => found.extend(of_examined(scenario, &examined)),
        Err(error) => found.push(of_error(scenario, &error)),
    }
    found
}

fn of_examined(scenario: &Scenario, examined: &Examined) -> Vec<Finding> {
    let named = examined.identity.broker.clone().unwrap_or_else(|| "it does not name its version".to_owned());
    let mut found = vec![
        good("broker", format!("{named}, logged in through {}", examined.identity.client)),
        topics(scenario, examined),
        durability(&examined.durability),
    ];
    found.extend(rights(scenario, examined));
    if let Some(error) = &examined.removal_error {
        found.push(doubtful(
            "permissions",
            format!("what was made cannot be removed: {error}"),
            "grant the deletion of topics and groups, or --set topology.keep=true",
        ));
    }
    found
}

/// Whether a producer and a consumer could be opened.
fn rights(scenario: &Scenario, examined: &Examined) -> Vec<Finding> {
    let failed = examined.opened.iter().filter_map(|opened| Some((opened, opened.error.as_ref()?)));
    let mut found: Vec<Finding> = failed
        .map(|(opened, error)| {
            let text = format!("a {} cannot be opened: {error}", opened.client);
            bad("permissions", text, remedies::right(&scenario.broker, opened))
        })
        .collect();
    if found.is_empty() && !examined.opened.is_empty() {
        let clients: Vec<&str> = examined.opened.iter().map(|opened| opened.client).collect();
        found.push(good("permissions", format!("a {} can be opened", clients.join(" and a "))));
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
            "check that no other program reads or writes them",
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
            bad("broker", text, remedies::connection(&scenario.broker, at))
        }
        EngineError::Broker(BrokerError::Authorisation { .. }) => {
            let kind = engine::kinds().broker(&scenario.broker.kind);
            bad("login", text, remedies::login(&scenario.broker, kind))
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
