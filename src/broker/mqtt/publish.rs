//! A publishing connection, and its producers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::time::timeout;

use super::CLOSING;
use super::codec::{Ack, Packet, decode, property};
use super::config::MqttOptions;
use super::connect::{Client, Connector, Opened, acknowledge_at_once};
use super::encode::{DISCONNECT, PINGREQ, Publish, append_ack};
use super::in_flight::{InFlight, Sent, Settled, is_last};
use super::reason::{FAILURE, refusal, told};
use crate::broker::{ClientError, FailureClass, Outgoing, Producer, SubmitError};
use crate::limits::TRACE_HEADER_BYTES;
use crate::measure::host::tasks;
use crate::measure::{AckRecorder, ConditionKind, PartitionIndex, Subject};
use crate::net::session::{Offer, Protocol, PublishingConnection, Served, Session};
use crate::net::transport::WriteBuffer;

pub type Connection = PublishingConnection<Publishing>;

/// What a publishing connection needs to know.
pub struct Publishing {
    pub connector: Arc<Connector>,
    pub client: Client,
    /// The number of the connection: it begins at the server of this number.
    pub number: usize,
    pub recorder: AckRecorder,
    /// The properties of each of the scenario's lists of headers.
    pub header_sets: Vec<Vec<u8>>,
    /// Properties of every message.
    pub properties: Vec<u8>,
    pub routes: RwLock<Vec<Arc<Route>>>,
    /// The server at which it begins, as what can be held up.
    pub node: Subject,
    /// How often it was opened again: each time at the next server.
    pub reconnects: AtomicUsize,
    /// The server that it is connected to, or was.
    pub address: Mutex<String>,
}

/// Where a producer's messages go.
pub struct Route {
    /// Its place among the routes of its connection.
    index: u32,
    topic: Vec<u8>,
    partition: PartitionIndex,
    held_up: Subject,
}

/// What was read, until it is recorded.
#[derive(Default)]
pub struct Outcomes {
    acks: Vec<(Ack, u16, Option<Box<ClientError>>)>,
    pongs: usize,
    settled: Vec<Settled>,
}

impl Publishing {
    /// Takes over a new connection.
    pub fn start(self, opened: Opened) -> Connection {
        let in_flight = InFlight::new(opened.allowed);
        let served = self.serve(opened);
        PublishingConnection::start(self, in_flight, served, WriteBuffer::default())
    }

    fn serve(&self, opened: Opened) -> Served {
        let Opened { address, transport, read_buffer, allowed, .. } = opened;
        *self.address.lock() = address;
        Served { transport: Arc::new(transport), read_buffer, heartbeat: allowed.keep_alive }
    }

