//! What the scenario language has to know of kinds of brokers and sinks, to refuse what they cannot do before anything
//! connects. The caller gives the kinds: this module does not know which exist.

use std::collections::BTreeMap;
use std::time::Duration;

use super::advice::{closest, list};
use super::tables::{BrokerConfig, SaslMechanism, Scenario, SinkNeeds};
use crate::measure::ConditionKind;

/// Protocols of brokers that brokermark does not speak, with what comes nearest.
const OTHER_PROTOCOLS: &[(&[&str], &str)] = &[
    (
        &["PLAINTEXT", "plaintext", "SASL_PLAINTEXT", "sasl_plaintext"],
        "this is the name of a listener of Kafka: write `kafka://HOST:9092`, with SASL `kafka://USER:PASSWORD@HOST:9092`",
    ),
    (
        &["SSL", "ssl", "SASL_SSL", "sasl_ssl"],
        "this is the name of a listener of Kafka: write `kafka+tls://HOST:9093`, with SASL `kafka+tls://USER:PASSWORD@HOST:9093`",
    ),
    (&["http", "https"], "write the kind of broker before `://`, as in `kafka://10.0.0.5:9092` or `sls://10.0.0.5:80`"),
];

/// The kinds that a scenario may name.
#[derive(Debug, Clone, Copy)]
pub struct Kinds<'a> {
    pub brokers: &'a [Descriptor],
    pub sinks: &'a [SinkDescriptor],
    pub absent: &'a [Absent],
    pub absent_sinks: &'a [Absent],
}

impl<'a> Kinds<'a> {
    /// The kind of broker of that name or alias.
    pub fn broker(self, name: &str) -> Option<&'a Descriptor> {
        self.brokers.iter().find(|descriptor| descriptor.kind == name || descriptor.aliases.contains(&name))
    }

    /// What to do about a kind of broker that this build does not know.
    pub fn hint(self, written: &str) -> String {
        if let Some(absent) = self.absent.iter().find(|absent| absent.kind == written) {
            return format!("this build does not have it: {}", absent.remedy());
        }
        if self.sink(written).is_some() || self.absent_sink(written).is_some() {
            return format!("`{written}` is a sink of pipelines, which read from a broker: `[[pipeline.sinks]]`");
        }
        if let Some((_, advice)) = OTHER_PROTOCOLS.iter().find(|(protocols, _)| protocols.contains(&written)) {
            return (*advice).to_owned();
        }
        let known = self.names();
        match closest(written, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("this build knows {}", list(known)),
        }
    }

    /// The names of the kinds of brokers. Clients of one kind follow each other.
    pub fn names(self) -> Vec<&'a str> {
        let mut kinds: Vec<&str> = self.brokers.iter().map(|descriptor| descriptor.kind).collect();
        kinds.dedup();
        kinds
    }

    pub fn sink(self, kind: &str) -> Option<&'a SinkDescriptor> {
        self.sinks.iter().find(|descriptor| descriptor.kind == kind)
    }

    pub fn absent_sink(self, kind: &str) -> Option<&'a Absent> {
        self.absent_sinks.iter().find(|absent| absent.kind == kind)
    }
}

