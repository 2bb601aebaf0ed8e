//! `[broker]` and `[topology]`: where messages go.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Count, Properties};
use crate::limits::MAX_PRODUCERS;
use crate::scenario::{SaslMechanism, Secret};

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
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub connections: Count,
    /// Settings that go to the client library as they are.
    #[serde(default)]
    pub properties: Properties,
    /// TLS and credentials.
    #[serde(default)]
    pub security: SecurityTable,
    /// CPU and memory of the broker's processes, for each second.
    #[serde(default)]
    pub watch: WatchTable,
}

fn one() -> Count {
    Count(1)
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct SecurityTable {
    /// TLS: `true`, or its files. Default: false.
    pub tls: Option<TlsTable>,
    /// Credentials.
    pub sasl: Option<SaslTable>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TlsTable {
    IsOn(bool),
    Files(TlsFiles),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct TlsFiles {
    /// PEM file of the authorities to trust. Default: those of the system.
    #[schemars(extend("format" = "existing-file"))]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's own certificate, which goes with its `key`.
    #[schemars(extend("format" = "existing-file"))]
    pub certificate: Option<PathBuf>,
    /// PEM file of the certificate's key.
    #[schemars(extend("format" = "existing-file"))]
    pub key: Option<PathBuf>,
    /// Whether the certificate must name the host.
    pub verify_host: bool,
}

impl Default for TlsFiles {
    fn default() -> Self {
        TlsFiles { ca: None, certificate: None, key: None, verify_host: true }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SaslTable {
    /// How the client proves who it is.
    pub mechanism: SaslMechanism,
    /// Name to log in with.
    pub username: Option<String>,
    /// Password of that name.
    pub password: Option<Secret>,
    /// Token of `OAUTHBEARER`.
    pub token: Option<Secret>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct WatchTable {
    /// Processes on this machine, by id or by a file whose first word is the id, each with its descendants.
    #[schemars(length(min = 1), extend("x-advice" = PROCESSES))]
    pub processes: Option<Vec<ProcessText>>,
    /// Prometheus endpoints of servers, asked once a second.
    #[schemars(length(min = 1), extend("x-advice" = METRICS))]
    pub metrics: Option<Vec<MetricsUrl>>,
}

const PROCESSES: &str = "write `processes = [1234]`, or the file that has the id: `processes = [\"/run/server.pid\"]`";
const METRICS: &str = "write `metrics = [\"http://host:port/metrics\"]`";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-wanted" = "the id of a process", "x-advice" = PROCESSES))]
pub enum ProcessText {
    Id(#[schemars(range(min = 1, max = u32::MAX))] u32),
    File(#[schemars(length(min = 1))] PathBuf),
}

/// A name and a password in it would be in the record, so there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricsUrl(#[schemars(extend("format" = "http-url", "x-advice" = METRICS))] pub String);

/// `[topology]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct TopologyTable {
    /// Topics, of which each needs a producer.
    #[schemars(range(min = 1, max = MAX_PRODUCERS))]
    pub topics: Count,
    /// Partitions of each topic.
    #[schemars(range(min = 1, max = 100_000))]
    pub partitions: Count,
    /// Replicas of each partition.
    #[schemars(range(min = 1, max = 1_000))]
    pub replication: Count,
    /// Name of the topic, or the beginning of the names of several. Default: unique to the run.
    pub name: Option<String>,
    /// Whether topics that brokermark created stay after the run.
    pub keep: bool,
    /// Whether the topics must exist, and are used as they are.
    pub existing: bool,
    /// Settings of topics that are created, passed to the broker as they are.
    pub config: Properties,
}

impl Default for TopologyTable {
    fn default() -> Self {
        TopologyTable {
            topics: Count(1),
            partitions: Count(1),
            replication: Count(1),
            name: None,
            keep: false,
            existing: false,
            config: Properties::default(),
        }
    }
}