    /// Appends messages, as many as packet ids are free for, up to the first one that is too large.
    #[inline]
    fn publish(
        &self,
        route: &Route,
        batch: &[Outgoing<'_>],
        in_flight: &mut InFlight,
        out: &mut Vec<u8>,
    ) -> Offer<Result<usize, SubmitError>, SubmitError> {
        let MqttOptions { version, qos, retain, topic_aliases, .. } = self.connector.options;
        let allowed = in_flight.allowed;
        let index = route.index as usize;
        let alias = Some(route.index + 1).filter(|alias| topic_aliases && *alias <= allowed.topic_aliases.into());
        let mut alias_property = [property::TOPIC_ALIAS, 0, 0];
        alias_property[1..].copy_from_slice(&(alias.unwrap_or(0) as u16).to_be_bytes());
        if in_flight.aliases.len() <= index {
            in_flight.aliases.resize(index + 1, false);
        }
        for (appended, outgoing) in batch.iter().enumerate() {
            let headers = &self.header_sets[outgoing.attributes.map_or(0, |attributes| attributes.header_set as usize)];
            let trace = outgoing.trace_header.map(trace_property);
            let mut publish = Publish {
                version,
                qos,
                retain,
                topic: if alias.is_some() && in_flight.aliases[index] { &[] } else { &route.topic },
                packet_id: 0,
                properties: [
                    if alias.is_some() { &alias_property } else { &[] },
                    &self.properties,
                    trace.as_ref().map_or(&[], |trace| trace),
                    headers,
                ],
                payload: outgoing.payload,
            };
            if publish.size() > allowed.packet_bytes {
                let (size, most) = (publish.size(), allowed.packet_bytes);
                let message = format!("{size} bytes with topic and headers: the server takes packets of {most}");
                let refused = SubmitError { class: FailureClass::TooLarge, message };
                return self.taken(appended, in_flight, out).unwrap_or(Offer::Taken(Err(refused)));
            }
            let (send_tag, bytes) = (outgoing.send_tag, outgoing.payload.len() as u32);
            let sent = Sent { send_tag, bytes, route: route.index };
            if qos == 0 {
                in_flight.push_unnumbered(sent);
            } else {
                match in_flight.take_id(sent) {
                    Some(id) => publish.packet_id = id,
                    None => return self.taken(appended, in_flight, out).unwrap_or(Offer::Full),
                }
            }
            publish.append_to(out);
            in_flight.aliases[index] = alias.is_some();
        }
        self.taken(batch.len(), in_flight, out).unwrap_or(Offer::Full)
    }

    /// The end of the messages that were appended, if there are any.
    #[inline]
    fn taken<E>(
        &self,
        appended: usize,
        in_flight: &mut InFlight,
        out: &mut Vec<u8>,
    ) -> Option<Offer<Result<usize, SubmitError>, E>> {
        if self.connector.options.qos == 0 && appended > 0 {
            out.extend_from_slice(&PINGREQ);
            in_flight.ping(Some(appended));
        }
        (appended > 0).then_some(Offer::Taken(Ok(appended)))
    }

    /// Records outcomes, and empties them.
    fn record(&self, settled: &mut Vec<Settled>) {
        let routes = self.routes.read();
        let mut acks = self.recorder.batch();
        for (sent, failure) in settled.drain(..) {
            let route = &routes[sent.route as usize];
            match failure {
                None => {
                    acks.to_partition(route.partition);
                    acks.acknowledged(sent.send_tag, sent.bytes as usize);
                    route.held_up.end();
                }
                Some(failure) => {
                    acks.failed(sent.send_tag, failure.class, || failure.message.clone());
                    let kind = match failure.class {
                        FailureClass::Timeout => ConditionKind::Unanswered,
                        FailureClass::Full => ConditionKind::Throttled,
                        class => ConditionKind::from_failure(class),
                    };
                    route.held_up.begin(kind, &failure.message);
                }
            }
        }
    }
}

/// The engine's header, as correlation data: binary, unlike user properties.
fn trace_property(trace_header: &[u8; TRACE_HEADER_BYTES]) -> [u8; 3 + TRACE_HEADER_BYTES] {
    let mut encoded = [0; 3 + TRACE_HEADER_BYTES];
    encoded[0] = property::CORRELATION_DATA;
    encoded[2] = TRACE_HEADER_BYTES as u8;
    encoded[3..].copy_from_slice(trace_header);
    encoded
}

impl Protocol for Publishing {
    type State = InFlight;
    type Message = Sent;
    type Error = SubmitError;
    type Scratch = Outcomes;

    fn pending(in_flight: &InFlight) -> usize {
        in_flight.pending()
    }

    fn watched(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        tasks::watched("connection", 0, task)
    }

    fn read(session: &Arc<Session<Self>>, served: &mut Served, outcomes: &mut Outcomes) -> io::Result<()> {
        // The bytes that arrived are read before an error of the socket is returned: the server says why it closes a connection.
        let filled = served.read_buffer.fill(&served.transport);
        acknowledge_at_once(&served.transport);
        let version = session.protocol.connector.options.version;
        let mut closed = None;
        loop {
            let packet = served.read_buffer.next(|bytes, most| decode(bytes, most, version));
            match packet.map_err(io::Error::other)? {
                Some(Packet::Ack { kind, packet_id, code, properties }) => {
                    let failure = (code >= FAILURE).then(|| Box::new(refusal(code, properties)));
                    outcomes.acks.push((kind, packet_id, failure));
                }
                Some(Packet::Pingresp) => outcomes.pongs += 1,
                Some(Packet::Disconnect { code, properties }) => closed = Some(told(code, properties)),
                Some(_) => {}
                None => break,
            }
        }
        session.settle(outcomes)?;
        match closed {
            Some(reason) => Err(io::Error::other(format!("the server closed it: {reason}"))),
            None => filled.map(drop),
        }
    }

    fn heartbeat(in_flight: &mut InFlight, out: &mut Vec<u8>) {
        out.extend_from_slice(&PINGREQ);
        in_flight.ping(None);
    }

    async fn reconnect(session: &Arc<Session<Self>>) -> Option<Served> {
        let publishing = &session.protocol;
        let first = publishing.number + 1 + publishing.reconnects.fetch_add(1, Ordering::Relaxed);
        let opened = publishing.connector.connect(first, &publishing.client, None).await.ok()?;
        publishing.node.end();
        // The condition of another failure lasts until a message is acknowledged.
        publishing.routes.read().iter().for_each(|route| route.held_up.end_only(ConditionKind::Connecting));
        session.state().protocol.restart(opened.allowed);
        let served = publishing.serve(opened);
        session.install(served.transport.clone(), WriteBuffer::default());
        Some(served)
    }

