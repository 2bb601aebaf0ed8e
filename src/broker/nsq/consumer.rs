//! A member of a channel: one connection to each nsqd, read and finished in bulk by the engine's own task.
//!
//! `ready` reads, and `take` only decodes: the engine reads the clock in between, so that no message gets a time before its
//! arrival.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::admin::Appeared;
use super::codec::{Frame, HEARTBEAT, ID_BYTES, Message, OK, command, decode};
use super::connect::{ConnectError, Connector, Role, Session, class_of, is_about_a_delivery, text};
use crate::broker::fraction::FractionSampler;
use crate::broker::{Consumer, Details, FailureClass, ReceiveError, Received, UNORDERED_PARTITION};
use crate::measure::Subject;
use crate::net::receiving::{Line, Opener, ReceivingConnection};

/// A member of a channel.
pub struct NsqConsumer {
    sources: Vec<Source>,
    /// The source whose messages are taken first.
    turn: usize,
    connector: Arc<Connector>,
    role: Role,
    silence: Interval,
    /// Errors that the engine has not received yet.
    errors: VecDeque<ReceiveError>,
    answers: Answers,
    /// The nsqd that appear later, with nsqlookupd.
    appeared: Option<Appeared>,
}

/// How messages are answered, other than by finishing them at once.
struct Answers {
    requeue: FractionSampler,
    touch: FractionSampler,
}

/// A connection to one nsqd.
struct Source {
    node: Arc<Node>,
    line: Line<ReceivingConnection>,
}

/// An nsqd.
struct Node {
    address: String,
    connector: Arc<Connector>,
    role: Role,
    held_up: Subject,
}

impl Node {
    fn new(address: String, connector: &Arc<Connector>, role: &Role) -> Arc<Self> {
        let held_up = connector.node(&address);
        Arc::new(Node { address, connector: connector.clone(), role: role.clone(), held_up })
    }
}

impl Opener for Node {
    type Up = ReceivingConnection;
    type Error = ConnectError;

    async fn open(&self, _: usize) -> Result<ReceivingConnection, ConnectError> {
        let connected = self.connector.connect(&self.address, &self.role).await;
        match &connected {
            Ok(_) => self.held_up.end(),
            Err(error) => self.held_up.begin(error.condition(), &error.to_string()),
        }
        connected.map(connection)
    }
}

/// Why a connection cannot be read on.
struct ConnectionError {
    class: FailureClass,
    message: String,
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        ConnectionError { class: FailureClass::ConnectionLost, message: error.to_string() }
    }
}

fn connection(Session { transport, read_buffer, .. }: Session) -> ReceivingConnection {
    ReceivingConnection::new(transport, read_buffer)
}

impl NsqConsumer {
    /// Takes over sessions that have subscribed, one for each address.
    pub(super) fn new(
        sessions: Vec<(String, Session)>,
        connector: Arc<Connector>,
        role: Role,
        appeared: Option<Appeared>,
    ) -> Self {
        let mut silence = interval(connector.options().heartbeat);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let source = |(address, session)| Source {
            node: Node::new(address, &connector, &role),
            line: Line::new(0, connection(session)),
        };
        let sources = sessions.into_iter().map(source).collect();
        let options = connector.options();
        let answers =
            Answers { requeue: FractionSampler::new(options.requeue), touch: FractionSampler::new(options.touch) };
        NsqConsumer { sources, turn: 0, connector, role, silence, errors: VecDeque::new(), answers, appeared }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.errors.is_empty() {
            return Poll::Ready(());
        }
        while let Some(address) = self.appeared.as_mut().and_then(|appeared| appeared.poll(context)) {
            let node = Node::new(address, &self.connector, &self.role);
            self.sources.push(Source { line: Line::opening(0, &node), node });
        }
        let mut ready = false;
        for source in &mut self.sources {
            if let Some(up) = source.line.poll(context, &source.node) {
                ready |= up.poll(context);
            }
        }
        // What came while the engine was at work has been read.
        if self.silence.poll_tick(context).is_ready() {
            self.check_silence();
            ready |= !self.errors.is_empty();
            // Registers the waker for the next tick.
            let _ = self.silence.poll_tick(context);
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }

    fn check_silence(&mut self) {
        let most = 2 * self.connector.options().heartbeat;
        for index in 0..self.sources.len() {
            let Some(up) = self.sources[index].line.up() else { continue };
            let quiet = up.silence();
            if quiet > most {
                let broken = ConnectionError {
                    class: FailureClass::ConnectionLost,
                    message: format!("no heartbeat for {quiet:?}"),
                };
                self.lose(index, broken);
            }
        }
    }

    /// Reports the loss and connects again.
    fn lose(&mut self, index: usize, ConnectionError { class, message }: ConnectionError) {
        let source = &mut self.sources[index];
        let message = format!("the connection to nsqd at {} was lost: {message}", source.node.address);
        self.errors.push_back(ReceiveError { class, message });
        source.line.reopen(&source.node);
    }
}

impl Consumer for NsqConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| self.poll_ready(context)).await;
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let mut taken = 0;
        let (count, first) = (self.sources.len(), self.turn);
        for step in 0..count {
            if taken >= most {
                // The next call begins with the source that had no turn.
                self.turn = (first + step) % count;
                break;
            }
            let index = (first + step) % count;
            let Some(up) = self.sources[index].line.up() else { continue };
            if let Err(broken) = take(up, most, &mut taken, &mut self.answers, &mut each) {
                self.lose(index, broken);
            }
        }
        match self.errors.pop_front() {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }

    fn is_connected(&self) -> bool {
        self.sources.iter().all(|source| source.line.is_up())
    }
}

