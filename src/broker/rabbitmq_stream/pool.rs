//! Publishing connections by node, and the routes of publishers to their streams.
//!
//! A stream is published to over a connection to the node that leads it. When the stream gets another leader, or the
//! connection is lost, its publishers are declared again over a connection to the new leader, and producers go on there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::admin::{Admin, Nodes, StreamLocation, untried};
use super::codec::{ConnectError, Refusal, code, is_final};
use super::connect::Connector;
use super::connection::{Connection, LostPublishers, Publishing, StreamPublisher};
use crate::broker::{BrokerError, FailureClass};
use crate::measure::{Acks, ConditionKind, PartitionIndex, Subject, SubjectKind};
use crate::net::backoff::Backoff;

/// How long a server must refuse a publisher: while it starts, it may not know a stream for a moment.
const FINAL_AFTER: Duration = Duration::from_secs(5);

/// All publishing connections of a trial.
pub struct Pool {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    acks: Acks,
    /// Connections to each node.
    count: usize,
    /// Connections by address and number.
    slots: Mutex<BTreeMap<(String, usize), Arc<Slot>>>,
    /// Routes by stream and number of the connection. Locked while a route is found for the first time.
    routes: tokio::sync::Mutex<BTreeMap<(String, usize), Arc<Route>>>,
    lost: UnboundedSender<LostPublishers>,
    ended: AtomicBool,
}

/// A connection, once it is open. It is replaced when it is lost.
type Slot = tokio::sync::Mutex<Option<Arc<Connection>>>;

/// Why a publisher could not be declared.
enum Undeclared {
    Unconnected(ConnectError),
    Refused(ConnectError),
}

/// A publisher's way to its stream. Producers of the same stream and number share it.
pub struct Route {
    stream: String,
    counted_in: PartitionIndex,
    number: usize,
    current: Mutex<StreamPublisher>,
    held_up: Subject,
    /// Held while the publisher is declared again.
    restoring: tokio::sync::Mutex<()>,
}

impl Route {
    pub fn current(&self) -> StreamPublisher {
        self.current.lock().clone()
    }

    /// Whether messages are published over another connection than `known` now.
    pub fn has_left(&self, known: &StreamPublisher) -> bool {
        let current = self.current.lock();
        current.publisher != known.publisher || !Arc::ptr_eq(&current.connection, &known.connection)
    }
}

impl Pool {
    /// `count`: connections to each node.
    pub fn start(
        connector: Arc<Connector>,
        admin: Arc<Admin>,
        nodes: Arc<Nodes>,
        acks: Acks,
        count: usize,
    ) -> Arc<Self> {
        let (lost, reports) = unbounded_channel();
        let (slots, routes, ended) = (Mutex::default(), tokio::sync::Mutex::default(), AtomicBool::new(false));
        let pool = Arc::new(Pool { connector, admin, nodes, acks, count, slots, routes, lost, ended });
        tokio::spawn(restore_all(Arc::downgrade(&pool), reports));
        pool
    }

    /// Where the messages of a topic's stream are counted.
    pub fn counted_in(&self, topic: &str, number: usize) -> PartitionIndex {
        self.acks.partition(topic, Some(number as u32))
    }

    /// The way to a stream, whose messages are counted in this partition, over the connection of that number, found once.
    ///
    /// # Errors
    /// When no node can be connected to, or the server refuses.
    pub async fn route(
        &self,
        location: &StreamLocation,
        counted_in: PartitionIndex,
        number: usize,
    ) -> Result<Arc<Route>, BrokerError> {
        let number = number % self.count;
        let mut routes = self.routes.lock().await;
        let key = (location.stream.clone(), number);
        if let Some(route) = routes.get(&key) {
            return Ok(route.clone());
        }
        let current = Mutex::new(self.first_publisher(location, counted_in, number).await?);
        let stream = location.stream.clone();
        let held_up = Subject::new(&self.connector.conditions, SubjectKind::Partition, &stream);
        let restoring = tokio::sync::Mutex::default();
        let route = Arc::new(Route { stream, counted_in, number, current, held_up, restoring });
        routes.insert(key, route.clone());
        Ok(route)
    }

