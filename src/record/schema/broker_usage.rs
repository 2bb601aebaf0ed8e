//! What the broker's own processes used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Use of resources by what `broker.watch` names, during the measured window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokerUsage {
    /// CPU time of all of them divided by elapsed time: how many cores were busy with them, on average; `null` where none of them
    /// told.
    pub cores_used: Option<f64>,
    /// Cores of the machine, where all of them are processes on the load generator's own; `null` otherwise.
    pub cores_of_machine: Option<usize>,
    /// Sum of the most resident memory of each, in bytes; `null` where none of them told.
    pub memory_bytes_max: Option<u64>,
    /// Each of them, in the order of the scenario.
    pub sources: Vec<BrokerSource>,
}

/// One process with its descendants, or one endpoint with metrics.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokerSource {
    /// The process with its name, or the URL.
    pub name: String,
    /// As in the sum; `null` where it did not tell.
    pub cores_used: Option<f64>,
    /// Most resident memory at a sample, in bytes; `null` where it did not tell.
    pub memory_bytes_max: Option<u64>,
    /// Samples that failed, warm-up and drain included.
    pub failures: u64,
    /// Why the first of them failed.
    pub first_failure: Option<String>,
}

impl BrokerUsage {
    /// In words: "1.90 of 2 cores".
    pub fn cores(&self) -> Option<String> {
        let used = self.cores_used?;
        Some(match self.cores_of_machine {
            Some(cores) => format!("{used:.2} of {cores} cores"),
            None => format!("{used:.2} cores"),
        })
    }
}
