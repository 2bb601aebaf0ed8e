//! The crate `pulsar` as a client, with the cargo feature `pulsar-rs`: what its users get from it is measured.
//!
//! Configuration, topics and the choice of partitions are those of our own client. `messages`: what is sent and received.

mod messages;

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pulsar_rs::authentication::Authentication;
use pulsar_rs::error::AuthenticationError;
use pulsar_rs::{ConnectionRetryOptions, OperationRetryOptions, Pulsar, TokioExecutor};
use tokio::sync::OnceCell;

use self::messages::{CrateDeliveries, CrateSender, ProducerDefaults};
use super::PulsarBroker;
use super::codec::compression::Compression;
use super::config::PulsarOptions;
use super::error::RequestError;
use super::pool::Pool;
use super::token::Token;
use super::topics::Topics;
use crate::broker::adapter::{ProducerQueues, QueuedProducer, StreamConsumer};
use crate::broker::{Broker, BrokerError, BrokerInfo, Created, Durability, Setup, Subscription, Telemetry, Topic};
use crate::net::tls::Tls;
use crate::scenario::{BrokerConfig, Descriptor, Need};

/// The crate by the name of its repository.
const CLIENT: &str = "pulsar-rs";

/// The crate as records name it: the version that Cargo.toml pins.
const CRATE: &str = "pulsar 6.9.1";

/// A Pulsar cluster, reached by the crate `pulsar`.
pub struct PulsarCrateBroker {
    topics: Topics,
    settings: CrateSettings,
    defaults: Arc<ProducerDefaults>,
    queues: Arc<ProducerQueues>,
    /// One for each of the scenario's connections: each has connections of its own.
    producing: Vec<Pulsar<TokioExecutor>>,
    /// As many, made when the first consumer needs one: arriving messages must not delay receipts.
    consuming: OnceCell<Vec<Pulsar<TokioExecutor>>>,
    broker_version: String,
}

/// What the crate connects with.
struct CrateSettings {
    addresses: Vec<String>,
    connections: usize,
    tls: Option<Tls>,
    token: Option<Arc<Token>>,
    timeout: Duration,
    options: PulsarOptions,
}

impl Broker for PulsarCrateBroker {
    const DESCRIPTOR: Descriptor =
        Descriptor { client: Some(CLIENT), alternative: Some("native"), ..PulsarBroker::DESCRIPTOR };

    type Options = PulsarOptions;
    type Producer = QueuedProducer;
    type Consumer = StreamConsumer<CrateDeliveries>;

    /// What version 6.9.1 of the crate cannot do, or does in a way of its own.
    fn refusal(config: &BrokerConfig, options: &PulsarOptions) -> Option<String> {
        if let Some(tls) = &config.security.tls {
            // Built with rustls, it has neither (src/connection.rs, `prepare_stream`).
            if tls.certificate.is_some() {
                return Some("it has no certificate of its own (`broker.security.tls.certificate`)".to_owned());
            }
            if !tls.verify_host {
                return Some("it always verifies the host (`broker.security.tls.verify_host`)".to_owned());
            }
        }
        let reason = if options.batch_by_key {
            "its entries mix keys (`broker.pulsar.batch_by_key`)"
        } else if options.compression == Compression::Snappy {
            // src/producer.rs, `compress_message`, uses `snap::write::FrameEncoder`; the Java client writes a raw block.
            "its snappy has a frame around it, which no other client of Pulsar reads (`broker.pulsar.compression`)"
        } else if options.negative_acks > 0.0 {
            // Its `Message` lacks the redelivery count.
            "it does not say which messages are delivered again (`broker.pulsar.negative_acks`)"
        } else {
            return None;
        };
        Some(reason.to_owned())
    }

    fn remedy(need: Need<'_>, config: &BrokerConfig, options: &PulsarOptions) -> Option<String> {
        PulsarBroker::remedy(need, config, options)
    }

