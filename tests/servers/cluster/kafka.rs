//! Kafka with `acks = all` and an idempotent producer. A node counts as dead after 2 s without a heartbeat, of which there are two a
//! second.

use std::time::Duration;

use super::{IN_FLIGHT, Load, Replicated, assert_interrupted, lose_leader, restart_all};
use crate::harness::cluster::Cluster;
use crate::harness::kafka;
use brokermark::record::Record;

/// Half of the session: on a busy machine the last heartbeat of the node may be as old as that.
const SESSION: Duration = Duration::from_secs(1);

struct Topic {
    cluster: Cluster,
    name: String,
    is_native: bool,
}

/// librdkafka asks for metadata every second, and gives a request up after 2 s.
const LIBRDKAFKA: &str = r#"
            [broker.properties]
            "message.timeout.ms" = 90000
            "socket.timeout.ms" = 2000
            "reconnect.backoff.max.ms" = 500
            "topic.metadata.refresh.interval.ms" = 1000
            [broker.kafka]"#;

/// A request is given up after 2 s as well.
const NATIVE: &str = r#"
            client = "native"
            [broker.kafka]
            delivery_timeout = "90s"
            request_timeout = "2s""#;

impl Topic {
    fn new(name: &str) -> Self {
        Topic { cluster: Cluster::kafka(), name: format!("{name}-{}", std::process::id()), is_native: false }
    }

    #[cfg(feature = "kafka-native")]
    fn native(name: &str) -> Self {
        Topic { is_native: true, ..Topic::new(name) }
    }
}

impl Replicated for Topic {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn load(&self, fault: &str) -> Load {
        let (addresses, topic) = (self.cluster.addresses(), &self.name);
        let (client, keys) = if self.is_native { ("kafka-native", NATIVE) } else { ("kafka", LIBRDKAFKA) };
        let broker = format!(
            r#"
            [broker]
            kind = "kafka"
            addresses = {addresses:?}{keys}
            acks = "all"
            idempotence = true
            [topology]
            name = "{topic}"
            replication = 3
            keep = true
            "#
        );
        Load::begin(&format!("{client}-{fault}"), &broker, IN_FLIGHT)
    }

    fn leader(&self, addresses: &[String]) -> Option<(usize, usize)> {
        kafka::leader(&addresses.join(","), &self.name)
    }

    /// The client sends again until a message is acknowledged, and the servers count what they hold as well.
    fn check(&self, record: &Record) {
        assert_eq!(record.counts.attempted, record.counts.acknowledged, "{:?}", record.errors);
        assert_eq!(kafka::messages(&self.cluster.addresses().join(","), &self.name), record.counts.acknowledged);
    }

    fn remove(&self) {
        kafka::remove_topic(&self.cluster.addresses().join(","), &self.name);
    }
}

#[test]
fn real_leader_killed_loses_nothing_acknowledged() {
    assert_interrupted(&lose_leader(&Topic::new("killed"), "leader-killed", Cluster::kill, Cluster::restart), SESSION);
}

#[test]
fn real_leader_cut_off_loses_nothing_acknowledged() {
    assert_interrupted(&lose_leader(&Topic::new("cut-off"), "leader-cut-off", Cluster::cut, Cluster::mend), SESSION);
}

#[test]
fn real_leader_frozen_loses_nothing_acknowledged() {
    assert_interrupted(&lose_leader(&Topic::new("frozen"), "leader-frozen", Cluster::freeze, Cluster::thaw), SESSION);
}

#[test]
fn real_rolling_restart_of_all_nodes_loses_nothing() {
    // A node that is stopped cleanly hands its partitions over, so that the gap may be shorter than an outage.
    let record = restart_all(&Topic::new("rolled"));
    assert!(record.throughput.longest_gap_ns.is_some(), "{:?}", record.throughput);
}

#[cfg(feature = "kafka-native")]
mod native {
    use super::*;

    #[test]
    fn real_leader_killed_loses_nothing_acknowledged() {
        let topic = Topic::native("native-killed");
        assert_interrupted(&lose_leader(&topic, "leader-killed", Cluster::kill, Cluster::restart), SESSION);
    }

    #[test]
    fn real_leader_cut_off_loses_nothing_acknowledged() {
        let topic = Topic::native("native-cut-off");
        assert_interrupted(&lose_leader(&topic, "leader-cut-off", Cluster::cut, Cluster::mend), SESSION);
    }

    #[test]
    fn real_leader_frozen_loses_nothing_acknowledged() {
        let topic = Topic::native("native-frozen");
        assert_interrupted(&lose_leader(&topic, "leader-frozen", Cluster::freeze, Cluster::thaw), SESSION);
    }

    #[test]
    fn real_rolling_restart_of_all_nodes_loses_nothing() {
        let record = restart_all(&Topic::native("native-rolled"));
        assert!(record.throughput.longest_gap_ns.is_some(), "{:?}", record.throughput);
    }
}
