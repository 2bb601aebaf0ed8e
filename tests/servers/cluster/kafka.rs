//! Kafka with `acks = all` and an idempotent producer. A node counts as dead after 2 s without a heartbeat, of which there are two a
//! second.

use std::time::Duration;

use super::lose_nodes;
use crate::harness::cluster::Cluster;
#[cfg(feature = "kafka-native")]
use crate::harness::kafka;
#[cfg(feature = "kafka-native")]
use crate::harness::{Bench, PATIENCE, Running, eventually, sums};
#[cfg(feature = "kafka-native")]
use brokermark::measure::ConditionKind;
#[cfg(feature = "kafka-native")]
use brokermark::record::{Condition, ErrorCount, Record};

/// Half of the session: on a busy machine the last heartbeat of the node may be as old as that.
const SESSION: Duration = Duration::from_secs(1);

#[test]
fn real_kafka_that_loses_nodes_loses_nothing_acknowledged() {
    let cluster = Cluster::kafka();
    lose_nodes(&cluster.addresses(), "kafka", SESSION, &[0, 1, 2]);
}

/// A topic with two copies, and a run on it that does not end by itself.
#[cfg(feature = "kafka-native")]
struct TwoCopies {
    cluster: Cluster,
    addresses: Vec<String>,
    topic: String,
    running: Running,
    leader: usize,
    follower: usize,
    _bench: Bench,
}

#[cfg(feature = "kafka-native")]
impl TwoCopies {
    fn begin(name: &str, client: &str, settings: &str) -> Self {
        let (cluster, topic) = (Cluster::kafka(), format!("{name}-{client}-{}", std::process::id()));
        let addresses = cluster.addresses();
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
            {settings}"
        ));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        let (leader, _) = kafka::leader(&addresses.join(","), &topic).unwrap();
        let copies = kafka::replicas(&addresses.join(","), &topic);
        let follower = copies.into_iter().find(|node| *node != leader).unwrap();
        TwoCopies { cluster, addresses, topic, running, leader, follower, _bench: bench }
    }

    /// The addresses of the nodes but for this one.
    fn without(&self, node: usize) -> String {
        let others = self.addresses.iter().enumerate().filter(|(index, _)| index + 1 != node);
        others.map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Waits until the nodes but for this one have so many messages more.
    fn grow(&self, without: usize, messages: u64) {
        let addresses = self.without(without);
        let before = kafka::messages(&addresses, &self.topic);
        eventually("the load goes on", || kafka::messages(&addresses, &self.topic) > before + messages);
    }

    fn end(self) -> (Cluster, Record) {
        self.running.signal(libc::SIGINT);
        let record = self.running.finish(PATIENCE).record();
        self.cluster.restart(self.leader);
        kafka::remove_topic(&self.addresses.join(","), &self.topic);
        (self.cluster, record)
    }
}

/// The only node with the last messages is lost, and the topic lets another one lead. Members have read them; nothing is read again.
#[cfg(feature = "kafka-native")]
fn assert_truncation_is_told(client: &str) {
    let settings = "\"min.insync.replicas\" = 1\n\"unclean.leader.election.enable\" = true";
    let of = TwoCopies::begin("unclean", client, settings);
    of.cluster.freeze(of.follower);
    let is_alone = || kafka::leader(&of.without(of.follower), &of.topic).is_some_and(|(_, copies)| copies == 1);
    eventually("the follower is out of sync", is_alone);
    of.grow(of.follower, 1_000);
    of.cluster.kill(of.leader);
    of.cluster.thaw(of.follower);
    let leads = || kafka::leader(&of.without(of.leader), &of.topic).is_some_and(|(now, _)| now == of.follower);
    eventually("the other node leads", leads);
    of.grow(of.leader, 2_000);
    let (_cluster, record) = of.end();
    let found = sums(&record);
    assert_eq!(found.duplicated, 0, "{found:?}");
    let is_told = |error: &ErrorCount| error.first_message.contains("truncated");
    assert!(client != "native" || record.receive_errors.iter().any(is_told), "{:?}", record.receive_errors);
}

/// The only node with all messages is lost, and no other one may lead.
#[cfg(feature = "kafka-native")]
fn assert_lost_leader_is_told(client: &str) {
    let mut of = TwoCopies::begin("leaderless", client, "\"min.insync.replicas\" = 1");
    of.cluster.freeze(of.follower);
    let is_alone = || kafka::leader(&of.without(of.follower), &of.topic).is_some_and(|(_, copies)| copies == 1);
    eventually("the follower is out of sync", is_alone);
    of.cluster.kill(of.leader);
    of.cluster.thaw(of.follower);
    of.running.await_stderr("no leader");
    of.cluster.restart(of.leader);
    of.grow(of.follower, 1_000);
    let (_cluster, record) = of.end();
    let leaderless = record.conditions.iter().find(|one| one.kind == ConditionKind::WaitingForLeader);
    assert!(leaderless.is_some_and(|one| one.end_ns.is_some()), "{:?}", record.conditions);
}

#[cfg(feature = "kafka-native")]
#[test]
fn real_lost_leader_is_told_until_it_is_back() {
    assert_lost_leader_is_told("librdkafka");
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
    fn real_lost_leader_is_told_until_it_is_back() {
        assert_lost_leader_is_told("native");
    }

    /// Each message needs both copies.
    #[test]
    fn real_copy_that_stands_still_is_told_until_it_is_back() {
        let mut of = TwoCopies::begin("copies", "native", "\"min.insync.replicas\" = 2");
        of.cluster.freeze(of.follower);
        of.running.await_stderr("not enough in-sync replicas");
        of.cluster.thaw(of.follower);
        of.grow(of.follower, 1_000);
        let (_cluster, record) = of.end();
        let lack = |one: &&Condition| one.kind == ConditionKind::NotEnoughReplicas;
        let lack = record.conditions.iter().find(lack).unwrap_or_else(|| panic!("{:?}", record.conditions));
        assert!(lack.end_ns.is_some(), "{lack:?}");
        assert_eq!(record.counts.failed, 0, "{:?}", record.errors);
    }

    #[test]
    fn real_kafka_that_loses_nodes_loses_nothing_acknowledged() {
        let cluster = Cluster::kafka();
        lose_nodes(&cluster.addresses(), "kafka-native", SESSION, &[0, 1, 2]);
    }
}