    async fn first_publisher(
        &self,
        location: &StreamLocation,
        counted_in: PartitionIndex,
        number: usize,
    ) -> Result<StreamPublisher, BrokerError> {
        let addresses = self.nodes.for_publishing(Some(location), number);
        // A node that does not answer must not delay the others for long. A slow one is given time in the second round.
        let hurried = self.connector.recovery_limit(0);
        let mut failure = BrokerError::Configuration("no address".to_owned());
        for limit in [hurried, self.connector.timeout()] {
            let mut is_late = false;
            for address in &addresses {
                let within = (limit, self.connector.timeout());
                match self.declare(address, number, (&location.stream, counted_in), None, within).await {
                    Ok(publisher) => return Ok(publisher),
                    Err(Undeclared::Unconnected(error)) => {
                        is_late |= matches!(error, ConnectError::Timeout(_));
                        failure = error.into_broker_error(address);
                    }
                    Err(Undeclared::Refused(error)) => {
                        let (topic, reason) = (location.stream.clone(), error.to_string());
                        return Err(BrokerError::Topic { topic, action: "published to", reason });
                    }
                }
            }
            if !is_late {
                break;
            }
        }
        Err(failure)
    }

    /// Declares the publisher of a stream over the connection of that number to a node. One that has as many publishers as it can is followed by
    /// another one, whose number is larger by the connections to each node. `within`: the limits of connecting and of declaring.
    async fn declare(
        &self,
        address: &str,
        number: usize,
        (stream, counted_in): (&str, PartitionIndex),
        old: Option<&StreamPublisher>,
        (connecting, declaring): (Duration, Duration),
    ) -> Result<StreamPublisher, Undeclared> {
        let mut number = number;
        loop {
            let connection = self.connection(address, number, connecting).await.map_err(Undeclared::Unconnected)?;
            let declared = connection.publisher((stream, counted_in), old, declaring).await;
            if let Some(publisher) = declared.map_err(Undeclared::Refused)? {
                return Ok(StreamPublisher { connection, publisher });
            }
            number += self.count;
        }
    }

