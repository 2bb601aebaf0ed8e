//! A member of a group, over a connection of its own: it reads a stream as a member of a consumer group, listens to a channel, or takes from a list.
//!
//! `ready` writes commands and reads, and `take` only decodes: the engine reads the clock in between.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::codec::{Malformed, Token, decode, value};
use super::config::Mode;
use super::connect::{Connector, Opened};
use super::reply::{Entry, Expected, Head, Messages, Reading, Replies, head, offset, published, unexpected};
use super::source::{BLOCK, Source};
use crate::broker::{ClientError, Consumer, NoDetails, ReceiveError, Received, TRACE_HEADER_NAME};
use crate::net::connect::within;
use crate::net::receiving::{Line, Opener, ReceivingConnection};

/// How long the last acknowledgements may take.
const CLOSING: Duration = Duration::from_secs(5);

/// A member of a group.
pub struct RedisConsumer {
    listener: Arc<Listener>,
    source: Source,
    line: Line<Up>,
    silence: Interval,
    failure: Option<ReceiveError>,
}

/// Opens connections that listen already, if they are to.
struct Listener {
    connector: Arc<Connector>,
    /// The commands that make one listen.
    subscribe: Vec<u8>,
}

impl Listener {
    async fn connect(&self, number: usize) -> Result<Opened, ClientError> {
        let mut opened = self.connector.connect(number).await?;
        if !self.subscribe.is_empty() {
            within(self.connector.timeout, opened.ask_encoded(&self.subscribe)).await?;
        }
        Ok(opened)
    }
}

impl Opener for Listener {
    type Up = Up;
    type Error = ClientError;

    async fn open(&self, number: usize) -> Result<Up, ClientError> {
        self.connect(number).await.map(|opened| Up::new(opened, Replies::after_loss()))
    }
}

/// A connection, and the reply that is read from it.
struct Up {
    address: String,
    connection: ReceivingConnection,
    replies: Replies,
}

impl RedisConsumer {
    /// Begins to receive; a channel is listened to when it returns.
    ///
    /// # Errors
    /// When no server answers, or it refuses to let the client listen.
    pub async fn connect(connector: Arc<Connector>, number: usize, source: Source) -> Result<Self, ClientError> {
        let listener = Listener { connector, subscribe: source.subscribe.clone() };
        let line = Line::new(number, Up::new(listener.connect(number).await?, Replies::default()));
        let mut silence = interval(BLOCK);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(RedisConsumer { listener: Arc::new(listener), source, line, silence, failure: None })
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.failure.is_some() {
            return Poll::Ready(());
        }
        let Some(up) = self.line.poll(context, &self.listener) else { return Poll::Pending };
        self.source.write(context, &mut up.replies, &mut up.connection.write_buffer.bytes);
        if up.connection.poll(context) {
            return Poll::Ready(());
        }
        while self.silence.poll_tick(context).is_ready() {
            let quiet = up.connection.silence();
            if quiet > 3 * BLOCK {
                self.lose(&ClientError::lost(format!("no reply for {quiet:?}")));
                return Poll::Ready(());
            }
            if self.source.mode == Mode::Pubsub {
                up.connection.write_buffer.bytes.extend_from_slice(&self.source.request);
                context.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Reports the loss and connects again, to the next server.
    fn lose(&mut self, reason: &ClientError) {
        let Some(up) = self.line.up() else { return };
        let mut message = format!("the connection to Redis at {} was lost: {}", up.address, reason.message);
        if self.source.mode == Mode::Pubsub {
            message += " (a server also ends it when a subscriber reads more slowly than `client-output-buffer-limit` allows; what was published \
                meanwhile is not received)";
        }
        self.failure = Some(ReceiveError { class: reason.class, message });
        // What is not acknowledged stays with this member, which reads it again, or is claimed by another one.
        self.source.taken.clear();
        self.source.taken_count = 0;
        self.line.reopen(&self.listener);
    }
}

impl Consumer for RedisConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| self.poll_ready(context)).await;
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let mut taken = 0;
        if let Some(up) = self.line.up()
            && let Err(reason) = up.take(most, &mut taken, &mut self.source, &mut each)
        {
            match reason {
                Ended::Request(error) => self.failure = Some(error.receiving()),
                Ended::Connection(error) => self.lose(&error),
            }
        }
        // What was taken is reported first.
        match self.failure.take_if(|_| taken == 0) {
            Some(failure) => Err(failure),
            None => Ok(taken),
        }
    }

    fn is_connected(&self) -> bool {
        self.line.is_up()
    }

    async fn close(mut self) {
        if let Some(up) = self.line.up() {
            let ReceivingConnection { transport, write_buffer, .. } = &mut up.connection;
            self.source.write_acknowledgements(&mut up.replies, &mut write_buffer.bytes);
            let _ = timeout(CLOSING, write_buffer.flush_all(transport)).await;
        }
    }
}

