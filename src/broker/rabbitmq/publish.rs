//! A publishing connection, and its producers, each with a channel of its own.
//!
//! The server confirms the messages of a channel by their numbers, one or several at once. A message that no queue takes comes back before
//! its confirm. A request that the server refuses closes the channel: its messages fail with the server's words, and it is opened again.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use super::codec::{
    Frame, HEARTBEAT, Method, TooLong, append_channel_close_ok, append_channel_open, append_close, decode,
};
use super::connect::{Connector, Opened, Role, refusal, text};
use super::content::Preamble;
use super::in_flight::{InFlight, Sent, Settled};
use crate::broker::{ClientError, FailureClass, Outgoing, Producer, Setup, SubmitError};
use crate::measure::host::tasks;
use crate::measure::{AckRecorder, ConditionKind, Conditions, PartitionIndex, Subject, SubjectKind};
use crate::net::session::{Lost, Offer, Protocol, PublishingConnection, Served, Session};
use crate::net::transport::WriteBuffer;

pub type Connection = PublishingConnection<Publishing>;

/// What a publishing connection needs to know.
pub struct Publishing {
    connector: Arc<Connector>,
    addresses: Vec<String>,
    conditions: Conditions,
    confirms: bool,
    /// How long messages wait for a lost connection.
    reconnect: Duration,
    recorder: AckRecorder,
    /// By channel.
    routes: RwLock<Vec<Arc<Route>>>,
    /// The place among the addresses of the server that it is connected to, or was.
    place: AtomicUsize,
    /// This server, as what can be held up.
    node: Mutex<Subject>,
    channel_max: AtomicU32,
    frame_max: AtomicUsize,
    /// Why no message can succeed any more.
    failure: OnceLock<ClientError>,
}

/// Where a producer's messages go.
pub struct Route {
    channel: u16,
    /// For each of the scenario's lists of headers.
    preambles: Vec<Preamble>,
    partition: PartitionIndex,
    held_up: Subject,
}

impl Publishing {
    /// Takes over a new connection to the address of this place.
    pub fn start<Options>(
        setup: &Setup<Options>,
        connector: Arc<Connector>,
        (confirms, reconnect): (bool, Duration),
        (opened, place): (Opened, usize),
    ) -> Connection {
        let (addresses, conditions) = (setup.config.addresses.clone(), setup.conditions.clone());
        let node = Mutex::new(Subject::new(&conditions, SubjectKind::Node, &addresses[place]));
        let publishing = Publishing {
            connector,
            addresses,
            conditions,
            confirms,
            reconnect,
            recorder: setup.acks.recorder(),
            routes: RwLock::default(),
            place: AtomicUsize::new(place),
            node,
            channel_max: AtomicU32::default(),
            frame_max: AtomicUsize::default(),
            failure: OnceLock::new(),
        };
        let served = publishing.serve(opened);
        PublishingConnection::start(publishing, InFlight::default(), served, WriteBuffer::default())
    }

    fn serve(&self, opened: Opened) -> Served {
        self.channel_max.store(opened.channel_max.into(), Ordering::Relaxed);
        self.frame_max.store(opened.frame_max, Ordering::Relaxed);
        let Opened { transport, read_buffer, heartbeat, .. } = opened;
        Served { transport: Arc::new(transport), read_buffer, heartbeat: Some(heartbeat) }
    }

    /// Records outcomes, and empties them.
    fn record(&self, settled: &mut Vec<Settled>) {
        if settled.is_empty() {
            return;
        }
        let routes = self.routes.read();
        let mut acks = self.recorder.batch();
        for Settled { sent, channel, failure } in settled.drain(..) {
            // A channel has a route from its beginning.
            let Some(route) = routes.get(usize::from(channel) - 1) else { continue };
            match failure {
                None => {
                    acks.to_partition(route.partition);
                    acks.acknowledged(sent.send_tag, sent.bytes as usize);
                    route.held_up.end();
                }
                Some(failure) => {
                    acks.failed(sent.send_tag, failure.class, || failure.message.clone());
                    route.held_up.begin(ConditionKind::from_failure(failure.class), &failure.message);
                }
            }
        }
    }

