//! A consumer's connection to one node, with its subscriptions there; how far each stream has been read, which outlives the connection;
//! and the offsets that `last` and `next` mean at the moment of the subscription. `Recovery` opens a consumer's connections, when it
//! begins and after a loss.
//!
//! Both move with the stream. A subscription that is repeated on a new connection must continue where the first one was, so
//! they are resolved to offsets once, for all streams of a connection together.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::admin::{Admin, Nodes, untried};
use super::codec::chunk::Chunk;
use super::codec::command::{self, Offset, Request};
use super::codec::frame::{ConsumerUpdate, Frame, decode, read_numbers};
use super::codec::{ConnectError, Refusal, class_of, code};
use super::config::RabbitmqStreamOptions;
use super::connect::{Connector, Session, next_frame};
use crate::broker::{FailureClass, ReceiveError};
use crate::net::connect::within;

/// A connection to one node, with the streams that are read from it.
pub struct Subscriptions {
    /// A task writes heartbeats to it while the engine's consumer works.
    session: Arc<Mutex<Session>>,
    beats: Option<AbortOnDropHandle<()>>,
    /// A number that each connection of a consumer has for itself.
    pub number: u64,
    /// Whether the server decides if the streams are read over this connection.
    is_shared: bool,
    /// Sources by subscription id.
    pub sources: Vec<usize>,
    heard: Instant,
    /// Why the connection ended.
    ended: Option<io::Error>,
}

/// Shows the server from time to time that the client is there.
async fn beat(session: Weak<Mutex<Session>>, heartbeat: Duration) {
    let mut beats = interval(heartbeat / 2);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let Some(session) = session.upgrade() else { return };
        let Session { transport, write_buffer, .. } = &mut *session.lock();
        command::heartbeat(&mut write_buffer.bytes);
        // An error shows when the connection is read.
        let _ = write_buffer.flush(transport);
    }
}

impl Subscriptions {
    pub fn new(session: Session, sources: Vec<usize>, is_shared: bool) -> Self {
        let heartbeat = session.heartbeat;
        let session = Arc::new(Mutex::new(session));
        let beating = |heartbeat| AbortOnDropHandle::new(tokio::spawn(beat(Arc::downgrade(&session), heartbeat)));
        let beats = heartbeat.map(beating);
        Subscriptions { session, beats, number: 0, is_shared, sources, heard: Instant::now(), ended: None }
    }

