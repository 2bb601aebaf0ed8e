//! How many files a load needs to open, and whether it may.

use crate::scenario::{Plan, Scenario};

/// Files that are open besides connections: the journal, libraries, the event loop.
const OTHER_FILES: u64 = 256;

/// How many files may be open, and about how many the trial opens that opens most; `None` where the system does not tell.
pub fn limit_and_need(plan: &Plan) -> Option<(u64, u64)> {
    let needed = plan.trials.iter().map(|trial| connections(&trial.scenario)).max()? as u64 + OTHER_FILES;
    rlimit::getrlimit(rlimit::Resource::NOFILE).ok().map(|(limit, _)| (limit, needed))
}

/// What is said before a run that may not open as many files as it needs.
pub fn too_few(plan: &Plan) -> Option<String> {
    let (limit, needed) = limit_and_need(plan).filter(|(limit, needed)| limit < needed)?;
    Some(format!(
        "{limit} files may be open, and about {needed} are needed, one for each connection: `ulimit -n {}` allows more",
        needed.next_power_of_two()
    ))
}

/// Consumers have connections of their own, to every broker.
fn connections(scenario: &Scenario) -> usize {
    let members = scenario
        .consumers
        .as_ref()
        .map_or(0, |consumers| (0..consumers.groups.len()).map(|group| consumers.members_of(group)).sum());
    let clients = scenario.broker.connections + members * scenario.topology.topics;
    let idle = scenario.idle_connections.as_ref().map_or(0, |idle| idle.count);
    clients * scenario.broker.addresses.len().max(1) + idle
}