/// NSQ's messages carry the time when nsqd received them, and neither keys nor headers.
#[derive(Debug)]
struct MessageDetails {
    timestamp_ns: i64,
}

impl Details for MessageDetails {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        u64::try_from(self.timestamp_ns).ok()
    }
}

/// Hands over and answers the messages that were read, until `most` are taken.
fn take(
    up: &mut ReceivingConnection,
    most: usize,
    taken: &mut usize,
    answers: &mut Answers,
    each: &mut impl FnMut(Received<'_>),
) -> Result<(), ConnectionError> {
    if std::mem::take(&mut up.unread) {
        decode_all(up, most, taken, answers, each)?;
        up.unread = *taken >= most;
        // The rest is written when the socket is writable.
        up.write_buffer.flush(&up.transport)?;
    }
    if up.unread {
        return Ok(());
    }
    up.end.take().map_or(Ok(()), |end| Err(end.into()))
}

fn decode_all(
    up: &mut ReceivingConnection,
    most: usize,
    taken: &mut usize,
    answers: &mut Answers,
    each: &mut impl FnMut(Received<'_>),
) -> Result<(), ConnectionError> {
    let malformed = |error: super::codec::Malformed| ConnectionError::from(io::Error::other(error));
    while *taken < most
        && let Some(frame) = up.read_buffer.next(decode).map_err(malformed)?
    {
        match frame {
            Frame::Message(Message { timestamp_ns, attempts, id, body }) => {
                each(Received {
                    payload: body,
                    trace_header: None,
                    partition: UNORDERED_PARTITION,
                    offset: 0,
                    redelivered: attempts > 1,
                    details: &MessageDetails { timestamp_ns },
                });
                answers.put(&mut up.write_buffer.bytes, id, attempts);
                *taken += 1;
            }
            Frame::Response(HEARTBEAT) => command::nothing(&mut up.write_buffer.bytes),
            Frame::Response(OK) => {}
            Frame::Response(other) => {
                return Err(ConnectionError::from(io::Error::other(format!("unexpected response: {}", text(other)))));
            }
            Frame::Error(error) if is_about_a_delivery(error) => {}
            Frame::Error(error) => return Err(ConnectionError { class: class_of(error), message: text(error) }),
        }
    }
    Ok(())
}

impl Answers {
    /// Finishes the message, or gives it back. One that was given back before is finished.
    fn put(&mut self, out: &mut Vec<u8>, id: &[u8; ID_BYTES], attempts: u16) {
        if self.touch.takes_next() {
            command::touch(out, id);
        }
        if attempts == 1 && self.requeue.takes_next() {
            command::requeue(out, id, 0);
        } else {
            command::finish(out, id);
        }
    }
}

impl Drop for NsqConsumer {
    fn drop(&mut self) {
        for source in &mut self.sources {
            if let Some(up) = source.line.up() {
                // nsqd gives what is in flight here to another member, or keeps it.
                command::close(&mut up.write_buffer.bytes);
                // The connection ends now: a failed write changes nothing.
                let _ = up.write_buffer.flush(&up.transport);
            }
        }
    }
}