    /// Handles a method. `settled`: messages that have their outcome by it. `out`: what answers it.
    ///
    /// # Errors
    /// When it ends the connection.
    fn take_method(
        &self,
        (channel, method): (u16, Method<'_>),
        in_flight: &mut InFlight,
        settled: &mut Vec<Settled>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        match method {
            Method::Ack { delivery_tag, multiple } => {
                in_flight.settle(channel, (delivery_tag, multiple), None, settled);
            }
            Method::Nack { delivery_tag, multiple } => {
                let words = "the server refused the message (basic.nack): its queue is full, or could not store it";
                let failure = Arc::new(ClientError::passing(FailureClass::Full, words));
                in_flight.settle(channel, (delivery_tag, multiple), Some(&failure), settled);
            }
            Method::Return { text } => in_flight.begin_return(channel, &self::text(text)),
            Method::Close { code, text } => {
                let failure = refusal(code, self::text(text));
                if channel == 0 {
                    return Err(io::Error::other(format!("the server closed it: {}", failure.message)));
                }
                if failure.lasting {
                    // The first one is the reason.
                    let _ = self.failure.set(failure.clone());
                }
                in_flight.settle_channel(channel, &Arc::new(failure), settled);
                append_channel_close_ok(out, channel);
                append_channel_open(out, channel, self.confirms);
            }
            Method::Blocked(reason) => self.node.lock().begin(ConditionKind::Blocked, &text(reason)),
            Method::Unblocked => self.node.lock().end_only(ConditionKind::Blocked),
            _ => {}
        }
        Ok(())
    }
}

impl Protocol for Publishing {
    type State = InFlight;
    type Message = Settled;
    type Error = SubmitError;
    type Scratch = Vec<Settled>;

    fn pending(in_flight: &InFlight) -> usize {
        in_flight.pending()
    }

    fn watched(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        tasks::watched("connection", 0, task)
    }

    fn read(session: &Arc<Session<Self>>, served: &mut Served, settled: &mut Vec<Settled>) -> io::Result<()> {
        // The bytes that arrived are read before an error of the socket is returned: the server says why it closes a connection.
        let filled = served.read_buffer.fill(&served.transport);
        let mut guard = session.state();
        let state = &mut *guard;
        let (in_flight, out) = (&mut state.protocol, &mut state.write_buffer.bytes);
        let unanswered = out.len();
        let taken = loop {
            let taken = match served.read_buffer.next(decode) {
                Ok(Some(Frame::Method(channel, method))) => {
                    session.protocol.take_method((channel, method), in_flight, settled, out)
                }
                Ok(Some(Frame::Header(channel, body_bytes, properties))) => {
                    in_flight.returned_header(channel, body_bytes, properties, settled);
                    Ok(())
                }
                Ok(Some(Frame::Body(channel, part))) => {
                    in_flight.returned_body(channel, part, settled);
                    Ok(())
                }
                Ok(Some(Frame::Heartbeat)) => Ok(()),
                Ok(None) => break Ok(()),
                Err(malformed) => Err(io::Error::other(malformed)),
            };
            if taken.is_err() {
                break taken;
            }
        };
        let has_answers = out.len() > unanswered;
        drop(guard);
        if has_answers {
            session.notify_work();
        }
        session.protocol.record(settled);
        taken.and(filled.map(drop))
    }

    fn written(session: &Session<Self>) {
        if session.protocol.confirms {
            return;
        }
        let mut state = session.state();
        if state.write_buffer.unwritten() == 0 {
            let mut settled = state.protocol.take_all();
            drop(state);
            session.protocol.record(&mut settled);
        }
    }

    fn heartbeat(_: &mut InFlight, out: &mut Vec<u8>) {
        out.extend_from_slice(HEARTBEAT);
    }

