//! Findings from the servers that a run connects to: the broker, and the databases that a pipeline writes to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::plan::{DoctorTarget, DoctorTargets};
use super::{Finding, bad, doubtful, good, remedies};
use crate::broker::{BrokerError, Durability, DurabilityLevel};
use crate::cli::run::{identity, new_run_id};
use crate::engine::{self, EngineError, Examined, examine_scenario};
use crate::measure::FailureClass;
use crate::net::address;
use crate::net::tcp::{self, Connected, Unreachable};
use crate::pipeline::{self, ExaminedSink, SinkRefusal};
use crate::record::readable::{duration, settings};
use crate::scenario::{Contradiction, Pipeline, Scenario, Sink};

/// What is found of the broker at each of the points: whether its addresses answer, whether it lets us in, and what it says of itself.
pub(super) async fn broker_findings(targets: &DoctorTargets<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut reached = BTreeMap::new();
    for target in targets.iter() {
        let scenario = &target.trial.scenario;
        let addresses = if scenario.broker.is_embedded() { &[][..] } else { &scenario.broker.addresses };
        for one in addresses {
            if !reached.contains_key(one) {
                let finding = reachable("address", one).await;
                reached.insert(one.clone(), !finding.is_bad());
                found.push(finding);
            }
        }
        // Its client would try addresses that do not answer for as long as it may.
        if addresses.is_empty() || addresses.iter().any(|one| reached.get(one) == Some(&true)) {
            found.extend(target_findings(&target).await);
        }
    }
    found
}

async fn target_findings(target: &DoctorTarget<'_>) -> Vec<Finding> {
    let scenario = &target.trial.scenario;
    let identity = identity(&new_run_id("doctor"), 0);
    match examine_scenario(scenario, &identity).await {
        Ok(examined) => {
            let found = target.named(examined_findings(scenario, &examined));
            found.chain(refused_messages(target, &examined.settings)).collect()
        }
        Err(error) => target.named(vec![error_finding(scenario, &error)]).collect(),
    }
}

/// The first of the points whose messages the topics do not take, with these settings.
fn refused_messages(target: &DoctorTarget<'_>, settings: &[BTreeMap<String, String>]) -> Option<Finding> {
    let descriptor = remedies::descriptor(&target.trial.scenario.broker)?;
    target.alike.iter().find_map(|trial| {
        let contradicts = |settings| (descriptor.contradicts)(&trial.scenario, settings);
        let Contradiction { message, advice } = settings.iter().find_map(contradicts)?;
        let point = target.point_of(trial).map_or(String::new(), |values| values + ": ");
        Some(bad("messages", point + &message, advice))
    })
}

fn examined_findings(scenario: &Scenario, examined: &Examined) -> Vec<Finding> {
    let named = examined.identity.broker.clone().unwrap_or_else(|| "it does not name its version".to_owned());
    let mut found = vec![
        good("broker", format!("{named}, logged in through {}", examined.identity.client)),
        topics(scenario, examined),
        durability(scenario, &examined.durability),
    ];
    found.extend(rights(scenario, examined));
    if let Some(error) = &examined.removal_error {
        let text = format!("what was made cannot be removed: {error}");
        found.push(doubtful("permissions", text, remedies::removal(scenario)));
    }
    found
}

