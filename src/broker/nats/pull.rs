//! A member of a group that pulls messages of a stream over a connection of its own (docs.nats.io, "JetStream wire API reference", and
//! nats-io/nats-architecture-and-design, ADR-37): it asks for a number of messages, and asks again when half of them have come.
//!
//! `ready` writes acknowledgements and reads, and `take` only decodes: the engine reads the clock in between.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::codec::{Answer, Frame, HEADERS, decode, header_fields, number};
use super::config::Acknowledge;
use super::connect::{Connector, Opened, parse, refusal, text};
use crate::broker::{ClientError, Consumer, Details, FailureClass, ReceiveError, Received, TRACE_HEADER_NAME};
use crate::limits::TRACE_HEADER_BYTES;
use crate::net::receiving::{Line, Opener, ReceivingConnection};

/// Longest message, its headers included: nats-server allows a `max_payload` of 64 MiB.
const MAX_MESSAGE_BYTES: usize = (64 << 20) + (1 << 20);

/// How long the server keeps a request that it has no messages for.
const EXPIRY: Duration = Duration::from_secs(30);

/// How often the server tells that it keeps one. Twice without, and the connection is given up.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long the last acknowledgements may take.
const CLOSING: Duration = Duration::from_secs(5);

/// A member of a group.
pub struct PullConsumer {
    inbox: Arc<Inbox>,
    requests: Requests,
    line: Line<Up>,
    silence: Interval,
    failure: Option<ReceiveError>,
}

/// Where a member's messages arrive, on every connection.
struct Inbox {
    connector: Arc<Connector>,
    subject: Vec<u8>,
}

impl Opener for Inbox {
    type Up = Up;
    type Error = ClientError;

    async fn open(&self, number: usize) -> Result<Up, ClientError> {
        self.connector.connect(number, &self.subject, MAX_MESSAGE_BYTES).await.map(Up::new)
    }
}

/// A connection.
struct Up {
    address: String,
    connection: ReceivingConnection,
}

/// What a member asks for, and acknowledges.
struct Requests {
    /// Subject of the requests.
    subject: String,
    /// The consumer's name, for people.
    durable: String,
    policy: Acknowledge,
    /// Messages that are asked for at once.
    batch: u64,
    /// Of those asked for, the ones that have not come.
    pending: u64,
    /// Acknowledgements of messages that were taken.
    acknowledgements: Vec<u8>,
}

