//! The crate `pulsar` as a client, with the cargo feature `pulsar-rs`: what its users get from it is measured. Configuration, topics and the
//! choice of partitions are those of our own client. What every client crate needs is in `broker/adapter`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as KEY_BASE64;
use pulsar_rs::authentication::Authentication;
use pulsar_rs::compression::{self, Compression as CrateCompression};
use pulsar_rs::consumer::{InitialPosition, Message as Arrived};
use pulsar_rs::error::{AuthenticationError, ConnectionError, ConsumerError, ProducerError, ServiceDiscoveryError};
use pulsar_rs::producer::{Message, SendFuture};
use pulsar_rs::proto::CommandSendReceipt;
use pulsar_rs::{ConnectionRetryOptions, Error, OperationRetryOptions, Pulsar, SubType, TokioExecutor};
use pulsar_rs::{Consumer, ConsumerOptions, Producer, ProducerOptions};

use super::PulsarBroker;
use super::codec::compression::Compression;
use super::codec::entry::{trace_header_from, trace_header_text};
use super::config::{Hashing, PulsarOptions};
use super::pool::Pool;
use super::retry::refused;
use super::topic_producer::partition;
use super::topics::Topics;
use crate::broker::adapter::{
    Clients, Deliveries, Delivery, OwnedMessage, ProducerQueues, QueuedProducer, SendOne, StreamConsumer, within,
};
use crate::broker::{
    Broker, BrokerError, BrokerInfo, ClientError, Created, Details, Durability, FailureClass, Removal, Setup,
    Subscription, TRACE_HEADER_NAME, Telemetry, Topic,
};
use crate::limits::TRACE_HEADER_BYTES;
use crate::measure::ConditionKind;
use crate::net::tls::Tls;
use crate::net::token::Token;
use crate::scenario::{BrokerConfig, Contradiction, Descriptor, Need, Scenario, StartFrom};

/// The crate by the name of its repository.
const CLIENT: &str = "pulsar-rs";

/// The crate as records name it: the version that Cargo.toml pins.
const CRATE: &str = "pulsar 6.9.1";

/// The crate closes an entry when it is full or this old (the Java client's default), but not at the end of a submission.
const DEFAULT_LINGER: Duration = Duration::from_millis(1);

/// A Pulsar cluster, reached by the crate `pulsar`.
pub struct PulsarCrateBroker {
    topics: Topics,
    setup: Setup<PulsarOptions>,
    clients: Clients<Client>,
    queues: Arc<ProducerQueues>,
    broker_version: String,
}