/// What cannot go on.
enum Ended {
    Request(ClientError),
    Connection(ClientError),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Connection(ClientError::lost(error.to_string()))
    }
}

impl From<Malformed> for Ended {
    fn from(error: Malformed) -> Self {
        Ended::Connection(ClientError::lost(error.to_string()))
    }
}

impl Up {
    fn new(Opened { address, transport, read_buffer }: Opened, replies: Replies) -> Self {
        Up { address, connection: ReceivingConnection::new(transport, read_buffer), replies }
    }

    /// Hands over the messages that were read, until `most` are taken.
    fn take(
        &mut self,
        most: usize,
        taken: &mut usize,
        source: &mut Source,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<(), Ended> {
        while *taken < most {
            let is_whole = match (source.mode, self.replies.reading) {
                (Mode::Pubsub, _) => self.take_published(taken, each)?,
                (_, Reading::Begin) => self.begin(source)?,
                (_, Reading::Messages(Messages { left: 0, behind, .. })) => self.end(behind)?,
                (Mode::Streams, Reading::Messages(messages)) => self.take_entry(messages, taken, source, each)?,
                (Mode::List, Reading::Messages(messages)) => self.take_value(messages, taken, source, each)?,
            };
            if !is_whole {
                self.connection.unread = false;
                return self.connection.end.take().map_or(Ok(()), |end| Err(end.into()));
            }
        }
        Ok(())
    }

    /// Reads the head of the next reply. Returns whether it has arrived completely.
    fn begin(&mut self, source: &Source) -> Result<bool, Ended> {
        // Nothing is read of a reply that was not asked for.
        let expected = self.replies.expected.front().copied().unwrap_or(Expected::Done);
        let read = self.connection.read_buffer.next(|bytes, most| head(bytes, most, expected))?;
        let Some(begun) = read else { return Ok(false) };
        self.replies.begin(&begun);
        match begun {
            Head::Messages(messages) => {
                self.replies.is_full =
                    messages.left == source.count && !source.more.is_empty() && !messages.redelivered;
                self.replies.reading = Reading::Messages(messages);
            }
            Head::Done => self.replies.done(),
            Head::Refused(error) => {
                self.replies.done();
                return Err(Ended::Request(error));
            }
        }
        Ok(true)
    }

    /// Reads what is behind the messages of a reply. Returns whether it has arrived completely.
    fn end(&mut self, behind: bool) -> Result<bool, Malformed> {
        if behind && self.connection.read_buffer.next(value)?.is_none() {
            return Ok(false);
        }
        self.replies.done();
        Ok(true)
    }

    /// Takes an entry of a stream. Returns whether one has arrived completely.
    #[inline]
    fn take_entry(
        &mut self,
        messages: Messages,
        taken: &mut usize,
        source: &mut Source,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<bool, Malformed> {
        let Some(entry) = self.connection.read_buffer.next(Entry::decode)? else { return Ok(false) };
        self.replies.reading = Reading::Messages(Messages { left: messages.left - 1, ..messages });
        if !entry.is_deleted() {
            each(Received {
                payload: entry.payload(),
                trace_header: entry.field(TRACE_HEADER_NAME.as_bytes()),
                partition: 0,
                offset: offset(entry.id).unwrap_or(0),
                redelivered: messages.redelivered,
                details: &entry,
            });
            *taken += 1;
        }
        source.took(entry.id);
        Ok(true)
    }

    /// Takes a message of a list. Returns whether one has arrived completely.
    fn take_value(
        &mut self,
        messages: Messages,
        taken: &mut usize,
        source: &mut Source,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<bool, Malformed> {
        let Some(token) = self.connection.read_buffer.next(decode)? else { return Ok(false) };
        let Token::Bulk(payload) = token else { return Err(unexpected(token)) };
        self.replies.reading = Reading::Messages(Messages { left: messages.left - 1, ..messages });
        each(Received { redelivered: messages.redelivered, ..received(payload) });
        source.took(payload);
        *taken += 1;
        Ok(true)
    }

    /// Takes a message of a channel. Returns whether one has arrived completely.
    fn take_published(&mut self, taken: &mut usize, each: &mut impl FnMut(Received<'_>)) -> Result<bool, Malformed> {
        let Some(payload) = self.connection.read_buffer.next(published)? else { return Ok(false) };
        if let Some(payload) = payload {
            each(received(payload));
            *taken += 1;
        }
        Ok(true)
    }
}

fn received(payload: &[u8]) -> Received<'_> {
    Received { payload, trace_header: None, partition: 0, offset: 0, redelivered: false, details: &NoDetails }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/redis/consume.rs"]
mod tests;
