//! A member of a channel: one connection to each nsqd, read and finished in bulk by the engine's own task.
//!
//! `ready` reads, and `take` only decodes: the engine reads the clock in between, so that no message gets a time before its
//! arrival.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::admin::Appeared;
use super::codec::{Frame, HEARTBEAT, ID_BYTES, Message, OK, command, decode};
use super::connect::{Connector, Role, Session, class_of, is_about_a_delivery, text};
use crate::broker::fraction::FractionSampler;
use crate::broker::{Consumer, Details, FailureClass, ReceiveError, Received, UNORDERED_PARTITION};
use crate::net::backoff::Backoff;
use crate::net::receiving::ReceivingConnection;

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
    address: String,
    line: Line,
}

enum Line {
    Up(ReceivingConnection),
    /// A task connects again.
    Down(JoinHandle<Session>),
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
        let source = |(address, session)| Source { address, line: Line::Up(connection(session)) };
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
            let line = connecting(&address, &self.connector, &self.role);
            self.sources.push(Source { address, line });
        }
        let mut ready = false;
        for source in &mut self.sources {
            if let Line::Down(coming) = &mut source.line {
                match Pin::new(coming).poll(context) {
                    Poll::Ready(Ok(session)) => source.line = Line::Up(connection(session)),
                    // It has panicked.
                    Poll::Ready(Err(_)) => {
                        source.reconnect(&self.connector, &self.role);
                        context.waker().wake_by_ref();
                    }
                    Poll::Pending => {}
                }
            }
            if let Line::Up(up) = &mut source.line {
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
            let Line::Up(up) = &self.sources[index].line else { continue };
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
        let message = format!("the connection to nsqd at {} was lost: {message}", source.address);
        self.errors.push_back(ReceiveError { class, message });
        source.reconnect(&self.connector, &self.role);
    }
}

impl Source {
    fn reconnect(&mut self, connector: &Arc<Connector>, role: &Role) {
        self.line = connecting(&self.address, connector, role);
    }
}

/// Connects in a task of its own, until that succeeds.
fn connecting(address: &str, connector: &Arc<Connector>, role: &Role) -> Line {
    let (connector, role, address) = (connector.clone(), role.clone(), address.to_owned());
    Line::Down(tokio::spawn(async move {
        let mut backoff = Backoff::RECONNECT;
        let held_up = connector.node(&address);
        loop {
            backoff.pause().await;
            match connector.connect(&address, &role).await {
                Ok(session) => return session,
                Err(error) => held_up.begin(error.condition(), &error.to_string()),
            }
        }
    }))
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
            let Line::Up(up) = &mut self.sources[index].line else { continue };
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
        self.sources.iter().all(|source| matches!(source.line, Line::Up(_)))
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
            match &mut source.line {
                // nsqd gives what is in flight here to another member, or keeps it.
                Line::Up(up) => {
                    command::close(&mut up.write_buffer.bytes);
                    // The connection ends now: a failed write changes nothing.
                    let _ = up.write_buffer.flush(&up.transport);
                }
                Line::Down(coming) => coming.abort(),
            }
        }
    }
}
