//! A member of a group: reads its part of a topic's streams.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::body;
use super::codec::chunk::Chunk;
use super::codec::command::Offset;
use super::codec::{ConnectError, Malformed, Refusal, code};
use super::config::RabbitmqStreamOptions;
use super::group::{Activated, Membership};
use super::subscriptions::{Numbered, Recovered, Recovery, StreamProgress, Subscriptions, other};
use crate::broker::{BrokerError, Consumer, Offsets, ReceiveError, Received};
use crate::net::backoff::Backoff;

/// The longest interval between checks for silence.
const MAX_BEAT: Duration = Duration::from_secs(5);

/// A member of a group on one topic.
pub struct RabbitmqStreamConsumer {
    recovery: Arc<Recovery>,
    pub(super) sources: Vec<Source>,
    pub(super) connections: Vec<Subscriptions>,
    /// Connections so far.
    opened: u64,
    /// Sources without a subscription.
    pub(super) lost: Vec<usize>,
    /// `None`: the group neither commits nor shares its streams.
    pub(super) membership: Option<Membership>,
    /// The attempt to subscribe to lost sources again. The other connections are read meanwhile.
    recovering: Option<Pin<Box<dyn Future<Output = Recovered> + Send>>>,
    pause: Backoff,
    beat: Interval,
    scratch: Vec<u8>,
}

/// What a consumer waits for.
enum Event {
    /// A connection has something to take.
    Filled,
    /// The end of the attempt to subscribe to lost sources again.
    Recovered(Recovered),
    /// The offsets of streams that are to be read.
    Activated(Activated),
}

/// A stream, and how far it was read.
pub(super) struct Source {
    pub place: StreamProgress,
    pub partition: u32,
    /// Where the group goes on without this member.
    pub committed: Option<u64>,
}

impl RabbitmqStreamConsumer {
    /// Subscribes to `streams`, each with its partition. What is sent once this has resolved will be received.
    pub(super) async fn subscribe(
        recovery: Arc<Recovery>,
        streams: Vec<(u32, String)>,
        from: Offset,
        membership: Option<Membership>,
    ) -> Result<Self, BrokerError> {
        let source =
            |(partition, stream)| Source { place: StreamProgress::new(stream, from), partition, committed: None };
        let sources: Vec<_> = streams.into_iter().map(source).collect();
        let mut consumer = RabbitmqStreamConsumer {
            lost: (0..sources.len()).collect(),
            sources,
            connections: Vec::new(),
            opened: 0,
            membership,
            recovering: None,
            pause: Backoff::RECONNECT,
            beat: beat(MAX_BEAT),
            scratch: Vec::new(),
            recovery,
        };
        consumer.find_stored().await?;
        let mut limits = consumer.recovery.first_limits().into_iter().peekable();
        while let Some(limit) = limits.next().filter(|_| !consumer.lost.is_empty()) {
            let places = consumer.take_lost();
            let recovered = consumer.recovery.subscribe(places, limit).await;
            if let Some((address, error)) = consumer.add(recovered) {
                if limits.peek().is_none() || !is_of_one_node(&error) {
                    return Err(error.into_broker_error(&address));
                }
                consumer.pause.wait().await;
            }
        }
        Ok(consumer)
    }

    fn take_lost(&mut self) -> Vec<Numbered> {
        let shared = self.membership.as_ref().and_then(|membership| membership.sharing.as_ref());
        let place = |source: usize| {
            let mut place = self.sources[source].place.clone();
            // Another member may have read on.
            if let Some(sharing) = shared {
                place.next = sharing.group.position(&place.stream);
            }
            (source, place)
        };
        std::mem::take(&mut self.lost).into_iter().map(place).collect()
    }

    /// Takes over what was subscribed to. Returns why other sources could not be.
    fn add(&mut self, recovered: Recovered) -> Option<(String, ConnectError)> {
        for (source, place) in recovered.subscribed {
            self.note_position(&place);
            self.sources[source].place = StreamProgress { attempts: 0, tried: BTreeSet::new(), ..place };
        }
        for (source, place) in recovered.failed {
            self.sources[source].place = StreamProgress { attempts: place.attempts + 1, ..place };
            self.lost.push(source);
        }
        if !recovered.connections.is_empty() {
            for mut connection in recovered.connections {
                self.opened += 1;
                connection.number = self.opened;
                self.connections.push(connection);
            }
            let heartbeats = self.connections.iter().filter_map(Subscriptions::heartbeat);
            self.beat = beat(heartbeats.map(|heartbeat| heartbeat / 2).fold(MAX_BEAT, Duration::min));
        }
        match recovered.failure {
            Some(_) => drop(self.pause.failed()),
            None => self.pause.succeeded(),
        }
        recovered.failure
    }

