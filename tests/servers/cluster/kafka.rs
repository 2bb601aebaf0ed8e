//! Kafka with `acks = all` and an idempotent producer. A node counts as dead after 2 s without a heartbeat, of which there are two a
//! second.

use std::time::Duration;

use super::{IN_FLIGHT, Load, Replicated, assert_interrupted, lose_leader, restart_all};
use crate::harness::cluster::Cluster;
use crate::harness::kafka;
#[cfg(feature = "kafka-native")]
use crate::harness::{Bench, PATIENCE, eventually, sums};
#[cfg(feature = "kafka-native")]
use brokermark::record::ErrorCount;
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

/// The only node with the last messages is lost, and the topic lets another one lead. Members have read them; nothing is read again.
#[cfg(feature = "kafka-native")]
fn assert_truncation_is_told(client: &str) {
    let (cluster, topic) = (Cluster::kafka(), format!("unclean-{client}-{}", std::process::id()));
    let addresses = cluster.addresses();
    let without = |node: usize| {
        let others = addresses.iter().enumerate().filter(|(index, _)| index + 1 != node);
        others.map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",")
    };
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", client = \"{client}\", addresses = {addresses:?} }}
        load.rate = \"500/s\"
        run = {{ duration = \"300s\", drain_deadline = \"5s\" }}
        [consumers]
        [topology]
        name = \"{topic}\"
        replication = 2
        keep = true
        [topology.config]
        \"min.insync.replicas\" = 1
        \"unclean.leader.election.enable\" = true"
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    let (leader, _) = kafka::leader(&addresses.join(","), &topic).unwrap();
    let copies = kafka::replicas(&addresses.join(","), &topic);
    let follower = copies.into_iter().find(|node| *node != leader).unwrap();
    cluster.freeze(follower);
    let is_alone = || kafka::leader(&without(follower), &topic).is_some_and(|(_, copies)| copies == 1);
    eventually("the follower is out of sync", is_alone);
    let common = kafka::messages(&without(follower), &topic);
    eventually("only the leader has messages", || kafka::messages(&without(follower), &topic) > common + 1_000);
    cluster.kill(leader);
    cluster.thaw(follower);
    let leads = || kafka::leader(&without(leader), &topic).is_some_and(|(now, _)| now == follower);
    eventually("the other node leads", leads);
    let end = kafka::messages(&without(leader), &topic);
    eventually("the load goes on", || kafka::messages(&without(leader), &topic) > end + 2_000);
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).record();
    cluster.restart(leader);
    kafka::remove_topic(&addresses.join(","), &topic);
    let found = sums(&record);
    assert_eq!(found.duplicated, 0, "{found:?}");
    let is_told = |error: &ErrorCount| error.first_message.contains("truncated");
    assert!(client != "native" || record.receive_errors.iter().any(is_told), "{:?}", record.receive_errors);
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_unclean_election_duplicates_nothing() {
    assert_truncation_is_told("librdkafka");
}

#[cfg(feature = "kafka-native")]
mod native {
    use super::*;

    #[test]
    fn real_unclean_election_is_told_and_duplicates_nothing() {
        assert_truncation_is_told("native");
    }

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