/// Whether a producer and a consumer could be opened.
fn rights(scenario: &Scenario, examined: &Examined) -> Vec<Finding> {
    let failed = examined.opened.iter().filter_map(|opened| Some((opened, opened.error.as_ref()?)));
    let mut found: Vec<Finding> = failed
        .map(|(opened, error)| {
            let text = format!("a {} cannot be opened: {error}", opened.client);
            bad("permissions", text, remedies::right(scenario, opened))
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
    let first = examined.topics.first();
    let partitions = first.map_or(scenario.topology.partitions, |topic| topic.partitions);
    let all = shape(examined.topics.len(), partitions);
    let users = || remedies::users(&scenario.broker, first.map_or("TOPIC", |topic| &topic.name));
    match (scenario.topology.existing, examined.created) {
        (true, _) => doubtful("topics", format!("{all} exist, and the run writes into them"), users()),
        (false, 0) => doubtful(
            "topics",
            format!("{all} exist already, and the run adds to their data"),
            format!("--set topology.name=A-NEW-NAME; {}", users()),
        ),
        // Why they were not removed is a finding of its own.
        (false, _) if examined.removal_error.is_some() => good("topics", format!("{all} can be made")),
        (false, _) => good("topics", format!("{all} can be made, and were removed again")),
    }
}

fn durability(scenario: &Scenario, durability: &Durability) -> Finding {
    let settings = in_brackets(settings(&durability.settings));
    let copies = durability.copies.map_or(String::new(), |copies| format!(", on {copies} node(s) at least"));
    let place = match durability.level {
        DurabilityLevel::Unknown => {
            let text = format!("the broker does not tell where an acknowledged message is{copies}{settings}");
            return doubtful("durability", text, remedies::durability(scenario));
        }
        level => level.place(),
    };
    good("durability", format!("an acknowledged message is {place}{copies}{settings}"))
}

fn in_brackets(settings: String) -> String {
    if settings.is_empty() { settings } else { format!(" ({settings})") }
}

fn error_finding(scenario: &Scenario, error: &EngineError) -> Finding {
    let text = error.to_string();
    match error {
        EngineError::Broker { error: BrokerError::Unreachable { address: at, reason }, .. } => {
            bad("broker", text, remedies::connection(&scenario.broker, at, reason))
        }
        EngineError::Broker { error: BrokerError::Authorisation { reason, .. }, .. }
            if remedies::is_without_rights(reason) =>
        {
            bad("permissions", text, remedies::topics(scenario, reason))
        }
        EngineError::Broker { error: BrokerError::Authorisation { .. }, .. } => {
            let kind = engine::kinds().broker(&scenario.broker.kind);
            bad("login", text, remedies::login(&scenario.broker, kind))
        }
        EngineError::Broker {
            error: BrokerError::TopicMismatch { found: reason, .. } | BrokerError::Topic { reason, .. },
            ..
        } => bad("topics", text, remedies::topics(scenario, reason)),
        EngineError::Broker { .. } if remedies::is_of_rights(&text) => {
            let remedy = remedies::topics(scenario, &text);
            bad("permissions", text, remedy)
        }
        EngineError::Schema(_) => bad("schema registry", text, "brokermark doctor asks it again"),
        EngineError::Load(_) => bad("payload", text, "brokermark check prints what is sent"),
        _ => bad("broker", text, format!("brokermark new {} writes a scenario to compare with", scenario.broker.kind)),
    }
}

/// The finding on one address of `subject`. It connects as a run does.
async fn reachable(subject: &'static str, text: &str) -> Finding {
    let Some((host, port)) = address::split(text) else {
        return good(subject, format!("{text}: its client connects by itself"));
    };
    let host = host.trim_matches(['[', ']']);
    let began = Instant::now();
    match tcp::reach(text).await {
        Ok(Connected { stream, passed }) if passed.is_empty() => accepted(subject, text, &stream, began.elapsed()),
        Ok(Connected { stream, passed }) => {
            let passed: Vec<String> = passed.iter().map(ToString::to_string).collect();
            let found = accepted(subject, text, &stream, began.elapsed()).found;
            let found = format!("{found}; its name has other addresses that did not ({})", passed.join("; "));
            doubtful(
                subject,
                found,
                format!("getent ahosts {host}; remove the address, or mend what should answer there"),
            )
        }
        Err(error @ Unreachable::Unresolved { .. }) => {
            bad(subject, format!("{text}: {error}"), format!("getent hosts {host}"))
        }
        Err(error) => bad(subject, format!("{text} cannot be connected to ({error})"), format!("nc -vz {host} {port}")),
    }
}

fn accepted(subject: &'static str, text: &str, stream: &TcpStream, taken: Duration) -> Finding {
    let taken = duration(taken.as_nanos() as f64);
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(own), Ok(peer)) if own.ip() == peer.ip() => doubtful(
            subject,
            format!("{text} accepts a connection after {taken}, and is on this machine: both share its processor"),
            "for figures to rely on, run brokermark on a machine of its own",
        ),
        (_, Ok(peer)) => {
            good(subject, format!("{text} resolves to {} and accepts a connection after {taken}", peer.ip()))
        }
        (_, Err(_)) => good(subject, format!("{text} accepts a connection after {taken}")),
    }
}

/// What is found of the databases that pipelines write to, of each of the points whose pipelines differ: whether they answer, let us in and may
/// be written to. No row is written.
pub(super) async fn sink_findings(targets: &DoctorTargets<'_>) -> Vec<Finding> {
    let (mut found, mut examined) = (Vec::new(), Vec::new());
    for target in targets.iter() {
        let pipeline = &target.trial.scenario.pipeline;
        if !examined.contains(&pipeline) {
            examined.push(pipeline);
            let of_point = sinks_of(&target.trial.scenario).await;
            found.extend(target.named(of_point));
        }
    }
    found
}

