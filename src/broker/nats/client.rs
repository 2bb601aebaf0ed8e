//! What is sent and received by the crate, and its errors.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_nats::jetstream::consumer::pull::{MessagesErrorKind, Stream as PullStream};
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, publish::PublishAck};
use async_nats::{Client, ConnectError, ConnectErrorKind, HeaderMap, HeaderValue, Message, Subscriber};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared, poll_immediate, ready};
use futures_util::{FutureExt, Stream};
use tokio::sync::oneshot;

use super::config::{Acknowledge, Mode};
use crate::broker::adapter::{Deliveries, Delivery, OwnedMessage, SendOne};
use crate::broker::{ClientError, Details, FailureClass, TRACE_HEADER_NAME};
use crate::limits::TRACE_HEADER_BYTES;

/// How a consumer acknowledges a message of JetStream.
const ACK: Bytes = Bytes::from_static(b"+ACK");

/// A sender to one subject.
pub struct NatsSender {
    pub mode: Mode,
    pub client: Client,
    pub jetstream: jetstream::Context,
    pub subject: async_nats::Subject,
    /// What the `Nats-Msg-Id` of its messages begins with, and the number of the next one.
    pub message_ids: Option<(String, u64)>,
    /// Core NATS: resolves when the messages of this batch are written to the socket.
    pub written: Option<(oneshot::Sender<()>, Written)>,
}

type Written = Shared<oneshot::Receiver<()>>;

impl NatsSender {
    fn headers(&mut self, message: &OwnedMessage) -> Option<HeaderMap> {
        if message.headers.is_empty() && message.trace_header.is_none() && self.message_ids.is_none() {
            return None;
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &*message.headers {
            headers.append(name.as_str(), value.as_str());
        }
        if let Some(trace_header) = &message.trace_header {
            headers.insert(TRACE_HEADER_NAME, BASE64.encode(trace_header));
        }
        if let Some((prefix, number)) = &mut self.message_ids {
            headers.insert(async_nats::header::NATS_MESSAGE_ID, format!("{prefix}-{number}"));
            *number += 1;
        }
        Some(headers)
    }

    /// Publishes without an acknowledgement.
    async fn publish(&self, headers: Option<HeaderMap>, payload: Bytes) -> Result<(), ClientError> {
        let subject = self.subject.clone();
        let published = match headers {
            Some(headers) => self.client.publish_with_headers(subject, headers, payload).await,
            None => self.client.publish(subject, payload).await,
        };
        published.map_err(|error| {
            let class = match error.kind() {
                async_nats::PublishErrorKind::MaxPayloadExceeded => FailureClass::TooLarge,
                _ => FailureClass::ConnectionLost,
            };
            ClientError::passing(class, in_full(&error))
        })
    }
}

impl SendOne for NatsSender {
    // A message that is refused or late does not hold up those behind it.
    const RECEIPTS_IN_ORDER: bool = false;
    const HAS_PARTITIONS: bool = false;

    type Error = ClientError;
    type Receipt = NatsReceipt;

    async fn send(&mut self, message: OwnedMessage) -> Result<NatsReceipt, ClientError> {
        let headers = self.headers(&message);
        match self.mode {
            Mode::Jetstream => {
                let mut publish = PublishMessage::build().payload(message.payload);
                if let Some(headers) = headers {
                    publish = publish.headers(headers);
                }
                let sent = self.jetstream.send_publish(self.subject.clone(), publish).await;
                Ok(NatsReceipt::Stored(sent.map_err(refused)?.into_future()))
            }
            Mode::Core => {
                self.publish(headers, message.payload).await?;
                let (_, written) = self.written.get_or_insert_with(|| {
                    let (sender, receiver) = oneshot::channel();
                    (sender, receiver.shared())
                });
                Ok(NatsReceipt::Written(written.clone()))
            }
            Mode::Request => {
                let mut request = async_nats::Request::new().payload(message.payload);
                if let Some(headers) = headers {
                    request = request.headers(headers);
                }
                let (client, subject) = (self.client.clone(), self.subject.clone());
                let reply = async move { client.send_request(subject, request).await.map(drop).map_err(unanswered) };
                // It is sent when it is polled for the first time: now, to keep the order. The client's queue has room for all messages
                // in flight, and without a budget it does not yield.
                let mut reply = tokio::task::unconstrained(reply).boxed();
                Ok(match poll_immediate(&mut reply).await {
                    Some(result) => NatsReceipt::Replied(ready(result).boxed()),
                    None => NatsReceipt::Replied(reply),
                })
            }
        }
    }

    fn outcome(receipt: Result<(), ClientError>) -> Result<(), ClientError> {
        receipt
    }

    fn end_batch(&mut self) {
        if let Some((sender, _)) = self.written.take() {
            let client = self.client.clone();
            tokio::spawn(async move {
                if client.flush().await.is_ok() {
                    // The receiver ends with its producer.
                    let _ = sender.send(());
                }
            });
        }
    }
}

/// What a message waits for.
pub enum NatsReceipt {
    Stored(<PublishAckFuture as IntoFuture>::IntoFuture),
    Written(Written),
    Replied(BoxFuture<'static, Result<(), ClientError>>),
}

impl Future for NatsReceipt {
    type Output = Result<(), ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            NatsReceipt::Stored(receipt) => receipt.poll_unpin(context).map(stored),
            NatsReceipt::Written(receipt) => receipt.poll_unpin(context).map(|written| {
                written.map_err(|_| ClientError::lost("the connection was lost before the message was written"))
            }),
            NatsReceipt::Replied(receipt) => receipt.poll_unpin(context),
        }
    }
}

