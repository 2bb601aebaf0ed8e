//! A member of a subscription by the crate.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use pulsar_rs::consumer::{InitialPosition, Message};
use pulsar_rs::{ConsumerOptions, Pulsar, SubType, TokioExecutor};

use crate::broker::pulsar::codec::entry::trace_header_from;
use crate::broker::pulsar::config::SubscriptionType;
use crate::broker::pulsar::error::RequestError;
use crate::broker::pulsar::topic_consumer::Membership;
use crate::broker::{Consumer, Details, ReceiveError, Received, TRACE_HEADER_NAME};
use crate::scenario::StartFrom;

/// Most messages of one call: all of them get the time of its beginning.
const MOST: usize = 1000;

/// How long the broker may take to close a consumer.
const CLOSING: Duration = Duration::from_secs(5);

/// The payload is not converted: `Vec<u8>` stands for what the crate would make of it, and is not made.
type Arrived = Message<Vec<u8>>;

/// A member of a subscription: one task of the engine owns it.
pub struct CrateConsumer {
    parts: Vec<Part>,
    /// The part whose messages are taken next.
    turn: usize,
    kind: SubscriptionType,
    /// Kept for its memory only: empty between calls.
    taken: Vec<Arrived>,
}

/// A consumer of a topic or a partition.
struct Part {
    partition: u32,
    /// `None` when the crate has ended it.
    consumer: Option<pulsar_rs::Consumer<Vec<u8>, TokioExecutor>>,
    /// What has arrived and was looked at already.
    next: Option<Arrived>,
}

impl CrateConsumer {
    pub(super) async fn open(
        pulsar: &Pulsar<TokioExecutor>,
        membership: &Membership,
        receiver_queue: u32,
        topics: Vec<Arc<str>>,
    ) -> Result<Self, RequestError> {
        let initial_position = match membership.from {
            StartFrom::Earliest => InitialPosition::Earliest,
            StartFrom::Latest => InitialPosition::Latest,
        };
        let options = ConsumerOptions::default()
            .durable(true)
            .with_receiver_queue_size(receiver_queue)
            .with_initial_position(initial_position);
        let mut parts = Vec::with_capacity(topics.len());
        for (partition, topic) in topics.iter().enumerate() {
            let builder = pulsar
                .consumer()
                .with_topic(&**topic)
                .with_subscription(&membership.subscription)
                .with_subscription_type(subscription_type(membership.kind))
                .with_consumer_name(&membership.consumer_name)
                // What the crate calls the size of a batch are the permits that it gives the broker.
                .with_batch_size(receiver_queue)
                .with_options(options.clone());
            let consumer = Some(builder.build().await?);
            parts.push(Part { partition: partition as u32, consumer, next: None });
        }
        Ok(CrateConsumer { parts, turn: 0, kind: membership.kind, taken: Vec::new() })
    }
}

fn subscription_type(kind: SubscriptionType) -> SubType {
    match kind {
        SubscriptionType::Exclusive => SubType::Exclusive,
        SubscriptionType::Shared => SubType::Shared,
        SubscriptionType::Failover => SubType::Failover,
        SubscriptionType::KeyShared => SubType::KeyShared,
    }
}

impl Consumer for CrateConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        poll_fn(|context| {
            // From the one after the last, so that each part has its turn.
            let count = self.parts.len();
            for step in 0..count {
                let at = (self.turn + step) % count;
                match self.parts[at].poll_ready(context) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(())) => {
                        self.turn = at;
                        return Poll::Ready(Ok(()));
                    }
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure.receiving())),
                }
            }
            Poll::Pending
        })
        .await
    }

    fn take(&mut self, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        // From one part only: more messages may arrive for the others meanwhile.
        let next = (self.turn + 1) % self.parts.len();
        let part = &mut self.parts[std::mem::replace(&mut self.turn, next)];
        let failure = part.collect(&mut self.taken).err();
        for message in &self.taken {
            part.hand_over(message, &mut each);
        }
        let failure = failure.or(part.acknowledge(&self.taken, self.kind.is_cumulative()).err());
        let count = self.taken.len();
        self.taken.clear();
        failure.map_or(Ok(count), |failure| Err(failure.receiving()))
    }

    async fn close(self) {
        for consumer in self.parts.into_iter().filter_map(|part| part.consumer) {
            let mut consumer = consumer;
            // The broker closes it with the connection if not now.
            let _ = tokio::time::timeout(CLOSING, consumer.close()).await;
        }
    }
}

impl Part {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        if self.next.is_some() {
            return Poll::Ready(Ok(()));
        }
        let Some(consumer) = &mut self.consumer else { return Poll::Pending };
        match Pin::new(consumer).poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(message))) => {
                self.next = Some(message);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error.into())),
            Poll::Ready(None) => {
                // Its task has given up, as it does when it cannot connect again. The crate's users have to notice, too.
                self.consumer = None;
                Poll::Ready(Err(RequestError::lost("the crate `pulsar` has ended the consumer")))
            }
        }
    }

    /// Takes what has arrived, up to an error.
    fn collect(&mut self, taken: &mut Vec<Arrived>) -> Result<(), RequestError> {
        taken.extend(self.next.take());
        let Some(consumer) = &mut self.consumer else { return Ok(()) };
        while taken.len() < MOST
            && let Some(Some(arrived)) = consumer.next().now_or_never()
        {
            taken.push(arrived?);
        }
        Ok(())
    }

    fn hand_over(&self, message: &Arrived, each: &mut impl FnMut(Received<'_>)) {
        let mut properties = message.payload.metadata.properties.iter();
        let trace_header = properties.find(|property| property.key == TRACE_HEADER_NAME);
        let trace_header = trace_header.and_then(|property| trace_header_from(property.value.as_bytes()));
        each(Received {
            payload: &message.payload.data,
            trace_header: trace_header.as_ref().map(<[u8; _]>::as_slice),
            partition: self.partition,
            offset: 0,
            // The crate does not say.
            redelivered: false,
            details: &CrateDetails(message),
        });
    }

    /// Acknowledges the messages, or only the last one and with it all before.
    fn acknowledge(&mut self, messages: &[Arrived], cumulative: bool) -> Result<(), RequestError> {
        let Some(consumer) = &mut self.consumer else { return Ok(()) };
        let error = |error| RequestError::from(pulsar_rs::Error::Consumer(error));
        // The crate takes them into a queue without a bound, so that neither waits.
        if cumulative {
            let acknowledged = messages.last().and_then(|last| consumer.cumulative_ack(last).now_or_never());
            return acknowledged.unwrap_or(Ok(())).map_err(error);
        }
        messages.iter().try_for_each(|message| consumer.ack(message).now_or_never().unwrap_or(Ok(()))).map_err(error)
    }
}

/// What a message carries, as the crate has decoded it.
#[derive(Debug)]
struct CrateDetails<'a>(&'a Arrived);

impl Details for CrateDetails<'_> {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.0.key_bytes().ok().flatten().map(Cow::Owned)
    }

    fn timestamp_unix_ns(&self) -> Option<u64> {
        self.0.metadata().publish_time.checked_mul(1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let properties = self.0.metadata().properties.iter().filter(|property| property.key != TRACE_HEADER_NAME);
        properties.map(|property| (property.key.clone(), property.value.clone().into_bytes())).collect()
    }
}