    /// The interval of heartbeats that both sides agreed on.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.session.lock().heartbeat
    }

    /// Resolves when data has arrived or the connection has ended. Writes pending bytes meanwhile. With `is_checked`, a connection on which nothing
    /// has arrived for too long ends. Data that arrived while the consumer worked is read first.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, is_checked: bool) -> Poll<()> {
        if self.ended.is_some() {
            return Poll::Ready(());
        }
        let Session { transport, read_buffer, write_buffer, heartbeat, .. } = &mut *self.session.lock();
        // After a write of less than everything, the next poll registers the waker again.
        while write_buffer.unwritten() > 0 && transport.poll_writable(context).is_ready() {
            if let Err(error) = write_buffer.flush(transport) {
                self.ended = Some(error);
                return Poll::Ready(());
            }
        }
        while let Poll::Ready(readable) = transport.poll_readable(context) {
            match readable.and_then(|()| read_buffer.fill(transport)) {
                // Not readable after all: the next poll registers the waker again.
                Ok(0) => {}
                Ok(_) => {
                    self.heard = Instant::now();
                    return Poll::Ready(());
                }
                Err(error) => {
                    self.ended = Some(error);
                    return Poll::Ready(());
                }
            }
        }
        let quiet = self.heard.elapsed();
        if is_checked && heartbeat.is_some_and(|heartbeat| quiet > 2 * heartbeat) {
            self.ended = Some(io::Error::other(format!("no sign of life for {quiet:?}")));
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Takes leave of the server and closes the connection.
    pub async fn close(self) {
        if let Some(beats) = self.beats {
            beats.abort();
            // It may be about to write.
            let _ = beats.await;
        }
        if let Some(session) = Arc::into_inner(self.session) {
            session.into_inner().close().await;
        }
    }

    /// Whether [`Subscriptions::take`] has something to do.
    pub fn is_filled(&self) -> bool {
        let Session { read_buffer, removed, updates, .. } = &*self.session.lock();
        self.ended.is_some()
            || !removed.is_empty()
            || !updates.is_empty()
            || !matches!(read_buffer.has_next(decode), Ok(false))
    }

    /// Hands over the chunks that have arrived, each with the number of its source, as long as `deliver` wants more.
    ///
    /// # Errors
    /// When the connection or one of its streams is lost.
    pub fn take(
        &mut self,
        mut deliver: impl FnMut(usize, &[u8]) -> Result<ControlFlow<()>, ReceiveError>,
    ) -> Result<(), ReceiveError> {
        let Session { transport, read_buffer, write_buffer, updates, removed: gone, .. } = &mut *self.session.lock();
        if let Some((stream, code)) = gone.first() {
            return Err(removed(stream, *code));
        }
        let mut has_more = false;
        let failed = |error: ConnectError| ReceiveError { class: error.class(), message: error.to_string() };
        while let Some(frame) = next_frame(read_buffer, write_buffer, transport).map_err(failed)? {
            match frame {
                Frame::Deliver { subscription, chunk } => {
                    let Some(source) = self.sources.get(usize::from(subscription)) else { continue };
                    command::credit(&mut write_buffer.bytes, subscription, 1);
                    if deliver(*source, chunk)?.is_break() {
                        has_more = true;
                        break;
                    }
                }
                Frame::ConsumerUpdate(update) => updates.push(update),
                Frame::MetadataUpdate { code, stream } => return Err(removed(stream, code)),
                // The server keeps it for the time when the subscription is active again (`rabbit_stream_reader.erl`).
                Frame::Credit { code: code::PRECONDITION_FAILED, .. } if self.is_shared => {}
                Frame::Credit { code, subscription } => {
                    let message = format!("credit for subscription {subscription}: {}", code::name(code));
                    return Err(ReceiveError { class: class_of(code), message });
                }
                _ => {}
            }
        }
        if let Some(error) = self.ended.take_if(|_| !has_more) {
            return Err(lost(error.to_string()));
        }
        if write_buffer.unwritten() > 0 {
            write_buffer.flush(transport).map_err(|error| lost(error.to_string()))?;
        }
        Ok(())
    }

    /// What the server has said of subscriptions since the last call.
    pub fn take_updates(&mut self) -> Vec<ConsumerUpdate> {
        std::mem::take(&mut self.session.lock().updates)
    }

    /// Responds to an update: where an active subscription begins. An inactive one has no offset.
    pub fn answer(&mut self, update: ConsumerUpdate, from: Option<Offset>) {
        let Session { transport, write_buffer, .. } = &mut *self.session.lock();
        command::consumer_update_response(&mut write_buffer.bytes, update.correlation, from);
        if let Err(error) = write_buffer.flush(transport) {
            self.ended = Some(error);
        }
    }
}

/// The server has removed a subscription.
fn removed(stream: &str, code: u16) -> ReceiveError {
    ReceiveError { class: class_of(code), message: format!("{stream}: {}", code::name(code)) }
}

fn lost(message: String) -> ReceiveError {
    ReceiveError { class: FailureClass::ConnectionLost, message }
}

/// What arrived is not the protocol.
pub fn other(message: String) -> ReceiveError {
    ReceiveError { class: FailureClass::Other, message }
}

/// How far a stream has been read, and where it could not be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamProgress {
    pub stream: String,
    pub from: Offset,
    /// The offset of the next message, once that is known: from then on, new subscriptions begin there.
    pub next: Option<u64>,
    /// Attempts to subscribe that have failed since the last success, and the nodes of those in the current round.
    pub attempts: usize,
    pub tried: BTreeSet<String>,
}

impl StreamProgress {
    pub fn new(stream: String, from: Offset) -> Self {
        StreamProgress { stream, from, next: None, attempts: 0, tried: BTreeSet::new() }
    }
}

