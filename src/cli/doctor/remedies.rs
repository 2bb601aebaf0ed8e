//! What helps where a broker refuses a login or a right, as a command of its own tools.

use crate::engine::{self, Opened};
use crate::net::address;
use crate::net::{ANSWERS_LIKE_HTTP, SPEAKS_TLS};
use crate::scenario::{BrokerConfig, Descriptor, NAMES_OF_RUNS, Need, Scenario};

/// Words with which brokers refuse what a user has no right to.
const RIGHTS: [&str; 8] =
    ["authori", "denied", "permission", "forbidden", "access refused", "may not", VIRTUAL_HOST[0], VIRTUAL_HOST[1]];

/// Words with which a server that knows a user refuses all that it has, in small letters.
const VIRTUAL_HOST: [&str; 2] = ["refused for user", "virtual host access failure"];

/// What helps where a server cannot be reached for this `reason` though an address of the scenario accepts connections. `place` is an address, or
/// names the key that has it.
pub(super) fn connection(config: &BrokerConfig, place: &str, reason: &str) -> String {
    let says = |words: &str| reason.contains(words);
    if says(ANSWERS_LIKE_HTTP) {
        let port = engine::kinds().broker(&config.kind).and_then(|kind| kind.default_port);
        let port = port.map_or("PORT".to_owned(), |port| port.to_string());
        return format!("--set broker.address={}:{port}, or where else {} listens", address::host(place), config.kind);
    }
    if says(SPEAKS_TLS) {
        return "--set broker.security.tls=true".to_owned();
    }
    if let Some(key) = place.split('`').nth(1) {
        return format!("--set {key}=… with an address that answers");
    }
    if let Some((host, port)) = address::split(place).filter(|_| !config.addresses.iter().any(|one| one == place)) {
        return format!("nc -vz {host} {port}: the cluster names this address itself (Kafka: `advertised.listeners`)");
    }
    if ["no answer within", "no response within", "did not respond within"].into_iter().any(says) {
        return format!(
            "it accepts connections and says nothing: see {}'s log, and what stands before it",
            config.kind
        );
    }
    match config.security.tls {
        Some(_) => concat!(
            "with a certificate of your own authority, --set 'broker.security.tls={ ca = \"/path/to/ca.pem\" }'; ",
            "without TLS on this port, --set broker.security.tls=false"
        )
        .to_owned(),
        None => {
            format!("if the port wants TLS, --set broker.security.tls=true; else see whether it is {}'s", config.kind)
        }
    }
}

/// The keys of the login of a kind of broker.
pub(super) fn login(config: &BrokerConfig, descriptor: Option<&Descriptor>) -> String {
    let mechanisms = descriptor.map_or(&[][..], |descriptor| descriptor.capabilities.sasl);
    match mechanisms {
        [] => format!(
            "correct the login in [broker.{}] or [broker.security]: brokermark new {} shows its keys",
            config.kind, config.kind
        ),
        some => {
            let names: Vec<&str> = some.iter().map(|mechanism| mechanism.name()).collect();
            let plain = names.iter().find(|name| **name == "PLAIN").or(names.first()).copied().unwrap_or_default();
            format!(
                "export BROKER_PASSWORD=… and --set 'broker.security.sasl={{ mechanism = \"{plain}\", username = \"NAME\", \
                 password = {{ env = \"BROKER_PASSWORD\" }} }}' (mechanisms: {})",
                names.join(", ")
            )
        }
    }
}

/// The description of the broker's kind and client.
pub(super) fn descriptor(config: &BrokerConfig) -> Option<&'static Descriptor> {
    let mut kinds = engine::kinds().brokers.iter();
    kinds.find(|one| one.kind == config.kind && one.client == config.client)
}

/// What the broker's own tools do about a need.
fn remedy(config: &BrokerConfig, need: Need<'_>) -> Option<String> {
    (descriptor(config)?.remedy)(need, config)
}

