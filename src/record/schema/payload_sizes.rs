//! How large payloads were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes of the ready-made payloads that the producers took in turn, in bytes: also of those that no key of the scenario gives, as of
/// templates and of lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PayloadSizes {
    /// Mean.
    pub mean_bytes: f64,
    /// The smallest.
    pub smallest_bytes: u64,
    /// The largest.
    pub largest_bytes: u64,
}
