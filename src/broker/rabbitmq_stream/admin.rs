//! Streams: created, found and removed, and their leaders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::codec::code;
use super::codec::command::Request;
use super::codec::response::{Metadata, read_strings};
use super::connect::{Connector, Server, Session};
use super::error::{ConnectError, Refusal};
use super::nodes::{Nodes, StreamLocation};
use crate::broker::{BrokerError, Topic};
use crate::net::address;
use crate::net::connect::within;

/// How often new streams are checked for leaders.
const POLL: Duration = Duration::from_millis(50);

/// How long the members of a stream that was just created have to join its leader, which each of them tries every few seconds.
const MEMBERS_WITHIN: Duration = Duration::from_secs(15);

/// A connection for administration, opened when it is needed, and again after a failure.
pub struct Admin {
    connector: Arc<Connector>,
    nodes: Arc<Nodes>,
    session: Mutex<Option<(String, Session)>>,
    /// Counts the connections that failed: the next one is to another node.
    turn: AtomicUsize,
    timeout: Duration,
}

/// Why there is no answer, and of which node.
pub type Failure = (String, ConnectError);

impl Admin {
    pub fn new(connector: Arc<Connector>, nodes: Arc<Nodes>, timeout: Duration) -> Self {
        Admin { connector, nodes, session: Mutex::new(None), turn: AtomicUsize::new(0), timeout }
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

    /// Creates those of `topics` that do not exist, waits until all have leaders, and returns the names of those it created.
    ///
    /// # Errors
    /// When one exists with another number of partitions, or cannot be made.
    pub async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        for topic in topics {
            match &self.streams(&topic.name).await?[..] {
                [] => {
                    self.make(topic).await?;
                    created.push(topic.name.clone());
                }
                found => agree(topic, found)?,
            }
            self.await_leaders(topic).await?;
        }
        Ok(())
    }

    /// The topics of these names, as they are.
    ///
    /// # Errors
    /// When one does not exist.
    pub async fn find(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let present = self.present(topics).await?;
        match topics.iter().find(|wanted| present.iter().all(|found| found.name != wanted.name)) {
            None => Ok(present),
            Some(missing) => {
                let reason = "it does not exist: create it first".to_owned();
                Err(failed(&missing.name, "taken as it is", reason))
            }
        }
    }

    /// Those of the topics that exist, as they are.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn present(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let mut present = Vec::with_capacity(topics.len());
        for topic in topics {
            let partitions = self.streams(&topic.name).await?.len() as u32;
            if partitions > 0 {
                present.push(Topic { partitions, ..topic.clone() });
            }
        }
        Ok(present)
    }

    async fn make(&self, topic: &Topic) -> Result<(), BrokerError> {
        let name = &topic.name;
        let arguments = self.connector.options().arguments(topic.replication);
        let answer = if topic.partitions == 1 {
            self.ask(&Request::create(name, &arguments), "the stream").await?
        } else {
            let partitions: Vec<_> =
                (0..topic.partitions).map(|number| (format!("{name}-{number}"), number.to_string())).collect();
            self.ask(&Request::create_super_stream(name, &partitions, &arguments), "the super stream").await?
        };
        answer.map(drop).map_err(|code| failed(name, "created", code::name(code)))
    }

    async fn await_leaders(&self, topic: &Topic) -> Result<(), BrokerError> {
        let deadline = Instant::now() + self.timeout;
        let members_by = Instant::now() + self.timeout.min(MEMBERS_WITHIN);
        let streams = self.streams(&topic.name).await?;
        let names: Vec<&str> = streams.iter().map(String::as_str).collect();
        loop {
            let locations = self.locations(&names).await?;
            if locations.len() == names.len() && locations.iter().all(|location| location.leader.is_some()) {
                let short = locations.iter().find(|location| location.members < topic.replication as usize);
                let Some(location) = short else { return Ok(()) };
                if Instant::now() >= members_by {
                    let reason = format!(
                        "it has {} members and not {}: is `topology.replication` more than the nodes?",
                        location.members, topic.replication
                    );
                    return Err(failed(&topic.name, "created", reason));
                }
            }
            if Instant::now() >= deadline {
                let reason = format!("no leader for all its streams within {:?}", self.timeout);
                return Err(failed(&topic.name, "created", reason));
            }
            sleep(POLL).await;
        }
    }

    /// Takes leave of the server.
    pub async fn close(&self) {
        if let Some((_, session)) = self.session.lock().await.take() {
            session.close().await;
        }
    }

    /// Removes topics by name. Goes on after an error, and returns the first one.
    ///
    /// # Errors
    /// When the server does not remove a topic. A missing topic is not an error.
    pub async fn remove(&self, names: &[String]) -> Result<(), BrokerError> {
        let mut failure = Ok(());
        for name in names {
            let removed = match self.ask(&Request::delete(name), "the stream").await {
                Ok(Err(code::STREAM_DOES_NOT_EXIST)) => {
                    self.ask(&Request::delete_super_stream(name), "the super stream").await
                }
                answer => answer,
            };
            let removed = match removed {
                Ok(Ok(_) | Err(code::STREAM_DOES_NOT_EXIST)) => Ok(()),
                Ok(Err(code)) => Err(failed(name, "removed", code::name(code))),
                Err(error) => Err(error),
            };
            failure = failure.and(removed);
        }
        failure
    }
}

fn agree(wanted: &Topic, found: &[String]) -> Result<(), BrokerError> {
    if found.len() == wanted.partitions as usize {
        return Ok(());
    }
    Err(BrokerError::TopicMismatch {
        topic: wanted.name.clone(),
        found: format!("{} partition(s)", found.len()),
        wanted: format!("{} partition(s)", wanted.partitions),
    })
}

fn into_broker_error((address, error): Failure) -> BrokerError {
    error.into_broker_error(&address)
}

fn failed(topic: &str, action: &'static str, reason: String) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason }
}
