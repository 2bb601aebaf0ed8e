//! What is sent and received by the crate, and its errors.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as KEY_BASE64;
use futures_util::{FutureExt, Stream};
use pulsar_rs::compression::{self, Compression as CrateCompression};
use pulsar_rs::consumer::{InitialPosition, Message as Arrived};
use pulsar_rs::error::{ConnectionError, ConsumerError, ProducerError, ServiceDiscoveryError};
use pulsar_rs::producer::{Message, SendFuture};
use pulsar_rs::{Consumer, ConsumerOptions, Error, Producer, ProducerOptions, Pulsar, SubType, TokioExecutor};

use crate::broker::adapter::{Deliveries, OwnedMessage, SendError, SendOne};
use crate::broker::pulsar::codec::compression::Compression;
use crate::broker::pulsar::codec::entry::{trace_header_from, trace_header_text};
use crate::broker::pulsar::config::{Hashing, PulsarOptions, SubscriptionType};
use crate::broker::pulsar::error::RequestError;
use crate::broker::pulsar::topic_consumer::Membership;
use crate::broker::pulsar::topic_producer::partition;
use crate::broker::{Details, FailureClass, ReceiveError, Received, TRACE_HEADER_NAME};
use crate::scenario::StartFrom;

/// The crate closes an entry when it is full or has waited this long, but not at the end of a submission. This is the Java
/// client's default.
const DEFAULT_LINGER: Duration = Duration::from_millis(1);

/// What all producers have in common.
pub struct ProducerDefaults {
    pub producer_options: ProducerOptions,
    hashing: Hashing,
    deliver_after: Option<Duration>,
}

impl ProducerDefaults {
    pub fn new(options: &PulsarOptions) -> Self {
        let batching = options.batching && options.deliver_after.is_none();
        let producer_options = ProducerOptions {
            batch_size: batching.then(|| u32::try_from(options.batch_messages).unwrap_or(u32::MAX)),
            batch_byte_size: batching.then_some(options.batch_bytes),
            batch_timeout: batching.then(|| options.linger.unwrap_or(DEFAULT_LINGER)),
            compression: Some(match options.compression {
                Compression::None => CrateCompression::None,
                Compression::Lz4 => CrateCompression::Lz4(compression::CompressionLz4::default()),
                Compression::Zlib => CrateCompression::Zlib(compression::CompressionZlib::default()),
                Compression::Zstd => CrateCompression::Zstd(compression::CompressionZstd::default()),
                Compression::Snappy => CrateCompression::Snappy(compression::CompressionSnappy::default()),
            }),
            access_mode: Some(options.access_mode.number()),
            // Otherwise it refuses messages when its queue is full.
            block_queue_if_full: true,
            ..ProducerOptions::default()
        };
        ProducerDefaults { producer_options, hashing: options.hashing, deliver_after: options.deliver_after }
    }

    fn message(&self, owned: OwnedMessage) -> Message {
        let mut properties: HashMap<String, String> = owned.headers.iter().cloned().collect();
        if let Some(trace_header) = &owned.trace_header {
            properties.insert(TRACE_HEADER_NAME.to_owned(), trace_header_text(trace_header));
        }
        let key = owned.key.map(|key| match str::from_utf8(&key) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (KEY_BASE64.encode(&key), true),
        });
        let (partition_key, partition_key_b64_encoded) = key.unzip();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let deliver_at_time = self.deliver_after.map(|after| (now() + after).as_millis() as i64);
        let payload = owned.payload.to_vec();
        Message { payload, properties, partition_key, partition_key_b64_encoded, deliver_at_time, ..Message::default() }
    }
}

/// The crate's producers of a topic.
pub struct CrateSender {
    defaults: Arc<ProducerDefaults>,
    /// One for each partition; one for a topic that has none.
    partitions: Vec<Producer<TokioExecutor>>,
    /// The partition that messages without keys go to, until the end of the batch.
    turn: usize,
}

impl CrateSender {
    pub fn new(
        defaults: Arc<ProducerDefaults>,
        partitions: Vec<Producer<TokioExecutor>>,
        producer_number: usize,
    ) -> Self {
        // Producers begin at different partitions, so that these fill evenly.
        let turn = producer_number % partitions.len();
        CrateSender { defaults, partitions, turn }
    }
}

impl SendOne for CrateSender {
    // Of one partition they are, and the crate names no partition: they have to be told apart.
    const RECEIPTS_IN_ORDER: bool = false;

    type Receipt = CrateReceipt;