/// Whether the broker refused what a user has no right to.
pub(super) fn is_of_rights(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    RIGHTS.into_iter().any(|word| reason.contains(word))
}

/// Whether a login was right, and the user has no right at all.
pub(super) fn is_without_rights(reason: &str) -> bool {
    VIRTUAL_HOST.into_iter().any(|words| reason.contains(words))
}

/// How the names of a run's topics begin.
fn names(scenario: &Scenario) -> &str {
    scenario.topology.name.as_deref().unwrap_or(NAMES_OF_RUNS)
}

/// How the user is given the right that the client of `opened` lacks.
pub(super) fn right(scenario: &Scenario, opened: &Opened) -> String {
    let (config, names) = (&scenario.broker, names(scenario));
    let need = if opened.client == "producer" { Need::ProducerRight(names) } else { Need::ConsumerRight(names) };
    let page = || format!("let the user open a {}: docs/brokers/{}.md", opened.client, config.kind);
    remedy(config, need).unwrap_or_else(page)
}

/// What helps where topics cannot be made, or are there in another shape, for this `reason`. It may name the key that asks for too much.
pub(super) fn topics(scenario: &Scenario, reason: &str) -> String {
    let config = &scenario.broker;
    if let Some(key) = reason.split('`').find(|part| ["topology.replication", "topology.config"].contains(part)) {
        return format!("--set {key}=… with what the broker can do");
    }
    let name = if scenario.topology.name.is_some() { "" } else { "--set topology.name=NAME " };
    if is_of_rights(reason) {
        let page = || format!("let the user make topics: docs/brokers/{}.md", config.kind);
        let grant = remedy(config, Need::CreateRight(names(scenario))).unwrap_or_else(page);
        return if scenario.topology.existing { grant } else { grant + &or_existing(config, name) };
    }
    if scenario.topology.existing {
        return missing(scenario);
    }
    let change = match scenario.topology.name {
        Some(_) => "--set topology.name=A-NEW-NAME",
        None => "change [topology] to what the broker takes, or have its administrator allow it",
    };
    change.to_owned() + &or_existing(config, name)
}

/// What helps where a topic that should exist does not.
fn missing(scenario: &Scenario) -> String {
    let topic = scenario.topology.name.as_deref().unwrap_or("TOPIC");
    let own = "--set topology.existing=false makes it for the run";
    match remedy(&scenario.broker, Need::Topic(topic)) {
        Some(command) => format!("{command}; {own}"),
        None => own.to_owned(),
    }
}

/// The way without making topics, where brokermark can find out what topics look like.
fn or_existing(config: &BrokerConfig, name: &str) -> String {
    match engine::kinds().broker(&config.kind).is_some_and(|kind| kind.capabilities.existing_topics) {
        true => format!("; to take one that exists: {name}--set topology.existing=true"),
        false => String::new(),
    }
}

/// What helps where topics and groups cannot be removed.
pub(super) fn removal(scenario: &Scenario) -> String {
    match remedy(&scenario.broker, Need::DeleteRight(names(scenario))) {
        Some(grant) => format!("{grant}; to leave them: --set topology.keep=true"),
        None => "--set topology.keep=true leaves them".to_owned(),
    }
}

/// Who else uses topics that exist.
pub(super) fn users(config: &BrokerConfig, topic: &str) -> String {
    let advice = || "see that no other program reads or writes them".to_owned();
    remedy(config, Need::TopicUsers(topic)).unwrap_or_else(advice)
}

/// How to learn what an acknowledgement means.
pub(super) fn durability(scenario: &Scenario) -> String {
    remedy(&scenario.broker, Need::Durability(names(scenario)))
        .unwrap_or_else(|| "none: runs compare with a warning".to_owned())
}

#[cfg(test)]
#[path = "../../../tests/unit/cli/doctor/remedies.rs"]
mod tests;
