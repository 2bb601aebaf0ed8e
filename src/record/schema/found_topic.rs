//! A topic that was there before the trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A topic as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FoundTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// Copies of its first partition.
    pub replication: u32,
}
