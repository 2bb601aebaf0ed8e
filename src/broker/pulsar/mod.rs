//! Apache Pulsar, by a protocol module of our own.
//!
//! - `config`: the `[broker.pulsar]` table; `name`: names of topics.
//! - `admin`: topics, created and removed over HTTP.
//! - `connect`: opens a connection; `connection`: its tasks; `pool`: all connections, and which serves a topic; `traffic`: what
//!   they have sent; `token`: what they log in with; `oauth2`: who issues it.
//! - `codec`: the binary protocol.
//! - `producer`: a producer of a topic; it has one `partition_producer` for each partition, chosen by `routing`;
//!   `building` makes the entries.
//! - `lingering`: collects a producer's messages for a while before they are sent.
//! - `topic_consumer`: a member of a subscription; `consumer`: of either client.
//! - `retry`: opens producers and consumers again.
//! - `error`: what goes wrong, by class.
//! - `client_library`: the clients that may be measured; `crate_client`: the crate `pulsar`, which is the other one.
//!
//! Why the crate is not the only one: docs/decisions/0006-pulsar-protocol.md.

mod admin;
mod building;
mod client_library;
pub mod codec;
mod config;
mod connect;
mod connection;
mod consumer;
#[cfg(feature = "pulsar-rs")]
mod crate_client;
mod durability;
mod error;
#[cfg(test)]
mod late_subscription;
mod lingering;
mod name;
mod oauth2;
mod partition_producer;
mod pool;
mod producer;
mod retry;
mod routing;
mod token;
mod topic_consumer;
mod topic_producer;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::Notify;

use self::admin::Admin;
use self::codec::entry::Manner;
use self::config::{PulsarOptions, SubscriptionType};
use self::connect::SocketSettings;
use self::consumer::PulsarConsumer;
#[cfg(feature = "pulsar-rs")]
use self::crate_client::CrateClient;
use self::error::RequestError;
use self::lingering::LingeringProducer;
use self::name::TopicName;
use self::oauth2::OAuth2;
use self::partition_producer::{Client, PartitionProducer};
use self::pool::Pool;
use self::producer::PulsarProducer;

use self::token::Token;
use self::topic_consumer::{Membership, TopicConsumer};
use self::topic_producer::TopicProducer;
use super::{Broker, BrokerError, BrokerInfo, Durability, Setup, Subscription, Telemetry, Topic};
use crate::net::address;
use crate::net::http::HttpClient;
use crate::net::tls::{Tls, TlsIdentity};
use crate::scenario::{BrokerConfig, Capabilities, Descriptor};

/// A Pulsar cluster, reached by brokermark's own client, or with `CRATE` by the crate `pulsar`.
pub struct PulsarBroker<const CRATE: bool = false> {
    shared: Arc<Client>,
    /// The crate, where it is the client. Then our own client is asked for nothing but the broker's greeting.
    #[cfg(feature = "pulsar-rs")]
    crate_client: Option<CrateClient>,
    admin: Admin,
    /// Partitions of the trial's topics, as found or made.
    partitions: Mutex<BTreeMap<String, u32>>,
    /// Subscriptions that were made: topic and name.
    subscriptions: Mutex<BTreeSet<(String, String)>>,
    connections: usize,
    consumers: AtomicUsize,
    run_id: String,
    identity: BrokerInfo,
}

