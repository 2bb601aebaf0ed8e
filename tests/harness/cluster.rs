//! The clusters of three nodes that `scripts/test` starts. A test has a cluster to itself, does to its nodes what it likes, and leaves it
//! whole.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::server::variable;

/// One fault at a time on this machine, whichever cluster it is in: its cores are shared.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Cluster {
    name: &'static str,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    pub fn kafka() -> Self {
        Cluster::take("kafka-cluster")
    }

    pub fn nats() -> Self {
        Cluster::take("nats-cluster")
    }

    pub fn rabbitmq() -> Self {
        Cluster::take("rabbitmq-cluster")
    }

    fn take(name: &'static str) -> Self {
        // A test that failed has left the cluster whole as well.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster { name, _alone: alone };
        assert_eq!(cluster.addresses().len(), 3);
        cluster
    }

    /// `host:port` of each node.
    pub fn addresses(&self) -> Vec<String> {
        self.addresses_of("")
    }

    /// As [`Cluster::addresses`], for another protocol of the nodes, as in `_AMQP`.
    pub fn addresses_of(&self, protocol: &str) -> Vec<String> {
        let name = self.name.to_uppercase().replace('-', "_");
        variable(&format!("BROKERMARK_{name}{protocol}")).split(',').map(str::to_owned).collect()
    }

    /// `kill -9`. Nodes are counted from 1.
    pub fn kill(&self, node: usize) {
        self.order("kill", node);
    }

    /// Starts a node on its data; one that runs is stopped cleanly before. Returns when it is part of the cluster.
    pub fn restart(&self, node: usize) {
        self.order("restart", node);
    }

    /// Lets a node stand still, with its connections open.
    pub fn freeze(&self, node: usize) {
        self.order("freeze", node);
    }

    pub fn thaw(&self, node: usize) {
        self.order("thaw", node);
    }

    fn order(&self, command: &str, node: usize) {
        let output = self.control(command, &format!("{}-{node}", self.name));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn control(&self, command: &str, name: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers");
        Command::new(script).args([command, name]).output().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What does not apply fails, and a test that has failed must not fail a second time here.
        for command in ["thaw", "mend", "up"] {
            let _ = self.control(command, self.name);
        }
    }
}
