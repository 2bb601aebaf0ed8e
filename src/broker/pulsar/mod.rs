//! Apache Pulsar, by a protocol module of our own.
//!
//! - `config`: the `[broker.pulsar]` table.
//! - `topics`: the trial's topics and subscriptions; `admin`: how they are created and removed over HTTP.
//! - `connect`: opens a connection; `connection`: its tasks, and what is in flight; `pool`: all connections, and which serves a topic;
//!   `token`: what they log in with.
//! - `codec`: the binary protocol.
//! - `producer`: a producer of a topic, which may collect messages for a while; `topic_producer`: spreads them over one
//!   `partition_producer` for each partition, which builds `entries`.
//! - `topic_consumer`: a member of a subscription.
//! - `retry`: what the broker refuses, by class; opens producers and consumers again.
//! - `crate_client`: the crate `pulsar` as another client.
//!
//! Why the crate is not the only one: docs/decisions/0006-pulsar-protocol.md.

mod admin;
pub mod codec;
mod config;
mod connect;
mod connection;
#[cfg(feature = "pulsar-rs")]
mod crate_client;
mod entries;
#[cfg(test)]
#[path = "../../../tests/unit/broker/pulsar/late_subscription.rs"]
mod late_subscription;
mod partition_producer;
mod policies;
mod pool;
mod producer;
mod retry;
mod topic_consumer;
mod topic_producer;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join_all;
use tokio::sync::Notify;

use self::codec::entry::EntryTemplate;
use self::config::PulsarOptions;
#[cfg(feature = "pulsar-rs")]
pub use self::crate_client::PulsarCrateBroker;
use self::partition_producer::{Client, PartitionProducer};
use self::pool::Pool;
use self::producer::{LingeringProducer, PulsarProducer};
use self::topic_consumer::TopicConsumer;
use self::topic_producer::TopicProducer;
use self::topics::Topics;
use super::{Broker, BrokerError, BrokerInfo, Created, Durability, Removal, Setup, Subscription, Telemetry, Topic};
use crate::measure::ConditionKind;
use crate::scenario::{BrokerConfig, Capabilities, Contradiction, Descriptor, Need, Scenario};

/// A Pulsar cluster, reached by brokermark's own client.
pub struct PulsarBroker {
    shared: Arc<Client>,
    topics: Topics,
    connections: usize,
    identity: BrokerInfo,
}

impl Broker for PulsarBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "pulsar",
        default_port: Some(6650),
        omb_driver: Some("PulsarBenchmarkDriver"),
        example: include_str!("example.toml"),
        client: Some("native"),
        summary: "Apache Pulsar, by its binary protocol",
        capabilities: Capabilities {
            addresses: true,
            partitions: true,
            keys: true,
            headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            ..Capabilities::NONE
        },
        tells: |kind| {
            let of_pulsar = [
                ConditionKind::TopicGone,
                ConditionKind::Fenced,
                ConditionKind::Throttled,
                ConditionKind::BacklogQuota,
            ];
            kind.is_told_by_all() || of_pulsar.contains(&kind)
        },
        ..Descriptor::NONE
    };

    type Options = PulsarOptions;
    type Producer = PulsarProducer;
    type Consumer = TopicConsumer;

    fn contradiction(scenario: &Scenario, _: &BTreeMap<String, String>) -> Option<Contradiction> {
        let options: PulsarOptions = scenario.broker.options.clone().try_into().ok()?;
        Contradiction::of_delay(scenario, "broker.pulsar.deliver_after", options.deliver_after)
    }

    fn remedy(need: Need<'_>, config: &BrokerConfig, options: &PulsarOptions) -> Option<String> {
        let (namespace, user) = (&options.namespace, config.user_name());
        Some(match need {
            // A grant replaces what the role had.
            Need::ProducerRight(_) | Need::ConsumerRight(_) => {
                format!("pulsar-admin namespaces grant-permission {namespace} --role {user} --actions produce,consume")
            }
            // Topics are created and deleted by administrators of their tenant, whose list is replaced as well.
            Need::CreateRight(_) | Need::DeleteRight(_) => {
                let tenant = namespace.split('/').next().unwrap_or(namespace);
                format!(
                    "pulsar-admin tenants update {tenant} --admin-roles {user}, with the roles that pulsar-admin tenants get {tenant} lists"
                )
            }
            Need::Topic(_) => return None,
            Need::TopicUsers(topic) => {
                let topic = format!("persistent://{namespace}/{topic}");
                format!("pulsar-admin topics partitioned-stats {topic} lists its readers and writers")
            }
            Need::Durability(_) => "grep journalSyncData conf/bookkeeper.conf, on a bookie".to_owned(),
        })
    }

    async fn connect(setup: Setup<PulsarOptions>) -> Result<Self, BrokerError> {
        let (topics, settings) = Topics::new(&setup).await?;
        let recorders = (0..setup.config.connections).map(|_| setup.acks.recorder()).collect();
        let pool = Pool::new(settings, setup.config.addresses.clone(), recorders);
        let broker = Some(pool.greet_all().await?);
        let template = EntryTemplate::new(setup.options.compression, setup.headers());
        let options = setup.options;
        let recorder = setup.acks.recorder();
        let shared = Client { pool: Arc::new(pool), options, template, recorder, waited_ns: AtomicU64::new(0) };
        let client = format!("brokermark {}", env!("CARGO_PKG_VERSION"));
        Ok(PulsarBroker {
            shared: Arc::new(shared),
            topics,
            connections: setup.config.connections,
            identity: BrokerInfo { client, broker, embedded: false },
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

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<PulsarProducer, BrokerError> {
        let index = producer_number % self.connections;
        let returned = Arc::new(Notify::new());
        let PulsarOptions { linger, resend, .. } = self.shared.options;
        let named = resend.then(|| (self.topics.producer_name(producer_number), returned.clone()));
        let open = |(number, part): (usize, Arc<str>)| {
            let counted_in = self.shared.recorder.partition(&topic.name, Some(number as u32));
            PartitionProducer::open(self.shared.clone(), (part, counted_in), index, named.clone())
        };
        let partition_producers = try_join_all(self.topics.parts(&topic.name).into_iter().enumerate().map(open));
        let partition_producers =
            partition_producers.await.map_err(|failure| failure.for_topic(&topic.name, "written to"))?;
        let producer = TopicProducer::new(self.shared.clone(), partition_producers, producer_number);
        if linger.is_none() && !resend {
            return Ok(PulsarProducer::AtOnce(producer));
        }
        let linger = linger.unwrap_or_default();
        let producer = LingeringProducer::start(producer, self.shared.clone(), linger, returned);
        Ok(PulsarProducer::Lingering(producer))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<TopicConsumer, BrokerError> {
        let topic = &subscription.topic.name;
        let membership = self.topics.membership(subscription, &self.shared.options)?;
        let consumer = TopicConsumer::open(self.shared.clone(), membership, self.topics.parts(topic)).await;
        let consumer = consumer.map_err(|failure| failure.for_topic(topic, "consumed"))?;
        self.topics.joined(subscription);
        Ok(consumer)
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        self.topics.register(subscription).await
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        self.topics.durability(topics).await
    }

    fn takes_turns(&self) -> bool {
        self.shared.options.takes_turns()
    }

    async fn removal(&self, topic: &Topic, groups: &[String]) -> Option<Removal> {
        self.topics.removal(topic, groups).await
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

    async fn close(self) -> Result<(), BrokerError> {
        self.topics.unsubscribe().await
    }
}