/// A stream with the number of its source.
pub type Numbered = (usize, StreamProgress);

/// How long the last chunks may take to arrive, all together.
const LAST_CHUNKS: Duration = Duration::from_secs(5);

/// Gives each place of the group the offset that it means now, unless it means the same at any time. Each request takes
/// `limit` at most.
///
/// The session must have no subscriptions.
///
/// # Errors
/// When the server does not respond in time or refuses a request.
pub async fn resolve_offsets(
    session: &mut Session,
    group: &mut [Numbered],
    limit: Duration,
) -> Result<(), ConnectError> {
    let mut awaited = Vec::new();
    for (id, (_, place)) in group.iter_mut().enumerate() {
        if place.next.is_some() || !matches!(place.from, Offset::Last | Offset::Next) {
            continue;
        }
        let request = Request::stream_stats(&place.stream);
        let stats = within(limit, session.request(&request, "the stream's figures")).await?;
        let committed = read_numbers(&stats)?.into_iter().find(|(name, _)| name == "committed_chunk_id");
        // Of an empty stream it is -1.
        match committed.and_then(|(_, offset)| u64::try_from(offset).ok()) {
            None => place.next = Some(0),
            // Only the chunk itself has the count of its messages, which gives the next offset.
            Some(committed) => {
                let subscribe = Request::subscribe(id as u8, &place.stream, Offset::Last, 0, &[]);
                within(limit, session.request(&subscribe, "the subscription")).await?;
                awaited.push((id, committed));
            }
        }
    }
    if awaited.is_empty() {
        return Ok(());
    }
    let mut located = vec![None; group.len()];
    for (id, _) in &awaited {
        command::credit(&mut session.write_buffer.bytes, *id as u8, 1);
    }
    match within(LAST_CHUNKS, last_chunks(session, group, awaited.len(), &mut located)).await {
        Ok(()) | Err(ConnectError::Timeout(_)) => {}
        Err(error) => return Err(error),
    }
    for (id, committed) in awaited {
        // Without a delivery, the last chunk is the server's own and has no messages: those there were have expired.
        group[id].1.next = Some(located[id].unwrap_or(committed));
        within(limit, session.request(&Request::unsubscribe(id as u8), "the end of a subscription")).await?;
    }
    Ok(())
}

/// Waits until `count` last chunks have arrived.
async fn last_chunks(
    session: &mut Session,
    group: &[Numbered],
    count: usize,
    located: &mut [Option<u64>],
) -> Result<(), ConnectError> {
    session.flush().await?;
    while located.iter().flatten().count() < count {
        if let Frame::Deliver { subscription, chunk } = session.next().await?
            && let Some((_, place)) = group.get(usize::from(subscription))
        {
            let chunk = Chunk::parse(chunk)?;
            located[usize::from(subscription)] = Some(match place.from {
                Offset::Next => chunk.next_offset()?,
                _ => chunk.first_offset,
            });
        }
    }
    Ok(())
}

/// The protocol numbers subscriptions in one byte.
pub const MAX_SUBSCRIPTIONS: usize = 256;

/// The result of an attempt to subscribe.
#[derive(Default)]
pub struct Recovered {
    pub connections: Vec<Subscriptions>,
    pub subscribed: Vec<Numbered>,
    pub failed: Vec<Numbered>,
    /// Why the last of the failed ones did, and where.
    pub failure: Option<(String, ConnectError)>,
}

/// Opens connections for consumers.
pub struct Recovery {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    /// Properties of all subscriptions.
    properties: Vec<(String, String)>,
    /// Whether the server decides which streams are read.
    is_shared: bool,
}

impl Recovery {
    pub fn new(connector: Arc<Connector>, admin: Arc<Admin>, nodes: Arc<Nodes>) -> Self {
        let properties = connector.options().filter_properties();
        Recovery { connector, admin, nodes, properties, is_shared: false }
    }

