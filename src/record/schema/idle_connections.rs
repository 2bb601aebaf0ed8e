//! Connections that carried no messages, in a record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ErrorCount, Latency};

/// What became of connections that carried no messages (`idle_connections`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IdleConnections {
    /// Connections that were to be open at once.
    pub wanted: u64,
    /// Connections that became ready, those that replaced others included.
    pub opened: u64,
    /// Connections that were open when the load ended.
    pub open_at_end: u64,
    /// Connections that were closed while the load ran, so that another one was opened.
    pub replaced: u64,
    /// Connections that became ready a second, until all that were wanted were ready or had failed; the sum of all shares.
    pub opened_per_second: f64,
    /// Time from when a connection was due until it was ready for its work; `null`: none became ready.
    pub time_to_ready: Option<Latency>,
    /// Memory of this process for each of them, in bytes; `null` where the system does not tell.
    pub memory_bytes_each: Option<u64>,
    /// Connections that did not become ready, by class, most frequent first.
    pub failed: Vec<ErrorCount>,
    /// Connections that ended by themselves, by class, most frequent first.
    pub lost: Vec<ErrorCount>,
}
