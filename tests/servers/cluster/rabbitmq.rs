//! RabbitMQ streams, which a majority of the nodes confirms. A node counts as dead after 5 s without a sign of life.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{IN_FLIGHT, Load, Replicated, assert_interrupted, lose_leader, restart_all};
use crate::harness::PATIENCE;
use crate::harness::cluster::Cluster;
use crate::harness::rabbitmq::Stranger;
use brokermark::record::Record;

/// Erlang takes a node for dead after three quarters of `net_ticktime` at the earliest; a connection that is closed is noticed at once.
const UNHEARD: Duration = Duration::from_secs(3);

/// How long a node is given to accept a connection: one that is cut off never does.
const CONNECT: Duration = Duration::from_secs(1);

struct Stream {
    cluster: Cluster,
    name: String,
}

impl Stream {
    fn new(name: &str) -> Self {
        Stream { cluster: Cluster::rabbitmq(), name: format!("{name}-{}", std::process::id()) }
    }

    /// A connection to the first of these nodes that answers.
    fn ask(addresses: &[String]) -> Option<Stranger> {
        let connect = |address: &String| {
            let address: SocketAddr = address.parse().unwrap();
            let stream = TcpStream::connect_timeout(&address, CONNECT).ok()?;
            // It may ask the node that is gone before it answers.
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Some(Stranger::arrive_at(stream))
        };
        addresses.iter().find_map(connect)
    }
}

impl Replicated for Stream {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn load(&self, fault: &str) -> Load {
        let (addresses, stream) = (self.cluster.addresses(), &self.name);
        let broker = format!(
            r#"
            [broker]
            kind = "rabbitmq-stream"
            addresses = {addresses:?}
            [broker.rabbitmq-stream]
            reconnect = "60s"
            [topology]
            name = "{stream}"
            replication = 3
            keep = true
            "#
        );
        Load::begin(&format!("rabbitmq-{fault}"), &broker, IN_FLIGHT)
    }

    fn leader(&self, addresses: &[String]) -> Option<(usize, usize)> {
        let (leader, copies) = Stream::ask(addresses)?.leader(&self.name)?;
        let index = self.cluster.addresses().iter().position(|address| *address == leader)?;
        Some((index + 1, copies))
    }

    /// Messages that awaited their confirmation when a connection broke have failed: the client does not send them again.
    fn check(&self, record: &Record) {
        assert_eq!(record.counts.unresolved, 0, "{:?}", record.counts);
    }

    fn remove(&self) {
        Stream::ask(&self.cluster.addresses()).unwrap().delete_stream(&self.name);
    }
}

#[test]
fn real_stream_leader_killed_loses_nothing_confirmed() {
    // The nodes notice the closed connection at once: another one may lead before the gap counts as an outage.
    let record = lose_leader(&Stream::new("killed"), "leader-killed", Cluster::kill, Cluster::restart);
    assert!(record.counts.failed > 0 || record.throughput.longest_gap_ns.is_some(), "{record:?}");
}

#[test]
fn real_stream_leader_cut_off_loses_nothing_confirmed() {
    assert_interrupted(&lose_leader(&Stream::new("cut-off"), "leader-cut-off", Cluster::cut, Cluster::mend), UNHEARD);
}

#[test]
fn real_stream_leader_frozen_loses_nothing_confirmed() {
    // The database of the nodes stays parted after a partition that a node has slept through, until that node is restarted.
    let wake = |cluster: &Cluster, node| {
        cluster.thaw(node);
        cluster.restart(node);
    };
    assert_interrupted(&lose_leader(&Stream::new("frozen"), "leader-frozen", Cluster::freeze, wake), UNHEARD);
}

#[test]
fn real_stream_rolling_restart_loses_nothing_confirmed() {
    restart_all(&Stream::new("rolled"));
}
