//! A member of a group: reads its share of a topic's streams.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::admin::Admin;
use super::body;
use super::codec::chunk::Chunk;
use super::codec::command::{self, Offset, Request};
use super::codec::frame::{Frame, decode};
use super::codec::{Malformed, code};
use super::config::Body;
use super::connect::{Connector, Session};
use super::error::class_of;
use super::error::{ConnectError, Refusal};
use super::tail;
use crate::broker::{BrokerError, Consumer, FailureClass, ReceiveError, Received};

/// The longest interval between checks for silence.
const LONGEST_BEAT: Duration = Duration::from_secs(5);

/// A member of a group on one topic.
pub struct RabbitmqStreamConsumer {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    sources: Vec<Source>,
    connections: Vec<Subscriptions>,
    /// A connection or a stream was lost: all are opened again together.
    broken: bool,
    beat: Interval,
    scratch: Vec<u8>,
}

/// A stream, and how far it was read.
struct Source {
    stream: String,
    partition: u32,
    from: Offset,
    /// The offset of the next message, once that is known: from then on, new subscriptions begin there.
    next: Option<u64>,
}

/// A connection to one node, with the streams it leads.
struct Subscriptions {
    session: Session,
    /// By subscription id.
    sources: Vec<usize>,
    heard: Instant,
    spoke: Instant,
    /// Why the connection ended.
    ended: Option<io::Error>,
}

impl RabbitmqStreamConsumer {
    /// Subscribes to `streams`, each with its partition. What is sent once this has resolved will be received.
    pub(super) async fn subscribe(
        connector: Arc<Connector>,
        admin: Arc<Admin>,
        streams: Vec<(u32, String)>,
        from: Offset,
    ) -> Result<Self, BrokerError> {
        let sources: Vec<_> =
            streams.into_iter().map(|(partition, stream)| Source { stream, partition, from, next: None }).collect();
        let mut beat = interval(LONGEST_BEAT.min(connector.options().heartbeat / 2));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (connections, scratch) = (Vec::new(), Vec::new());
        let mut consumer =
            RabbitmqStreamConsumer { connector, admin, sources, connections, broken: false, beat, scratch };
        consumer.connect().await.map_err(|(address, error)| error.into_broker_error(&address))?;
        Ok(consumer)
    }

    /// Connects to the nodes that lead the streams, and subscribes from where each was read to.
    async fn connect(&mut self) -> Result<(), (String, ConnectError)> {
        self.connections.clear();
        if self.sources.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.sources.iter().map(|source| source.stream.as_str()).collect();
        let locations = self.admin.locations(&names).await.map_err(|error| {
            let disagreed = ConnectError::Io(io::Error::other(error.to_string()));
            (String::new(), disagreed)
        })?;
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            let refused = |code| ConnectError::Refused(Refusal { what: "the subscription", code });
            let location = locations.iter().find(|location| location.stream == source.stream);
            let Some(location) = location else {
                return Err((source.stream.clone(), refused(code::STREAM_DOES_NOT_EXIST)));
            };
            let address = self.admin.addresses_for(location, 0).swap_remove(0);
            match groups.iter_mut().find(|(known, members)| *known == address && members.len() < 256) {
                Some((_, members)) => members.push(number),
                None => groups.push((address, vec![number])),
            }
        }
        let mut connections = Vec::with_capacity(groups.len());
        for (address, sources) in groups {
            connections.push(self.subscribe_over(&address, sources).await.map_err(|error| (address, error))?);
        }
        self.connections = connections;
        self.broken = false;
        Ok(())
    }

    async fn subscribe_over(&mut self, address: &str, sources: Vec<usize>) -> Result<Subscriptions, ConnectError> {
        let mut session = self.connector.connect(address).await?;
        for number in &sources {
            let source = &mut self.sources[*number];
            if source.next.is_none() {
                source.next = tail::locate(&self.connector, &mut session, &source.stream, source.from).await?;
            }
        }
        for (id, number) in sources.iter().enumerate() {
            let source = &self.sources[*number];
            let from = source.next.map_or(source.from, Offset::Absolute);
            // Without credit, no delivery arrives between the responses.
            let subscribe = Request::subscribe(id as u8, &source.stream, from, 0);
            self.connector.within(session.request(&subscribe, "the subscription")).await?;
        }
        for id in 0..sources.len() {
            command::credit(&mut session.write_buffer.bytes, id as u8, self.connector.options().credit);
        }
        self.connector.within(session.flush()).await?;
        let now = Instant::now();
        Ok(Subscriptions { session, sources, heard: now, spoke: now, ended: None })
    }

    /// Ends connections that were silent for too long, and sends heartbeats where they are due.
    fn check_heartbeats(&mut self) -> Result<(), ReceiveError> {
        for Subscriptions { session, heard, spoke, .. } in &mut self.connections {
            let Some(heartbeat) = session.heartbeat else { continue };
            if heard.elapsed() > 2 * heartbeat {
                self.broken = true;
                return Err(lost(format!("no sign of life for {:?}", heard.elapsed())));
            }
            if spoke.elapsed() >= heartbeat / 2 {
                command::heartbeat(&mut session.write_buffer.bytes);
                *spoke = Instant::now();
            }
        }
        Ok(())
    }
}

