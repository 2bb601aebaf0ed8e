//! Streams: created, found and removed, and their leaders. What a confirm meant follows from the members of the stream.
//!
//! [`Nodes`]: the nodes of a cluster, by the addresses that connections use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::codec::command::Request;
use super::codec::frame::{Metadata, read_numbers, read_strings};
use super::codec::{ConnectError, Refusal, code};
use super::config::{ConnectTo, ConsumeFrom};
use super::connect::{Connector, Server, Session};
use crate::broker::{BrokerError, Created, Durability, DurabilityLevel, Topic};
use crate::net::address;
use crate::net::connect::within;

/// A connection for administration, opened when it is needed, and again after a failure.
pub struct Admin {
    connector: Arc<Connector>,
    nodes: Arc<Nodes>,
    session: AsyncMutex<Option<(String, Session)>>,
    /// Counts the connections that failed: the next one is to another node.
    turn: AtomicUsize,
    timeout: Duration,
}

/// Why there is no answer, and of which node.
pub type Failure = (String, ConnectError);

impl Admin {
    pub fn new(connector: Arc<Connector>, nodes: Arc<Nodes>, timeout: Duration) -> Self {
        Admin { connector, nodes, session: AsyncMutex::new(None), turn: AtomicUsize::new(0), timeout }
    }

    /// Connects, and returns the server's properties.
    ///
    /// # Errors
    /// When no address responds: the last one's error.
    pub async fn reach(&self) -> Result<Server, BrokerError> {
        let mut held = self.session.lock().await;
        // A node that does not answer must not delay the others for long. A slow one is given time in the second round.
        let hurried = self.connector.recovery_limit(0);
        let made = match self.connect(hurried).await {
            Err((_, ConnectError::Timeout(_))) => self.connect(self.timeout).await,
            made => made,
        };
        let (address, session) = made.map_err(into_broker_error)?;
        let server = session.server.clone();
        *held = Some((address, session));
        Ok(server)
    }

