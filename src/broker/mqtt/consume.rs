//! A member of a group, over a connection of its own.
//!
//! `ready` writes acknowledgements and reads, and `take` only decodes: the engine reads the clock in between.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::CLOSING;
use super::codec::{Ack, Packet, Properties, Published, Value, decode, property};
use super::config::Version;
use super::connect::{Client, Connector, Filter, Opened, acknowledge_at_once};
use super::encode::{DISCONNECT, PINGREQ, append_ack};
use super::reason::told;
use crate::broker::{ClientError, Consumer, Details, ReceiveError, Received};
use crate::net::receiving::{Line, Opener, ReceivingConnection};

/// A member of a group.
pub struct MqttConsumer {
    member: Arc<Member>,
    line: Line<Up>,
    answers: Answers,
    failure: Option<ReceiveError>,
}

/// What makes a member of a group, on every connection.
pub struct Member {
    pub connector: Arc<Connector>,
    pub client: Client,
    pub filter: Filter,
}

impl Opener for Member {
    type Up = Up;
    type Error = ClientError;

    async fn open(&self, number: usize) -> Result<Up, ClientError> {
        self.connector.connect(number, &self.client, Some(&self.filter)).await.map(Up::new)
    }
}

/// A connection.
pub struct Up {
    address: String,
    /// Whether the server has kept the session, or `Answers::restart` was told that it has not.
    session_present: bool,
    connection: ReceivingConnection,
    /// When it is time for a sign of life, where silence has a limit.
    beat: Option<(Interval, Duration)>,
}

/// What is acknowledged.
#[derive(Default)]
struct Answers {
    bytes: Vec<u8>,
    /// By packet id: messages of QoS 2 that were received, and that the server has not released.
    received: Vec<bool>,
}

impl MqttConsumer {
    /// A member that receives what is sent from now on, and what the server has kept for it.
    ///
    /// # Errors
    /// When no server answers, or it refuses the subscription.
    pub async fn connect(number: usize, member: Member) -> Result<Self, ClientError> {
        let line = Line::new(number, member.open(number).await?);
        Ok(MqttConsumer { member: Arc::new(member), line, answers: Answers::default(), failure: None })
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.failure.is_some() {
            return Poll::Ready(());
        }
        let Some(up) = self.line.poll(context, &self.member) else { return Poll::Pending };
        self.answers.restart(std::mem::replace(&mut up.session_present, true));
        up.connection.write_buffer.bytes.append(&mut self.answers.bytes);
        // A member that always has messages to take is not silent either.
        let silence = up.poll_beat(context);
        if up.connection.poll(context) {
            acknowledge_at_once(&up.connection.transport);
            return Poll::Ready(());
        }
        match silence {
            Some(quiet) => {
                self.lose(&format!("no sign of life for {quiet:?}"));
                Poll::Ready(())
            }
            None => Poll::Pending,
        }
    }

    /// Reports the loss and connects again, to the next server.
    fn lose(&mut self, reason: &str) {
        let Some(up) = self.line.up() else { return };
        let message = format!("the connection to the MQTT server at {} was lost: {reason}", up.address);
        self.failure = Some(ClientError::lost(message).receiving());
        // The server sends again what it has no acknowledgement of.
        self.answers.bytes.clear();
        self.line.reopen(&self.member);
    }
}

impl Consumer for MqttConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| self.poll_ready(context)).await;
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let mut taken = 0;
        let version = self.member.connector.options.version;
        if let Some(up) = self.line.up()
            && let Err(reason) = up.take(most, version, &mut taken, &mut self.answers, &mut each)
        {
            self.lose(&reason);
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
            write_buffer.bytes.append(&mut self.answers.bytes);
            write_buffer.bytes.extend_from_slice(&DISCONNECT);
            let _ = timeout(CLOSING, write_buffer.flush_all(transport)).await;
        }
    }
}

impl Up {
    fn new(Opened { address, transport, read_buffer, allowed, session_present, .. }: Opened) -> Self {
        let beat = allowed.keep_alive.map(|limit| {
            let mut beat = interval(limit / 2);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            (beat, limit)
        });
        Up { address, session_present, connection: ReceivingConnection::new(transport, read_buffer), beat }
    }

    /// Sends a sign of life when it is time. Returns for how long the server has sent none, if that is too long.
    fn poll_beat(&mut self, context: &mut Context<'_>) -> Option<Duration> {
        let (beat, limit) = self.beat.as_mut()?;
        let mut is_due = false;
        while beat.poll_tick(context).is_ready() {
            is_due = true;
        }
        if is_due {
            self.connection.write_buffer.bytes.extend_from_slice(&PINGREQ);
        }
        let quiet = self.connection.silence();
        (is_due && quiet > 2 * *limit).then_some(quiet)
    }

    /// Hands over the messages that were read, until `most` are taken.
    ///
    /// # Errors
    /// Why the connection cannot go on.
    #[inline]
    fn take(
        &mut self,
        most: usize,
        version: Version,
        taken: &mut usize,
        answers: &mut Answers,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<(), String> {
        while *taken < most {
            let packet = self.connection.read_buffer.next(|bytes, most| decode(bytes, most, version));
            match packet.map_err(|error| error.to_string())? {
                Some(Packet::Publish(published)) => {
                    if answers.receive(&published) {
                        each(received(&published));
                        *taken += 1;
                    }
                }
                Some(Packet::Ack { kind: Ack::Pubrel, packet_id, .. }) => answers.release(packet_id),
                Some(Packet::Disconnect { code, properties }) => {
                    return Err(format!("the server closed it: {}", told(code, properties)));
                }
                Some(_) => {}
                None => {
                    self.connection.unread = false;
                    return self.connection.end.take().map_or(Ok(()), |end| Err(end.to_string()));
                }
            }
        }
        Ok(())
    }
}

impl Answers {
    /// Acknowledges a message. Returns whether it is new: one of QoS 2 that was received comes again until the server knows it.
    #[inline]
    fn receive(&mut self, published: &Published<'_>) -> bool {
        match published.qos {
            0 => true,
            1 => {
                append_ack(&mut self.bytes, Ack::Puback, published.packet_id);
                true
            }
            _ => {
                append_ack(&mut self.bytes, Ack::Pubrec, published.packet_id);
                self.received.resize(1 << 16, false);
                !std::mem::replace(&mut self.received[usize::from(published.packet_id)], true)
            }
        }
    }

    /// The server will not send this message of QoS 2 again.
    fn release(&mut self, packet_id: u16) {
        if let Some(received) = self.received.get_mut(usize::from(packet_id)) {
            *received = false;
        }
        append_ack(&mut self.bytes, Ack::Pubcomp, packet_id);
    }

    /// There is another connection. Without the session, its packet ids are other messages'.
    fn restart(&mut self, session_present: bool) {
        if !session_present {
            self.received.clear();
        }
    }
}

fn received<'a>(published: &'a Published<'a>) -> Received<'a> {
    Received {
        payload: published.payload,
        trace_header: published.properties.bytes(property::CORRELATION_DATA),
        partition: 0,
        offset: 0,
        // A retained message is an old one, for a new subscription.
        redelivered: published.dup || published.retain,
        details: &published.properties,
    }
}

impl Details for Properties<'_> {
    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let headers = self.filter_map(|(_, value)| match value {
            Value::Pair(name, value) => Some((String::from_utf8_lossy(name).into_owned(), value.to_vec())),
            _ => None,
        });
        headers.collect()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/mqtt/consume.rs"]
mod tests;