impl Subscriptions {
    /// Resolves when data has arrived or the connection has ended. Writes pending bytes meanwhile.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Session { transport, read_buffer, write_buffer, .. } = &mut self.session;
        if write_buffer.unwritten() > 0
            && transport.poll_writable(context).is_ready()
            && let Err(error) = write_buffer.flush(transport)
        {
            self.ended = Some(error);
            return Poll::Ready(());
        }
        loop {
            let filled = ready!(transport.poll_readable(context)).and_then(|()| read_buffer.fill(transport));
            match filled {
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
    }

    /// Whether [`Subscriptions::take`] has something to do.
    fn is_filled(&self) -> bool {
        self.ended.is_some() || !matches!(self.session.read_buffer.has_next(decode), Ok(false))
    }

    /// Hands over the messages that have arrived.
    fn take(
        &mut self,
        sources: &mut [Source],
        scratch: &mut Vec<u8>,
        body: Body,
        taken: &mut usize,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<(), ReceiveError> {
        let Session { transport, read_buffer, write_buffer, .. } = &mut self.session;
        while let Some(frame) = read_buffer.next(decode).map_err(|error| other(error.to_string()))? {
            match frame {
                Frame::Deliver { subscription, chunk } => {
                    let number = self.sources.get(usize::from(subscription));
                    let Some(source) = number.and_then(|number| sources.get_mut(*number)) else { continue };
                    command::credit(&mut write_buffer.bytes, subscription, 1);
                    let delivered = source.deliver(chunk, scratch, body, taken, each);
                    delivered.map_err(|error| other(format!("{}: {error}", source.stream)))?;
                }
                Frame::MetadataUpdate { code, stream } => {
                    let message = format!("{stream}: {}", code::name(code));
                    return Err(ReceiveError { class: class_of(code), message });
                }
                Frame::Credit { code, subscription } => {
                    let message = format!("credit for subscription {subscription}: {}", code::name(code));
                    return Err(ReceiveError { class: class_of(code), message });
                }
                Frame::Close { code, reason, .. } => {
                    return Err(lost(format!("the server closes it: {} ({reason})", code::name(code))));
                }
                _ => {}
            }
        }
        if let Some(error) = self.ended.take() {
            return Err(lost(error.to_string()));
        }
        if write_buffer.unwritten() > 0 {
            self.spoke = Instant::now();
            write_buffer.flush(transport).map_err(|error| lost(error.to_string()))?;
        }
        Ok(())
    }
}

impl Source {
    fn deliver(
        &mut self,
        chunk: &[u8],
        scratch: &mut Vec<u8>,
        body: Body,
        taken: &mut usize,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<(), Malformed> {
        let chunk = Chunk::parse(chunk)?;
        if !chunk.is_intact() {
            return Err(Malformed::Senseless { what: "chunk's checksum" });
        }
        // A chunk is delivered whole, also when the subscription begins within it.
        let begin = match (self.next, self.from) {
            (Some(next), _) | (None, Offset::Absolute(next)) => next,
            _ => 0,
        };
        chunk.messages(scratch, |offset, message| {
            if offset < begin {
                return;
            }
            let opened = body::open(body, message);
            each(Received {
                payload: opened.payload,
                trace_header: opened.trace_header,
                partition: self.partition,
                offset: 0,
                redelivered: false,
                details: &body::MessageDetails { body, message, timestamp_ms: chunk.timestamp },
            });
            *taken += 1;
        })?;
        self.next = Some(begin.max(chunk.first_offset + u64::from(chunk.records)));
        Ok(())
    }
}

impl Consumer for RabbitmqStreamConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        if self.broken {
            self.connect().await.map_err(|(address, error)| ReceiveError {
                class: error.class(),
                message: format!("{address}: {error}"),
            })?;
        }
        while !self.connections.iter().any(Subscriptions::is_filled) {
            let connections = &mut self.connections;
            let filled = poll_fn(|context| {
                // Polls all, so that each registers the waker.
                let mut filled = false;
                for connection in connections.iter_mut() {
                    filled |= connection.poll_fill(context).is_ready();
                }
                if filled { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::select! {
                () = filled => {}
                _ = self.beat.tick() => self.check_heartbeats()?,
            }
        }
        Ok(())
    }

    fn take(&mut self, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let body = self.connector.options().body;
        let mut taken = 0;
        for connection in &mut self.connections {
            let took = connection.take(&mut self.sources, &mut self.scratch, body, &mut taken, &mut each);
            if let Err(error) = took {
                self.broken = true;
                return Err(error);
            }
        }
        Ok(taken)
    }
}

fn lost(message: String) -> ReceiveError {
    ReceiveError { class: FailureClass::ConnectionLost, message }
}

fn other(message: String) -> ReceiveError {
    ReceiveError { class: FailureClass::Other, message }
}