fn stored(acknowledged: Result<PublishAck, PublishError>) -> Result<(), ClientError> {
    match acknowledged {
        Ok(ack) if ack.duplicate => {
            Err(ClientError::passing(FailureClass::Refused, "the stream has a message of this Nats-Msg-Id already"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: PublishError) -> ClientError {
    let message = in_full(&error);
    let class = match error.kind() {
        PublishErrorKind::StreamNotFound => FailureClass::UnknownTopic,
        PublishErrorKind::TimedOut => FailureClass::Timeout,
        PublishErrorKind::BrokenPipe => FailureClass::ConnectionLost,
        PublishErrorKind::MaxAckPending => FailureClass::QueueFull,
        PublishErrorKind::MaxPayloadExceeded => FailureClass::TooLarge,
        // As in `maximum bytes exceeded`: server/errors.json, 10077 and 10047.
        _ if message.contains("exceeded") || message.contains("insufficient") => FailureClass::Full,
        _ => FailureClass::Refused,
    };
    ClientError::passing(class, message)
}

fn unanswered(error: async_nats::RequestError) -> ClientError {
    let class = match error.kind() {
        async_nats::RequestErrorKind::TimedOut => FailureClass::Timeout,
        async_nats::RequestErrorKind::NoResponders => FailureClass::UnknownTopic,
        async_nats::RequestErrorKind::MaxPayloadExceeded => FailureClass::TooLarge,
        _ => FailureClass::ConnectionLost,
    };
    ClientError::passing(class, in_full(&error))
}

impl From<ConnectError> for ClientError {
    fn from(error: ConnectError) -> Self {
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                ClientError::lasting(FailureClass::Authorisation, in_full(&error))
            }
            _ => ClientError::lost(in_full(&error)),
        }
    }
}

/// An error of the crate with its causes, which it does not show itself.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

/// A member of a group.
pub struct NatsDeliveries {
    pub source: Source,
    pub client: Client,
    pub policy: Acknowledge,
}

/// Where its messages come from.
pub enum Source {
    Stream(Box<PullStream>),
    Subject { subscriber: Subscriber, replies: bool },
}

/// A message, with what JetStream tells of it.
#[derive(Debug)]
pub struct NatsDelivery {
    message: Message,
    sequence: u64,
    redelivered: bool,
    published_unix_ns: Option<u64>,
}

impl From<Message> for NatsDelivery {
    fn from(message: Message) -> Self {
        NatsDelivery { message, sequence: 0, redelivered: false, published_unix_ns: None }
    }
}

impl From<jetstream::Message> for NatsDelivery {
    fn from(stored: jetstream::Message) -> Self {
        let told = stored.info().ok().map(|info| {
            (info.stream_sequence, info.delivered > 1, u64::try_from(info.published.unix_timestamp_nanos()).ok())
        });
        let (sequence, redelivered, published_unix_ns) = told.unwrap_or_default();
        NatsDelivery { message: stored.message, sequence, redelivered, published_unix_ns }
    }
}

impl Stream for NatsDeliveries {
    type Item = Result<NatsDelivery, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.source {
            Source::Stream(stream) => Pin::new(stream).poll_next(context).map(|arrived| {
                arrived.map(|message| {
                    message.map(NatsDelivery::from).map_err(|error| {
                        let class = match error.kind() {
                            MessagesErrorKind::ConsumerDeleted => FailureClass::UnknownTopic,
                            MessagesErrorKind::MissingHeartbeat => FailureClass::Timeout,
                            MessagesErrorKind::NoResponders => FailureClass::ConnectionLost,
                            _ => FailureClass::Refused,
                        };
                        ClientError::passing(class, in_full(&error))
                    })
                })
            }),
            Source::Subject { subscriber, .. } => {
                Pin::new(subscriber).poll_next(context).map(|arrived| arrived.map(|message| Ok(message.into())))
            }
        }
    }
}

impl Deliveries for NatsDeliveries {
    type Delivery = NatsDelivery;
    type Error = ClientError;

    async fn acknowledge(&mut self, delivery: &NatsDelivery, _: bool) -> Result<(), ClientError> {
        let answer = match (&self.source, self.policy) {
            (Source::Subject { replies: false, .. }, _) | (Source::Stream(_), Acknowledge::None) => return Ok(()),
            (Source::Subject { .. }, _) => Bytes::new(),
            (Source::Stream(_), _) => ACK,
        };
        let Some(reply) = delivery.message.reply.clone() else { return Ok(()) };
        self.client.publish(reply, answer).await.map_err(|error| ClientError::lost(in_full(&error)))
    }

    async fn close(self) {
        // Acknowledgements wait in the client.
        let _ = self.client.flush().await;
    }
}

impl Delivery for NatsDelivery {
    fn payload(&self) -> &[u8] {
        &self.message.payload
    }

    fn trace_header(&self) -> Option<[u8; TRACE_HEADER_BYTES]> {
        let header = self.message.headers.as_ref()?.get(TRACE_HEADER_NAME)?;
        BASE64.decode(header.as_str()).ok()?.try_into().ok()
    }

    fn offset(&self) -> u64 {
        self.sequence
    }

    fn is_redelivered(&self) -> bool {
        self.redelivered
    }
}

impl Details for NatsDelivery {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        self.published_unix_ns
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let headers = self.message.headers.iter().flat_map(|headers| headers.iter());
        let own = headers.filter(|(name, _)| AsRef::<str>::as_ref(*name) != TRACE_HEADER_NAME);
        let value = |value: &HeaderValue| value.as_str().as_bytes().to_vec();
        own.flat_map(|(name, values)| values.iter().map(move |one| (name.to_string(), value(one)))).collect()
    }
}
