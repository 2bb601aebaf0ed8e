//! `[broker]` and `[topology]`: where messages go.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Count, Properties};
use crate::limits::MAX_PRODUCERS;
pub use crate::net::Tls;
use crate::net::token::{TOKEN_COMMAND, TokenSource};
use crate::scenario::Secret;

/// The address of an endpoint inside this process.
pub const EMBEDDED: &str = "embedded";

/// `[broker]`, without the broker's own table, which is named as its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokerTable {
    /// Kind of broker: `brokermark brokers` lists them.
    pub kind: String,
    /// Client to measure, for a kind that has several.
    pub client: Option<String>,
    /// Address `host:port`, or `embedded` for an endpoint inside this process, if the kind has one.
    pub address: Option<String>,
    /// Addresses, `host:port` each.
    #[schemars(length(min = 1), extend("x-advice" = "write `addresses = [\"host:port\"]`"))]
    pub addresses: Option<Vec<String>>,
    /// Client instances, which the producers divide among them; never more than there are producers.
    #[serde(with = "Count", default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub connections: usize,
    /// Settings that go to the client library as they are.
    #[serde(default)]
    pub properties: Properties,
    /// TLS and credentials.
    #[serde(default)]
    pub security: SecurityTable,
    /// CPU and memory of the broker's processes, for each second.
    #[serde(default)]
    pub watch: Watch,
}

fn one() -> usize {
    1
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct SecurityTable {
    /// TLS: `true`, or its files. Default: false.
    #[serde(deserialize_with = "TlsTable::tls")]
    #[schemars(with = "Option<TlsTable>")]
    pub tls: Option<Tls>,
    /// Credentials.
    pub sasl: Option<SaslTable>,
}

/// `true` or `false`, or the files.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum TlsTable {
    IsOn(bool),
    Files(Tls),
}

impl TlsTable {
    /// For `#[serde(deserialize_with = "…")]`.
    fn tls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tls>, D::Error> {
        TlsTable::deserialize(deserializer).map(|table| match table {
            TlsTable::IsOn(is_on) => is_on.then(Tls::default),
            TlsTable::Files(tls) => Some(tls),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SaslTable {
    /// How the client proves who it is.
    pub mechanism: Option<SaslMechanism>,
    /// Name to log in with.
    pub username: Option<String>,
    /// Password of that name.
    pub password: Option<Secret>,
    /// Token of `OAUTHBEARER`.
    pub token: Option<Secret>,
    /// Instead of it: a program and its arguments that print one, which is run again before the token ends.
    #[schemars(length(min = 1), extend("x-advice" = TOKEN_COMMAND))]
    pub token_command: Option<Vec<String>>,
    /// Instead of it: who issues tokens.
    pub oauth2: Option<OAuth2Table>,
    /// Credentials of `AWS_MSK_IAM`. Default: those of the environment.
    pub aws: Option<AwsTable>,
}

/// `[broker.security.sasl.oauth2]`: client credentials of OAuth 2.0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OAuth2Table {
    /// The issuer, whose document at `.well-known/openid-configuration` names the token endpoint.
    pub issuer_url: Option<String>,
    /// Instead of it: the token endpoint.
    pub token_url: Option<String>,
    /// The client's name.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Secret,
    /// Scopes, with spaces between.
    pub scope: Option<String>,
    /// Whom the token is for, if the issuer wants to know.
    pub audience: Option<String>,
}

/// `[broker.security.sasl.aws]`: credentials of AWS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct AwsTable {
    /// Default: `AWS_REGION`, or the one in the host's name.
    pub region: Option<String>,
    /// Default: `AWS_ACCESS_KEY_ID`.
    pub access_key_id: Option<Secret>,
    /// Default: `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<Secret>,
    /// Of temporary credentials. Default: `AWS_SESSION_TOKEN`.
    pub session_token: Option<Secret>,
}

/// `[broker.watch]`: where the CPU and memory of the broker's processes are read; nowhere by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Watch {
    /// Processes on this machine, by id or by a file whose first word is the id, each with its descendants.
    #[schemars(length(min = 1), extend("x-advice" = PROCESSES))]
    pub processes: Vec<WatchedProcess>,
    /// Prometheus endpoints of servers, asked once a second.
    #[schemars(with = "Vec<MetricsUrl>", length(min = 1), extend("x-advice" = METRICS))]
    pub metrics: Vec<String>,
}

const PROCESSES: &str = "write `processes = [1234]`, or the file that has the id: `processes = [\"/run/server.pid\"]`";
const METRICS: &str = "write `metrics = [\"http://host:port/metrics\"]`";

/// A process on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-wanted" = "the id of a process", "x-advice" = PROCESSES))]
pub enum WatchedProcess {
    Id(#[schemars(range(min = 1, max = u32::MAX))] u32),
    File(#[schemars(length(min = 1))] PathBuf),
}

impl fmt::Display for WatchedProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchedProcess::Id(id) => write!(formatter, "process {id}"),
            WatchedProcess::File(path) => write!(formatter, "the process in {}", path.display()),
        }
    }
}

