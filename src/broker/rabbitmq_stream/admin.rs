//! Streams: created, found and removed, and their leaders.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::codec::code;
use super::codec::command::{Metadata, Request, read_strings};
use super::config::ConnectTo;
use super::connect::{Connector, Server, Session};
use super::error::{ConnectError, Refusal};
use crate::broker::{BrokerError, Topic};

/// How often new streams are checked for leaders.
const POLL: Duration = Duration::from_millis(50);

/// A connection for administration, opened when it is needed, and again after a failure.
pub struct Admin {
    connector: Arc<Connector>,
    addresses: Vec<String>,
    session: Mutex<Option<Session>>,
    /// Addresses that nodes advertise, with the scenario's address of the same node.
    aliases: std::sync::Mutex<BTreeMap<String, String>>,
    timeout: Duration,
}

/// Where a stream is in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamLocation {
    pub stream: String,
    /// `host:port`; `None` while the stream has no leader.
    pub leader: Option<String>,
    /// Leader and replicas.
    pub members: usize,
}

impl Admin {
    pub fn new(connector: Arc<Connector>, addresses: Vec<String>, timeout: Duration) -> Self {
        Admin { connector, addresses, session: Mutex::new(None), aliases: std::sync::Mutex::default(), timeout }
    }

    /// Connects, and returns the server's properties.
    ///
    /// # Errors
    /// When no address responds: the last one's error.
    pub async fn reach(&self) -> Result<Server, BrokerError> {
        let mut session = self.session.lock().await;
        let made = self.connect().await?;
        let server = made.server.clone();
        *session = Some(made);
        Ok(server)
    }

    async fn connect(&self) -> Result<Session, BrokerError> {
        let mut failure = BrokerError::Configuration { broker: "rabbitmq-stream", reason: "no address".to_owned() };
        for address in &self.addresses {
            match self.connector.connect_without_heartbeat(address).await {
                Ok(session) => {
                    if let Some(advertised) = &session.server.advertised {
                        let mut aliases = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
                        aliases.insert(advertised.clone(), address.clone());
                    }
                    return Ok(session);
                }
                Err(error) => failure = error.into_broker_error(address),
            }
        }
        Err(failure)
    }

    /// Sends a request, over a new connection if the old one has failed.
    async fn request(&self, request: &Request, what: &'static str) -> Result<Result<Vec<u8>, u16>, BrokerError> {
        let mut held = self.session.lock().await;
        let mut again = held.is_some();
        loop {
            let mut session = match held.take() {
                Some(session) => session,
                None => self.connect().await?,
            };
            match self.connector.within(session.request(request, what)).await {
                Ok(answer) => {
                    *held = Some(session);
                    return Ok(Ok(answer));
                }
                Err(ConnectError::Refused(Refusal { code, .. })) => {
                    *held = Some(session);
                    return Ok(Err(code));
                }
                Err(ConnectError::Io(_)) if again => again = false,
                Err(error) => return Err(error.into_broker_error(&self.addresses[0])),
            }
        }
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
        match self.request(&Request::partitions(topic), "the partitions").await? {
            Ok(rest) => {
                read_strings(&rest).map_err(|error| ConnectError::from(error).into_broker_error(&self.addresses[0]))
            }
            Err(code::STREAM_DOES_NOT_EXIST) => Ok(Vec::new()),
            Err(code) => Err(failed(topic, "found", code::name(code))),
        }
    }

    /// The locations of streams, without those that do not exist.
    ///
    /// # Errors
    /// When the server does not respond or refuses.
    pub async fn locations(&self, streams: &[&str]) -> Result<Vec<StreamLocation>, BrokerError> {
        let unreadable = |error: ConnectError| error.into_broker_error(&self.addresses[0]);
        let rest = match self.request(&Request::metadata(streams), "the metadata").await? {
            Ok(rest) => rest,
            Err(code) => return Err(unreadable(ConnectError::Refused(Refusal { what: "the metadata", code }))),
        };
        let metadata = Metadata::read(&rest).map_err(|error| unreadable(error.into()))?;
        let address = |reference: u16| {
            let broker = metadata.brokers.iter().find(|(number, _, _)| *number == reference);
            broker.map(|(_, host, port)| format!("{host}:{port}"))
        };
        let exists = metadata.streams.iter().filter(|stream| stream.code != code::STREAM_DOES_NOT_EXIST);
        Ok(exists
            .map(|stream| StreamLocation {
                stream: stream.name.clone(),
                leader: address(stream.leader).filter(|_| stream.code == code::OK),
                members: stream.replicas.len() + 1,
            })
            .collect())
    }

    /// The addresses for a stream: first its leader or, in turn, one of the scenario's; then the others, for when the first
    /// is down.
    pub fn addresses_for(&self, location: &StreamLocation, turn: usize) -> Vec<String> {
        let count = self.addresses.len();
        let mut addresses: Vec<String> =
            (0..count).map(|number| self.addresses[(turn + number) % count].clone()).collect();
        if self.connector.options().connect_to == ConnectTo::Leader
            && let Some(leader) = &location.leader
        {
            let aliases = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
            let leader = aliases.get(leader).unwrap_or(leader).clone();
            addresses.retain(|address| *address != leader);
            addresses.insert(0, leader);
        }
        addresses
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

    async fn make(&self, topic: &Topic) -> Result<(), BrokerError> {
        let name = &topic.name;
        let arguments = self.connector.options().arguments(topic.replication);
        let answer = if topic.partitions == 1 {
            self.request(&Request::create(name, &arguments), "the stream").await?
        } else {
            let partitions: Vec<_> =
                (0..topic.partitions).map(|number| (format!("{name}-{number}"), number.to_string())).collect();
            self.request(&Request::create_super_stream(name, &partitions, &arguments), "the super stream").await?
        };
        answer.map(drop).map_err(|code| failed(name, "created", code::name(code)))
    }

    async fn await_leaders(&self, topic: &Topic) -> Result<(), BrokerError> {
        let deadline = Instant::now() + self.timeout;
        let streams = self.streams(&topic.name).await?;
        let names: Vec<&str> = streams.iter().map(String::as_str).collect();
        loop {
            let locations = self.locations(&names).await?;
            if locations.len() == names.len() && locations.iter().all(|location| location.leader.is_some()) {
                return match locations.iter().find(|location| location.members < topic.replication as usize) {
                    None => Ok(()),
                    Some(location) => {
                        let reason = format!(
                            "it has {} members and not {}: is `topology.replication` more than the nodes?",
                            location.members, topic.replication
                        );
                        Err(failed(&topic.name, "created", reason))
                    }
                };
            }
            if Instant::now() >= deadline {
                let reason = format!("no leader for all its streams within {:?}", self.timeout);
                return Err(failed(&topic.name, "created", reason));
            }
            sleep(POLL).await;
        }
    }

    /// Removes topics by name. Goes on after an error, and returns the first one.
    ///
    /// # Errors
    /// When the server does not remove a topic. A missing topic is not an error.
    pub async fn remove(&self, names: &[String]) -> Result<(), BrokerError> {
        let mut failure = Ok(());
        for name in names {
            let removed = match self.request(&Request::delete(name), "the stream").await {
                Ok(Err(code::STREAM_DOES_NOT_EXIST)) => {
                    self.request(&Request::delete_super_stream(name), "the super stream").await
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

fn failed(topic: &str, action: &'static str, reason: String) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason }
}