async fn sinks_of(scenario: &Scenario) -> Vec<Finding> {
    let Some(config) = &scenario.pipeline else { return Vec::new() };
    let mut found = Vec::new();
    for address in config.sinks.iter().flat_map(addresses) {
        found.push(reachable("sink", address).await);
    }
    let topic = scenario.topology.name.as_deref().unwrap_or("brokermark");
    match pipeline::examine(config, topic).await {
        Ok(examined) => found.extend(examined.iter().map(|sink| sink_finding(sink, config))),
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

fn sink_finding(sink: &ExaminedSink, config: &Pipeline) -> Finding {
    let place = &sink.place;
    let refusal = match &sink.found {
        Ok(settings) => {
            let settings = in_brackets(self::settings(settings));
            return good("sink", format!("{place} lets us in and can be written to{settings}"));
        }
        Err(refusal) => refusal,
    };
    let text = format!("{place} {refusal}");
    // The pipeline would wait for it.
    match (refusal, config.wait_for_sinks) {
        (SinkRefusal::HoldsRows, _) => bad("sink", text, "--set pipeline.remove_rows=false"),
        (_, true) => doubtful("sink", text, sink_remedy(refusal)),
        (_, false) => bad("sink", text, sink_remedy(refusal)),
    }
}

fn sink_remedy(refusal: &SinkRefusal) -> &'static str {
    match refusal {
        SinkRefusal::Unwritable(error) if error.class == FailureClass::Authorisation => {
            "correct `username` and `password` in [[pipeline.sinks]], or let the user write: \
             --set 'pipeline.sinks[0].password={ env = \"SINK_PASSWORD\" }'"
        }
        _ => "correct [[pipeline.sinks]]; to begin without it: --set pipeline.wait_for_sinks=true",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::broker::{BrokerInfo, Topic};
    use crate::scenario::parse_for;

    #[test]
    fn topics_that_were_not_removed_are_told_and_not_called_removed() {
        let text = "broker.kind = \"null\"\nrun.messages = 1\n";
        let mut plan = parse_for(engine::kinds(), text, "a.toml", &[], Path::new("")).unwrap();
        let scenario = plan.trials.remove(0).scenario;
        let mut examined = Examined {
            identity: BrokerInfo { client: "a client".to_owned(), broker: None, embedded: false },
            topics: vec![Topic { name: "orders".to_owned(), partitions: 1, replication: 1 }],
            created: 1,
            durability: Durability::default(),
            settings: Vec::new(),
            opened: Vec::new(),
            removal_error: None,
        };
        let told = |examined: &Examined| {
            let found = examined_findings(&scenario, examined);
            found.into_iter().map(|finding| finding.found).collect::<Vec<_>>().join("\n")
        };
        let removed = told(&examined);
        assert!(removed.contains("1 topic(s) of 1 partition(s) can be made, and were removed again"), "{removed}");
        examined.removal_error = Some("connection reset".to_owned());
        let left = told(&examined);
        assert!(left.contains("1 topic(s) of 1 partition(s) can be made\n"), "{left}");
        assert!(left.contains("what was made cannot be removed: connection reset"), "{left}");
        assert!(!left.contains("removed again"), "{left}");
    }

    #[test]
    #[cfg(feature = "kafka-native")]
    fn messages_of_each_point_are_measured_by_what_topics_take() {
        let text = "broker = { kind = \"kafka\", address = \"h:9092\" }\nrun.messages = 1\n[sweep.over]\n\
                    \"payload.size\" = [\"100B\", \"2kB\"]\n";
        let plan = parse_for(engine::kinds(), text, "a.toml", &[], Path::new("")).unwrap();
        let targets = DoctorTargets::new(&plan);
        let found = |limit: &str| {
            let settings = [BTreeMap::from([("max.message.bytes".to_owned(), limit.to_owned())])];
            let found = targets.iter().filter_map(|target| refused_messages(&target, &settings));
            found.map(|finding| finding.found).collect::<Vec<_>>().join("\n")
        };
        let refused = found("1000");
        assert!(refused.contains("2kB") && refused.contains(": payloads of 2000 bytes"), "{refused}");
        assert_eq!(found("3000"), "");
    }
}
