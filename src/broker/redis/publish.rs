//! A publishing connection to Redis, and its producers. A server replies to the commands of a connection in their order: the reply to a message's
//! command is its acknowledgement, or that to a `WAIT` behind it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use super::codec::{Malformed, Token, Value, append_bulk, append_command, append_count, decode, value};
use super::config::{Mode, RedisOptions, Subscribe};
use super::connect::{Connector, Opened, refusal};
use crate::broker::{ClientError, FailureClass, Outgoing, Producer, SubmitError, TRACE_HEADER_NAME};
use crate::measure::host::tasks;
use crate::measure::{AckRecorder, ConditionKind, PartitionIndex, SendTag, Subject};
use crate::net::session::{Offer, Protocol, PublishingConnection, Served, Session, State};
use crate::net::transport::WriteBuffer;

pub type Connection = PublishingConnection<Publishing>;

/// Field of an entry that has the payload.
pub const PAYLOAD_FIELD: &[u8] = b"payload";

/// A silent connection is asked for a sign of life in half of this time, and given up after twice of it.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// What a publishing connection needs to know.
pub struct Publishing {
    pub options: RedisOptions,
    pub connector: Arc<Connector>,
    /// The number of the connection: it begins at the server of this number.
    pub number: usize,
    pub recorder: AckRecorder,
    /// The fields of each of the scenario's lists of headers, with their number.
    pub header_sets: Vec<(usize, Vec<u8>)>,
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
    /// The command of a message up to its fields, without the number of its arguments, and that number.
    command: Vec<u8>,
    arguments: usize,
    partition: PartitionIndex,
    held_up: Subject,
}

/// A message without an outcome.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    send_tag: SendTag,
    bytes: u32,
    route: u32,
}

/// What a reply is awaited for.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// `None`: its outcome is known already.
    Message(Option<Sent>),
    /// How many replicas have the messages before it, of those that must.
    Copies,
    Heartbeat,
}

/// Commands without a reply yet, in their order.
#[derive(Default)]
pub struct InFlight {
    awaited: VecDeque<Awaited>,
    /// Messages that the server has, and waits with.
    stored: Vec<Sent>,
    /// A `WAIT` has no reply yet, and there are messages behind it.
    waits: bool,
    uncovered: bool,
    pending: usize,
    /// Replies to messages whose outcome was known.
    unmatched: u64,
}

/// A message with its outcome; `None`: it was acknowledged.
type Settled = (Sent, Option<ClientError>);

/// A reply, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reply {
    Done,
    /// Copies that `WAIT` and `WAITAOF` count: synchronised files of the server, and replicas.
    Copies(u32, u32),
    Refused(Box<ClientError>),
}

/// What was read, until it is recorded.
#[derive(Default)]
pub struct Outcomes {
    replies: Vec<Reply>,
    settled: Vec<Settled>,
}

impl InFlight {
    pub fn take_unmatched(&mut self) -> u64 {
        std::mem::take(&mut self.unmatched)
    }

    fn settle(&mut self, reply: Reply, options: &RedisOptions, settled: &mut Vec<Settled>) -> io::Result<()> {
        let unexpected = || io::Error::other("the server replies to something that was not asked");
        match (self.awaited.pop_front().ok_or_else(unexpected)?, reply) {
            (Awaited::Message(None), _) => self.unmatched += 1,
            (Awaited::Message(Some(sent)), Reply::Refused(error)) => {
                self.pending -= 1;
                settled.push((sent, Some(*error)));
            }
            (Awaited::Message(Some(sent)), _) if options.waits() => self.stored.push(sent),
            (Awaited::Message(Some(sent)), _) => {
                self.pending -= 1;
                settled.push((sent, None));
            }
            (Awaited::Copies, reply) => {
                self.waits = false;
                let missing = reply.missing(options);
                self.pending -= self.stored.len();
                settled.extend(self.stored.drain(..).map(|sent| (sent, missing.clone())));
            }
            (Awaited::Heartbeat, _) => {}
        }
        Ok(())
    }

