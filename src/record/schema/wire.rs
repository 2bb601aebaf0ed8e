//! What crossed the wire on the way to the broker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests and bytes of the measured phase and the drain, for brokers that brokermark's own client sends to. Bytes are of
/// messages that the broker took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Wire {
    /// Requests sent, repeated ones included.
    pub requests: u64,
    /// Requests that were to be sent again, because the broker or the network failed in a way that may pass.
    pub retried: u64,
    /// Requests that the broker refused because a quota was used up; most of them are among `retried`. Of Kafka: responses with which
    /// it delayed the client for that reason.
    pub quota_refusals: u64,
    /// What the messages weigh before they are encoded, as the broker's own clients count it.
    pub raw_bytes: u64,
    /// Encoded, before compression.
    pub body_bytes: u64,
    /// As they were sent, without headers.
    pub sent_bytes: u64,
    /// Requests of consumers for messages that were answered, where brokermark's own client of Kafka sends them; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetches: u64,
    /// Of `fetches`, those with whose response the broker delayed the consumer because a quota was used up; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_fetches: u64,
    /// `body_bytes` / `sent_bytes`; `null` when nothing was sent.
    pub compression_ratio: Option<f64>,
    /// Raw bytes of what was taken inside the measured window, per second.
    pub raw_bytes_per_second: f64,
    /// Bytes sent of what was taken inside the measured window, per second.
    pub sent_bytes_per_second: f64,
    /// Raw bytes taken inside the measured window, per second of `client.cpu_seconds`: what one core of the client carries; `null` when no CPU time was seen.
    pub raw_bytes_per_cpu_second: Option<f64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
