//! Clusters of three nodes with three copies of everything, of which a node is lost during a load at a fixed rate: nothing that was
//! acknowledged is lost, and the record shows for how long it stood still.
//!
//! A fault ends when the test sees that it had its effect, and the load when it is carried again, so that nothing here waits for a
//! time.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
mod rabbitmq;
#[cfg(feature = "rabbitmq")]
mod rabbitmq_queues;
#[cfg(all(feature = "mpi", feature = "kafka-native"))]
mod ranks;

use std::time::Duration;

use crate::harness::cluster::Cluster;
use crate::harness::{eventually, sums};
use crate::load::{self, Load};
use brokermark::record::Record;

/// Nodes that have a copy of every message.
const COPIES: usize = 3;

/// More than becomes due while a node is missing.
const IN_FLIGHT: usize = 100_000;

/// A topic with one partition, of which each node has a copy.
trait Replicated {
    fn cluster(&self) -> &Cluster;

    /// Begins a load on it.
    fn load(&self, fault: &str) -> Load;

    /// The node that leads it, from 1, and how many nodes have all of its messages, as the nodes at these addresses know it.
    fn leader(&self, addresses: &[String]) -> Option<(usize, usize)>;

    /// Asserts what else must hold for the record of a load on it.
    fn check(&self, record: &Record);

    fn remove(&self);

    fn await_leader(&self) -> usize {
        let mut leader = None;
        eventually("the topic has a leader", || {
            leader = self.leader(&self.cluster().addresses());
            leader.is_some()
        });
        leader.unwrap().0
    }

    /// Waits until the other nodes have agreed on another leader.
    fn await_successor(&self, of: usize) {
        let mut others = self.cluster().addresses();
        others.remove(of - 1);
        eventually("another node leads", || self.leader(&others).is_some_and(|(leader, _)| leader != of));
    }

    fn await_copies(&self) {
        let all = self.cluster().addresses();
        eventually("every node has a copy", || self.leader(&all).is_some_and(|(_, copies)| copies == COPIES));
    }

    /// Ends the load when the fault is over.
    fn end(&self, load: Load) -> Record {
        self.await_copies();
        let record = load.end();
        let found = sums(&record);
        assert_eq!((found.unread, found.duplicated), (0, 0), "{found:?}");
        self.check(&record);
        self.remove();
        record
    }
}

/// Begins a load, does something to the node that leads, and undoes it when another node leads.
fn lose_leader(topic: &impl Replicated, fault: &str, begin: fn(&Cluster, usize), end: fn(&Cluster, usize)) -> Record {
    let load = topic.load(fault);
    let leader = topic.await_leader();
    begin(topic.cluster(), leader);
    topic.await_successor(leader);
    end(topic.cluster(), leader);
    topic.end(load)
}

/// Restarts one node after another, each when all have copies of everything.
fn restart_all(topic: &impl Replicated) -> Record {
    let load = topic.load("rolling-restart");
    for node in 1..=COPIES {
        topic.cluster().restart(node);
        topic.await_copies();
    }
    topic.end(load)
}

/// Asserts that the record shows one stretch of at least `least` without an acknowledgement, after which the rate was held again.
fn assert_interrupted(record: &Record, least: Duration) {
    let longest = record.outages.iter().max_by_key(|outage| outage.longest_gap_ns);
    let Some(outage) = longest else { panic!("no outage: {:?}", record.throughput) };
    assert!(u128::from(outage.longest_gap_ns) >= least.as_nanos(), "{outage:?}");
    assert!(outage.first_acknowledgement_ns.is_some(), "{outage:?}");
    assert!(outage.recovered_ns >= outage.first_acknowledgement_ns, "{outage:?}");
    assert!((outage.expected_per_second / load::RATE as f64 - 1.0).abs() < 0.05, "{outage:?}");
}
