//! A publishing connection to nats-server, and its producers: each message, and what tells of its outcome.
//!
//! A message of JetStream and a request have a reply subject of their own, which is the connection's inbox and the message's number: the
//! acknowledgement of the stream, or the reply of a consumer, is a message to it. Core NATS answers no message. There a `PING` follows each
//! batch, and its `PONG` says that the server has taken what was before it: servers handle a connection in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use parking_lot::{Mutex, RwLock};

use super::codec::{Answer, Frame, HEADERS, Publish, decode, number};
use super::config::{Batches, Mode};
use super::connect::{Connector, MAX_ANSWER_BYTES, Opened, parse, refusal};
use super::in_flight::{InFlight, Outcome, Sent, Settled, stored};
use crate::broker::{ClientError, FailureClass, Outgoing, Producer, SubmitError, TRACE_HEADER_NAME};
use crate::measure::host::tasks;
use crate::measure::{AckRecorder, ConditionKind, PartitionIndex, Subject};
use crate::net::session::{Offer, Protocol, PublishingConnection, Served, Session};
use crate::net::transport::WriteBuffer;

pub type Connection = PublishingConnection<Publishing>;

/// A silent connection is asked for a sign of life in half of this time, and given up after twice of it.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Messages of one atomic batch (nats-server, `JSMaxBatchSize`).
const MAX_ATOMIC_BATCH: usize = 1000;

/// What a publishing connection needs to know.
pub struct Publishing {
    pub mode: Mode,
    pub batches: Batches,
    pub connector: Arc<Connector>,
    /// The number of the connection: it begins at the server of this number.
    pub number: usize,
    /// Subject of the answers, with a dot at its end.
    pub inbox: Vec<u8>,
    pub ack_timeout: Duration,
    pub recorder: AckRecorder,
    /// The lines of each of the scenario's lists of headers.
    pub header_sets: Vec<Vec<u8>>,
    pub routes: RwLock<Vec<Arc<Route>>>,
    /// The server at which it begins, as what can be held up.
    pub node: Subject,
    /// How often it was opened again: each time at the next server.
    pub reconnects: AtomicUsize,
    /// The server that it is connected to, or was.
    pub address: Mutex<String>,
    pub max_payload: AtomicU64,
    pub lame_duck: AtomicBool,
}

/// Where a producer's messages go.
pub struct Route {
    /// Its place among the routes of its connection.
    index: u32,
    subject: String,
    /// What the `Nats-Msg-Id` of its messages begins with, and the number of the next one.
    message_ids: Option<(String, AtomicU64)>,
    partition: PartitionIndex,
    held_up: Subject,
}

/// What was read, until it is recorded.
#[derive(Default)]
pub struct Outcomes {
    /// Numbers of messages with their answers.
    answers: Vec<(u64, Outcome)>,
    pongs: usize,
    settled: Vec<Settled>,
}

impl Publishing {
    /// Takes over a new connection.
    pub fn start(self, opened: Opened) -> Connection {
        let served = self.serve(opened);
        PublishingConnection::start(self, InFlight::default(), served, WriteBuffer::default())
    }

    fn serve(&self, opened: Opened) -> Served {
        *self.address.lock() = opened.address;
        self.max_payload.store(opened.info.max_payload as u64, Ordering::Relaxed);
        self.lame_duck.store(opened.info.lame_duck, Ordering::Relaxed);
        Served { transport: Arc::new(opened.transport), read_buffer: opened.read_buffer, heartbeat: Some(HEARTBEAT) }
    }