impl Broker for PulsarCrateBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        client: Some(CLIENT),
        alternative: Some("native"),
        tells: |kind| kind.is_told_by_all() || matches!(kind, ConditionKind::TopicGone | ConditionKind::Fenced),
        ..PulsarBroker::DESCRIPTOR
    };

    type Options = PulsarOptions;
    type Producer = QueuedProducer;
    type Consumer = StreamConsumer<Consumer<Vec<u8>, TokioExecutor>>;

    /// What version 6.9.1 of the crate cannot do, or does in a way of its own.
    fn refusal(config: &BrokerConfig, options: &PulsarOptions) -> Option<String> {
        let reason = match (options, &config.security.tls) {
            // Built with rustls, it has neither of these two (src/connection.rs, `prepare_stream`).
            (_, Some(Tls { certificate: Some(_), .. })) => {
                "it sends no certificate (`broker.security.tls.certificate`)"
            }
            (_, Some(Tls { verify_host: false, .. })) => "it verifies each host (`broker.security.tls.verify_host`)",
            (PulsarOptions { batch_by_key: true, .. }, _) => "its entries mix keys (`broker.pulsar.batch_by_key`)",
            // src/producer.rs, `compress_message`, uses `snap::write::FrameEncoder`; the Java client writes a raw block.
            (PulsarOptions { compression: Compression::Snappy, .. }, _) => {
                "its snappy has a frame around it, which no other client of Pulsar reads (`broker.pulsar.compression`)"
            }
            _ if options.negative_acks > 0.0 => "it does not announce redelivery (`broker.pulsar.negative_acks`)",
            _ => return None,
        };
        Some(reason.to_owned())
    }

    fn contradiction(scenario: &Scenario, settings: &BTreeMap<String, String>) -> Option<Contradiction> {
        PulsarBroker::contradiction(scenario, settings)
    }

    fn remedy(need: Need<'_>, config: &BrokerConfig, options: &PulsarOptions) -> Option<String> {
        PulsarBroker::remedy(need, config, options)
    }

    async fn connect(setup: Setup<PulsarOptions>) -> Result<Self, BrokerError> {
        let (topics, sockets) = Topics::new(&setup).await?;
        // The crate does not tell the broker's version, nor why a broker refuses a connection.
        let pool = Pool::new(sockets, setup.config.addresses.clone(), vec![setup.acks.recorder()]);
        let broker_version = pool.greet_all().await?;
        let clients = Clients::connect(&setup, |address| client(&setup, &topics, address)).await?;
        let queues = ProducerQueues::new(&setup);
        Ok(PulsarCrateBroker { topics, setup, clients, queues, broker_version })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        self.topics.create(topic).await
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        self.topics.find(topic).await
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        self.topics.delete(topic).await
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<QueuedProducer, BrokerError> {
        let Setup { options, timeout, .. } = &self.setup;
        let mut senders = Vec::new();
        for part in self.topics.parts(&topic.name) {
            let builder = self.clients.producing(producer_number).producer().with_topic(&*part);
            let mut builder = builder.with_options(producer_options(options));
            if options.resend {
                builder = builder.with_name(self.topics.producer_name(producer_number));
            }
            let producer = within(options.opening_timeout(*timeout), builder.build()).await;
            let producer = producer.map_err(|failure| failure.for_topic(&topic.name, "written to"))?;
            senders.push(PartitionSender { producer, hashing: options.hashing, deliver_after: options.deliver_after });
        }
        Ok(self.queues.start(producer_number, &topic.name, senders))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<Self::Consumer, BrokerError> {
        let Setup { options, timeout, .. } = &self.setup;
        let topic = &subscription.topic.name;
        let membership = self.topics.membership(subscription, options)?;
        let connect = |address| client(&self.setup, &self.topics, address);
        let pulsar = self.clients.consuming(membership.index, &self.setup, connect).await?;
        let initial_position = match membership.from {
            StartFrom::Earliest => InitialPosition::Earliest,
            StartFrom::Latest => InitialPosition::Latest,
        };
        let consumer_options = ConsumerOptions::default().durable(true).with_initial_position(initial_position);
        let consumer_options = consumer_options.with_receiver_queue_size(options.receiver_queue);
        let mut partitions = Vec::new();
        for part in self.topics.parts(topic) {
            let builder = pulsar
                .consumer()
                .with_topic(&*part)
                .with_subscription(&membership.subscription)
                .with_subscription_type(SubType::try_from(membership.kind as i32).unwrap_or_default())
                .with_consumer_name(&membership.consumer_name)
                // What the crate calls the size of a batch are the permits that it gives the broker.
                .with_batch_size(options.receiver_queue)
                .with_options(consumer_options.clone());
            let consumer = within(*timeout, builder.build()).await;
            let consumer = consumer.map_err(|failure| failure.for_topic(topic, "consumed"))?;
            partitions.push(consumer);
        }
        self.topics.joined(subscription);
        Ok(StreamConsumer::new(partitions, membership.kind.is_cumulative()))
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        self.topics.register(subscription).await
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        self.topics.durability(topics).await
    }

    fn takes_turns(&self) -> bool {
        self.setup.options.takes_turns()
    }

    async fn removal(&self, topic: &Topic, groups: &[String]) -> Option<Removal> {
        self.topics.removal(topic, groups).await
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo { client: CRATE.to_owned(), broker: Some(self.broker_version.clone()), embedded: false }
    }

    fn telemetry(&self) -> Telemetry {
        self.queues.telemetry()
    }

    async fn close(self) -> Result<(), BrokerError> {
        self.topics.unsubscribe().await
    }
}

type Client = Pulsar<TokioExecutor>;

async fn client(setup: &Setup<PulsarOptions>, topics: &Topics, address: String) -> Result<Client, BrokerError> {
    let Setup { config, options, timeout, .. } = setup;
    let tls = config.security.tls.as_ref();
    let scheme = if tls.is_some() { "pulsar+ssl" } else { "pulsar" };
    let mut builder = Pulsar::builder(format!("{scheme}://{address}"), TokioExecutor)
        .with_connection_retry_options(ConnectionRetryOptions {
            connection_timeout: *timeout,
            keep_alive: options.keep_alive,
            ..ConnectionRetryOptions::default()
        })
        .with_operation_retry_options(OperationRetryOptions {
            operation_timeout: options.send_timeout,
            ..OperationRetryOptions::default()
        });
    if let Some(ca) = tls.and_then(|tls| tls.ca.as_ref()) {
        // It could be read a moment ago, for the connection that asked for the broker's version.
        let with_ca = builder.with_certificate_chain_file(ca);
        builder = with_ca.map_err(|error| BrokerError::Configuration(error.to_string()))?;
    }
    if let Some(token) = &topics.token {
        builder = builder.with_auth_provider(Box::new(Login(token.clone())));
    }
    within(*timeout, builder.build()).await.map_err(|failure| failure.at(&address))
}

/// The token, as the crate asks for it.
struct Login(Arc<Token>);

#[async_trait]
impl Authentication for Login {
    fn auth_method_name(&self) -> String {
        "token".to_owned()
    }

    async fn initialize(&mut self) -> Result<(), AuthenticationError> {
        Ok(())
    }

    async fn auth_data(&mut self) -> Result<Vec<u8>, AuthenticationError> {
        self.0.current().await.map(|token| token.as_bytes().to_vec()).map_err(AuthenticationError::Retriable)
    }
}

fn producer_options(options: &PulsarOptions) -> ProducerOptions {
    let batching = options.batching && options.deliver_after.is_none();
    ProducerOptions {
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
        access_mode: Some(options.access_mode as i32),
        // Otherwise it refuses messages when its queue is full.
        block_queue_if_full: true,
        ..ProducerOptions::default()
    }
}

/// The crate's producer of a partition, or of a topic that has none.
pub struct PartitionSender {
    producer: Producer<TokioExecutor>,
    hashing: Hashing,
    deliver_after: Option<Duration>,
}

impl SendOne for PartitionSender {
    // Those of one partition are in order, those of several are not.
    const RECEIPTS_IN_ORDER: bool = false;
    const HAS_PARTITIONS: bool = true;
    type Error = Error;
    type Receipt = SendFuture;

    fn partition_of_key(&self, key: &[u8], partitions: usize) -> usize {
        partition(self.hashing, key, partitions)
    }

    async fn send(&mut self, message: OwnedMessage) -> Result<SendFuture, Error> {
        let trace_header =
            message.trace_header.map(|header| (TRACE_HEADER_NAME.to_owned(), trace_header_text(&header)));
        let key = message.key.map(|key| match str::from_utf8(&key) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (KEY_BASE64.encode(&key), true),
        });
        let (partition_key, partition_key_b64_encoded) = key.unzip();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = Message {
            payload: message.payload.to_vec(),
            properties: message.headers.iter().cloned().chain(trace_header).collect(),
            partition_key,
            partition_key_b64_encoded,
            deliver_at_time: self.deliver_after.map(|after| (now() + after).as_millis() as i64),
            ..Message::default()
        };
        self.producer.send_non_blocking(message).await
    }

    fn outcome(receipt: Result<CommandSendReceipt, Error>) -> Result<(), Error> {
        receipt.map(drop)
    }

    async fn flush(&mut self) {
        // An error only says that it does not batch.
        let _ = self.producer.send_batch().await;
    }
}

