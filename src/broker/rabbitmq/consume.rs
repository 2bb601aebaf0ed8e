//! A member of a group: a connection with one consumer of the group's queue, read by the engine's own task.
//!
//! `ready` reads, and `take` only decodes: the engine reads the clock in between. What the engine has taken is acknowledged when it comes back
//! for more, that is after its consumer has done its work.

use std::future::poll_fn;
use std::mem;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::codec::{
    Frame, HEARTBEAT, Method, append_acknowledgement, append_channel_open, append_close, append_consume,
    append_requeue, decode,
};
use super::config::{Acknowledge, RabbitmqOptions};
use super::connect::{ConnectError, Connector, Opened, Role, refusal, text};
use super::content::{Arrived, Arriving, MessageDetails, trace_header};
use crate::broker::fraction::FractionSampler;
use crate::broker::{ClientError, Consumer, FailureClass, ReceiveError, Received, Setup};
use crate::net::backoff::Backoff;
use crate::net::connect::within;
use crate::net::receiving::ReceivingConnection;
use crate::net::transport::WriteBuffer;

/// The only channel of a consumer's connection.
const CHANNEL: u16 = 1;

/// What a group's member consumes, and from where.
#[derive(Clone)]
pub struct Consuming {
    pub connector: Arc<Connector>,
    /// The place among the addresses of the server that it begins with.
    pub place: usize,
    pub queue: String,
}

impl Consuming {
    /// # Errors
    /// When no server answers, or the queue is not there, or refuses the consumer.
    async fn open(&self, attempt: usize) -> Result<Up, ClientError> {
        let Setup { options, timeout, .. } = &*self.connector.setup;
        let (mut opened, _) = self.connector.connect(Role::Consumer, self.place + attempt).await?;
        let subscribe = async {
            let mut out = WriteBuffer::default();
            append_channel_open(&mut out.bytes, CHANNEL, false);
            let no_ack = options.acknowledge == Acknowledge::Automatic;
            append_consume(&mut out.bytes, CHANNEL, &self.queue, options.prefetch.get(), no_ack)?;
            let answer = |frame: Frame<'_>| match frame {
                Frame::Method(_, Method::ConsumeOk) => Ok(Some(())),
                Frame::Method(_, Method::Close { code, text }) => {
                    Err(ConnectError::Refused(refusal(code, self::text(text))))
                }
                _ => Ok(None),
            };
            opened.ask(&mut out, answer).await
        };
        within(*timeout, subscribe).await?;
        Ok(Up::new(opened))
    }

    /// Opens it again until `broker.rabbitmq.reconnect` is over: a queue has no leader for a while when its node is gone.
    async fn open_again(self) -> Result<Up, ClientError> {
        let until = Instant::now() + self.connector.setup.options.reconnect;
        let (mut backoff, mut attempt) = (Backoff::RECONNECT, 0);
        loop {
            attempt += 1;
            match self.open(attempt).await {
                Err(error) if !error.lasting && Instant::now() < until => backoff.pause().await,
                opened => return opened,
            }
        }
    }
}

/// A consumer of one queue.
pub struct RabbitmqConsumer {
    consuming: Consuming,
    line: Line,
    answers: Answers,
}

enum Line {
    Up(Up),
    Opening(BoxFuture<'static, Result<Up, ClientError>>),
    Ended,
}

/// A connection whose channel has a consumer.
struct Up {
    /// A task writes heartbeats to it while the engine's consumer works.
    connection: Arc<Mutex<ReceivingConnection>>,
    arriving: Arriving,
    /// Two of these without a sign of life end the connection.
    silence: Interval,
}

/// Acknowledgements of messages that the engine has taken.
struct Answers {
    acknowledge: Acknowledge,
    /// Messages that one command acknowledges; `None`: what was taken at once.
    every: Option<u16>,
    requeue: FractionSampler,
    /// Commands that wait for the engine to come back.
    commands: Vec<u8>,
    /// Messages that the next command acknowledges, and the last of them.
    count: u16,
    last_tag: u64,
}

impl Answers {
    fn new(options: &RabbitmqOptions) -> Self {
        Answers {
            acknowledge: options.acknowledge,
            every: options.acknowledge_every.map(NonZeroU16::get),
            requeue: FractionSampler::new(options.requeue),
            commands: Vec::new(),
            count: 0,
            last_tag: 0,
        }
    }

    /// A message was taken.
    fn take(&mut self, delivery_tag: u64, redelivered: bool) {
        if self.acknowledge == Acknowledge::Automatic {
            return;
        }
        if !redelivered && self.requeue.takes_next() {
            append_requeue(&mut self.commands, CHANNEL, delivery_tag);
        } else if self.acknowledge == Acknowledge::Each {
            append_acknowledgement(&mut self.commands, CHANNEL, delivery_tag, false);
        } else {
            (self.count, self.last_tag) = (self.count.saturating_add(1), delivery_tag);
            if Some(self.count) == self.every {
                self.end_batch();
            }
        }
    }

    /// Acknowledges what waits for others.
    fn end_batch(&mut self) {
        if mem::take(&mut self.count) > 0 {
            // What was given back before is not among them any more.
            append_acknowledgement(&mut self.commands, CHANNEL, self.last_tag, true);
        }
    }

