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

/// Consumers have connections of their own, to every broker. A share has its part of them.
fn connections(scenario: &Scenario) -> usize {
    let here = |places: usize| match &scenario.part {
        None => places,
        Some(part) => part.readers.map_or(0, |readers| readers.range(places).len()),
    };
    let members: usize = scenario.consumers.as_ref().map_or(0, |consumers| {
        let places = |group| consumers.members_of(group) * scenario.topology.topics;
        (0..consumers.groups.len()).map(places).map(here).sum()
    });
    let clients = scenario.broker.connections + members;
    let idle = scenario.idle_connections.as_ref().map_or(0, |idle| idle.count);
    clients * scenario.broker.addresses.len().max(1) + idle
}

#[cfg(all(test, feature = "nsq"))]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::parse_for;

    #[test]
    fn a_share_opens_files_for_its_own_consumers() {
        let text = "broker = { kind = \"nsq\", address = \"h:1\" }\nproducers.count = 4\nconsumers.members = 1000\n\
                    run.duration = \"30s\"";
        let plan = parse_for(crate::engine::kinds(), text, "a.toml", &[], Path::new("")).unwrap();
        let whole = &plan.trials[0].scenario;
        let share = whole.part("1/4".parse().unwrap()).unwrap();
        assert_eq!([whole, &share].map(connections), [1001, 251]);
    }
}