/// It has no name and password, because they would be in the record.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct MetricsUrl(#[schemars(extend("format" = "http-url", "x-advice" = METRICS))] String);

/// `[topology]`: the topics of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Topology {
    /// Topics, of which each needs a producer.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_PRODUCERS))]
    pub topics: usize,
    /// Partitions of each topic.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = 100_000))]
    pub partitions: u32,
    /// Replicas of each partition.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = 1_000))]
    pub replication: u32,
    /// Name of the topic, or the beginning of the names of several. Default: unique to the run.
    // The topics of several are `{name}{0..}`.
    pub name: Option<String>,
    /// Whether topics that brokermark created stay after the run.
    pub keep: bool,
    /// Whether the topics must exist, and are used as they are.
    // `partitions` and `replication` are not theirs then.
    pub existing: bool,
    /// Settings of topics that are created, passed to the broker as they are.
    #[serde(with = "Properties")]
    pub config: Vec<(String, String)>,
}

impl Default for Topology {
    fn default() -> Self {
        Topology {
            topics: 1,
            partitions: 1,
            replication: 1,
            name: None,
            keep: false,
            existing: false,
            config: Vec::new(),
        }
    }
}

/// Which broker, where, and how to reach it.
#[derive(Clone, PartialEq)]
pub struct BrokerConfig {
    /// A kind the registry knows (`brokermark brokers` lists them).
    pub kind: String,
    /// The client of the kind, where there is more than one.
    pub client: Option<&'static str>,
    /// `host:port` each, or the single word `embedded`. Empty only for kinds that need no address.
    pub addresses: Vec<String>,
    /// Client instances (or sockets): producers share them. At least 1, at most the number of producers where there are some.
    pub connections: usize,
    /// Handed to the client library untouched, in the order of the file.
    pub properties: Vec<(String, String)>,
    pub security: Security,
    /// The broker's own table (`[broker.kafka]`, `[broker.null]`, …), already checked by that broker.
    pub options: toml::Table,
}

/// Without the values of properties and options, which may be secrets.
impl fmt::Debug for BrokerConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.properties.iter().map(|(key, _)| key.as_str()).collect();
        formatter
            .debug_struct("BrokerConfig")
            .field("kind", &self.kind)
            .field("client", &self.client)
            .field("addresses", &self.addresses)
            .field("connections", &self.connections)
            .field("properties", &keys)
            .field("security", &self.security)
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl BrokerConfig {
    /// Whether the scenario asks for the endpoint that runs inside this process.
    pub fn is_embedded(&self) -> bool {
        self.addresses.iter().any(|address| address == EMBEDDED)
    }

    /// The first address, for people.
    pub fn first_address(&self) -> &str {
        self.addresses.first().map_or("HOST:PORT", String::as_str)
    }

    /// Who logs in with a password, for people.
    pub fn user_name(&self) -> &str {
        self.security.sasl.as_ref().map_or("NAME", |sasl| sasl.username.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Security {
    pub tls: Option<Tls>,
    /// With a name and a password.
    pub sasl: Option<Sasl>,
    /// SASL OAUTHBEARER, with a token from there; `sasl` is `None` then.
    pub bearer: Option<TokenSource>,
    /// SASL AWS_MSK_IAM, with these credentials; `sasl` is `None` then.
    pub aws: Option<AwsTable>,
}

impl Security {
    /// The token of SASL OAUTHBEARER that the scenario has itself.
    pub fn written_token(&self) -> Option<&Secret> {
        match &self.bearer {
            Some(TokenSource::Secret(token)) => Some(token),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sasl {
    pub mechanism: SaslMechanism,
    /// It and the password are empty where the mechanism has none.
    pub username: String,
    pub password: Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
    /// By credentials of AWS, as its service MSK has it.
    #[serde(rename = "AWS_MSK_IAM")]
    AwsMskIam,
    /// By the client's certificate: without a name and a password.
    #[serde(rename = "EXTERNAL")]
    External,
}

impl SaslMechanism {
    pub(in crate::scenario) const ALL: [SaslMechanism; 6] = [
        SaslMechanism::Plain,
        SaslMechanism::ScramSha256,
        SaslMechanism::ScramSha512,
        SaslMechanism::OauthBearer,
        SaslMechanism::AwsMskIam,
        SaslMechanism::External,
    ];

    /// As its servers offer it, and as a scenario writes it.
    pub fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
            SaslMechanism::OauthBearer => "OAUTHBEARER",
            SaslMechanism::AwsMskIam => "AWS_MSK_IAM",
            SaslMechanism::External => "EXTERNAL",
        }
    }
}