    /// Has the server wait for copies of all messages that were sent. Until it has replied, it executes nothing else of this connection: what
    /// is sent meanwhile has the next command in common.
    fn await_copies(&mut self, options: &RedisOptions, out: &mut Vec<u8>) {
        if self.waits || !self.uncovered {
            return;
        }
        (self.waits, self.uncovered) = (true, false);
        let replicas = options.wait_replicas.map_or(0, |replicas| replicas.get()).to_string();
        // A message that is sent behind a command has two of them to wait for before it is overdue.
        let limit_ms = (options.ack_timeout * 3 / 8).as_millis().max(1).to_string();
        match options.wait_local_file {
            true => append_command(out, &[b"WAITAOF", b"1", replicas.as_bytes(), limit_ms.as_bytes()]),
            false => append_command(out, &[b"WAIT", replicas.as_bytes(), limit_ms.as_bytes()]),
        }
        self.awaited.push_back(Awaited::Copies);
    }

    /// Removes messages without an outcome that are `overdue`. Their replies may still come.
    fn take_overdue(&mut self, overdue: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let mut taken: Vec<Sent> = self.stored.extract_if(.., |sent| overdue(sent)).collect();
        for awaited in &mut self.awaited {
            match awaited {
                Awaited::Message(sent) => match sent.take_if(|sent| overdue(sent)) {
                    Some(late) => taken.push(late),
                    // What was sent later is not overdue either.
                    None if sent.is_some() => break,
                    None => {}
                },
                Awaited::Copies | Awaited::Heartbeat => {}
            }
        }
        self.pending -= taken.len();
        taken
    }
}

impl Reply {
    /// The reply at the beginning of `bytes`, and its length. `None`: it has not arrived completely.
    #[inline]
    fn decode(bytes: &[u8], most: usize) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((token, length)) = decode(bytes, most)? else { return Ok(None) };
        let count = |number: i64| u32::try_from(number).unwrap_or(0);
        let reply = match token {
            Token::Error(text) => Reply::Refused(Box::new(refusal(text))),
            Token::Integer(replicas) => Reply::Copies(0, count(replicas)),
            // `WAITAOF` replies with two numbers.
            Token::Array(2) => {
                let Some((value, length)) = value(bytes, most)? else { return Ok(None) };
                let Value::List(list) = &value else { return Ok(Some((Reply::Done, length))) };
                let [Value::Integer(files), Value::Integer(replicas)] = list[..] else {
                    return Err(Malformed("the reply to WAITAOF is not two numbers".to_owned()));
                };
                return Ok(Some((Reply::Copies(count(files), count(replicas)), length)));
            }
            _ => Reply::Done,
        };
        Ok(Some((reply, length)))
    }

    /// Why messages are not where they must be, as the reply to `WAIT` or `WAITAOF` tells.
    fn missing(&self, options: &RedisOptions) -> Option<ClientError> {
        let wanted = options.wait_replicas.map_or(0, |replicas| replicas.get());
        let refused = |message| Some(ClientError::passing(FailureClass::Unavailable, message));
        match self {
            Reply::Refused(error) => Some((**error).clone()),
            Reply::Copies(_, replicas) if *replicas < wanted => {
                refused(format!("NOREPLICAS {replicas} of {wanted} replicas had it in time"))
            }
            Reply::Copies(0, _) if options.wait_local_file => {
                refused("the server's append-only file did not have it in time".to_owned())
            }
            Reply::Copies(..) | Reply::Done => None,
        }
    }
}

impl Publishing {
    /// Takes over a new connection.
    pub fn start(self, opened: Opened) -> Connection {
        let served = self.serve(opened);
        PublishingConnection::start(self, InFlight::default(), served, WriteBuffer::default())
    }

    fn serve(&self, opened: Opened) -> Served {
        *self.address.lock() = opened.address;
        Served { transport: Arc::new(opened.transport), read_buffer: opened.read_buffer, heartbeat: Some(HEARTBEAT) }
    }

