//! The transactions of producers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::Latency;

/// The transactions in which measured messages were sent. A message is acknowledged when its transaction is committed; one whose
/// transaction is aborted has failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Transactions {
    /// Transactions that the broker confirmed to be committed.
    pub committed: u64,
    /// Transactions that were aborted: on purpose, or because of an error.
    pub aborted: u64,
    /// From the call that commits a transaction, when the broker has written all its messages, to the broker's confirmation.
    /// `null` if none was committed.
    pub commit: Option<Latency>,
}