    /// Connects to the first node that responds, each within `limit`. Of several failures, it returns a timeout before others.
    async fn connect(&self, limit: Duration) -> Result<(String, Session), Failure> {
        let nodes = self.nodes.all();
        let mut failure: Option<Failure> = None;
        for _ in 0..nodes.len() {
            let address = &nodes[self.turn.load(Ordering::Relaxed) % nodes.len()];
            match self.connector.connect_without_heartbeat(address, limit).await {
                Ok(session) => {
                    if let Some(advertised) = &session.server.advertised {
                        self.nodes.advertises(address, advertised);
                    }
                    return Ok((address.clone(), session));
                }
                Err(error) => {
                    self.turn.fetch_add(1, Ordering::Relaxed);
                    if !failure.as_ref().is_some_and(|(_, error)| matches!(error, ConnectError::Timeout(_))) {
                        failure = Some((address.clone(), error));
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| (String::new(), ConnectError::Incompatible("there is no address".to_owned()))))
    }

    /// Sends a request, over a new connection if the old one has failed. Each step takes `limit` at most.
    ///
    /// # Errors
    /// When no server responds. The inner one: the code with which a server refuses.
    pub async fn request(
        &self,
        request: &Request,
        what: &'static str,
        limit: Duration,
    ) -> Result<Result<Vec<u8>, u16>, Failure> {
        let mut held = self.session.lock().await;
        let mut again = held.is_some();
        loop {
            let (address, mut session) = match held.take() {
                Some(held) => held,
                None => self.connect(limit).await?,
            };
            match within(limit, session.request(request, what)).await {
                Ok(answer) => {
                    *held = Some((address, session));
                    return Ok(Ok(answer));
                }
                Err(ConnectError::Refused(Refusal { code, .. })) => {
                    *held = Some((address, session));
                    return Ok(Err(code));
                }
                Err(error) => {
                    self.turn.fetch_add(1, Ordering::Relaxed);
                    if !(std::mem::take(&mut again) && matches!(error, ConnectError::Io(_))) {
                        return Err((address, error));
                    }
                }
            }
        }
    }

    /// Sends commands that have no response, over a new connection if no connection is open. They may be lost with the connection.
    ///
    /// # Errors
    /// When no server can be connected to or written to within `limit`.
    pub async fn send(&self, write: impl Fn(&mut Vec<u8>), limit: Duration) -> Result<(), Failure> {
        let mut held = self.session.lock().await;
        let mut again = held.is_some();
        loop {
            let (address, mut session) = match held.take() {
                Some(held) => held,
                None => self.connect(limit).await?,
            };
            write(&mut session.write_buffer.bytes);
            match within(limit, session.flush()).await {
                Ok(()) => {
                    *held = Some((address, session));
                    return Ok(());
                }
                Err(error) => {
                    self.turn.fetch_add(1, Ordering::Relaxed);
                    if !(std::mem::take(&mut again) && matches!(error, ConnectError::Io(_))) {
                        return Err((address, error));
                    }
                }
            }
        }
    }

    /// As [`Admin::request`], within the scenario's timeout.
    async fn ask(&self, request: &Request, what: &'static str) -> Result<Result<Vec<u8>, u16>, BrokerError> {
        self.request(request, what, self.timeout).await.map_err(into_broker_error)
    }

    /// The streams of a topic in the order of its partitions: a stream is its own only partition. Empty: the topic does not
    /// exist.
    ///
    /// # Errors
    /// When the server does not respond or refuses.
    pub async fn streams(&self, topic: &str) -> Result<Vec<String>, BrokerError> {
        if let [StreamLocation { stream, .. }] = &self.locations(&[topic]).await?[..] {
            return Ok(vec![stream.clone()]);
        }
        match self.ask(&Request::partitions(topic), "the partitions").await? {
            Ok(rest) => {
                read_strings(&rest).map_err(|error| into_broker_error((topic.to_owned(), ConnectError::from(error))))
            }
            Err(code::STREAM_DOES_NOT_EXIST) => Ok(Vec::new()),
            Err(code) => Err(failed(topic, "found", code::name(code))),
        }
    }

    /// The locations of streams, without those that do not exist.
    ///
    /// # Errors
    /// When no server responds within the scenario's timeout, or one refuses.
    pub async fn locations(&self, streams: &[&str]) -> Result<Vec<StreamLocation>, BrokerError> {
        self.locations_within(self.timeout, streams).await.map_err(into_broker_error)
    }

    /// As [`Admin::locations`], where each step takes `limit` at most.
    ///
    /// # Errors
    /// When no server responds, or one refuses.
    pub async fn locations_within(&self, limit: Duration, streams: &[&str]) -> Result<Vec<StreamLocation>, Failure> {
        let what = "the metadata";
        let unreadable = |error| (String::new(), error);
        let rest = match self.request(&Request::metadata(streams), what, limit).await? {
            Ok(rest) => rest,
            Err(code) => return Err(unreadable(ConnectError::Refused(Refusal { what, code }))),
        };
        let metadata = Metadata::read(&rest).map_err(|error| unreadable(error.into()))?;
        let address = |reference: u16| {
            let broker = metadata.brokers.iter().find(|(number, _, _)| *number == reference);
            broker.map(|(_, host, port)| address::joined(host, port))
        };
        for (reference, _, _) in &metadata.brokers {
            address(*reference).iter().for_each(|node| self.nodes.learn(node));
        }
        let exists = metadata.streams.iter().filter(|stream| stream.code != code::STREAM_DOES_NOT_EXIST);
        Ok(exists
            .map(|stream| StreamLocation {
                stream: stream.name.clone(),
                leader: address(stream.leader).filter(|_| stream.code == code::OK),
                replicas: stream.replicas.iter().filter_map(|replica| address(*replica)).collect(),
                members: stream.replicas.len() + 1,
            })
            .collect())
    }

    /// The first offset of a stream that can still be read: a stream forgets whole files, and their chunks with them.
    ///
    /// # Errors
    /// When the server does not respond or refuses.
    pub async fn first_offset(&self, stream: &str) -> Result<u64, BrokerError> {
        let stats = self.ask(&Request::stream_stats(stream), "the stream's statistics").await?;
        let stats = stats.map_err(|code| failed(stream, "asked for its first offset", code::name(code)))?;
        let unreadable = |error| into_broker_error((stream.to_owned(), ConnectError::from(error)));
        let first = read_numbers(&stats).map_err(unreadable)?.into_iter().find(|(name, _)| name == "first_chunk_id");
        // -1: the stream is empty.
        Ok(first.and_then(|(_, first)| u64::try_from(first).ok()).unwrap_or(0))
    }

    /// Creates a topic, unless it exists.
    ///
    /// # Errors
    /// When it cannot be created.
    pub async fn create(&self, topic: &Topic) -> Result<Created, BrokerError> {
        if let Some(found) = self.find(topic).await? {
            return Ok(Created::Existing(found));
        }
        let name = &topic.name;
        let arguments = self.connector.options().arguments(topic.replication);
        let answer = if topic.partitions == 1 {
            self.ask(&Request::create(name, &arguments), "the stream").await?
        } else {
            let partitions: Vec<_> =
                (0..topic.partitions).map(|number| (format!("{name}-{number}"), number.to_string())).collect();
            self.ask(&Request::create_super_stream(name, &partitions, &arguments), "the super stream").await?
        };
        answer.map(|_| Created::New).map_err(|code| failed(name, "created", code::name(code)))
    }

    /// The topic as it is, if it exists. How many members its streams have is not asked.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn find(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        let partitions = self.streams(&topic.name).await?.len() as u32;
        Ok((partitions > 0).then(|| Topic { partitions, ..topic.clone() }))
    }

    /// What a topic lacks before it can be used. The members of a stream that was just created join its leader, which each of them tries
    /// every few seconds.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn lacks(&self, topic: &Topic) -> Result<Option<String>, BrokerError> {
        let streams = self.streams(&topic.name).await?;
        let names: Vec<&str> = streams.iter().map(String::as_str).collect();
        let locations = self.locations(&names).await?;
        if names.is_empty() || locations.len() < names.len() || locations.iter().any(|stream| stream.leader.is_none()) {
            return Ok(Some("it has no leader for each of its streams".to_owned()));
        }
        let short = locations.iter().find(|location| location.members < topic.replication as usize);
        Ok(short.map(|location| {
            let (members, replication) = (location.members, topic.replication);
            format!("it has {members} members and not {replication}: is `topology.replication` more than the nodes?")
        }))
    }

