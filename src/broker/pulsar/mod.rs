//! Apache Pulsar, by a protocol module of our own.
//!
//! - `config`: the `[broker.pulsar]` table; `name`: names of topics.
//! - `admin`: topics, created and removed over HTTP.
//! - `connect`: opens a connection; `connection`: its tasks; `pool`: all connections, and which serves a topic; `traffic`: what
//!   they have sent; `token`: what they log in with.
//! - `codec`: the binary protocol.
//! - `producer`: a producer of a topic; it has one `partition_producer` for each partition, chosen by `routing`;
//!   `building` makes the entries.
//! - `lingering`: collects a producer's messages for a while before they are sent.
//! - `consumer`: a member of a subscription.
//! - `retry`: opens producers and consumers again.
//! - `error`: what goes wrong, by class.
//!
//! Why not the `pulsar` crate: docs/decisions/0006-pulsar-protocol.md.

mod admin;
mod building;
pub mod codec;
mod config;
mod connect;
mod connection;
mod consumer;
mod durability;
mod error;
#[cfg(test)]
mod late_subscription;
mod lingering;
mod name;
mod partition_producer;
mod pool;
mod producer;
mod retry;
mod routing;
mod token;
mod topic_producer;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::Notify;

use self::admin::Admin;
use self::codec::entry::Manner;
use self::config::{PulsarOptions, SubscriptionType};
use self::connect::SocketSettings;
use self::consumer::{Membership, PulsarConsumer};
use self::lingering::LingeringProducer;
use self::name::TopicName;
use self::partition_producer::{Client, PartitionProducer};
use self::pool::Pool;
use self::producer::PulsarProducer;
use self::token::Token;
use self::topic_producer::TopicProducer;
use super::{Broker, BrokerError, BrokerInfo, Durability, Setup, Subscription, Telemetry, Topic};
use crate::net::address;
use crate::net::tls::{Tls, TlsIdentity};
use crate::scenario::{Capabilities, Descriptor};

/// A Pulsar cluster.
pub struct PulsarBroker {
    shared: Arc<Client>,
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

impl Broker for PulsarBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "pulsar",
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
            topic_config: false,
            existing_topics: false,
            offsets: false,
        },
        check_options: config::check,
    };

    type Producer = PulsarProducer;
    type Consumer = PulsarConsumer;

    async fn connect(setup: Setup) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: "pulsar", reason };
        let Setup { config, acks, timeout, .. } = &setup;
        let options = PulsarOptions::read(config)?;
        let identity = config.security.tls.as_ref().map(TlsIdentity::read).transpose().map_err(refused)?;
        let token = options.token.clone().map(Token::read).transpose().map_err(refused)?.map(Arc::new);
        let admin_url = options.admin.clone().unwrap_or_else(|| admin_url(&config.addresses, identity.is_some()));
        let tls = identity.as_ref().map(TlsIdentity::client_config).transpose().map_err(refused)?;
        let admin_tls = match &tls {
            None if admin_url.starts_with("https://") => Some(system_tls().map_err(refused)?),
            tls => tls.clone(),
        };
        let admin = Admin::new(&admin_url, token.clone(), admin_tls, *timeout);
        let settings = SocketSettings {
            tls,
            token,
            certified: identity.as_ref().is_some_and(|identity| identity.own.is_some()),
            timeout: *timeout,
            keep_alive: options.keep_alive,
            send_timeout: options.send_timeout,
        };
        let recorders = (0..config.connections).map(|_| acks.recorder()).collect();
        let pool = Pool::new(settings, config.addresses.clone(), recorders);
        let mut server_version = String::new();
        for index in 0..config.connections {
            let greeting = pool.greet(index).await.map_err(|failure| failure.at(&config.addresses.join(", ")))?;
            server_version = greeting.server_version;
        }
        let identity = BrokerInfo {
            client: format!("brokermark {}", env!("CARGO_PKG_VERSION")),
            broker: Some(server_version),
            embedded: false,
        };
        let manner = Manner::new(options.compression, setup.headers());
        let recorder = acks.recorder();
        let shared = Client { pool: Arc::new(pool), options, manner, recorder, waited_ns: AtomicU64::new(0) };
        Ok(PulsarBroker {
            shared: Arc::new(shared),
            admin,
            partitions: Mutex::default(),
            subscriptions: Mutex::default(),
            connections: config.connections,
            consumers: AtomicUsize::new(0),
            run_id: setup.run_id,
            identity,
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

    async fn producer(&self, producer_index: usize, topic: &Topic) -> Result<PulsarProducer, BrokerError> {
        let index = producer_index % self.connections;
        let parts = self.parts(&topic.name).into_iter();
        let returned = Arc::new(Notify::new());
        let resend =
            self.shared.options.resend.then(|| (format!("{}-{producer_index}", self.run_id), returned.clone()));
        let open = |part| PartitionProducer::open(self.shared.clone(), part, index, resend.clone());
        let partition_producers = try_join_all(parts.map(open));
        let partition_producers =
            partition_producers.await.map_err(|failure| failure.of_topic(&topic.name, "written to"))?;
        let producer = TopicProducer::new(self.shared.clone(), partition_producers, producer_index);
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
        let consumer = PulsarConsumer::open(self.shared.clone(), membership, self.parts(topic)).await;
        let consumer = consumer.map_err(|failure| failure.of_topic(topic, "consumed"))?;
        self.subscriptions.lock().insert((topic.clone(), subscription.group.clone()));
        Ok(consumer)
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

impl PulsarBroker {
    fn name(&self, topic: &str) -> TopicName {
        TopicName::new(&self.shared.options.namespace, topic, self.shared.options.persistent)
    }

    fn parts(&self, topic: &str) -> Vec<Arc<str>> {
        let partitions = self.partitions.lock().get(topic).copied().unwrap_or(0);
        self.name(topic).parts(partitions)
    }
}

/// TLS for an admin interface beside a broker without it: the authorities of the system are trusted.
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