    async fn send(&mut self, message: OwnedMessage) -> Result<CrateReceipt, SendError> {
        let partition = match &message.key {
            Some(key) if self.partitions.len() > 1 => partition(self.defaults.hashing, key, self.partitions.len()),
            _ => self.turn,
        };
        let sent = self.partitions[partition].send_non_blocking(self.defaults.message(message)).await;
        let receipt = sent.map_err(RequestError::from)?;
        Ok(CrateReceipt { receipt, partition: partition as u32 })
    }

    fn end_batch(&mut self) {
        self.turn = (self.turn + 1) % self.partitions.len();
    }

    async fn flush(&mut self) {
        for producer in &mut self.partitions {
            // An error only says that it does not batch.
            let _ = producer.send_batch().await;
        }
    }
}

/// A receipt, and the partition that it is of.
pub struct CrateReceipt {
    receipt: SendFuture,
    partition: u32,
}

impl Future for CrateReceipt {
    type Output = Result<Option<u32>, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let partition = self.partition;
        let receipt = self.receipt.poll_unpin(context);
        receipt.map(|outcome| outcome.map(|_| Some(partition)).map_err(|error| RequestError::from(error).into()))
    }
}

/// The crate's consumers of a topic, one for each partition: a member of a subscription.
pub struct CrateDeliveries {
    /// `None`: the crate has ended it.
    partitions: Vec<Option<Consumer<Vec<u8>, TokioExecutor>>>,
    /// The partition that is asked first.
    turn: usize,
    kind: SubscriptionType,
}

impl CrateDeliveries {
    /// Opens a consumer for each of `parts`.
    pub async fn open(
        pulsar: &Pulsar<TokioExecutor>,
        membership: &Membership,
        receiver_queue: u32,
        parts: Vec<Arc<str>>,
    ) -> Result<Self, Error> {
        let initial_position = match membership.from {
            StartFrom::Earliest => InitialPosition::Earliest,
            StartFrom::Latest => InitialPosition::Latest,
        };
        let options = ConsumerOptions::default()
            .durable(true)
            .with_receiver_queue_size(receiver_queue)
            .with_initial_position(initial_position);
        let subscription_type = match membership.kind {
            SubscriptionType::Exclusive => SubType::Exclusive,
            SubscriptionType::Shared => SubType::Shared,
            SubscriptionType::Failover => SubType::Failover,
            SubscriptionType::KeyShared => SubType::KeyShared,
        };
        let mut partitions = Vec::with_capacity(parts.len());
        for part in parts {
            let builder = pulsar
                .consumer()
                .with_topic(&*part)
                .with_subscription(&membership.subscription)
                .with_subscription_type(subscription_type)
                .with_consumer_name(&membership.consumer_name)
                // What the crate calls the size of a batch are the permits that it gives the broker.
                .with_batch_size(receiver_queue)
                .with_options(options.clone());
            partitions.push(Some(builder.build().await?));
        }
        Ok(CrateDeliveries { partitions, turn: 0, kind: membership.kind })
    }
}

/// A message with the number of its partition. The payload is not converted: `Vec<u8>` stands for what the crate would make of it.
pub struct CrateDelivery {
    message: Arrived<Vec<u8>>,
    partition: usize,
}

impl Deliveries for CrateDeliveries {
    type Delivery = CrateDelivery;

    fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Result<CrateDelivery, ReceiveError>> {
        let count = self.partitions.len();
        for step in 0..count {
            let partition = (self.turn + step) % count;
            let Some(consumer) = &mut self.partitions[partition] else { continue };
            let arrived = match Pin::new(consumer).poll_next(context) {
                Poll::Pending => continue,
                Poll::Ready(arrived) => arrived,
            };
            // From the one after it next time, so that each has its turn.
            self.turn = (partition + 1) % count;
            return Poll::Ready(match arrived {
                Some(Ok(message)) => Ok(CrateDelivery { message, partition }),
                Some(Err(error)) => Err(RequestError::from(error).receiving()),
                None => {
                    // Its task has given up, as it does when it cannot connect again. The crate's users have to notice, too.
                    self.partitions[partition] = None;
                    Err(RequestError::lost("the crate `pulsar` has ended the consumer").receiving())
                }
            });
        }
        Poll::Pending
    }