    /// Begins to subscribe again to what was lost, unless that is under way.
    fn recover(&mut self) {
        if self.recovering.is_none() && !self.lost.is_empty() {
            let places = self.take_lost();
            let attempt = places.iter().map(|(_, place)| place.attempts).max().unwrap_or(0);
            let (recovery, pause) = (self.recovery.clone(), self.pause);
            self.recovering = Some(Box::pin(async move {
                pause.wait().await;
                recovery.subscribe(places, recovery.limit(attempt)).await
            }));
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(recovering) = &mut self.recovering
            && let Poll::Ready(recovered) = recovering.as_mut().poll(context)
        {
            self.recovering = None;
            return Poll::Ready(Event::Recovered(recovered));
        }
        if let Some(sharing) = self.sharing()
            && let Poll::Ready(activated) = sharing.poll_activated(context)
        {
            return Poll::Ready(Event::Activated(activated));
        }
        let mut is_checked = false;
        while self.beat.poll_tick(context).is_ready() {
            is_checked = true;
        }
        // Polls all, so that each registers the waker.
        let mut filled = false;
        for connection in &mut self.connections {
            filled |= connection.poll_fill(context, is_checked).is_ready();
        }
        if filled { Poll::Ready(Event::Filled) } else { Poll::Pending }
    }
}

fn beat(period: Duration) -> Interval {
    let mut beat = interval(period);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// Whether another node may answer differently.
fn is_of_one_node(error: &ConnectError) -> bool {
    match error {
        ConnectError::Io(_) | ConnectError::Timeout(_) => true,
        ConnectError::Refused(Refusal { code, .. }) => *code == code::STREAM_NOT_AVAILABLE,
        ConnectError::Malformed(_) | ConnectError::Incompatible(_) => false,
    }
}

impl Source {
    fn deliver(
        &mut self,
        chunk: &[u8],
        scratch: &mut Vec<u8>,
        options: &RabbitmqStreamOptions,
        taken: &mut usize,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<(), Malformed> {
        let chunk = Chunk::parse(chunk)?;
        let end = chunk.next_offset()?;
        if !chunk.is_intact() {
            return Err(Malformed::Senseless { what: "chunk's checksum" });
        }
        // A chunk is delivered whole, also when the subscription begins within it.
        let begin = match (self.place.next, self.place.from) {
            (Some(next), _) | (None, Offset::Absolute(next)) => next,
            _ => 0,
        };
        chunk.messages(scratch, |offset, message| {
            if offset < begin {
                return;
            }
            let details = body::MessageDetails { body: options.body, message, timestamp_ms: chunk.timestamp };
            // The server's filter is by chunk, and lets values pass that were not asked for.
            if !options.filters.is_empty() && !details.has_one_of(&options.filters, options.match_unfiltered) {
                return;
            }
            let opened = body::open(options.body, message);
            each(Received {
                payload: opened.payload,
                trace_header: opened.trace_header,
                partition: self.partition,
                offset,
                redelivered: false,
                details: &details,
            });
            *taken += 1;
        })?;
        self.place.next = Some(begin.max(end));
        Ok(())
    }
}

impl Consumer for RabbitmqStreamConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        while !self.connections.iter().any(Subscriptions::is_filled) {
            self.recover();
            self.begin_activation();
            let failure = match poll_fn(|context| self.poll_event(context)).await {
                Event::Filled => None,
                Event::Recovered(recovered) => self.add(recovered),
                Event::Activated(activated) => self.activate(activated),
            };
            if let Some((place, error)) = failure {
                return Err(ReceiveError { class: error.class(), message: format!("{place}: {error}") });
            }
        }
        Ok(())
    }

    /// A chunk is handed over whole: the server is given one credit for it.
    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let recovery = self.recovery.clone();
        let options = recovery.options();
        let mut taken = 0;
        for number in 0..self.connections.len() {
            let (sources, scratch) = (&mut self.sources, &mut self.scratch);
            let took = self.connections[number].take(|source, chunk| {
                let source = &mut sources[source];
                let delivered = source.deliver(chunk, scratch, options, &mut taken, &mut each);
                delivered.map_err(|error| other(format!("{}: {error}", source.place.stream)))?;
                Ok(if taken < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            });
            if let Err(error) = took {
                let connection = self.connections.swap_remove(number);
                self.lose(connection);
                return Err(error);
            }
            self.note_updates(number);
            if taken >= most {
                // A slow consumer reads the other connections in turn.
                self.connections.rotate_left(1);
                break;
            }
        }
        Ok(taken)
    }

    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        self.membership.as_ref().is_some_and(|membership| membership.commits).then_some(self)
    }

    async fn close(self) {
        join_all(self.connections.into_iter().map(Subscriptions::close)).await;
    }
}
