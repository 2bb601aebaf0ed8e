//! The nodes of a cluster, by the addresses that connections use.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::config::{ConnectTo, ConsumeFrom};

/// Where a stream is in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamLocation {
    pub stream: String,
    /// `host:port` as advertised; `None` while the stream has no leader.
    pub leader: Option<String>,
    /// Addresses of the other members, as far as they are known.
    pub replicas: Vec<String>,
    /// Leader and replicas.
    pub members: usize,
}

/// The scenario's addresses, and what the servers say about themselves.
pub struct Nodes {
    given: Vec<String>,
    connect_to: ConnectTo,
    consume_from: ConsumeFrom,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Addresses that nodes advertise, with the scenario's address of the same node.
    aliases: BTreeMap<String, String>,
    /// Addresses of other nodes, which metadata named.
    learned: Vec<String>,
}

impl Known {
    fn alias_of(&self, advertised: &str) -> String {
        self.aliases.get(advertised).map_or(advertised, String::as_str).to_owned()
    }
}

impl Nodes {
    pub fn new(given: Vec<String>, connect_to: ConnectTo, consume_from: ConsumeFrom) -> Self {
        Nodes { given, connect_to, consume_from, known: Mutex::default() }
    }

    /// The node at one of the scenario's addresses advertises another one.
    pub fn advertises(&self, address: &str, advertised: &str) {
        // Behind a load balancer it may be another node next time.
        if self.connect_to != ConnectTo::LoadBalancer && self.given.iter().any(|given| given == address) {
            self.known.lock().aliases.insert(advertised.to_owned(), address.to_owned());
        }
    }

    /// Metadata named a node.
    pub fn learn(&self, advertised: &str) {
        let mut known = self.known.lock();
        let address = known.alias_of(advertised);
        if !self.given.contains(&address) && !known.learned.contains(&address) {
            known.learned.push(address);
        }
    }

    /// The nodes that may be connected to, those of the scenario first.
    pub fn all(&self) -> Vec<String> {
        match self.connect_to {
            ConnectTo::Addresses | ConnectTo::LoadBalancer => self.given.clone(),
            ConnectTo::Leader => self.given.iter().cloned().chain(self.known.lock().learned.iter().cloned()).collect(),
        }
    }

    /// The addresses to publish over: first the leader or, in turn, one of the scenario's; then the others, which pass on what is
    /// published.
    pub fn for_publishing(&self, location: Option<&StreamLocation>, turn: usize) -> Vec<String> {
        let mut addresses = self.all();
        let first = turn % addresses.len().max(1);
        addresses.rotate_left(first);
        let leader = location.and_then(|location| location.leader.as_ref());
        if let Some(leader) = leader.filter(|_| self.connect_to != ConnectTo::Addresses) {
            let leader = self.known.lock().alias_of(leader);
            addresses.retain(|address| *address != leader);
            addresses.insert(0, leader);
        }
        addresses
    }

    /// The addresses to consume over: the leader and the replicas, because other nodes cannot deliver. Which of them comes first
    /// is the scenario's choice; replicas take turns. Any node, where no member is known.
    pub fn for_consuming(&self, location: &StreamLocation, turn: usize) -> Vec<String> {
        if self.connect_to != ConnectTo::Addresses {
            let known = self.known.lock();
            let mut members: Vec<&String> = location.replicas.iter().collect();
            let first = turn % members.len().max(1);
            members.rotate_left(first);
            let place = if self.consume_from == ConsumeFrom::Leader { 0 } else { members.len() };
            members.splice(place..place, &location.leader);
            let members: Vec<String> = members.into_iter().map(|member| known.alias_of(member)).collect();
            if !members.is_empty() {
                return members;
            }
        }
        self.all()
    }
}

/// The first of the addresses that was not tried yet. When all were, another round begins with the first.
pub fn untried(mut addresses: Vec<String>, tried: &mut BTreeSet<String>) -> Option<String> {
    if addresses.iter().all(|address| tried.contains(address)) {
        tried.retain(|address| !addresses.contains(address));
    }
    addresses.retain(|address| !tried.contains(address));
    addresses.into_iter().next()
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq_stream/nodes.rs"]
mod tests;
