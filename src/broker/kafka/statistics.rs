//! librdkafka's statistics of the client's queues, of the broker's answers, and of what was sent.
//!
//! Fields and units: librdkafka's `STATISTICS.md` (`msg_cnt`: messages in the producer's queues; `brokers.*.rtt`: round
//! trip in microseconds over the statistics interval; `topics.*.batchsize`: bytes of batches as they were sent, over the same
//! interval; `txmsg_bytes`: bytes of messages sent since the client began, which `rdkafka_msgset_writer.c` counts as keys and values
//! before compression).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::broker::{Telemetry, Wire, known_sum};

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    msg_cnt: u64,
    #[serde(default)]
    txmsg_bytes: u64,
    #[serde(default)]
    brokers: BTreeMap<String, BrokerStatistics>,
    #[serde(default)]
    topics: BTreeMap<String, TopicStatistics>,
}

#[derive(Deserialize)]
struct BrokerStatistics {
    rtt: Option<Window>,
}

#[derive(Deserialize)]
struct TopicStatistics {
    batchsize: Option<Window>,
}

#[derive(Deserialize)]
struct Window {
    cnt: u64,
    #[serde(default)]
    sum: u64,
    #[serde(default)]
    p50: u64,
    #[serde(default)]
    p99: u64,
}

/// Reads one client's statistics, an interval after the other.
#[derive(Default)]
pub struct Reader {
    /// `txmsg_bytes` of the interval before.
    raw_bytes: u64,
}

impl Reader {
    /// Parses one interval's statistics. The round trip is that of the slowest broker.
    pub fn read(&mut self, json: &[u8]) -> Option<Telemetry> {
        let statistics: Statistics = serde_json::from_slice(json).ok()?;
        let windows =
            || statistics.brokers.values().filter_map(|broker| broker.rtt.as_ref()).filter(|window| window.cnt > 0);
        let batches = || statistics.topics.values().filter_map(|topic| topic.batchsize.as_ref());
        let raw_bytes = statistics.txmsg_bytes.saturating_sub(self.raw_bytes);
        self.raw_bytes = statistics.txmsg_bytes;
        Some(Telemetry {
            queue_messages: Some(statistics.msg_cnt),
            round_trip_p50_ns: windows().map(|window| window.p50 * 1000).max(),
            round_trip_p99_ns: windows().map(|window| window.p99 * 1000).max(),
            wire: Some(Wire {
                // librdkafka sends each batch in a request of its own.
                requests: batches().map(|window| window.cnt).sum(),
                raw_bytes,
                body_bytes: raw_bytes,
                sent_bytes: batches().map(|window| window.sum).sum(),
                ..Wire::default()
            }),
            ..Telemetry::default()
        })
    }
}

/// What two intervals came to: the deeper queue, the later round trip, and all that was sent.
pub fn joined(earlier: Telemetry, later: Telemetry) -> Telemetry {
    let wire = known_sum(earlier.wire, later.wire);
    Telemetry { queue_messages: earlier.queue_messages.max(later.queue_messages), wire, ..later }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_broker_and_the_queue_are_reported() {
        let json = r#"{"name": "x", "msg_cnt": 22710, "brokers": {
            "a:1/0": {"rtt": {"cnt": 12, "p50": 2000, "p99": 3100}},
            "b:1/1": {"rtt": {"cnt": 3, "p50": 900, "p99": 9000}},
            "c:1/bootstrap": {"rtt": {"cnt": 0, "p50": 99000, "p99": 99000}}}}"#;
        let telemetry = Reader::default().read(json.as_bytes()).unwrap();
        assert_eq!(telemetry.queue_messages, Some(22710));
        assert_eq!(telemetry.round_trip_p50_ns, Some(2_000_000));
        assert_eq!(telemetry.round_trip_p99_ns, Some(9_000_000));
        assert!(Reader::default().read(b"not json").is_none());
    }

    #[test]
    fn what_was_sent_adds_up_over_intervals_though_one_of_its_counters_never_begins_anew() {
        let interval = |raw: u64, batches: u64, sent: u64| {
            format!(
                r#"{{"txmsg_bytes": {raw}, "topics": {{"t": {{"batchsize": {{"cnt": {batches}, "sum": {sent}}}}}}}}}"#
            )
        };
        let mut reader = Reader::default();
        let first = reader.read(interval(1_000, 2, 300).as_bytes()).unwrap();
        let both = joined(first, reader.read(interval(3_000, 3, 700).as_bytes()).unwrap());
        let wire = both.wire.unwrap();
        assert_eq!((wire.requests, wire.raw_bytes, wire.body_bytes, wire.sent_bytes), (5, 3_000, 3_000, 1_000));
    }
}