impl<const CRATE: bool> Broker for PulsarBroker<CRATE> {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "pulsar",
        aliases: &[],
        default_port: Some(6650),
        example: include_str!("example.toml"),
        client: Some(if CRATE { client_library::PULSAR_RS } else { "native" }),
        alternative: if CRATE { Some("native") } else { None },
        summary: "Apache Pulsar, by its binary protocol",
        capabilities: Capabilities {
            addresses: true,
            embedded: false,
            partitions: true,
            replication: false,
            keys: true,
            headers: true,
            own_headers: false,
            own_partition: false,
            null_payloads: false,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[],
            properties: false,
            group_properties: &[],
            topic_config: false,
            existing_topics: false,
            offsets: false,
        },
        check_options: config::check,
        refuses: if CRATE { client_library::refused_by_the_crate } else { |_| None },
    };

    type Producer = PulsarProducer;
    type Consumer = PulsarConsumer;

    async fn connect(setup: Setup) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: "pulsar", reason };
        let Setup { config, timeout, .. } = &setup;
        let options = PulsarOptions::read(config)?;
        let identity = config.security.tls.as_ref().map(TlsIdentity::read).transpose().map_err(refused)?;
        let token = token(&options, *timeout).await?;
        let admin_url = options.admin.clone().unwrap_or_else(|| admin_url(&config.addresses, identity.is_some()));
        let tls = identity.as_ref().map(TlsIdentity::client_config).transpose().map_err(refused)?;
        let admin_tls = match &tls {
            None if admin_url.starts_with("https://") => Some(system_tls().map_err(refused)?),
            tls => tls.clone(),
        };
        let admin = Admin::new(&admin_url, token.clone(), admin_tls, *timeout);
        let settings = SocketSettings {
            tls,
            token: token.clone(),
            certified: identity.as_ref().is_some_and(|identity| identity.own.is_some()),
            timeout: *timeout,
            keep_alive: options.keep_alive,
            send_timeout: options.send_timeout,
        };
        let recorders = (0..config.connections).map(|_| setup.acks.recorder()).collect();
        let pool = Pool::new(settings, config.addresses.clone(), recorders);
        let broker = greet(&pool, config).await?;
        #[cfg(feature = "pulsar-rs")]
        let crate_client = match config.client {
            Some(client_library::PULSAR_RS) => {
                pool.let_go();
                Some(CrateClient::connect(&setup, &options, token).await?)
            }
            _ => None,
        };
        let manner = Manner::new(options.compression, setup.headers());
        let recorder = setup.acks.recorder();
        let shared = Client { pool: Arc::new(pool), options, manner, recorder, waited_ns: AtomicU64::new(0) };
        Ok(PulsarBroker {
            shared: Arc::new(shared),
            #[cfg(feature = "pulsar-rs")]
            crate_client,
            admin,
            partitions: Mutex::default(),
            subscriptions: Mutex::default(),
            connections: config.connections,
            consumers: AtomicUsize::new(0),
            identity: BrokerInfo { client: client_library::identity(config), broker: Some(broker), embedded: false },
            run_id: setup.run_id,
        })
    }

    async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        let named: Vec<(TopicName, Topic)> =
            topics.iter().map(|topic| (self.name(&topic.name), topic.clone())).collect();
        let found = self.admin.prepare(&named).await?;
        for (topic, (partitions, is_made)) in topics.iter().zip(found) {
            self.partitions.lock().insert(topic.name.clone(), partitions);
            if is_made {
                created.push(topic.name.clone());
            }
        }
        Ok(())
    }

    async fn adopt(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let mut existing = Vec::new();
        for topic in topics {
            if let Some(partitions) = self.admin.partitions(&self.name(&topic.name)).await? {
                self.partitions.lock().insert(topic.name.clone(), partitions);
                existing.push(Topic { partitions: partitions.max(1), ..topic.clone() });
            }
        }
        Ok(existing)
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<PulsarProducer, BrokerError> {
        let index = producer_number % self.connections;
        let parts = self.parts(&topic.name);
        #[cfg(feature = "pulsar-rs")]
        if let Some(client) = &self.crate_client {
            let name = self.shared.options.resend.then(|| self.name_of(producer_number));
            let producer = client.producer(producer_number, &topic.name, parts, name).await;
            return producer.map(PulsarProducer::Crate).map_err(|failure| failure.of_topic(&topic.name, "written to"));
        }
        let returned = Arc::new(Notify::new());
        let resend = self.shared.options.resend.then(|| (self.name_of(producer_number), returned.clone()));
        let open = |(number, part): (usize, Arc<str>)| {
            let counted_in = self.shared.recorder.partition(&topic.name, Some(number as u32));
            PartitionProducer::open(self.shared.clone(), (part, counted_in), index, resend.clone())
        };
        let partition_producers = try_join_all(parts.into_iter().enumerate().map(open));
        let partition_producers =
            partition_producers.await.map_err(|failure| failure.of_topic(&topic.name, "written to"))?;
        let producer = TopicProducer::new(self.shared.clone(), partition_producers, producer_number);
        let PulsarOptions { linger, resend, .. } = self.shared.options;
        if linger.is_none() && !resend {
            return Ok(PulsarProducer::AtOnce(producer));
        }
        let linger = linger.unwrap_or_default();
        let producer = LingeringProducer::start(producer, self.shared.clone(), linger, returned);
        Ok(PulsarProducer::Lingering(producer))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<PulsarConsumer, BrokerError> {
        let topic = &subscription.topic.name;
        let number = self.consumers.fetch_add(1, Ordering::Relaxed);
        let kind = SubscriptionType::of_group(&self.shared.options, subscription.members)
            .map_err(|reason| BrokerError::Configuration { broker: "pulsar", reason })?;
        let membership = Membership {
            subscription: subscription.group.clone(),
            kind,
            consumer_name: format!("{}-{}", self.run_id, subscription.member),
            from: subscription.from,
            // Not a producer's connection: arriving messages must not delay receipts.
            index: self.connections + number % self.connections,
        };
        let consumer = self.join(membership, self.parts(topic)).await;
        let consumer = consumer.map_err(|failure| failure.of_topic(topic, "consumed"))?;
        // Where other processes use it, too, it stays.
        if !subscription.is_divided {
            self.subscriptions.lock().insert((topic.clone(), subscription.group.clone()));
        }
        Ok(consumer)
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        if !self.shared.options.persistent {
            let reason = "non-persistent topics do not keep messages for a group that begins late: set \
                          `broker.pulsar.persistent = true`"
                .to_owned();
            return Err(BrokerError::Configuration { broker: "pulsar", reason });
        }
        let (topic, group) = (&subscription.topic.name, &subscription.group);
        self.admin.subscribe(&self.name(topic), group).await?;
        if !subscription.is_divided {
            self.subscriptions.lock().insert((topic.clone(), group.clone()));
        }
        Ok(())
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        if !self.shared.options.persistent {
            return durability::of_non_persistent();
        }
        // All topics of a trial are made alike, in one namespace.
        let Some(first) = topics.first() else { return Durability::default() };
        durability::durability(self.admin.persistence(&self.name(&first.name)).await)
    }

    fn identity(&self) -> BrokerInfo {
        self.identity.clone()
    }

    fn telemetry(&self) -> Telemetry {
        #[cfg(feature = "pulsar-rs")]
        if let Some(client) = &self.crate_client {
            return client.telemetry();
        }
        Telemetry {
            queue_full_ns: self.shared.waited_ns.swap(0, Ordering::Relaxed),
            ..self.shared.pool.traffic().take()
        }
    }

    async fn close(self, created: Vec<String>) -> Result<(), BrokerError> {
        let partitions = self.partitions.lock().clone();
        let is_partitioned = |topic: &String| partitions.get(topic).is_some_and(|partitions| *partitions > 0);
        let topics: Vec<_> = created.iter().map(|topic| (self.name(topic), is_partitioned(topic))).collect();
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock()).into_iter();
        let left: Vec<_> = subscriptions
            .filter(|(topic, _)| !created.contains(topic))
            .map(|(topic, subscription)| (self.name(&topic), subscription))
            .collect();
        let removed = self.admin.remove(&topics).await;
        self.admin.unsubscribe(&left).await.and(removed)
    }
}

