//! What is received by the crate, and its errors.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::{MessagesErrorKind, Stream as PullStream};
use async_nats::{Client, ConnectError, ConnectErrorKind, HeaderValue, Message, Subscriber};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::config::Acknowledge;
use crate::broker::adapter::{Deliveries, Delivery};
use crate::broker::{ClientError, Details, FailureClass, TRACE_HEADER_NAME};
use crate::limits::TRACE_HEADER_BYTES;

/// How a consumer acknowledges a message of JetStream.
const ACK: Bytes = Bytes::from_static(b"+ACK");

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

/// Resolves when the server has handled what this connection has sent: it answers in order.
pub async fn round_trip(client: &Client) -> Result<(), String> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| in_full(&error))?;
    client.publish(inbox, Bytes::new()).await.map_err(|error| in_full(&error))?;
    match answers.next().await {
        Some(_) => Ok(()),
        None => Err("the connection was closed".to_owned()),
    }
}

/// Names of durable consumers and queue groups without what the server does not accept in them.
pub fn name_for_server(group: &str) -> String {
    group.chars().map(|letter| if ".*>/\\ \t".contains(letter) { '_' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_name_without_forbidden_letters() {
        assert_eq!(name_for_server("billing.eu > all/*"), "billing_eu___all__");
    }
}
