//! What was carried, per second; how large payloads were, and what crossed the wire on the way to the broker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rates inside the measured window. A megabyte is never written: bytes are bytes.
///
/// A rate counts what happened inside the window, whichever message it happened to, divided by the window's length, so that
/// no single late message can decide it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Throughput {
    /// Length of the measured window in nanoseconds: from the end of the warm-up until nothing more is intended, or until
    /// the last message was sent where a closed loop is bounded by messages or bytes.
    #[serde(alias = "duration_ns")]
    pub window_ns: u64,
    /// Messages acknowledged inside the window, per second.
    pub messages_per_second: f64,
    /// Messages of the warm-up among them, whose answers came in the window: a rate above the wanted one is theirs. 0 in records of older builds.
    #[serde(default)]
    pub warm_up_messages: u64,
    /// Payload bytes of the messages acknowledged inside the window, per second.
    pub payload_bytes_per_second: f64,
    /// Messages handed to the client inside the window, per second.
    pub sent_per_second: f64,
    /// Messages that the schedule had due in the window, per second; `null` in a closed loop.
    pub target_per_second: Option<f64>,
    /// Messages received inside the window by all consumers together, per second; `null` without consumers.
    pub consumed_per_second: Option<f64>,
    /// Acknowledged messages that were in flight on average: by Little's law, `messages_per_second` × the mean service time.
    /// `null` when none was acknowledged.
    #[serde(default)]
    pub in_flight_by_littles_law: Option<f64>,
    /// Completion of the measured messages, until the last of them was acknowledged: what tools report that divide messages by
    /// total time. `null` when none was acknowledged.
    #[serde(default)]
    pub until_last_acknowledgement: Option<Completion>,
    /// Completion until the last measured message was received; `null` without consumers or when none was received.
    #[serde(default)]
    pub until_last_arrival: Option<Completion>,
    /// Longest time without an acknowledgement that lies in the measured window, or ends in it, in nanoseconds; `null`: less
    /// than 100 ms, which is not measured.
    #[serde(default)]
    pub longest_gap_ns: Option<u64>,
    /// Evenness of the producers; `null` when nothing was sent.
    #[serde(default)]
    pub producer_shares: Option<ProducerShares>,
}

/// Measured messages from the begin of the window to the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Completion {
    /// Time from the begin of the measured window to the last message, in nanoseconds.
    pub duration_ns: u64,
    /// Rate of all the messages over that time, per second.
    pub messages_per_second: f64,
    /// Rate of their payload bytes, per second.
    pub payload_bytes_per_second: f64,
}

/// The measured messages of single producers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ProducerShares {
    /// Messages that the producer with the fewest handed over.
    pub smallest_messages: u64,
    /// Messages that the producer with the most handed over.
    pub largest_messages: u64,
    /// Jain's fairness index, `(Σx)² / (n·Σx²)`: 1 when all sent the same, 1/n when one sent everything (Jain, Chiu and
    /// Hawe, DEC-TR-301, 1984).
    pub jain_index: f64,
}

impl Completion {
    /// Of `messages` with `payload_bytes`; `None` when no time passed.
    pub fn new(duration_ns: u64, messages: u64, payload_bytes: f64) -> Option<Self> {
        let seconds = duration_ns as f64 / 1e9;
        (duration_ns > 0).then(|| Completion {
            duration_ns,
            messages_per_second: messages as f64 / seconds,
            payload_bytes_per_second: payload_bytes / seconds,
        })
    }
}

impl ProducerShares {
    /// Of each producer's messages; `None` without any.
    pub fn from_counts(messages: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let sum: f64 = messages.clone().map(|messages| messages as f64).sum();
        let squares: f64 = messages.clone().map(|messages| (messages as f64).powi(2)).sum();
        (sum > 0.0).then(|| ProducerShares {
            smallest_messages: messages.clone().min().unwrap_or(0),
            largest_messages: messages.clone().max().unwrap_or(0),
            jain_index: sum * sum / (messages.count() as f64 * squares),
        })
    }
}

impl Throughput {
    /// The time that other tools divide by: until the last acknowledgement, or the window where nothing else is known.
    pub fn completion_ns(&self) -> u64 {
        self.until_last_acknowledgement.map_or(self.window_ns, |completion| completion.duration_ns)
    }

    /// Acknowledged messages that were in flight on average, by Little's law (J. D. C. Little, A Proof for the Queuing Formula
    /// L = λW, 1961): so many came per second, and each stayed for its service time.
    pub fn in_flight(&self, mean_service_ns: f64) -> f64 {
        self.messages_per_second * mean_service_ns / 1e9
    }
}

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
    /// Bytes of the messages before they are encoded, as the broker's own clients count it.
    pub raw_bytes: u64,
    /// Bytes encoded, before compression.
    pub body_bytes: u64,
    /// Bytes as they were sent, without headers.
    pub sent_bytes: u64,
    /// Requests of consumers for messages that were answered, where brokermark's own client of Kafka sends them; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetches: u64,
    /// Fetches with whose response the broker delayed the consumer because a quota was used up; absent: none.
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

/// Sizes of the ready-made payloads that the producers took in turn, in bytes: also of those that no key of the scenario gives, as of
/// templates and of lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PayloadSizes {
    /// Mean size.
    pub mean_bytes: f64,
    /// Smallest size.
    pub smallest_bytes: u64,
    /// Largest size.
    pub largest_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_tell_starvation() {
        let shares = |messages: &[u64]| ProducerShares::from_counts(messages.iter().copied());
        assert_eq!(shares(&[5, 5, 5, 5]).unwrap().jain_index, 1.0);
        let starved = shares(&[20, 0, 0, 0]).unwrap();
        assert_eq!(starved.smallest_messages, 0);
        assert_eq!(starved.largest_messages, 20);
        assert_eq!(starved.jain_index, 0.25);
        assert_eq!(shares(&[0, 0]), None);
    }
}
