//! A member of a group: a connection with one consumer of the group's queue, read by the engine's own task.
//!
//! `ready` reads, and `take` only decodes: the engine reads the clock in between. What the engine has taken is acknowledged when it comes back
//! for more, that is after its consumer has done its work.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::codec::{
    Frame, HEARTBEAT, Method, append_acknowledgement, append_channel_open, append_close, append_consume,
    append_requeue, decode,
};
use super::config::{Acknowledge, RabbitmqOptions};
use super::connect::refusal;
use super::content::{MessageDetails, trace_header};
use super::handshake::{Connector, Opened, text};
use crate::broker::fraction::FractionSampler;
use crate::broker::{ClientError, Consumer, FailureClass, ReceiveError, Received};
use crate::net::backoff::Backoff;
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};

/// How long the server may take for the last acknowledgements.
const CLOSING: Duration = Duration::from_secs(5);

/// The only channel of a consumer's connection.
const CHANNEL: u16 = 1;

/// What a group's member consumes, and how.
pub struct Consuming {
    pub connector: Arc<Connector>,
    /// The place among the addresses of the server that it begins with.
    pub place: usize,
    pub queue: String,
    pub options: RabbitmqOptions,
    /// How long to wait for an answer.
    pub timeout: Duration,
}

impl Consuming {
    /// # Errors
    /// When no server answers, or the queue is not there, or refuses the consumer.
    async fn open(&self, attempt: usize) -> Result<Up, ClientError> {
        let (opened, _) = self.connector.connect("consumer", self.place + attempt).await?;
        let late = |_| ClientError::late(format!("no consumer within {:?}", self.timeout));
        timeout(self.timeout, self.subscribe(opened)).await.map_err(late)?
    }

    async fn subscribe(&self, opened: Opened) -> Result<Up, ClientError> {
        let Opened { transport, mut read_buffer, heartbeat, .. } = opened;
        let mut out = WriteBuffer::default();
        append_channel_open(&mut out.bytes, CHANNEL, false);
        let no_ack = self.options.acknowledge == Acknowledge::Automatic;
        append_consume(&mut out.bytes, CHANNEL, &self.queue, self.options.prefetch.get(), no_ack)
            .map_err(|error| ClientError::lasting(FailureClass::Other, error.to_string()))?;
        let broken = |error: io::Error| ClientError::lost(error.to_string());
        out.flush_all(&transport).await.map_err(broken)?;
        loop {
            match read_buffer.next(decode).map_err(|error| broken(io::Error::other(error)))? {
                Some(Frame::Method(_, Method::ConsumeOk)) => return Ok(Up::new(transport, read_buffer, heartbeat)),
                Some(Frame::Method(_, Method::Close { code, text })) => return Err(refusal(code, self::text(text))),
                Some(_) => {}
                None => {
                    transport.readable().await.map_err(broken)?;
                    read_buffer.fill(&transport).map_err(broken)?;
                }
            }
        }
    }

