//! Findings from this machine: whether results can be kept, how many files it may open, whether its processor saves power, and whether its clock is right.

use std::fs;
use std::path::Path;

use super::{Finding, bad, doubtful, good};
use crate::measure::host::{clock_is_synchronised, cores_available};
use crate::record::probe;
use crate::scenario::{Plan, Scenario};

/// Files that are open besides connections: the journal, libraries, the event loop.
const OTHER_FILES: u64 = 256;

/// Busy processes for each core from which others are in the way.
const LOADED: f64 = 0.5;

pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut found = vec![directory(&plan.output.directory)];
    found.extend([files(plan), governor(), clock(), other_load()].into_iter().flatten());
    found
}

/// Whether records can be kept. A directory that is not there yet is not left behind.
fn directory(results: &Path) -> Finding {
    let is_there = results.exists();
    let probed = probe(results);
    if !is_there {
        let _ = fs::remove_dir(results);
    }
    match probed {
        Ok(()) => good("results", format!("{} can be written to", results.display())),
        Err(error) => bad("results", error.to_string(), "--set output.directory=/a/directory/of/yours"),
    }
}

/// Those of the trial that opens most.
fn files(plan: &Plan) -> Option<Finding> {
    let needed = plan.trials.iter().map(|trial| connections(&trial.scenario)).max()? as u64 + OTHER_FILES;
    let limit = open_files()?;
    Some(match limit >= needed {
        true => good("open files", format!("{limit} may be open, about {needed} are needed")),
        false => doubtful(
            "open files",
            format!("{limit} may be open, and about {needed} are needed"),
            format!("ulimit -n {}", needed.next_power_of_two()),
        ),
    })
}

/// Consumers have connections of their own, to every broker.
fn connections(scenario: &Scenario) -> usize {
    let members = scenario.consumers.as_ref().map_or(0, |consumers| consumers.groups.len() * consumers.members);
    let clients = scenario.broker.connections + members * scenario.topology.topics;
    clients * scenario.broker.addresses.len().max(1)
}

/// The soft limit.
fn open_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn governor() -> Option<Finding> {
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(match governor.trim() {
        "performance" => good("governor", "the processor runs at its full frequency"),
        other => doubtful(
            "governor",
            format!("the processor's governor is `{other}`: its frequency changes with the load"),
            "cpupower frequency-set --governor performance",
        ),
    })
}

/// Of consequence for latencies between machines, and for comparing records by time.
fn clock() -> Option<Finding> {
    Some(match clock_is_synchronised()? {
        true => good("clock", "synchronised"),
        false => doubtful(
            "clock",
            "it is not synchronised: times of records and other machines' logs may differ",
            "timedatectl set-ntp true",
        ),
    })
}

fn other_load() -> Option<Finding> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = load.split_whitespace().next()?.parse().ok()?;
    let cores = cores_available();
    Some(match load / cores as f64 > LOADED {
        false => good("other load", format!("{load:.1} processes want one of {cores} cores")),
        true => doubtful(
            "other load",
            format!("{load:.1} processes want one of {cores} cores: they will be in the figures"),
            "top -o %CPU shows them: end them, or use a quiet machine",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_limit_of_open_files_is_known() {
        assert!(open_files().is_some_and(|limit| limit > 0));
    }
}