/// What a kind of broker is called and can do, known without connecting to it.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// As in `broker.kind`.
    pub kind: &'static str,
    /// Other words by which users call it: products that speak its protocol, shorter names. A URL's scheme may be one of them.
    pub aliases: &'static [&'static str],
    /// The scheme of a URL that asks for TLS, and its port, beside the kind and aliases with `+tls`.
    pub tls_scheme: Option<(&'static str, u16)>,
    /// The port of a URL without one.
    pub default_port: Option<u16>,
    /// The `[broker]` table of a scenario to start from, with comments.
    pub example: &'static str,
    /// As in `broker.client`, where the kind has more than one. The first of a kind is its default.
    pub client: Option<&'static str>,
    /// The class of its driver in OpenMessaging Benchmark, without the package, where `--omb` translates that driver's files.
    pub omb_driver: Option<&'static str>,
    /// The client of the same kind that may have what this one lacks.
    pub alternative: Option<&'static str>,
    /// One line for people.
    pub summary: &'static str,
    pub capabilities: Capabilities,
    /// Whether its client tells of a condition: a threshold on one that it never tells would always hold.
    pub tells: fn(ConditionKind) -> bool,
    /// The schema of the broker's own table (`[broker.<kind>]`). The registry sets it, and the functions below.
    pub options_schema: fn() -> schemars::Schema,
    /// Checks of that table what its schema does not say, without connecting.
    pub check_options: fn(toml::Table) -> Result<(), toml::de::Error>,
    /// Why it cannot do what the configuration asks for, in words that name the key.
    pub refuses: fn(&BrokerConfig) -> Option<String>,
    /// Why topics with these settings do not take the messages of the scenario.
    pub contradicts: fn(&Scenario, &BTreeMap<String, String>) -> Option<Contradiction>,
    /// The command of the broker's own tools that helps, if there is one.
    pub remedy: fn(Need<'_>, &BrokerConfig) -> Option<String>,
}

/// Settings of topics and messages of a scenario that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {advice}")]
pub struct Contradiction {
    pub message: String,
    /// What to change, with the keys.
    pub advice: String,
}

impl Contradiction {
    /// Of messages that the broker delivers `delay` after they were sent, as `key` sets it: consumers must be waited for as long.
    pub fn of_delay(scenario: &Scenario, key: &str, delay: Option<Duration>) -> Option<Self> {
        let run = &scenario.run;
        let waits = [("run.drain_deadline", run.drain_deadline), ("run.catch_up_deadline", run.catch_up_deadline)];
        let (delay, (name, wait)) = (delay?, waits.into_iter().min_by_key(|(_, wait)| *wait)?);
        let is_too_long = scenario.consumers.is_some() && delay >= wait;
        is_too_long.then(|| Contradiction {
            message: format!(
                "with `{key}`, messages arrive {delay:?} after they were sent, but at the end consumers that receive nothing are waited for no longer than {wait:?} \
                 (`{name}`)"
            ),
            advice: format!("make `{name}` longer than that, or `{key}` shorter"),
        })
    }
}

/// How the names of a run's topics and groups begin, unless the scenario or the command line names them.
pub const NAMES_OF_RUNS: &str = "brokermark-";

/// What a user may lack on a broker, or want to know of it. Rights are to the topics of a run, whose names begin so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// The right to open a producer on them.
    ProducerRight(&'a str),
    /// The right to open a consumer on them.
    ConsumerRight(&'a str),
    /// The right to create them.
    CreateRight(&'a str),
    /// The right to delete them, and the groups that read them.
    DeleteRight(&'a str),
    /// A topic of this name.
    Topic(&'a str),
    /// The clients that use this topic.
    TopicUsers(&'a str),
    /// What an acknowledgement in them means.
    Durability(&'a str),
}

/// A broker or a sink that this build does not have, or a part of one.
#[derive(Debug, Clone, Copy)]
pub struct Absent {
    pub kind: &'static str,
    /// The client, where the kind has more than one.
    pub client: Option<&'static str>,
    /// The client is there, and TLS and some of its SASL mechanisms are not.
    pub security: bool,
    /// The cargo feature that adds it.
    pub feature: &'static str,
}

impl Absent {
    /// How to get it.
    pub fn remedy(&self) -> String {
        format!("build brokermark again with `cargo install --locked --path . --features {}`", self.feature)
    }
}

impl Descriptor {
    /// A kind without a name, which can send messages and do nothing else. For struct update.
    pub const NONE: Descriptor = Descriptor {
        kind: "",
        aliases: &[],
        tls_scheme: None,
        default_port: None,
        example: "",
        client: None,
        omb_driver: None,
        alternative: None,
        summary: "",
        capabilities: Capabilities::NONE,
        tells: |_| false,
        options_schema: schemars::Schema::default,
        check_options: |_| Ok(()),
        refuses: |_| None,
        contradicts: |_, _| None,
        remedy: |_, _| None,
    };

    /// As the subject of a sentence.
    pub fn title(&self) -> String {
        match (self.client, self.alternative) {
            (Some(client), Some(_)) => format!("a broker of kind `{}` with `client = \"{client}\"`", self.kind),
            _ => format!("a broker of kind `{}`", self.kind),
        }
    }

    /// What helps against something that it lacks: `otherwise`, or the client that may have it.
    pub fn advise(&self, otherwise: &str) -> String {
        match self.alternative {
            Some(client) => format!("{otherwise}, or write `client = \"{client}\"`, which may have it"),
            None => otherwise.to_owned(),
        }
    }
}

/// What the scenario language may ask of a kind of broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Needs `broker.addresses`.
    pub addresses: bool,
    /// Has an endpoint in this process: `address = "embedded"`.
    pub embedded: bool,
    pub partitions: bool,
    pub replication: bool,
    pub keys: bool,
    pub headers: bool,
    /// Messages may have different headers: lists of values in `producers.headers`.
    pub own_headers: bool,
    /// A message may go to a partition that the producer chooses: `producers.partitioning`.
    pub own_partition: bool,
    /// A message may have a null payload, and a header beside it: `payload.tombstones`.
    pub null_payloads: bool,
    pub consumers: bool,
    /// More than one consumer group, each of which receives everything.
    pub groups: bool,
    /// Delivers the messages of a producer to a partition in the order in which they were sent.
    pub ordered: bool,
    pub tls: bool,
    /// SASL mechanisms, best first; empty without SASL.
    pub sasl: &'static [SaslMechanism],
    /// Passes `broker.properties` to a client library.
    pub properties: bool,
    /// Properties of consumers that it understands without a library, by the names that the library of another client has for them.
    pub group_properties: &'static [&'static str],
    /// Gives new topics settings of its own: `topology.config`.
    pub topic_config: bool,
    /// Says what topics look like that exist: `topology.existing`.
    pub existing_topics: bool,
    /// Numbers the messages of a partition, and lets a consumer commit how far it is done.
    pub offsets: bool,
    /// Opens connections that carry no messages: `idle_connections`.
    pub idle_connections: bool,
}

impl Capabilities {
    /// Of a kind that sends messages to topics and does nothing else.
    pub const NONE: Capabilities = Capabilities {
        addresses: false,
        embedded: false,
        partitions: false,
        replication: false,
        keys: false,
        headers: false,
        own_headers: false,
        own_partition: false,
        null_payloads: false,
        consumers: false,
        groups: false,
        ordered: false,
        tls: false,
        sasl: &[],
        properties: false,
        group_properties: &[],
        topic_config: false,
        existing_topics: false,
        offsets: false,
        idle_connections: false,
    };
}

/// The name and needs of a kind of sink.
#[derive(Debug, Clone, Copy)]
pub struct SinkDescriptor {
    /// As in `pipeline.sinks.kind`.
    pub kind: &'static str,
    /// The schema of the sink's own keys.
    pub options_schema: fn() -> schemars::Schema,
    /// Checks of them what their schema does not say, without connecting.
    pub check_options: fn(toml::Table) -> Result<SinkNeeds, toml::de::Error>,
}