    /// Appends the commands of a batch.
    #[inline]
    fn publish(&self, route: &Route, batch: &[Outgoing<'_>], in_flight: &mut InFlight, out: &mut Vec<u8>) {
        let options = &self.options;
        let oldest = options.max_age.map(oldest_id);
        for outgoing in batch {
            match options.mode {
                Mode::Streams => self.append_entry(route, outgoing, oldest.as_deref(), out),
                Mode::Pubsub | Mode::List => {
                    append_count(out, b'*', route.arguments + 1);
                    out.extend_from_slice(&route.command);
                    append_bulk(out, outgoing.payload);
                }
            }
            let bytes = outgoing.payload.len() as u32;
            let sent = Sent { send_tag: outgoing.send_tag, bytes, route: route.index };
            in_flight.awaited.push_back(Awaited::Message(Some(sent)));
        }
        in_flight.pending += batch.len();
        if options.waits() {
            in_flight.uncovered = true;
            in_flight.await_copies(options, out);
        }
    }

    #[inline]
    fn append_entry(&self, route: &Route, outgoing: &Outgoing<'_>, oldest: Option<&str>, out: &mut Vec<u8>) {
        let set = outgoing.attributes.map_or(0, |attributes| attributes.header_set as usize);
        let (own, fields) = &self.header_sets[set];
        let trimming = if oldest.is_some() { 3 } else { 0 };
        let all = 1 + usize::from(outgoing.trace_header.is_some()) + own;
        append_count(out, b'*', route.arguments + trimming + 1 + 2 * all);
        out.extend_from_slice(&route.command);
        if let Some(oldest) = oldest {
            let operator = if self.options.exact { b"=" } else { b"~" };
            let trimming: [&[u8]; 3] = [b"MINID", operator, oldest.as_bytes()];
            for argument in trimming {
                append_bulk(out, argument);
            }
        }
        out.extend_from_slice(b"$1\r\n*\r\n");
        append_bulk(out, PAYLOAD_FIELD);
        append_bulk(out, outgoing.payload);
        if let Some(trace_header) = outgoing.trace_header {
            append_bulk(out, TRACE_HEADER_NAME.as_bytes());
            append_bulk(out, trace_header);
        }
        out.extend_from_slice(fields);
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
                    route.held_up.begin(condition(&failure), &failure.message);
                }
            }
        }
    }
}

/// What holds messages up that fail so.
fn condition(failure: &ClientError) -> ConditionKind {
    match failure.class {
        FailureClass::Timeout => ConditionKind::Unanswered,
        _ if failure.message.starts_with("NOREPLICAS") => ConditionKind::NotEnoughReplicas,
        class => ConditionKind::from_failure(class),
    }
}

/// The lowest id that an entry of at most this age can have.
fn oldest_id(age: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(age).as_millis().to_string()
}

/// The command of a message to `topic`, up to its fields, and how many arguments that are. A stream that is trimmed by age gets its limit with
/// each message.
fn command(topic: &str, options: &RedisOptions) -> (Vec<u8>, usize) {
    let mut command = Vec::new();
    let name: &[u8] = match options.mode {
        Mode::Streams => b"XADD",
        Mode::Pubsub if options.subscribe == Subscribe::Sharded => b"SPUBLISH",
        Mode::Pubsub => b"PUBLISH",
        Mode::List => b"LPUSH",
    };
    let mut arguments = vec![name, topic.as_bytes()];
    let length = options.max_length.map(|length| length.to_string());
    if let Some(length) = &length {
        let trimming: [&[u8]; 3] = [b"MAXLEN", if options.exact { b"=" } else { b"~" }, length.as_bytes()];
        arguments.extend(trimming);
    }
    arguments.iter().for_each(|argument| append_bulk(&mut command, argument));
    (command, arguments.len())
}

impl Protocol for Publishing {
    type State = InFlight;
    type Message = Sent;
    type Error = SubmitError;
    type Scratch = Outcomes;

    fn pending(in_flight: &InFlight) -> usize {
        in_flight.pending
    }

    fn watched(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        tasks::watched("connection", 0, task)
    }