    /// Opens it again until `broker.rabbitmq.reconnect` is over: a queue has no leader for a while when its node is gone.
    async fn open_again(self: Arc<Self>) -> Result<Up, ClientError> {
        let until = Instant::now() + self.options.reconnect;
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
    consuming: Arc<Consuming>,
    line: Line,
    silence: Interval,
    /// What the engine has not been told yet.
    error: Option<ClientError>,
    answers: Answers,
}

enum Line {
    Up(Box<Up>),
    Opening(BoxFuture<'static, Result<Up, ClientError>>),
    Ended,
}

/// A connection whose channel has a consumer.
struct Up {
    writer: Arc<Writer>,
    heartbeats: AbortHandle,
    read_buffer: ReadBuffer,
    /// Two of these without a sign of life end the connection.
    heartbeat: Duration,
    heard: Instant,
    /// Something was read that was not decoded yet.
    unread: bool,
    /// Why the connection ended.
    end: Option<ClientError>,
    arriving: Arriving,
}

/// What the consumer and the task of its heartbeats write to.
struct Writer {
    transport: Transport,
    buffer: Mutex<WriteBuffer>,
}

/// The message whose frames arrive.
#[derive(Default)]
struct Arriving {
    delivery_tag: u64,
    redelivered: bool,
    properties: Vec<u8>,
    body_bytes: u64,
    /// The parts of a body of several frames.
    body: Vec<u8>,
}

/// Acknowledgements of messages that the engine has taken.
struct Answers {
    acknowledge: Acknowledge,
    /// Messages that one command acknowledges; `None`: what was taken at once.
    every: Option<u16>,
    requeue: FractionSampler,
    requeues: bool,
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
            requeues: options.requeue > 0.0,
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
        } else if self.acknowledge == Acknowledge::Each || (self.requeues && self.every.is_none()) {
            // What goes back divides what is acknowledged at once.
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
    fn new(transport: Transport, read_buffer: ReadBuffer, heartbeat: Duration) -> Self {
        let writer = Arc::new(Writer { transport, buffer: Mutex::default() });
        let heartbeats = tokio::spawn(beat(writer.clone(), heartbeat)).abort_handle();
        // The server may have sent messages together with its last answer.
        Up {
            writer,
            heartbeats,
            read_buffer,
            heartbeat,
            heard: Instant::now(),
            unread: true,
            end: None,
            arriving: Arriving::default(),
        }
    }

    /// Writes what waits, and reads once. Returns whether there is something to take.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut buffer = self.writer.buffer.lock();
        while buffer.unwritten() > 0 && self.writer.transport.poll_writable(context).is_ready() {
            // An error shows again when the connection is read.
            if buffer.flush(&self.writer.transport).is_err() {
                break;
            }
        }
        drop(buffer);
        while !self.unread && self.end.is_none() && self.writer.transport.poll_readable(context).is_ready() {
            match self.read_buffer.fill(&self.writer.transport) {
                // It was not readable after all: the next poll registers the waker again.
                Ok(0) => {}
                Ok(_) => {
                    self.heard = Instant::now();
                    self.unread = true;
                }
                Err(error) => self.end = Some(ClientError::lost(error.to_string())),
            }
        }
        self.unread || self.end.is_some()
    }

    /// Hands over messages that were read, until `most` are taken.
    fn take(
        &mut self,
        most: usize,
        answers: &mut Answers,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<usize, ClientError> {
        let Up { read_buffer, arriving, unread, end, .. } = self;
        let mut taken = 0;
        while *unread && taken < most {
            let frame = read_buffer.next(decode).map_err(|error| ClientError::lost(error.to_string()))?;
            let whole = match frame {
                Some(Frame::Method(_, Method::Deliver { delivery_tag, redelivered })) => {
                    (arriving.delivery_tag, arriving.redelivered) = (delivery_tag, redelivered);
                    continue;
                }
                Some(Frame::Header(_, body_bytes, properties)) => {
                    arriving.begin(body_bytes, properties);
                    if body_bytes > 0 {
                        continue;
                    }
                    &[]
                }
                Some(Frame::Body(_, part)) if arriving.is_whole(part) => part,
                Some(Frame::Body(_, part)) => {
                    arriving.body.extend_from_slice(part);
                    if (arriving.body.len() as u64) < arriving.body_bytes {
                        continue;
                    }
                    &arriving.body[..]
                }
                Some(Frame::Method(_, Method::Close { code, text })) => return Err(refusal(code, self::text(text))),
                Some(Frame::Method(_, Method::Cancel)) => {
                    let words = "the server has cancelled the consumer: its queue was deleted or has lost its node";
                    return Err(ClientError::passing(FailureClass::UnknownTopic, words));
                }
                Some(Frame::Method(..) | Frame::Heartbeat) => continue,
                None => {
                    *unread = false;
                    continue;
                }
            };
            let sealed = trace_header(&arriving.properties);
            each(Received {
                payload: whole,
                trace_header: sealed.as_ref().map(<[u8; _]>::as_slice),
                partition: 0,
                offset: 0,
                redelivered: arriving.redelivered,
                details: &MessageDetails(&arriving.properties),
            });
            answers.take(arriving.delivery_tag, arriving.redelivered);
            taken += 1;
        }
        match end.take_if(|_| !*unread && taken == 0) {
            Some(end) => Err(end),
            None => Ok(taken),
        }
    }
}

impl Arriving {
    fn begin(&mut self, body_bytes: u64, properties: &[u8]) {
        self.body_bytes = body_bytes;
        self.body.clear();
        self.properties.clear();
        self.properties.extend_from_slice(properties);
    }