    /// Appends the batch up to the first message that is too large.
    #[inline]
    fn publish(
        &self,
        route: &Route,
        batch: &[Outgoing<'_>],
        in_flight: &mut InFlight,
        out: &mut Vec<u8>,
    ) -> Result<usize, SubmitError> {
        let max_payload = self.max_payload.load(Ordering::Relaxed) as usize;
        let is_batched = self.batches != Batches::Single;
        let most = if self.batches == Batches::Atomic { MAX_ATOMIC_BATCH } else { batch.len() };
        let batch = &batch[..batch.len().min(most)];
        let begin = in_flight.next();
        let (last, unwritten) = (begin + batch.len() as u64 - 1, out.len());
        in_flight.batches += 1;
        for (index, outgoing) in batch.iter().enumerate() {
            self.write_headers(route, outgoing, in_flight, (index, batch.len()));
            let reply = match self.mode {
                Mode::Core => None,
                _ if self.batches == Batches::Fast => Some(last),
                // The first message of a batch is answered if the batch cannot begin.
                _ if is_batched => (index == 0 || index + 1 == batch.len()).then_some(last),
                _ => Some(begin + index as u64),
            };
            let publish = Publish {
                subject: route.subject.as_bytes(),
                reply: reply.map(|number| (&self.inbox[..], number)),
                fast: (self.batches == Batches::Fast).then_some((index, batch.len())),
                headers: &in_flight.headers,
                payload: outgoing.payload,
            };
            if publish.size() > max_payload {
                let size = publish.size();
                return match index {
                    0 => Err(SubmitError {
                        class: FailureClass::TooLarge,
                        message: format!(
                            "{size} bytes with headers: the server takes {max_payload} (`max_payload` of its configuration)"
                        ),
                    }),
                    // A batch without its end is not stored: a shorter one has one.
                    fitting if is_batched => {
                        out.truncate(unwritten);
                        in_flight.withdraw(fitting);
                        self.publish(route, &batch[..fitting], in_flight, out)
                    }
                    fitting => {
                        self.end_batch(in_flight, out);
                        Ok(fitting)
                    }
                };
            }
            publish.append_to(out);
            let answered = match is_batched {
                true if index + 1 == batch.len() => batch.len() as u32,
                true => 0,
                false => 1,
            };
            let bytes = outgoing.payload.len() as u32;
            in_flight.push(Sent { send_tag: outgoing.send_tag, bytes, route: route.index, answered });
        }
        self.end_batch(in_flight, out);
        Ok(batch.len())
    }

    fn end_batch(&self, in_flight: &mut InFlight, out: &mut Vec<u8>) {
        if self.mode == Mode::Core {
            out.extend_from_slice(b"PING\r\n");
            in_flight.ping();
        }
    }

    /// The headers of a message, of which `(index, of)` is the place in its batch.
    #[inline]
    fn write_headers(
        &self,
        route: &Route,
        outgoing: &Outgoing<'_>,
        in_flight: &mut InFlight,
        (index, of): (usize, usize),
    ) {
        let is_atomic = self.batches == Batches::Atomic;
        let InFlight { headers, batches, .. } = in_flight;
        headers.clear();
        let own = &self.header_sets[outgoing.attributes.map_or(0, |attributes| attributes.header_set as usize)];
        if own.is_empty() && outgoing.trace_header.is_none() && route.message_ids.is_none() && !is_atomic {
            return;
        }
        headers.extend_from_slice(HEADERS);
        headers.extend_from_slice(b"\r\n");
        headers.extend_from_slice(own);
        let mut line = |name: &str, value: &[u8]| {
            headers.extend_from_slice(name.as_bytes());
            headers.extend_from_slice(b": ");
            headers.extend_from_slice(value);
            headers.extend_from_slice(b"\r\n");
        };
        if let Some(trace_header) = outgoing.trace_header {
            line(TRACE_HEADER_NAME, BASE64.encode(trace_header).as_bytes());
        }
        if let Some((prefix, next)) = &route.message_ids {
            let number = next.fetch_add(1, Ordering::Relaxed);
            line("Nats-Msg-Id", format!("{prefix}-{number}").as_bytes());
        }
        if is_atomic {
            // nats-io/nats-architecture-and-design, ADR-50.
            line("Nats-Batch-Id", format!("{}{batches}", String::from_utf8_lossy(&self.inbox)).as_bytes());
            line("Nats-Batch-Sequence", (index + 1).to_string().as_bytes());
            if index + 1 == of {
                line("Nats-Batch-Commit", b"1");
            }
        }
        headers.extend_from_slice(b"\r\n");
    }

    /// The outcome that an answer to a message tells, with the message's number; `None`: it tells none.
    #[inline]
    fn outcome(&self, answer: &Answer<'_>) -> Option<(u64, Outcome)> {
        let mut reply = answer.subject.get(self.inbox.len()..)?;
        if self.batches == Batches::Fast {
            reply = &reply[..memchr::memchr(b'-', reply)?];
        }
        let number = number(reply)?;
        if answer.headers.strip_prefix(HEADERS).is_some_and(|status| status.starts_with(b" 503")) {
            let message = match self.mode {
                Mode::Jetstream => "no stream answers for its subject: there is none, or its replicas have no leader",
                _ => "no consumer is there to reply",
            };
            let failure = Box::new(ClientError::passing(FailureClass::UnknownTopic, message));
            return Some((number, Outcome::Repeated(failure)));
        }
        match self.mode {
            Mode::Jetstream => stored(answer.payload, self.batches).map(|outcome| (number, outcome)),
            Mode::Core | Mode::Request => Some((number, Outcome::Acknowledged)),
        }
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
                        class => ConditionKind::from_failure(class),
                    };
                    route.held_up.begin(kind, &failure.message);
                }
            }
        }
    }
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
        loop {
            match served.read_buffer.next(decode).map_err(io::Error::other)? {
                Some(Frame::Message(answer)) => outcomes.answers.extend(session.protocol.outcome(&answer)),
                Some(Frame::Pong) => outcomes.pongs += 1,
                Some(Frame::Ping) => {
                    session.state().write_buffer.bytes.extend_from_slice(b"PONG\r\n");
                    session.notify_work();
                }
                Some(Frame::Error(error)) => {
                    session.settle(outcomes);
                    session.refuse(error, outcomes)?;
                }
                Some(Frame::Info(json)) => {
                    let info = parse(json).map_err(io::Error::other)?;
                    session.protocol.lame_duck.store(info.lame_duck, Ordering::Relaxed);
                    session.protocol.connector.learn(&info);
                }
                Some(Frame::Ok) => {}
                None => break,
            }
        }
        session.settle(outcomes);
        filled.map(drop)
    }

    fn heartbeat(in_flight: &mut InFlight, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PING\r\n");
        in_flight.heartbeat();
    }

    async fn reconnect(session: &Arc<Session<Self>>) -> Option<Served> {
        let publishing = &session.protocol;
        let first = publishing.number + 1 + publishing.reconnects.fetch_add(1, Ordering::Relaxed);
        let opened = publishing.connector.connect(first, &publishing.inbox, MAX_ANSWER_BYTES).await.ok()?;
        publishing.node.end();
        // The condition of another failure lasts until a message is acknowledged.
        publishing.routes.read().iter().for_each(|route| route.held_up.end_only(ConditionKind::Connecting));
        let served = publishing.serve(opened);
        session.install(served.transport.clone(), WriteBuffer::default());
        Some(served)
    }

    fn lost(&self, reason: &str) -> SubmitError {
        let announced = match self.lame_duck.load(Ordering::Relaxed) {
            true => ", as it had announced (lame duck mode)",
            false => "",
        };
        let message = format!("the connection to nats-server at {} was lost{announced}: {reason}", self.address.lock());
        self.node.begin(ConditionKind::Connecting, &message);
        SubmitError { class: FailureClass::ConnectionLost, message }
    }

    fn take_pending(in_flight: &mut InFlight) -> Vec<Sent> {
        in_flight.take_all()
    }

    fn fail(&self, messages: Vec<Sent>, error: &SubmitError) {
        let failure = ClientError::passing(error.class, error.message.clone());
        self.record(&mut messages.into_iter().map(|sent| (sent, Some(Box::new(failure.clone())))).collect());
    }

    fn check_interval(&self) -> Option<Duration> {
        Some((self.ack_timeout / 10).min(Duration::from_secs(1)))
    }

    fn fail_overdue(session: &Session<Self>) {
        let publishing = &session.protocol;
        let mut settled = Vec::new();
        let now_ns = publishing.recorder.now_ns();
        let limit_ns = publishing.ack_timeout.as_nanos() as u64;
        session.state().protocol.settle_overdue(
            |sent| sent.send_tag.service_ns(now_ns) > limit_ns,
            || ClientError::late(format!("no acknowledgement within {:?}", publishing.ack_timeout)),
            &mut settled,
        );
        publishing.record(&mut settled);
    }
}