    async fn reconnect(session: &Arc<Session<Self>>) -> Option<Served> {
        let publishing = &session.protocol;
        // Its own node last: the others are there if it is not.
        let opened = publishing.connector.connect(Role::Producer, publishing.place.load(Ordering::Relaxed) + 1).await;
        let (opened, place) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                publishing.node.lock().begin(ConditionKind::Connecting, &error.message);
                if error.lasting {
                    let (since, failure) = (Instant::now(), error.submitting());
                    session.state().lost = Some(Lost { since, error: failure, is_final: true });
                    let _ = publishing.failure.set(error);
                    session.notify_capacity();
                }
                return None;
            }
        };
        publishing.place.store(place, Ordering::Relaxed);
        *publishing.node.lock() = Subject::new(&publishing.conditions, SubjectKind::Node, &publishing.addresses[place]);
        let served = publishing.serve(opened);
        let mut write_buffer = WriteBuffer::default();
        for channel in session.state().protocol.channels() {
            append_channel_open(&mut write_buffer.bytes, channel, publishing.confirms);
        }
        // Other conditions last until a message is confirmed.
        publishing.routes.read().iter().for_each(|route| route.held_up.end_only(ConditionKind::Connecting));
        session.install(served.transport.clone(), write_buffer);
        Some(served)
    }

    fn lost(&self, reason: &str) -> SubmitError {
        let address = &self.addresses[self.place.load(Ordering::Relaxed)];
        let message = format!("the connection to {address} was lost: {reason}");
        self.node.lock().begin(ConditionKind::Connecting, &message);
        SubmitError { class: FailureClass::ConnectionLost, message }
    }

    fn take_pending(in_flight: &mut InFlight) -> Vec<Settled> {
        in_flight.take_all()
    }

    fn fail(&self, messages: Vec<Settled>, error: &SubmitError) {
        let failure = Some(Arc::new(ClientError::passing(error.class, error.message.clone())));
        let failed = messages.into_iter().map(|message| Settled { failure: failure.clone(), ..message });
        self.record(&mut failed.collect());
    }
}

/// Ends a connection, of which the server is told.
pub fn end(connection: &Connection) {
    // A lost connection has nothing to end.
    let _ = connection.session().append(|_, _, out| append_close(out));
    connection.end();
}

/// A producer of one exchange and routing key, with a channel of a connection that it shares with others.
pub struct RabbitmqProducer {
    connection: Arc<Connection>,
    route: Arc<Route>,
}

impl RabbitmqProducer {
    /// `preambles`: those of a channel, for each of the scenario's lists of headers.
    ///
    /// # Errors
    /// When the connection is lost, or has no channel left.
    pub async fn open(
        connection: Arc<Connection>,
        topic: &str,
        preambles: impl Fn(u16) -> Result<Vec<Preamble>, TooLong>,
    ) -> Result<Self, ClientError> {
        let publishing = &connection.session().protocol;
        let open = |publishing: &Publishing, in_flight: &mut InFlight, out: &mut Vec<u8>| {
            let (number, most) = (in_flight.next_channel(), publishing.channel_max.load(Ordering::Relaxed));
            let Some(channel) = u16::try_from(number).ok().filter(|channel| u32::from(*channel) <= most) else {
                return Offer::Taken(Err(format!(
                    "the server has {most} channels for a connection, and each producer needs one: raise `broker.connections`"
                )));
            };
            let preambles = match preambles(channel) {
                Ok(preambles) => preambles,
                Err(error) => return Offer::Taken(Err(error.to_string())),
            };
            let partition = publishing.recorder.partition(topic, None);
            let held_up = Subject::new(&publishing.conditions, SubjectKind::Topic, topic);
            let route = Arc::new(Route { channel, preambles, partition, held_up });
            publishing.routes.write().push(route.clone());
            in_flight.add_channel();
            append_channel_open(out, channel, publishing.confirms);
            Offer::Taken(Ok(route))
        };
        let opened = connection.submit(|| false, publishing.reconnect, open).await;
        let opened = opened.map_err(|error| ClientError::passing(error.class, error.message))?;
        let route = opened.map_err(|words| ClientError::lasting(FailureClass::Refused, words))?;
        Ok(RabbitmqProducer { connection, route })
    }
}

impl Producer for RabbitmqProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let (route, session) = (&self.route, self.connection.session());
        if let Some(failure) = session.protocol.failure.get() {
            return Err(failure.submitting());
        }
        let publish = |publishing: &Publishing, in_flight: &mut InFlight, out: &mut Vec<u8>| {
            let frame_max = publishing.frame_max.load(Ordering::Relaxed);
            for outgoing in batch {
                let header_set = outgoing.attributes.map_or(0, |attributes| attributes.header_set as usize);
                route.preambles[header_set].append_message(out, outgoing.trace_header, outgoing.payload, frame_max);
            }
            let sent = |one: &Outgoing<'_>| Sent { send_tag: one.send_tag, bytes: one.payload.len() as u32 };
            in_flight.push(route.channel, batch.iter().map(sent));
            Offer::Taken(batch.len())
        };
        let taken = self.connection.submit(|| false, session.protocol.reconnect, publish).await?;
        if !session.protocol.confirms {
            // The task learns when they are written.
            session.notify_work();
        }
        Ok(taken)
    }

    fn fatal_error(&self) -> Option<String> {
        self.connection.session().protocol.failure.get().map(|failure| failure.message.clone())
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq/publish.rs"]
mod tests;