/// The payload is not converted: `Vec<u8>` stands for what the crate would make of it.
impl Deliveries for Consumer<Vec<u8>, TokioExecutor> {
    type Delivery = Arrived<Vec<u8>>;
    type Error = Error;

    async fn acknowledge(&mut self, message: &Arrived<Vec<u8>>, is_cumulative: bool) -> Result<(), Error> {
        // The crate takes it into a queue without a bound, so that this does not wait.
        let acknowledged = if is_cumulative { self.cumulative_ack(message).await } else { self.ack(message).await };
        acknowledged.map_err(Error::Consumer)
    }

    async fn close(mut self) {
        // The broker closes it with the connection if not now.
        let _ = Consumer::close(&mut self).await;
    }
}

/// The crate does not say which messages are delivered again.
impl Delivery for Arrived<Vec<u8>> {
    fn payload(&self) -> &[u8] {
        &self.payload.data
    }

    fn trace_header(&self) -> Option<[u8; TRACE_HEADER_BYTES]> {
        let mut properties = self.metadata().properties.iter();
        trace_header_from(properties.find(|property| property.key == TRACE_HEADER_NAME)?.value.as_bytes())
    }
}

impl Details for Arrived<Vec<u8>> {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.key_bytes().ok().flatten().map(Cow::Owned)
    }

    fn timestamp_unix_ns(&self) -> Option<u64> {
        self.metadata().publish_time.checked_mul(1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let properties = self.metadata().properties.iter().filter(|property| property.key != TRACE_HEADER_NAME);
        properties.map(|property| (property.key.clone(), property.value.clone().into_bytes())).collect()
    }
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        classified(&error)
    }
}

fn classified(error: &Error) -> ClientError {
    let text = error.to_string();
    match error {
        Error::Connection(cause)
        | Error::Producer(ProducerError::Connection(cause))
        | Error::Consumer(ConsumerError::Connection(cause))
        | Error::ServiceDiscovery(ServiceDiscoveryError::Connection(cause)) => connection_error(cause),
        Error::ServiceDiscovery(ServiceDiscoveryError::Query(Some(number), words)) => {
            refused(*number as i32, words.as_deref().unwrap_or_default())
        }
        Error::Producer(ProducerError::Batch(error)) => classified(error),
        Error::Producer(ProducerError::Fenced) => ClientError::lasting(FailureClass::Fenced, text),
        Error::Producer(ProducerError::Closed) => ClientError::lost(text),
        Error::Authentication(_) => ClientError::lasting(FailureClass::Authorisation, text),
        _ => ClientError::passing(FailureClass::Other, text),
    }
}

fn connection_error(error: &ConnectionError) -> ClientError {
    let text = error.to_string();
    match error {
        ConnectionError::PulsarError(Some(number), words) => {
            refused(*number as i32, words.as_deref().unwrap_or_default())
        }
        ConnectionError::Io(cause) if cause.kind() == ErrorKind::TimedOut => ClientError::late(text),
        ConnectionError::SlowDown => ClientError::passing(FailureClass::QueueFull, text),
        ConnectionError::Authentication(_) => ClientError::lasting(FailureClass::Authorisation, text),
        _ => ClientError::lost(text),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/pulsar/crate_client.rs"]
mod tests;
