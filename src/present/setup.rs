//! What was run, in short; and what is needed to repeat it and to compare it: client and machine, broker, durability, versions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Fact, account, known, several};
use crate::broker::{Durability, DurabilityLevel};
use crate::record::readable::{bytes, count, duration, percent, plain};
use crate::record::{BrokerSource, BrokerUsage, Client, HostLoad, LoadModel, PayloadSchema, Record, SinkRecord};
use crate::scenario::GroupTable;

/// Different texts of one fact that are told.
const MAX_TEXTS: usize = 4;

/// How a trial's client and machine fared; then [`setup`].
pub fn trial_setup(record: &Record) -> Vec<Fact> {
    let load = record.host_load.as_ref().map(|load| machine(load, record));
    let mut facts = known([
        Fact::new("client", client(&record.client)),
        Fact::new("machine", load.unwrap_or_default()),
        Fact::list("broker uses", record.broker_usage.as_ref().map(broker_usage).unwrap_or_default()),
    ]);
    facts.extend(setup(&[record]));
    facts
}

/// Where trials differ, all of their texts.
pub fn setup(records: &[&Record]) -> Vec<Fact> {
    let all = |label: &str, text: &dyn Fn(&Record) -> Option<String>| {
        let texts: BTreeSet<String> = records.iter().filter_map(|record| text(record)).collect();
        Fact::new(label, texts.into_iter().take(MAX_TEXTS).collect::<Vec<_>>().join("; "))
    };
    let first = |label: &str, text: &dyn Fn(&Record) -> String| {
        Fact::new(label, records.first().map(|record| text(record)).unwrap_or_default())
    };
    let durability = |record: &Record| record.durability.source.as_ref().map(|_| record.durability.to_string());
    known([
        all("broker", &|record| Some(broker(record))),
        all("durability", &durability),
        all("schema", &|record| record.payload_schema.as_ref().map(schema)),
        all("databases", &databases),
        all("host", &|record| Some(host(record))),
        all("build", &|record| Some(record.environment.build())),
        first("run", &|record| {
            format!("{}, begun {}", record.run_id, record.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"))
        }),
        first("command", &|record| record.environment.command_line.join(" ")),
    ])
}

fn client(client: &Client) -> String {
    let busiest = |what: &str, name: &Option<String>, cores: Option<f64>| {
        name.as_ref().zip(cores).map(|(name, cores)| format!("busiest {what} '{name}' {}", percent(cores)))
    };
    let parts = [
        Some(client.cores()),
        client.cpu_ns_per_message.map(|cpu| format!("{} CPU a message", duration(cpu))),
        busiest("thread", &client.busiest_thread, client.busiest_thread_cores),
        busiest("task", &client.busiest_task, client.busiest_task_cores),
        client.peak_memory_bytes.map(|peak| format!("{} at most", bytes(peak as f64))),
        (client.queue_full_ns > 0)
            .then(|| format!("{} waiting for a full queue", duration(client.queue_full_ns as f64))),
        (client.unmatched_answers > 0)
            .then(|| format!("{} answers came too late for their messages", count(client.unmatched_answers))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn machine(load: &HostLoad, record: &Record) -> String {
    let others = record.cpu_share_of_others().unwrap_or_default();
    let mut parts = vec![
        format!("{} busy ({} with other programs)", percent(load.system_cpu_busy), percent(others)),
        format!("{} withheld by the hypervisor", percent(load.steal)),
    ];
    let waited = [
        (load.cgroup_throttled_share, "withheld by a CPU quota"),
        (load.cpu_pressure_share, "of the time a task waited for a core"),
        (load.memory_pressure_share, "of it for memory"),
        (load.io_pressure_share, "of it for disks"),
    ];
    let known = waited.into_iter().filter_map(|(share, what)| Some((share.filter(|share| *share > 0.0)?, what)));
    parts.extend(known.map(|(share, what)| format!("{} {what}", percent(share))));
    parts.extend(record.client.pauses.map(|pauses| {
        let [p99, max] = [pauses.p99_ns, pauses.max_ns].map(|ns| duration(ns as f64));
        format!("1 in 100 wake-ups {p99} late or later, none over {max}")
    }));
    parts.join(", ")
}

/// CPU and memory of the broker's processes, all together and each; and which could not be asked.
fn broker_usage(usage: &BrokerUsage) -> Vec<String> {
    let known = |cores: Option<String>, memory: Option<u64>| {
        let memory = memory.map(|amount| format!("{} at most", bytes(amount as f64)));
        let known: Vec<String> = cores.into_iter().chain(memory).collect();
        if known.is_empty() { "unknown".to_owned() } else { known.join(", ") }
    };
    let each = |source: &BrokerSource| match usage.sources.len() {
        1 => source.name.clone(),
        _ => {
            let cores = source.cores_used.map(|cores| format!("{cores:.2} cores"));
            format!("{} {}", source.name, known(cores, source.memory_bytes_max))
        }
    };
    let sources: Vec<String> = usage.sources.iter().map(each).collect();
    let all = format!("{}: {}", known(usage.cores(), usage.memory_bytes_max), sources.join("; "));
    let failures = usage.sources.iter().filter(|source| source.failures > 0).map(|source| {
        let why = source.first_failure.as_deref().unwrap_or("for an unknown reason");
        format!("{}: {} samples failed, the first one: {why}", source.name, count(source.failures))
    });
    std::iter::once(all).chain(failures).collect()
}

/// What was run, in phrases: those that are true of all trials.
pub fn ran(records: &[&Record]) -> Vec<String> {
    let phrases: [fn(&Record) -> Option<String>; 6] = [place, acknowledged, topics, messages, clients, length];
    let of_all = |phrase: &fn(&Record) -> Option<String>| {
        let texts: BTreeSet<Option<String>> = records.iter().map(|record| phrase(record)).collect();
        if texts.len() == 1 { texts.into_iter().next().flatten() } else { None }
    };
    phrases.iter().filter_map(of_all).collect()
}

/// The broker with its version, and whether it had the machine to itself.
fn place(record: &Record) -> Option<String> {
    let kind = record.broker_kind()?;
    if record.is_without_broker() {
        return Some("null broker, inside brokermark".to_owned());
    }
    let broker = record.environment.broker.as_deref().unwrap_or(kind);
    if record.environment.embedded {
        return Some(format!("{broker}, inside brokermark"));
    }
    let addresses = addresses(&record.scenario["broker"]);
    let hosts = addresses.iter().map(|address| address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host));
    let is_here = |host: &str| {
        host == "localhost"
            || host == "[::1]"
            || host.starts_with("127.")
            || host == record.environment.hostname.as_deref().unwrap_or("localhost")
    };
    let at = match addresses.as_slice() {
        [] => String::new(),
        _ if hosts.into_iter().all(is_here) => " on the same machine".to_owned(),
        [only] => format!(" at {only}"),
        [first, others @ ..] => format!(" at {first} and {} more", others.len()),
    };
    let machines = match account::machines(record) {
        0 | 1 => String::new(),
        machines => format!(", loaded from {machines} machines"),
    };
    Some(format!("{broker}{at}{machines}"))
}

/// What an acknowledgement meant.
fn acknowledged(record: &Record) -> Option<String> {
    record.durability.source.as_ref()?;
    let Durability { level, copies, settings, .. } = &record.durability;
    let is_kept = matches!(level, DurabilityLevel::Memory | DurabilityLevel::PageCache | DurabilityLevel::Disk);
    let nodes = copies.filter(|_| is_kept).map(|copies| format!(", on {}", several(copies as usize, "node")));
    let place = format!("{}{}", level.place(), nodes.unwrap_or_default());
    Some(match settings.get("acks") {
        Some(acks) => format!("acks = {acks}: {place}"),
        None => format!("acknowledged: {place}"),
    })
}

fn topics(record: &Record) -> Option<String> {
    let topology = record.tables().topology;
    let topics = several(topology.topics, "topic");
    Some(match topology.partitions {
        _ if topology.existing => several(topology.topics, "existing topic"),
        1 => topics,
        partitions if topology.topics == 1 => several(partitions as usize, "partition"),
        partitions => format!("{topics} of {partitions} partitions"),
    })
}

fn messages(record: &Record) -> Option<String> {
    let sizes = record.payload_sizes?;
    let [mean, smallest, largest] =
        [sizes.mean_bytes, sizes.smallest_bytes as f64, sizes.largest_bytes as f64].map(bytes);
    let kind = record.scenario["payload"]["kind"].as_str().map(|kind| format!(", {kind}")).unwrap_or_default();
    let sizes = if smallest == largest { mean } else { format!("{smallest} to {largest} ({mean} on average)") };
    Some(format!("messages of {sizes}{kind}"))
}

fn clients(record: &Record) -> Option<String> {
    let tables = record.tables();
    let window = match tables.producers.in_flight {
        0 => String::new(),
        window => format!(" ({} in flight each)", count(window as u64)),
    };
    // Members are counted on each topic.
    let place = if tables.topology.topics > 1 { " on each topic" } else { "" };
    let consumers = tables.consumers.map(|consumers| {
        let own = consumers.group.as_ref().map(Vec::len);
        let (groups, members) = (consumers.groups.or(own).unwrap_or(1), consumers.members.unwrap_or(1));
        let has_own = |group: &GroupTable| group.name.is_some() || group.members.is_some();
        let named = consumers.group.as_ref().filter(|groups| groups.iter().any(has_own));
        match (groups, named) {
            (_, Some(named)) => {
                let each = |(number, group): (usize, &GroupTable)| {
                    let members = several(group.members.unwrap_or(members), "consumer");
                    format!("{} ({members})", record.group_name(number))
                };
                let each: Vec<String> = named.iter().enumerate().map(each).take(MAX_TEXTS).collect();
                format!(", {}: {}", several(groups, "group"), each.join(", "))
            }
            (1, None) => format!(", {}", several(members, "consumer")),
            (groups, None) => format!(", {groups} groups of {}", several(members, "consumer")),
        }
    });
    let consumers = consumers.map(|consumers| consumers + place).unwrap_or_default();
    Some(format!("{}{window}{consumers}", several(tables.producers.count, "producer")))
}

/// Its load model, and for how long it was measured.
fn length(record: &Record) -> Option<String> {
    let model = match record.load_model {
        LoadModel::Open => "open loop",
        LoadModel::Closed => "closed loop",
    };
    let warm_up = record.tables().run.limits.warm_up.as_nanos() as f64;
    let warm_up = if warm_up > 0.0 { format!(" after {} of warm-up", duration(warm_up)) } else { String::new() };
    Some(format!("{model} for {}{warm_up}", duration(record.throughput.window_ns as f64)))
}

fn broker(record: &Record) -> String {
    let (environment, broker) = (&record.environment, &record.scenario["broker"]);
    let addresses = addresses(broker);
    let known = [
        Some(broker["kind"].as_str().unwrap_or("broker").to_owned()),
        (!addresses.is_empty()).then(|| format!("at {}", addresses.join(", "))),
        environment.embedded.then(|| "inside brokermark".to_owned()),
        environment.broker.as_ref().map(|broker| format!("({broker})")),
        environment.client_library.as_ref().map(|client| format!("through {client}")),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// As the scenario has them: `address` or `addresses`.
fn addresses(broker: &Value) -> Vec<String> {
    match (&broker["addresses"], &broker["address"]) {
        (Value::Array(addresses), _) => addresses.iter().map(plain).collect(),
        (Value::Null, Value::Null) => Vec::new(),
        (Value::Null, address) => vec![plain(address)],
        (address, _) => vec![plain(address)],
    }
}

fn databases(record: &Record) -> Option<String> {
    let sinks = &record.pipeline.as_ref()?.sinks;
    Some(sinks.iter().map(SinkRecord::durability).collect::<Vec<_>>().join("; "))
}

fn schema(schema: &PayloadSchema) -> String {
    let subject = schema.subject.as_ref().map(|subject| format!(", subject {subject}")).unwrap_or_default();
    let version = schema.version.map(|version| format!(" version {version}")).unwrap_or_default();
    format!("{}{subject}{version}, id {}", schema.schema_type.name(), schema.id)
}

fn host(record: &Record) -> String {
    let environment = &record.environment;
    let cores = match &environment.cpu_model {
        Some(model) => format!("{} × {model}", environment.cores),
        None => several(environment.cores, "core"),
    };
    let parts = [
        environment.hostname.clone(),
        Some(cores),
        environment.memory_bytes.map(|memory| bytes(memory as f64)),
        Some(environment.operating_system.clone()),
        environment.kernel.as_ref().map(|kernel| format!("kernel {kernel}")),
    ];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;
    use serde_json::json;

    #[test]
    fn consumers_of_several_topics_are_told_by_topic() {
        let mut record = Record { defaults: Default::default(), ..sample::record() };
        for (topics, place) in [(1, ""), (4, " on each topic")] {
            record.scenario = json!({
                "producers": { "count": 4, "in_flight": 9 },
                "topology": { "topics": topics },
                "consumers": { "groups": 2, "members": 1 },
            });
            let told = format!("4 producers (9 in flight each), 2 groups of 1 consumer{place}");
            assert_eq!(clients(&record), Some(told));
        }
    }

    #[test]
    fn broker_usage_is_told_in_sum_and_by_source() {
        let source = |name: &str, cores_used| BrokerSource {
            name: name.to_owned(),
            cores_used,
            memory_bytes_max: cores_used.map(|_| 1 << 30),
            ..BrokerSource::default()
        };
        let mut usage = BrokerUsage {
            cores_used: Some(1.9),
            cores_of_machine: Some(2),
            memory_bytes_max: Some(1 << 30),
            sources: vec![source("process 7 (java)", Some(1.9))],
        };
        assert_eq!(broker_usage(&usage), ["1.90 of 2 cores, 1.0 GiB at most: process 7 (java)"]);
        usage.sources.push(source("http://b/metrics", None));
        usage.cores_of_machine = None;
        assert_eq!(
            broker_usage(&usage),
            ["1.90 cores, 1.0 GiB at most: process 7 (java) 1.90 cores, 1.0 GiB at most; http://b/metrics unknown"]
        );
    }

    #[test]
    fn address_is_told_whichever_key_it_was_given_by() {
        assert_eq!(addresses(&json!({ "address": "a:1" })), ["a:1"]);
        assert_eq!(addresses(&json!({ "addresses": ["a:1", "b:2"] })), ["a:1", "b:2"]);
        assert_eq!(addresses(&json!({ "kind": "null" })), [""; 0]);
    }
}