    /// The commands for what the engine has done its work on.
    fn drain_to(&mut self, out: &mut Vec<u8>) {
        if self.every.is_none() {
            self.end_batch();
        }
        out.append(&mut self.commands);
    }

    /// The connection was lost: the server delivers again.
    fn clear(&mut self) {
        self.commands.clear();
        self.count = 0;
    }
}

impl Up {
    fn new(Opened { transport, read_buffer, heartbeat, .. }: Opened) -> Self {
        let connection = Arc::new(Mutex::new(ReceivingConnection::new(transport, read_buffer)));
        let mut silence = interval(heartbeat);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (weak, mut beat) = (Arc::downgrade(&connection), interval(heartbeat / 2));
        tokio::spawn(async move {
            loop {
                beat.tick().await;
                let Some(connection) = weak.upgrade() else { return };
                let ReceivingConnection { transport, write_buffer, .. } = &mut *connection.lock();
                write_buffer.bytes.extend_from_slice(HEARTBEAT);
                // An error shows when the connection is read.
                let _ = write_buffer.flush(transport);
            }
        });
        Up { connection, arriving: Arriving::default(), silence }
    }

    /// Hands over messages that were read, until `most` are taken.
    fn take(
        &mut self,
        most: usize,
        answers: &mut Answers,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<usize, ClientError> {
        let ReceivingConnection { read_buffer, unread, end, .. } = &mut *self.connection.lock();
        let mut taken = 0;
        while taken < most {
            let Some(frame) = read_buffer.next(decode).map_err(|error| ClientError::lost(error.to_string()))? else {
                *unread = false;
                return end.take().map_or(Ok(taken), |end| Err(ClientError::lost(end.to_string())));
            };
            match frame {
                Frame::Method(_, Method::Close { code, text }) => return Err(refusal(code, self::text(text))),
                Frame::Method(_, Method::Cancel) => {
                    let words = "the server has cancelled the consumer: its queue was deleted or has lost its node";
                    return Err(ClientError::passing(FailureClass::UnknownTopic, words));
                }
                _ => {}
            }
            let arrived = self.arriving.take(frame).map_err(|error| ClientError::lost(error.to_string()))?;
            let Some(Arrived { delivery_tag, redelivered, properties, body }) = arrived else { continue };
            let sealed = trace_header(properties);
            each(Received {
                payload: body,
                trace_header: sealed.as_ref().map(<[u8; _]>::as_slice),
                partition: 0,
                offset: 0,
                redelivered,
                details: &MessageDetails(properties),
            });
            answers.take(delivery_tag, redelivered);
            taken += 1;
        }
        Ok(taken)
    }
}

impl RabbitmqConsumer {
    /// # Errors
    /// When the consumer cannot be opened.
    pub async fn open(consuming: Consuming) -> Result<Self, ClientError> {
        let line = Line::Up(consuming.open(0).await?);
        let answers = Answers::new(&consuming.connector.setup.options);
        Ok(RabbitmqConsumer { consuming, line, answers })
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReceiveError>> {
        if let Line::Opening(opening) = &mut self.line {
            match ready!(opening.poll_unpin(context)) {
                Ok(up) => self.line = Line::Up(up),
                Err(error) => {
                    self.line = Line::Ended;
                    return Poll::Ready(Err(error.receiving()));
                }
            }
        }
        let Line::Up(up) = &mut self.line else { return Poll::Pending };
        let mut connection = up.connection.lock();
        self.answers.drain_to(&mut connection.write_buffer.bytes);
        if connection.poll(context) {
            return Poll::Ready(Ok(()));
        }
        let quiet = connection.silence();
        drop(connection);
        while up.silence.poll_tick(context).is_ready() {
            if quiet > 2 * up.silence.period() {
                return Poll::Ready(Err(self.lose(ClientError::lost(format!("no sign of life for {quiet:?}")))));
            }
        }
        Poll::Pending
    }

    /// Opens the consumer again.
    fn lose(&mut self, error: ClientError) -> ReceiveError {
        self.answers.clear();
        self.line = Line::Opening(self.consuming.clone().open_again().boxed());
        error.receiving()
    }
}

impl Consumer for RabbitmqConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let Line::Up(up) = &mut self.line else { return Ok(0) };
        up.take(most, &mut self.answers, &mut each).map_err(|error| self.lose(error))
    }

    fn is_connected(&self) -> bool {
        matches!(self.line, Line::Up(_))
    }

    /// What is not acknowledged is delivered again, to a consumer that the trial does not have any more.
    async fn close(mut self) {
        let Line::Up(up) = &mut self.line else { return };
        self.answers.end_batch();
        self.answers.drain_to(&mut up.connection.lock().write_buffer.bytes);
        append_close(&mut up.connection.lock().write_buffer.bytes);
        poll_fn(|context| {
            let connection = &mut *up.connection.lock();
            while connection.poll(context) {
                // The server answers when it has read everything before, or ends the connection.
                match connection.read_buffer.next(decode) {
                    Ok(Some(Frame::Method(0, Method::CloseOk))) | Err(_) => return Poll::Ready(()),
                    Ok(Some(_)) => {}
                    Ok(None) if connection.end.is_some() => return Poll::Ready(()),
                    Ok(None) => connection.unread = false,
                }
            }
            Poll::Pending
        })
        .await;
    }
}