impl Session<Publishing> {
    /// Records what was read.
    fn settle(&self, outcomes: &mut Outcomes) {
        let Outcomes { answers, pongs, settled } = outcomes;
        if answers.is_empty() && *pongs == 0 {
            return;
        }
        let mut state = self.state();
        let in_flight = &mut state.protocol;
        for (number, outcome) in answers.drain(..) {
            in_flight.answer(number, outcome, settled);
        }
        for _ in 0..std::mem::take(pongs) {
            in_flight.pong(settled);
        }
        drop(state);
        self.protocol.record(settled);
    }

    /// The server refused something. It refuses each message of a subject that is not allowed by itself, and closes the connection after
    /// everything else.
    fn refuse(&self, error: &[u8], outcomes: &mut Outcomes) -> io::Result<()> {
        let refusal = refusal(error);
        let subject = refusal.message.split_once("for Publish to ").map(|(_, subject)| subject.trim_matches('"'));
        let Some(subject) = subject else {
            return Err(io::Error::other(format!("the server closed it: {}", refusal.message)));
        };
        let routes = self.protocol.routes.read();
        let is_refused = |sent: &Sent| routes[sent.route as usize].subject == subject;
        self.state().protocol.settle_first(is_refused, refusal.clone(), &mut outcomes.settled);
        drop(routes);
        self.protocol.record(&mut outcomes.settled);
        Ok(())
    }
}

/// A producer of one subject, over a connection that it shares with others.
pub struct NatsProducer {
    connection: Arc<Connection>,
    route: Arc<Route>,
}

impl NatsProducer {
    /// `message_ids`: what the `Nats-Msg-Id` of its messages begins with, if they have one.
    pub fn new(connection: Arc<Connection>, subject: String, message_ids: Option<String>, held_up: Subject) -> Self {
        let publishing = &connection.session().protocol;
        let partition = publishing.recorder.partition(&subject, None);
        let message_ids = message_ids.map(|prefix| (prefix, AtomicU64::new(0)));
        let mut routes = publishing.routes.write();
        let index = routes.len() as u32;
        let route = Arc::new(Route { index, subject, message_ids, partition, held_up });
        routes.push(route.clone());
        drop(routes);
        NatsProducer { connection, route }
    }
}

impl Producer for NatsProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let (route, publishing) = (&self.route, &self.connection.session().protocol);
        let write = |publishing: &Publishing, in_flight: &mut InFlight, out: &mut Vec<u8>| {
            Offer::Taken(publishing.publish(route, batch, in_flight, out))
        };
        self.connection.submit(|| false, publishing.ack_timeout, write).await?
    }
}

/// Headers as they are sent, without the first line.
pub fn header_lines(headers: &[(String, String)]) -> Vec<u8> {
    headers.iter().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes()).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/nats/publish.rs"]
mod tests;