    fn read(session: &Arc<Session<Self>>, served: &mut Served, outcomes: &mut Outcomes) -> io::Result<()> {
        // The replies that arrived are read before an error of the socket is returned.
        let filled = served.read_buffer.fill(&served.transport);
        let Outcomes { replies, settled } = outcomes;
        while let Some(reply) = served.read_buffer.next(Reply::decode).map_err(io::Error::other)? {
            replies.push(reply);
        }
        if !replies.is_empty() {
            let mut state = session.state();
            let options = &session.protocol.options;
            let all = replies.drain(..).try_for_each(|reply| state.protocol.settle(reply, options, settled));
            let State { protocol, write_buffer, .. } = &mut *state;
            protocol.await_copies(options, &mut write_buffer.bytes);
            drop(state);
            session.protocol.record(settled);
            all?;
        }
        filled.map(drop)
    }

    fn heartbeat(in_flight: &mut InFlight, out: &mut Vec<u8>) {
        append_command(out, &[b"PING"]);
        in_flight.awaited.push_back(Awaited::Heartbeat);
    }

    async fn reconnect(session: &Arc<Session<Self>>) -> Option<Served> {
        let publishing = &session.protocol;
        let first = publishing.number + 1 + publishing.reconnects.fetch_add(1, Ordering::Relaxed);
        let opened = publishing.connector.connect(first).await.ok()?;
        publishing.node.end();
        // The condition of another failure lasts until a message is acknowledged.
        publishing.routes.read().iter().for_each(|route| route.held_up.end_only(ConditionKind::Connecting));
        let served = publishing.serve(opened);
        session.install(served.transport.clone(), WriteBuffer::default());
        Some(served)
    }

    fn lost(&self, reason: &str) -> SubmitError {
        let message = format!("the connection to Redis at {} was lost: {reason}", self.address.lock());
        self.node.begin(ConditionKind::Connecting, &message);
        SubmitError { class: FailureClass::ConnectionLost, message }
    }

    fn take_pending(in_flight: &mut InFlight) -> Vec<Sent> {
        let taken = in_flight.take_overdue(|_| true);
        in_flight.awaited.clear();
        (in_flight.waits, in_flight.uncovered) = (false, false);
        taken
    }

    fn fail(&self, messages: Vec<Sent>, error: &SubmitError) {
        let failure = ClientError::passing(error.class, error.message.clone());
        self.record(&mut messages.into_iter().map(|sent| (sent, Some(failure.clone()))).collect());
    }

    fn check_interval(&self) -> Option<Duration> {
        Some((self.options.ack_timeout / 10).min(Duration::from_secs(1)))
    }

    fn fail_overdue(session: &Session<Self>) {
        let publishing = &session.protocol;
        let (now_ns, limit) = (publishing.recorder.now_ns(), publishing.options.ack_timeout);
        let is_overdue = |sent: &Sent| sent.send_tag.service_ns(now_ns) > limit.as_nanos() as u64;
        let late = session.state().protocol.take_overdue(is_overdue);
        if !late.is_empty() {
            let message = format!("no reply within {limit:?}");
            publishing.fail(late, &SubmitError { class: FailureClass::Timeout, message });
        }
    }
}

/// A producer of one topic, over a connection that it shares with others.
pub struct RedisProducer {
    connection: Arc<Connection>,
    route: Arc<Route>,
}

impl RedisProducer {
    pub fn new(connection: Arc<Connection>, topic: &str, held_up: Subject) -> Self {
        let publishing = &connection.session().protocol;
        let partition = publishing.recorder.partition(topic, None);
        let (command, arguments) = command(topic, &publishing.options);
        let mut routes = publishing.routes.write();
        let index = routes.len() as u32;
        let route = Arc::new(Route { index, command, arguments, partition, held_up });
        routes.push(route.clone());
        drop(routes);
        RedisProducer { connection, route }
    }
}

impl Producer for RedisProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let (route, publishing) = (&self.route, &self.connection.session().protocol);
        let write = |publishing: &Publishing, in_flight: &mut InFlight, out: &mut Vec<u8>| {
            publishing.publish(route, batch, in_flight, out);
            Offer::Taken(batch.len())
        };
        self.connection.submit(|| false, publishing.options.ack_timeout, write).await
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/redis/publish.rs"]
mod tests;
