//! `[idle_connections]`: connections without messages, which many clients of a broker are most of the time.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Rate;
use super::Share;
use super::quantities::Count;
use super::units;

/// The connections that a second opens by default.
const DEFAULT_RATE: Rate = Rate(units::Rate::MessagesPerSecond(1000.0));

/// Connections that carry no messages, beside those of producers and consumers. All are opened before the load begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IdleConnectionsTable {
    /// Connections that are opened and kept until the load has ended.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: usize,
    /// Connections that are opened a second, whether the broker follows or not. Default: 1,000 a second.
    #[serde(default = "default_rate")]
    pub connect_rate: Rate,
    /// Connections that are replaced a second while the load runs: the oldest is closed, and another one is opened. Default: none.
    pub churn: Option<Rate>,
    /// Addresses of this machine that they come from, in turn: each has about 28,000 ports for connections to one address of a server.
    /// Default: the one that the system chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<IpAddr>,
}

fn default_rate() -> Rate {
    DEFAULT_RATE
}

/// Connections that carry no messages.
#[derive(Debug, Clone, PartialEq)]
pub struct IdleConnections {
    /// The number of the first one in the whole, and how many there are.
    pub first: usize,
    pub count: usize,
    /// Connections that are opened a second.
    pub rate: f64,
    /// Connections that are replaced a second while the load runs; 0: none.
    pub churn: f64,
    /// Addresses of this machine that they come from, in turn; none: the system chooses.
    pub source_addresses: Vec<IpAddr>,
}

impl IdleConnections {
    /// Those that `share` opens, at its part of the rates.
    pub fn part(&self, share: Share) -> Self {
        let range = share.range(self.count);
        let part = range.len() as f64 / self.count as f64;
        let source_addresses = self.source_addresses.clone();
        IdleConnections {
            first: range.start,
            count: range.len(),
            rate: self.rate * part,
            churn: self.churn * part,
            source_addresses,
        }
    }
}
