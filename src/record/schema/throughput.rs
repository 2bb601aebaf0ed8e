//! What was carried, per second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rates over the measured messages. A megabyte is never written: bytes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Throughput {
    /// From the begin of the measured phase to the last measured acknowledgement, in nanoseconds: the divisor of
    /// `messages_per_second` and `payload_bytes_per_second`.
    pub duration_ns: u64,
    /// Acknowledged messages per second.
    pub messages_per_second: f64,
    /// Payload bytes of acknowledged messages per second.
    pub payload_bytes_per_second: f64,
    /// Measured messages handed to the client per second, from the begin of the measured phase to the end of the load.
    pub sent_per_second: f64,
    /// Messages per second that the schedule wanted, on average over the measured window; `null` in a closed loop.
    pub target_per_second: Option<f64>,
    /// Measured messages received per second by all consumers together, from the begin of the measured phase to the last
    /// of them; `null` without consumers.
    pub consumed_per_second: Option<f64>,
    /// Acknowledged messages that were in flight on average: by Little's law, `messages_per_second` × the mean service time.
    /// `null` when none was acknowledged.
    #[serde(default)]
    pub in_flight_by_littles_law: Option<f64>,
}

impl Throughput {
    /// The rates that follow from counts and a duration; 0 where no time passed.
    pub fn from_counts(duration_ns: u64, acknowledged: u64, payload_bytes_acknowledged: u64) -> Self {
        let per_second = |count: u64| if duration_ns == 0 { 0.0 } else { count as f64 * 1e9 / duration_ns as f64 };
        Throughput {
            duration_ns,
            messages_per_second: per_second(acknowledged),
            payload_bytes_per_second: per_second(payload_bytes_acknowledged),
            ..Throughput::default()
        }
    }

    /// Acknowledged messages that were in flight on average, by Little's law (J. D. C. Little, A Proof for the Queuing Formula
    /// L = λW, 1961): so many came per second, and each stayed for its service time.
    pub fn in_flight(&self, mean_service_ns: f64) -> f64 {
        self.messages_per_second * mean_service_ns / 1e9
    }
}