    /// The consumer is one of `group`, of which the server has one read each stream.
    pub fn shared(mut self, group: &str, super_stream: Option<&str>) -> Self {
        let mut add = |key: &str, value: &str| self.properties.push((key.to_owned(), value.to_owned()));
        add("single-active-consumer", "true");
        add("name", group);
        // The server spreads the streams of a super stream over the members.
        super_stream.into_iter().for_each(|name| add("super-stream", name));
        self.is_shared = true;
        self
    }

    pub fn options(&self) -> &RabbitmqStreamOptions {
        self.connector.options()
    }

    /// The time of each step of the first attempts: short ones at every node, so that one which does not answer delays the others
    /// little, then long ones, for a slow node.
    pub fn first_limits(&self) -> Vec<Duration> {
        let nodes = self.nodes.all().len();
        [vec![self.connector.recovery_limit(0); nodes], vec![self.connector.timeout(); nodes]].concat()
    }

    /// The time of each step of a later attempt.
    pub fn limit(&self, attempt: usize) -> Duration {
        self.connector.recovery_limit(attempt)
    }

    /// Connects to the nodes that lead the streams, or after failed attempts to their replicas, and subscribes.
    pub async fn subscribe(&self, places: Vec<Numbered>, limit: Duration) -> Recovered {
        let mut recovered = Recovered::default();
        let names: Vec<&str> = places.iter().map(|(_, place)| place.stream.as_str()).collect();
        let locations = match self.admin.locations_within(limit, &names).await {
            Ok(locations) => locations,
            Err(failure) => return Recovered { failed: places, failure: Some(failure), ..Recovered::default() },
        };
        let mut groups: Vec<(String, Vec<Numbered>)> = Vec::new();
        for (source, mut place) in places {
            let location = locations.iter().find(|location| location.stream == place.stream);
            let address = location.and_then(|found| untried(self.nodes.for_consuming(found, source), &mut place.tried));
            let Some(address) = address else {
                let missing = Refusal { what: "the subscription", code: code::STREAM_DOES_NOT_EXIST };
                recovered.failure = Some((place.stream.clone(), ConnectError::Refused(missing)));
                recovered.failed.push((source, place));
                continue;
            };
            match groups.iter_mut().find(|(known, group)| *known == address && group.len() < MAX_SUBSCRIPTIONS) {
                Some((_, group)) => group.push((source, place)),
                None => groups.push((address, vec![(source, place)])),
            }
        }
        let opened = groups.into_iter().map(|(address, mut group)| async move {
            let subscribed = self.subscribe_over(&address, &mut group, limit).await;
            (address, group, subscribed)
        });
        for (address, mut group, subscribed) in join_all(opened).await {
            match subscribed {
                Ok(connection) => {
                    recovered.connections.push(connection);
                    recovered.subscribed.extend(group);
                }
                Err(error) => {
                    for (_, place) in &mut group {
                        place.tried.insert(address.clone());
                    }
                    recovered.failed.extend(group);
                    recovered.failure = Some((address, error));
                }
            }
        }
        recovered
    }

    async fn subscribe_over(
        &self,
        address: &str,
        group: &mut [Numbered],
        limit: Duration,
    ) -> Result<Subscriptions, ConnectError> {
        let mut session = self.connector.connect(address, limit).await?;
        resolve_offsets(&mut session, group, limit).await?;
        for (id, (_, place)) in group.iter().enumerate() {
            let from = place.next.map_or(place.from, Offset::Absolute);
            // Without credit, no delivery arrives between the responses. A shared subscription is not active yet.
            let credit = if self.is_shared { self.options().credit } else { 0 };
            let subscribe = Request::subscribe(id as u8, &place.stream, from, credit, &self.properties);
            within(limit, session.request(&subscribe, "the subscription")).await?;
        }
        for id in (0..group.len()).filter(|_| !self.is_shared) {
            command::credit(&mut session.write_buffer.bytes, id as u8, self.options().credit);
        }
        within(limit, session.flush()).await?;
        Ok(Subscriptions::new(session, group.iter().map(|(source, _)| *source).collect(), self.is_shared))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq_stream/subscriptions.rs"]
mod tests;