    async fn connect(setup: Setup<PulsarOptions>) -> Result<Self, BrokerError> {
        let (topics, sockets) = Topics::new(&setup).await?;
        let token = sockets.token.clone();
        // The crate does not tell the broker's version, nor why a broker refuses a connection.
        let pool = Pool::new(sockets, setup.config.addresses.clone(), vec![setup.acks.recorder()]);
        let broker_version = pool.greet_all().await?;
        let queues = ProducerQueues::new(&setup);
        let settings = CrateSettings {
            addresses: setup.config.addresses.clone(),
            connections: setup.config.connections,
            tls: setup.config.security.tls.clone(),
            token,
            timeout: setup.timeout,
            options: setup.options,
        };
        Ok(PulsarCrateBroker {
            topics,
            defaults: Arc::new(ProducerDefaults::new(&settings.options)),
            queues,
            producing: clients(&settings).await?,
            consuming: OnceCell::new(),
            settings,
            broker_version,
        })
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
        let CrateSettings { options, timeout, .. } = &self.settings;
        let connection = producer_number % self.producing.len();
        let mut partitions = Vec::new();
        for part in self.topics.parts(&topic.name) {
            let builder = self.producing[connection].producer().with_topic(&*part);
            let mut builder = builder.with_options(self.defaults.producer_options.clone());
            if options.resend {
                builder = builder.with_name(self.topics.producer_name(producer_number));
            }
            let producer = within(options.opening_timeout(*timeout), builder.build()).await;
            partitions.push(producer.map_err(|failure| failure.of_topic(&topic.name, "written to"))?);
        }
        let sender = CrateSender::new(self.defaults.clone(), partitions, producer_number);
        Ok(self.queues.start(connection, &topic.name, sender))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<Self::Consumer, BrokerError> {
        let CrateSettings { options, timeout, .. } = &self.settings;
        let topic = &subscription.topic.name;
        let membership = self.topics.membership(subscription, options)?;
        let pulsars = self.consuming.get_or_try_init(|| clients(&self.settings)).await?;
        let pulsar = &pulsars[membership.index % pulsars.len()];
        let open = CrateDeliveries::open(pulsar, &membership, options.receiver_queue, self.topics.parts(topic));
        let deliveries = within(*timeout, open).await.map_err(|failure| failure.of_topic(topic, "consumed"))?;
        self.topics.joined(subscription);
        Ok(StreamConsumer::new(deliveries))
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        self.topics.register(subscription).await
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        self.topics.durability(topics).await
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo { client: CRATE.to_owned(), broker: Some(self.broker_version.clone()), embedded: false }
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry { queue_full_ns: self.queues.take_waited_ns(), ..Telemetry::default() }
    }

    async fn close(self) -> Result<(), BrokerError> {
        self.topics.unsubscribe().await
    }
}

async fn clients(settings: &CrateSettings) -> Result<Vec<Pulsar<TokioExecutor>>, BrokerError> {
    let mut clients = Vec::with_capacity(settings.connections);
    for index in 0..settings.connections {
        // It takes one address and finds the other brokers by itself.
        let address = &settings.addresses[index % settings.addresses.len()];
        clients.push(client(settings, address).await?);
    }
    Ok(clients)
}

async fn client(settings: &CrateSettings, address: &str) -> Result<Pulsar<TokioExecutor>, BrokerError> {
    let scheme = if settings.tls.is_some() { "pulsar+ssl" } else { "pulsar" };
    let mut builder = Pulsar::builder(format!("{scheme}://{address}"), TokioExecutor)
        .with_connection_retry_options(ConnectionRetryOptions {
            connection_timeout: settings.timeout,
            keep_alive: settings.options.keep_alive,
            ..ConnectionRetryOptions::default()
        })
        .with_operation_retry_options(OperationRetryOptions {
            // How long a message may await its receipt, too.
            operation_timeout: settings.options.send_timeout,
            ..OperationRetryOptions::default()
        });
    if let Some(ca) = settings.tls.as_ref().and_then(|tls| tls.ca.as_ref()) {
        builder = builder.with_certificate_chain_file(ca).map_err(|error| {
            BrokerError::Configuration(format!("`broker.security.tls.ca`: {} cannot be read: {error}", ca.display()))
        })?;
    }
    if let Some(token) = &settings.token {
        builder = builder.with_auth_provider(Box::new(Login(token.clone())));
    }
    within(settings.timeout, builder.build()).await.map_err(|failure| failure.at(address))
}

/// The crate goes on trying to open what the broker does not want yet, so that its callers set the bound.
async fn within<T>(
    timeout: Duration,
    opening: impl Future<Output = Result<T, pulsar_rs::Error>>,
) -> Result<T, RequestError> {
    match tokio::time::timeout(timeout, opening).await {
        Ok(result) => result.map_err(RequestError::from),
        Err(_) => Err(RequestError::late(format!("the crate `pulsar` did not succeed within {timeout:?}"))),
    }
}

/// The token, as the crate asks for it.
struct Login(Arc<Token>);

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthenticationError>> + Send + 'a>>;

impl Authentication for Login {
    fn auth_method_name(&self) -> String {
        "token".to_owned()
    }

    fn initialize<'life, 'answer>(&'life mut self) -> Answer<'answer, ()>
    where
        'life: 'answer,
        Self: 'answer,
    {
        Box::pin(ready(Ok(())))
    }

    fn auth_data<'life, 'answer>(&'life mut self) -> Answer<'answer, Vec<u8>>
    where
        'life: 'answer,
        Self: 'answer,
    {
        Box::pin(async { Ok(self.0.current().await.as_bytes().to_vec()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tls::Tls;
    use crate::scenario::Security;

    fn refused(options: &str, tls: Option<Tls>) -> Option<String> {
        let config = BrokerConfig {
            kind: "pulsar".to_owned(),
            client: Some(CLIENT),
            addresses: Vec::new(),
            connections: 1,
            properties: Vec::new(),
            security: Security { tls, ..Security::default() },
            options: toml::Table::new(),
        };
        PulsarCrateBroker::refusal(&config, &toml::from_str(options).unwrap())
    }

    #[test]
    fn what_the_crate_cannot_do_is_refused_by_its_key() {
        for (options, key) in [
            ("batch_by_key = true", "broker.pulsar.batch_by_key"),
            ("compression = 'snappy'", "broker.pulsar.compression"),
            ("negative_acks = 0.1", "broker.pulsar.negative_acks"),
        ] {
            assert!(refused(options, None).unwrap().contains(key), "{options}");
        }
        let tls = Tls { ca: None, certificate: None, key: None, verify_host: true };
        let own = Tls { certificate: Some("own.pem".into()), ..tls.clone() };
        assert!(refused("", Some(own)).unwrap().contains("tls.certificate"));
        assert!(refused("", Some(Tls { verify_host: false, ..tls.clone() })).unwrap().contains("verify_host"));
        assert_eq!(refused("compression = 'zstd'\nlinger = '1ms'\nresend = true", Some(tls)), None);
    }

    #[test]
    fn records_name_the_version_that_is_compiled() {
        let lock = include_str!("../../../../Cargo.lock");
        let (name, version) = CRATE.split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
    }
}