    /// Whether this part is the whole body.
    fn is_whole(&self, part: &[u8]) -> bool {
        part.len() as u64 == self.body_bytes
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.heartbeats.abort();
    }
}

/// Says that the client lives, also while its consumer works.
async fn beat(writer: Arc<Writer>, heartbeat: Duration) {
    let mut beat = interval(heartbeat / 2);
    loop {
        beat.tick().await;
        let mut buffer = writer.buffer.lock();
        buffer.bytes.extend_from_slice(HEARTBEAT);
        // An error shows when the connection is read.
        let _ = buffer.flush(&writer.transport);
    }
}

impl RabbitmqConsumer {
    /// # Errors
    /// When the consumer cannot be opened.
    pub async fn open(consuming: Consuming) -> Result<Self, ClientError> {
        let line = Line::Up(Box::new(consuming.open(0).await?));
        let answers = Answers::new(&consuming.options);
        let mut silence = interval(consuming.options.heartbeat);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(RabbitmqConsumer { consuming: Arc::new(consuming), line, silence, error: None, answers })
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.error.is_some() {
                return Poll::Ready(());
            }
            let is_beat = self.silence.poll_tick(context).is_ready();
            match &mut self.line {
                Line::Up(up) => {
                    self.answers.drain_to(&mut up.writer.buffer.lock().bytes);
                    if up.poll(context) {
                        return Poll::Ready(());
                    }
                    // What came while the engine was at work has been read.
                    let quiet = up.heard.elapsed();
                    if is_beat && quiet > 2 * up.heartbeat {
                        self.lose(ClientError::lost(format!("no sign of life for {quiet:?}")));
                        continue;
                    }
                }
                Line::Opening(opening) => match ready!(opening.poll_unpin(context)) {
                    Ok(up) => {
                        self.line = Line::Up(Box::new(up));
                        continue;
                    }
                    Err(error) => {
                        self.error = Some(error);
                        self.line = Line::Ended;
                        continue;
                    }
                },
                Line::Ended => {}
            }
            if !is_beat {
                return Poll::Pending;
            }
        }
    }

    /// Reports the loss, and opens the consumer again.
    fn lose(&mut self, error: ClientError) {
        self.answers.clear();
        self.error = Some(error);
        self.line = Line::Opening(self.consuming.clone().open_again().boxed());
    }
}

impl Consumer for RabbitmqConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| self.poll_ready(context)).await;
        self.error.take().map_or(Ok(()), |error| Err(error.receiving()))
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        self.take_some(usize::MAX, each)
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let Line::Up(up) = &mut self.line else { return Ok(0) };
        up.take(most, &mut self.answers, &mut each).map_err(|error| {
            let reported = error.receiving();
            self.lose(error);
            self.error = None;
            reported
        })
    }

    async fn close(mut self) {
        let Line::Up(up) = &mut self.line else { return };
        self.answers.end_batch();
        let mut out = WriteBuffer::default();
        mem::swap(&mut out, &mut *up.writer.buffer.lock());
        self.answers.drain_to(&mut out.bytes);
        append_close(&mut out.bytes);
        let closing = async {
            out.flush_all(&up.writer.transport).await?;
            // The server answers when it has read everything before, or ends the connection.
            loop {
                while let Some(frame) = up.read_buffer.next(decode).map_err(io::Error::other)? {
                    if frame == Frame::Method(0, Method::CloseOk) {
                        return Ok::<_, io::Error>(());
                    }
                }
                up.writer.transport.readable().await?;
                up.read_buffer.fill(&up.writer.transport)?;
            }
        };
        // What is not acknowledged is delivered again, to a consumer that the trial does not have any more.
        let _ = timeout(CLOSING, closing).await;
    }
}