    /// The connection of that number to a node, opened within `limit` if it is not open.
    async fn connection(&self, address: &str, number: usize, limit: Duration) -> Result<Arc<Connection>, ConnectError> {
        let slot = self.slots.lock().entry((address.to_owned(), number)).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_lost()) {
            return Ok(connection.clone());
        }
        let session = self.connector.connect(address, limit).await?;
        if self.ended.load(Ordering::Acquire) {
            return Err(ConnectError::Incompatible("the trial is over".to_owned()));
        }
        let reference = self.connector.options().publisher.as_ref().map(|name| match self.count {
            1 => name.clone(),
            // A stream may get to another connection that follows, where its name must be the same.
            count => format!("{name}-{}", number % count),
        });
        let publishing = Publishing {
            address: address.to_owned(),
            held_up: Subject::new(&self.connector.conditions, SubjectKind::Node, address),
            number,
            reference,
            recorder: self.acks.recorder(),
            clock: self.acks.clock(),
            resend: self.connector.options().resend,
            confirm_timeout: self.connector.options().confirm_timeout,
            lost: self.lost.clone(),
        };
        let connection = Arc::new(publishing.start(session));
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// The connections that are not being opened at this moment.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        let open = |slot: &Arc<Slot>| slot.try_lock().ok().and_then(|slot| slot.clone());
        self.slots.lock().values().filter_map(open).collect()
    }

    /// Closes all connections, and opens no more.
    pub async fn close(&self) {
        self.ended.store(true, Ordering::Release);
        let connections = self.connections();
        join_all(connections.iter().map(|connection| connection.close())).await;
    }

    /// Tries to declare publishers again, and returns the streams of those for which it did not succeed.
    async fn restore(
        &self,
        number: usize,
        streams: Vec<String>,
        limit: Duration,
        attempts: &mut Attempts,
    ) -> Vec<String> {
        let names: Vec<&str> = streams.iter().map(String::as_str).collect();
        // Without metadata, any node may still pass on what is published.
        let locations = self.admin.locations_within(limit, &names).await.unwrap_or_default();
        let (mut failed, mut unreachable) = (Vec::new(), BTreeSet::new());
        for stream in streams {
            let key = (stream.clone(), number % self.count);
            let Some(route) = self.routes.lock().await.get(&key).cloned() else { continue };
            let StreamPublisher { connection, publisher } = route.current();
            connection.give_up(publisher, self.connector.options().reconnect);
            let location = locations.iter().find(|location| location.stream == stream);
            let Some(address) = untried(self.nodes.for_publishing(location, number), &mut attempts.tried) else {
                continue;
            };
            if unreachable.contains(&address) {
                failed.push(stream);
                continue;
            }
            let restored = self.restore_over(&address, &route, limit).await;
            match &restored {
                Ok(()) => route.held_up.end(),
                Err(error) => route.held_up.begin(condition(error, location), &error.to_string()),
            }
            match restored {
                Ok(()) => {}
                Err(ConnectError::Refused(Refusal { code, .. })) if is_final(code) => {
                    match attempts.are_refused_for_good(&stream) {
                        true => connection.abandon(publisher, code),
                        false => failed.push(stream),
                    }
                }
                Err(error) => {
                    attempts.refused_since.remove(&stream);
                    failed.push(stream);
                    if matches!(error, ConnectError::Io(_) | ConnectError::Timeout(_)) {
                        unreachable.insert(address);
                    }
                }
            }
        }
        attempts.tried.append(&mut unreachable);
        failed
    }

    async fn restore_over(&self, address: &str, route: &Route, limit: Duration) -> Result<(), ConnectError> {
        let _restoring = route.restoring.lock().await;
        let old = route.current();
        if old.connection.has_publisher(old.publisher) {
            return Ok(());
        }
        let of = (route.stream.as_str(), route.counted_in);
        let declared = self.declare(address, route.number, of, Some(&old), (limit, limit)).await;
        *route.current.lock() =
            declared.map_err(|(Undeclared::Unconnected(error) | Undeclared::Refused(error))| error)?;
        // Producers that wait there look for the new one.
        old.connection.session().notify_capacity();
        Ok(())
    }
}

/// The condition that an error shows, of a stream at this location. A stream that exists and has no leader is not gone.
fn condition(error: &ConnectError, location: Option<&StreamLocation>) -> ConditionKind {
    let is_unavailable = matches!(error, ConnectError::Refused(Refusal { code: code::STREAM_NOT_AVAILABLE, .. }));
    match error.class() {
        FailureClass::UnknownTopic if is_unavailable || location.is_some_and(|found| found.leader.is_none()) => {
            ConditionKind::WaitingForLeader
        }
        class => ConditionKind::from_failure(class),
    }
}

/// What is remembered from one attempt to restore publishers to the next.
#[derive(Default)]
struct Attempts {
    /// Nodes that did not respond: others come first.
    tried: BTreeSet<String>,
    /// The time since which the server has refused a stream's publisher each time, by stream.
    refused_since: BTreeMap<String, Instant>,
}

impl Attempts {
    fn are_refused_for_good(&mut self, stream: &str) -> bool {
        self.refused_since.entry(stream.to_owned()).or_insert_with(Instant::now).elapsed() >= FINAL_AFTER
    }
}

/// Restores what connections report, until the pool is gone.
async fn restore_all(pool: Weak<Pool>, mut reports: UnboundedReceiver<LostPublishers>) {
    while let Some(LostPublishers { number, streams }) = reports.recv().await {
        tokio::spawn(restore_until_done(pool.clone(), number, streams));
    }
}

/// Restores publishers, with pauses in which their streams may get leaders.
async fn restore_until_done(pool: Weak<Pool>, number: usize, mut streams: Vec<String>) {
    let (mut backoff, mut attempt, mut attempts) = (Backoff::RECONNECT, 0, Attempts::default());
    while !streams.is_empty() {
        backoff.pause().await;
        let Some(pool) = pool.upgrade().filter(|pool| !pool.ended.load(Ordering::Acquire)) else { return };
        streams = pool.restore(number, streams, pool.connector.recovery_limit(attempt), &mut attempts).await;
        attempt += 1;
    }
}