impl<const CRATE: bool> PulsarBroker<CRATE> {
    /// The name of a producer that the broker is to recognise, unique over all processes of the trial.
    fn name_of(&self, producer_number: usize) -> String {
        format!("{}-{}", self.run_id, producer_number)
    }

    /// Lets the trial's client join a subscription.
    async fn join(&self, membership: Membership, parts: Vec<Arc<str>>) -> Result<PulsarConsumer, RequestError> {
        #[cfg(feature = "pulsar-rs")]
        if let Some(client) = &self.crate_client {
            return client.consumer(&membership, parts).await.map(PulsarConsumer::Crate);
        }
        let consumer = TopicConsumer::open(self.shared.clone(), membership, parts).await?;
        Ok(PulsarConsumer::Native(consumer))
    }

    fn name(&self, topic: &str) -> TopicName {
        TopicName::new(&self.shared.options.namespace, topic, self.shared.options.persistent)
    }

    fn parts(&self, topic: &str) -> Vec<Arc<str>> {
        let partitions = self.partitions.lock().get(topic).copied().unwrap_or(0);
        self.name(topic).parts(partitions)
    }
}

/// Opens the trial's connections, and returns the broker's version.
async fn greet(pool: &Pool, config: &BrokerConfig) -> Result<String, BrokerError> {
    let mut version = String::new();
    for index in 0..config.connections {
        let greeting = pool.greet(index).await.map_err(|failure| failure.at(&config.addresses.join(", ")))?;
        version = greeting.server_version;
    }
    Ok(version)
}

/// What connections and requests log in with.
async fn token(options: &PulsarOptions, timeout: Duration) -> Result<Option<Arc<Token>>, BrokerError> {
    let refused = |reason: String| BrokerError::Configuration { broker: "pulsar", reason };
    let token = match (&options.token, options.grant()) {
        (Some(secret), _) => Token::read(secret.clone()).map_err(refused)?,
        (None, Some(grant)) => {
            let tls = grant.issuer_url.starts_with("https://").then(system_tls).transpose().map_err(refused)?;
            let issuer = OAuth2::new(grant, HttpClient::new(tls, timeout));
            let failed = |reason| BrokerError::Client { broker: "pulsar", reason: format!("OAuth 2.0: {reason}") };
            Token::issued(issuer).await.map_err(failed)?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Arc::new(token)))
}

/// TLS for an issuer, and for an admin interface beside a broker without it: the authorities of the system are trusted.
fn system_tls() -> Result<Arc<ClientConfig>, String> {
    TlsIdentity::read(&Tls { ca: None, certificate: None, key: None, verify_host: true })?.client_config()
}

/// The admin interface of a broker in Pulsar's default configuration.
fn admin_url(addresses: &[String], tls: bool) -> String {
    let host = addresses.first().and_then(|address| address::split(address)).map_or("127.0.0.1", |(host, _)| host);
    match tls {
        false => format!("http://{host}:8080"),
        true => format!("https://{host}:8443"),
    }
}
