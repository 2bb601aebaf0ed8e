//! JetStream, whose streams a majority of the nodes acknowledges. A follower that hears nothing of its leader asks for an election after 4 s
//! at the earliest.

use std::process::Command;
use std::time::Duration;

use super::{IN_FLIGHT, Load, Replicated, assert_interrupted, lose_leader, restart_all};
use crate::harness::cluster::Cluster;
use crate::harness::nats;
use brokermark::record::Record;

/// A leader that is lost was heard less than a second before.
const UNHEARD: Duration = Duration::from_secs(3);

struct Stream {
    cluster: Cluster,
    name: String,
}

impl Stream {
    fn new(name: &str) -> Self {
        Stream { cluster: Cluster::nats(), name: format!("{name}-{}", std::process::id()) }
    }

    /// What a command of natscli prints, at the first of these nodes that answers.
    fn ask(addresses: &[String], arguments: &[&str]) -> Option<String> {
        let ask = |address: &String| {
            let mut command = Command::new(nats::programs().join("nats"));
            let output = command.args(["--server", address, "--timeout", "3s"]).args(arguments).output().unwrap();
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        };
        addresses.iter().find_map(ask)
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
            kind = "nats"
            addresses = {addresses:?}
            [broker.nats]
            ack_timeout = "20s"
            [topology]
            name = "{stream}"
            replication = 3
            keep = true
            "#
        );
        Load::begin(&format!("nats-{fault}"), &broker, IN_FLIGHT)
    }

    fn leader(&self, addresses: &[String]) -> Option<(usize, usize)> {
        let told = Stream::ask(addresses, &["stream", "info", &self.name, "--json"])?;
        let cluster = serde_json::from_str::<serde_json::Value>(&told).unwrap()["cluster"].clone();
        let leader = cluster["leader"].as_str()?.strip_prefix("node")?.parse().unwrap();
        let has_all = |replica: &&serde_json::Value| replica["current"] == true && replica["offline"] != true;
        Some((leader, 1 + cluster["replicas"].as_array().into_iter().flatten().filter(has_all).count()))
    }

    /// Messages that awaited their acknowledgement when a node was lost may have failed: the client does not send them again.
    fn check(&self, record: &Record) {
        assert_eq!(record.counts.unresolved, 0, "{:?}", record.counts);
    }

    fn remove(&self) {
        Stream::ask(&self.cluster.addresses(), &["stream", "rm", "--force", &self.name]).unwrap();
    }
}

#[test]
fn real_stream_leader_killed_loses_nothing_acknowledged() {
    assert_interrupted(&lose_leader(&Stream::new("killed"), "leader-killed", Cluster::kill, Cluster::restart), UNHEARD);
}

#[test]
fn real_stream_leader_cut_off_loses_nothing_acknowledged() {
    assert_interrupted(&lose_leader(&Stream::new("cut-off"), "leader-cut-off", Cluster::cut, Cluster::mend), UNHEARD);
}

#[test]
fn real_stream_leader_frozen_loses_nothing_acknowledged() {
    assert_interrupted(&lose_leader(&Stream::new("frozen"), "leader-frozen", Cluster::freeze, Cluster::thaw), UNHEARD);
}

#[test]
fn real_stream_rolling_restart_loses_nothing_acknowledged() {
    restart_all(&Stream::new("rolled"));
}