impl PullConsumer {
    /// A member of the durable consumer of this stream.
    ///
    /// # Errors
    /// When no server can be connected to.
    pub async fn connect(
        connector: Arc<Connector>,
        number: usize,
        (stream, durable): (&str, String),
        (policy, batch): (Acknowledge, u32),
    ) -> Result<Self, ClientError> {
        let inbox = Inbox { connector, subject: format!("_INBOX.{:032x}.", rand::random::<u128>()).into_bytes() };
        let line = Line::new(number, inbox.open(number).await?);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}");
        let requests =
            Requests { subject, durable, policy, batch: batch.into(), pending: 0, acknowledgements: Vec::new() };
        let mut silence = interval(HEARTBEAT);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(PullConsumer { inbox: Arc::new(inbox), requests, line, silence, failure: None })
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.failure.is_some() {
            return Poll::Ready(());
        }
        let Some(up) = self.line.poll(context, &self.inbox) else { return Poll::Pending };
        self.requests.write(&self.inbox.subject, &mut up.connection.write_buffer.bytes);
        if up.connection.poll(context) {
            return Poll::Ready(());
        }
        while self.silence.poll_tick(context).is_ready() {
            let quiet = up.connection.silence();
            if quiet > 2 * HEARTBEAT {
                self.lose(ClientError::lost(format!("no heartbeat for {quiet:?}")));
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Reports the loss and connects again, to the next server.
    fn lose(&mut self, reason: ClientError) {
        let Some(up) = self.line.up() else { return };
        let message = format!("the connection to nats-server at {} was lost: {}", up.address, reason.message);
        self.failure = Some(ReceiveError { class: reason.class, message });
        self.requests.pending = 0;
        // What is not acknowledged is delivered again.
        self.requests.acknowledgements.clear();
        self.line.reopen(&self.inbox);
    }
}

impl Consumer for PullConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| self.poll_ready(context)).await;
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let mut taken = 0;
        if let Some(up) = self.line.up()
            && let Err(reason) = up.take(most, &mut taken, &mut self.requests, &self.inbox.connector, &mut each)
        {
            match reason {
                Ended::Request(error) => self.failure = Some(error.receiving()),
                Ended::Connection(error) => self.lose(error),
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
            write_buffer.bytes.append(&mut self.requests.acknowledgements);
            // The server delivers again what it does not hear of.
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

impl Up {
    fn new(Opened { address, transport, read_buffer, .. }: Opened) -> Self {
        Up { address, connection: ReceivingConnection::new(transport, read_buffer) }
    }

    /// Hands over the messages that were read, until `most` are taken.
    fn take(
        &mut self,
        most: usize,
        taken: &mut usize,
        requests: &mut Requests,
        connector: &Connector,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<(), Ended> {
        let ReceivingConnection { read_buffer, write_buffer, unread, end, .. } = &mut self.connection;
        while *taken < most {
            let Some(frame) = read_buffer.next(decode).map_err(|error| Ended::from(io::Error::other(error)))? else {
                *unread = false;
                return end.take().map_or(Ok(()), |end| Err(end.into()));
            };
            match frame {
                Frame::Message(message) => match Told::read(message.reply) {
                    Some(told) => {
                        let trace_header = trace_header(message.headers);
                        each(Received {
                            payload: message.payload,
                            trace_header: trace_header.as_ref().map(|header| &header[..]),
                            partition: 0,
                            offset: told.sequence,
                            redelivered: told.deliveries > 1,
                            details: &MessageDetails { told, headers: message.headers },
                        });
                        requests.took(message.reply);
                        *taken += 1;
                    }
                    None => requests.take_status(&message).map_err(Ended::Request)?,
                },
                Frame::Ping => write_buffer.bytes.extend_from_slice(b"PONG\r\n"),
                Frame::Info(json) => connector.learn(&parse(json).map_err(io::Error::other)?),
                Frame::Error(error) => return Err(Ended::Connection(refusal(error))),
                Frame::Pong | Frame::Ok => {}
            }
        }
        Ok(())
    }
}

impl Requests {
    /// Appends the acknowledgements of what was taken, and the next request when half of the last one has come.
    fn write(&mut self, inbox: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.acknowledgements);
        if self.pending > self.batch / 2 {
            return;
        }
        let (batch, expires, heartbeat) = (self.batch - self.pending, EXPIRY.as_nanos(), HEARTBEAT.as_nanos());
        let request = format!(r#"{{"batch":{batch},"expires":{expires},"idle_heartbeat":{heartbeat}}}"#);
        let inbox = String::from_utf8_lossy(inbox);
        out.extend_from_slice(format!("PUB {} {inbox}0 {}\r\n{request}\r\n", self.subject, request.len()).as_bytes());
        self.pending += batch;
    }

    /// Notes that a message was taken, which is acknowledged by this subject.
    #[inline]
    fn took(&mut self, reply: &[u8]) {
        self.pending = self.pending.saturating_sub(1);
        match self.policy {
            Acknowledge::Explicit => {}
            // It is one of all messages before it.
            Acknowledge::All => self.acknowledgements.clear(),
            Acknowledge::None => return,
        }
        self.acknowledgements.extend_from_slice(b"PUB ");
        self.acknowledgements.extend_from_slice(reply);
        self.acknowledgements.extend_from_slice(b" 4\r\n+ACK\r\n");
    }

    /// Handles the status of a request.
    ///
    /// # Errors
    /// When it is refused.
    fn take_status(&mut self, message: &Answer<'_>) -> Result<(), ClientError> {
        let line = message.headers.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = line.strip_prefix(HEADERS).unwrap_or_default().trim_ascii();
        let (code, words) = status.split_at(status.len().min(3));
        let words = text(words.trim_ascii());
        // Of the request that ended.
        let left = header_fields(message.headers).find(|(name, _)| *name == b"Nats-Pending-Messages");
        let left = left.and_then(|(_, value)| number(value)).unwrap_or(self.pending);
        let durable = &self.durable;
        let is_again = ["Leadership Change", "Server Shutdown", "Batch Completed"].contains(&&*words);
        let refused = |class, message| Err(ClientError::passing(class, message));
        match code {
            // A heartbeat.
            b"100" => return Ok(()),
            // It has waited long enough, or was handed to another server.
            b"404" | b"408" => {}
            b"409" if is_again => {}
            b"409" if words == "Consumer Deleted" => {
                self.pending = 0;
                return refused(FailureClass::UnknownTopic, format!("the consumer {durable} was deleted"));
            }
            b"503" => {
                self.pending = 0;
                let message = format!("no server answers for the consumer {durable}: it is gone, or has no leader");
                return refused(FailureClass::ConnectionLost, message);
            }
            _ => {
                self.pending = 0;
                return refused(FailureClass::Refused, format!("the server refuses to deliver: {}", text(status)));
            }
        }
        self.pending = self.pending.saturating_sub(left);
        Ok(())
    }
}

/// What JetStream writes about a message into the subject of its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    deliveries: u64,
    /// The message's number in its stream.
    sequence: u64,
    /// When the stream took it.
    stored_unix_ns: u64,
}

impl Told {
    /// From `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer's sequence>.<time>.<pending>`, which newer servers may write
    /// with `<domain>.<account>.` before the stream and further fields at the end (ADR-15).
    #[inline]
    fn read(reply: &[u8]) -> Option<Self> {
        let fields = reply.strip_prefix(b"$JS.ACK.")?;
        let dots = memchr::memchr_iter(b'.', fields).count();
        let mut fields = fields.split(|byte| *byte == b'.').skip(if dots < 8 { 2 } else { 4 });
        let mut next = || fields.next().and_then(number);
        let (deliveries, sequence, _) = (next()?, next()?, next()?);
        // Nanoseconds since 1970 have 19 digits.
        let stored_unix_ns = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        Some(Told { deliveries, sequence, stored_unix_ns })
    }
}

/// The engine's header.
#[inline]
fn trace_header(headers: &[u8]) -> Option<[u8; TRACE_HEADER_BYTES]> {
    let (_, value) = header_fields(headers).find(|(name, _)| *name == TRACE_HEADER_NAME.as_bytes())?;
    BASE64.decode(value).ok()?.try_into().ok()
}

#[derive(Debug)]
struct MessageDetails<'a> {
    told: Told,
    headers: &'a [u8],
}

impl Details for MessageDetails<'_> {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        Some(self.told.stored_unix_ns)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let own = header_fields(self.headers).filter(|(name, _)| *name != TRACE_HEADER_NAME.as_bytes());
        own.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/nats/pull.rs"]
mod tests;
