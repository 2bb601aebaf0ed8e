//! librdkafka's statistics of the client's queues and of the broker's answers.
//!
//! Fields and units: librdkafka's `STATISTICS.md` (`msg_cnt`: messages in the producer's queues; `brokers.*.rtt`: round
//! trip in microseconds over the statistics interval).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::broker::Telemetry;

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    msg_cnt: u64,
    #[serde(default)]
    brokers: BTreeMap<String, BrokerStatistics>,
}

#[derive(Deserialize)]
struct BrokerStatistics {
    rtt: Option<Window>,
}

#[derive(Deserialize)]
struct Window {
    cnt: u64,
    p50: u64,
    p99: u64,
}

/// Parses one interval's statistics. The round trip is that of the slowest broker.
pub fn parse(json: &str) -> Option<Telemetry> {
    let statistics: Statistics = serde_json::from_str(json).ok()?;
    let windows =
        || statistics.brokers.values().filter_map(|broker| broker.rtt.as_ref()).filter(|window| window.cnt > 0);
    Some(Telemetry {
        queue_messages: Some(statistics.msg_cnt),
        round_trip_p50_ns: windows().map(|window| window.p50 * 1000).max(),
        round_trip_p99_ns: windows().map(|window| window.p99 * 1000).max(),
        ..Telemetry::default()
    })
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
        let telemetry = parse(json).unwrap();
        assert_eq!(telemetry.queue_messages, Some(22710));
        assert_eq!(telemetry.round_trip_p50_ns, Some(2_000_000));
        assert_eq!(telemetry.round_trip_p99_ns, Some(9_000_000));
        assert!(parse("not json").is_none());
    }
}