    /// Takes leave of the server.
    pub async fn close(&self) {
        if let Some((_, session)) = self.session.lock().await.take() {
            session.close().await;
        }
    }

    /// Deletes a topic. A missing one is not an error.
    ///
    /// # Errors
    /// When the server does not delete it.
    pub async fn delete(&self, name: &str) -> Result<(), BrokerError> {
        let mut answer = self.ask(&Request::delete(name), "the stream").await?;
        if answer == Err(code::STREAM_DOES_NOT_EXIST) {
            answer = self.ask(&Request::delete_super_stream(name), "the super stream").await?;
        }
        match answer {
            Ok(_) | Err(code::STREAM_DOES_NOT_EXIST) => Ok(()),
            Err(code) => Err(failed(name, "removed", code::name(code))),
        }
    }
}

fn into_broker_error((address, error): Failure) -> BrokerError {
    error.into_broker_error(&address)
}

fn failed(topic: &str, action: &'static str, reason: String) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason }
}

/// From the number of members of each stream. A confirm comes when a majority of them has the chunk; they do not synchronise
/// it (RabbitMQ's documentation, "Streams", section "Data Safety": the page cache is left to the operating system).
pub fn durability(members: impl IntoIterator<Item = usize>) -> Durability {
    let Some(members) = members.into_iter().min() else { return Durability::default() };
    let majority = u32::try_from(members / 2 + 1).ok();
    let settings = [("members", members.to_string())];
    Durability::new(DurabilityLevel::PageCache, majority, settings, "the streams' metadata")
}

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
#[path = "../../../tests/unit/broker/rabbitmq_stream/admin.rs"]
mod tests;