    fn lost(&self, reason: &str) -> SubmitError {
        let message = format!("the connection to the MQTT server at {} was lost: {reason}", self.address.lock());
        self.node.begin(ConditionKind::Connecting, &message);
        SubmitError { class: FailureClass::ConnectionLost, message }
    }

    fn take_pending(in_flight: &mut InFlight) -> Vec<Sent> {
        in_flight.take_overdue(|_| true)
    }

    fn fail(&self, messages: Vec<Sent>, error: &SubmitError) {
        let failure = ClientError::passing(error.class, error.message.clone());
        self.record(&mut messages.into_iter().map(|sent| (sent, Some(Box::new(failure.clone())))).collect());
    }

    fn check_interval(&self) -> Option<Duration> {
        Some((self.connector.options.ack_timeout / 10).min(Duration::from_secs(1)))
    }

    fn fail_overdue(session: &Session<Self>) {
        let publishing = &session.protocol;
        let (now_ns, limit) = (publishing.recorder.now_ns(), publishing.connector.options.ack_timeout);
        let is_overdue = |sent: &Sent| sent.send_tag.service_ns(now_ns) > limit.as_nanos() as u64;
        let late = session.state().protocol.take_overdue(is_overdue);
        if !late.is_empty() {
            let message = format!("no acknowledgement within {limit:?}");
            publishing.fail(late, &SubmitError { class: FailureClass::Timeout, message });
        }
    }
}

impl Session<Publishing> {
    /// Records what was read, and releases messages of QoS 2 that the server has received.
    fn settle(&self, outcomes: &mut Outcomes) -> io::Result<()> {
        let Outcomes { acks, pongs, settled } = outcomes;
        if acks.is_empty() && *pongs == 0 {
            return Ok(());
        }
        let qos = self.protocol.connector.options.qos;
        let mut guard = self.state();
        let state = &mut *guard;
        let (mut released, mut has_capacity) = (false, false);
        let mut each = |kind, packet_id, failure: Option<Box<ClientError>>| {
            if is_last(kind, qos, failure.is_some())? {
                has_capacity |= state.protocol.settle(packet_id, failure, settled).map_err(io::Error::other)?;
            } else {
                append_ack(&mut state.write_buffer.bytes, Ack::Pubrel, packet_id);
                released = true;
            }
            Ok(())
        };
        let mut all = acks.drain(..).try_for_each(|(kind, packet_id, failure)| each(kind, packet_id, failure));
        for _ in 0..std::mem::take(pongs) {
            all = all.and_then(|()| state.protocol.pong(settled).map_err(io::Error::other));
        }
        drop(guard);
        self.protocol.record(settled);
        if released {
            self.notify_work();
        }
        if has_capacity {
            self.notify_capacity();
        }
        all
    }
}

/// Ends a connection with a `DISCONNECT`, without which the server publishes the will. Messages without an acknowledgement stay unresolved.
pub async fn end(connection: &Connection) {
    let (transport, mut out) = {
        let mut state = connection.session().state();
        (state.transport.clone(), std::mem::take(&mut state.write_buffer))
    };
    connection.end();
    if let Some(transport) = transport {
        out.bytes.extend_from_slice(&DISCONNECT);
        let _ = timeout(CLOSING, out.flush_all(&transport)).await;
    }
}

/// A producer of one topic, over a connection that it shares with others.
pub struct MqttProducer {
    connection: Arc<Connection>,
    route: Arc<Route>,
}

impl MqttProducer {
    pub fn new(connection: Arc<Connection>, topic: &str, held_up: Subject) -> Self {
        let publishing = &connection.session().protocol;
        let partition = publishing.recorder.partition(topic, None);
        let mut routes = publishing.routes.write();
        let index = routes.len() as u32;
        let route = Arc::new(Route { index, topic: topic.as_bytes().to_vec(), partition, held_up });
        routes.push(route.clone());
        drop(routes);
        MqttProducer { connection, route }
    }
}

impl Producer for MqttProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let (route, publishing) = (&self.route, &self.connection.session().protocol);
        let write = |publishing: &Publishing, in_flight: &mut InFlight, out: &mut Vec<u8>| {
            publishing.publish(route, batch, in_flight, out)
        };
        self.connection.submit(|| false, publishing.connector.options.ack_timeout, write).await?
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/mqtt/publish.rs"]
mod tests;