    fn hand_over(&self, CrateDelivery { message, partition }: &CrateDelivery, each: &mut impl FnMut(Received<'_>)) {
        let mut properties = message.payload.metadata.properties.iter();
        let trace_header = properties.find(|property| property.key == TRACE_HEADER_NAME);
        let trace_header = trace_header.and_then(|property| trace_header_from(property.value.as_bytes()));
        each(Received {
            payload: &message.payload.data,
            trace_header: trace_header.as_ref().map(<[u8; _]>::as_slice),
            partition: *partition as u32,
            offset: 0,
            // The crate does not say.
            redelivered: false,
            details: &CrateDetails(message),
        });
    }

    async fn acknowledge(&mut self, taken: &mut Vec<CrateDelivery>) -> Result<(), ReceiveError> {
        // The crate takes them into a queue without a bound, so that this does not wait.
        for (place, CrateDelivery { message, partition }) in taken.iter().enumerate() {
            let Some(consumer) = &mut self.partitions[*partition] else { continue };
            let acknowledged = if !self.kind.is_cumulative() {
                consumer.ack(message).await
            } else if taken[place + 1..].iter().all(|later| later.partition != *partition) {
                consumer.cumulative_ack(message).await
            } else {
                Ok(())
            };
            acknowledged.map_err(|error| RequestError::from(Error::Consumer(error)).receiving())?;
        }
        taken.clear();
        Ok(())
    }

    async fn close(self) {
        for mut consumer in self.partitions.into_iter().flatten() {
            // The broker closes it with the connection if not now.
            let _ = consumer.close().await;
        }
    }
}

/// What a message carries, as the crate has decoded it.
#[derive(Debug)]
struct CrateDetails<'a>(&'a Arrived<Vec<u8>>);

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

impl From<RequestError> for SendError {
    fn from(RequestError { class, message, lasting }: RequestError) -> Self {
        SendError { class, message, lasting }
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        RequestError::from(&error)
    }
}

impl From<&Error> for RequestError {
    fn from(error: &Error) -> Self {
        match error {
            Error::Connection(error)
            | Error::Producer(ProducerError::Connection(error))
            | Error::Consumer(ConsumerError::Connection(error))
            | Error::ServiceDiscovery(ServiceDiscoveryError::Connection(error)) => of_connection(error),
            Error::ServiceDiscovery(ServiceDiscoveryError::Query(Some(number), words)) => {
                RequestError::refused(*number as i32, words.as_deref().unwrap_or_default())
            }
            Error::Producer(ProducerError::Batch(error)) => RequestError::from(&**error),
            Error::Producer(ProducerError::Fenced) => {
                RequestError { class: FailureClass::Fenced, message: error.to_string(), lasting: true }
            }
            Error::Producer(ProducerError::Closed) => RequestError::lost(error.to_string()),
            Error::Authentication(_) => {
                RequestError { class: FailureClass::Authorisation, message: error.to_string(), lasting: true }
            }
            _ => RequestError { class: FailureClass::Other, message: error.to_string(), lasting: false },
        }
    }
}

fn of_connection(error: &ConnectionError) -> RequestError {
    match error {
        ConnectionError::PulsarError(Some(number), words) => {
            RequestError::refused(*number as i32, words.as_deref().unwrap_or_default())
        }
        ConnectionError::Io(cause) if cause.kind() == ErrorKind::TimedOut => RequestError::late(error.to_string()),
        ConnectionError::SlowDown => {
            RequestError { class: FailureClass::QueueFull, message: error.to_string(), lasting: false }
        }
        ConnectionError::Authentication(_) => {
            RequestError { class: FailureClass::Authorisation, message: error.to_string(), lasting: true }
        }
        _ => RequestError::lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use pulsar_rs::proto::ServerError;

    use super::*;

    #[test]
    fn errors_of_the_crate_have_the_classes_of_our_own_client() {
        let class = |error: ConnectionError| RequestError::from(Error::Connection(error)).class;
        assert_eq!(class(io::Error::from(ErrorKind::TimedOut).into()), FailureClass::Timeout);
        assert_eq!(class(io::Error::from(ErrorKind::BrokenPipe).into()), FailureClass::ConnectionLost);
        assert_eq!(class(ConnectionError::SlowDown), FailureClass::QueueFull);
        let fenced =
            ConnectionError::PulsarError(Some(ServerError::ProducerFenced), Some("taken\n\tat java".to_owned()));
        let batch = ProducerError::Batch(Arc::new(Error::Producer(ProducerError::Connection(fenced))));
        let fenced = RequestError::from(Error::Producer(batch));
        assert_eq!((fenced.class, fenced.lasting), (FailureClass::Fenced, true));
        assert_eq!(fenced.message, "ProducerFenced: taken");
    }
}
