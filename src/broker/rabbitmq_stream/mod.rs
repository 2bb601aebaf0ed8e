//! RabbitMQ's streams, over a protocol module of our own.
//!
//! - `config`: the `[broker.rabbitmq-stream]` table.
//! - `admin`, `nodes`: streams, created, found and removed; their leaders, and the addresses of nodes.
//! - `connection`, `pending`, `pool`: publishing connections, their messages in flight, and the routes to streams.
//! - `producer`, `topic_publishers`, `sub_entries`: producers, the publishers they share, and messages that are one entry.
//! - `consumer`, `subscriptions`, `recovery`, `stream_progress`, `tail`: a member of a group, its connections, how it gets them back, how far it has read, and the offsets it
//!   begins at.
//! - [`codec`]: the protocol's commands, frames and chunks; [`amqp`], `body`: the content of a message.
//! - `connect`, `incoming`: opens connections, and reads them.
//! - `error`: the protocol's errors and their classes; `routing`: the stream of a key.
//!
//! A topic of one partition is a stream, one of several a super stream. Publishing connections go to the nodes that lead
//! the streams, `broker.connections` to each; a consumer has one connection to each node whose streams it reads. The
//! streams of a super stream are shared out among a group's members: each stream is read by one member.

mod admin;
pub mod amqp;
mod body;
pub mod codec;
mod config;
mod connect;
mod connection;
mod consumer;
mod error;
mod incoming;
mod nodes;
mod pending;
mod pool;
mod producer;
mod recovery;
mod routing;
mod stream_progress;
mod sub_entries;
mod subscriptions;
mod tail;
mod topic_publishers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use self::admin::Admin;
use self::body::Writer;
use self::codec::command::Offset;
pub use self::config::RabbitmqStreamOptions;
use self::connect::Connector;
use self::consumer::RabbitmqStreamConsumer;
use self::nodes::{Nodes, StreamLocation};
use self::pool::Pool;
use self::producer::RabbitmqStreamProducer;
use self::recovery::Recovery;
use super::{Broker, BrokerError, BrokerInfo, Setup, Subscription, Telemetry, Topic};
use crate::scenario::{Capabilities, Descriptor, SaslMechanism, StartFrom};

const KIND: &str = "rabbitmq-stream";

/// A RabbitMQ node or cluster, reached over stream connections.
pub struct RabbitmqStreamBroker {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    writer: Arc<Writer>,
    pool: Arc<Pool>,
    topics: Mutex<BTreeMap<String, Arc<Vec<StreamLocation>>>>,
    version: String,
    timeout: Duration,
}

impl Broker for RabbitmqStreamBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: KIND,
        summary: "RabbitMQ's streams and super streams, over their binary protocol",
        capabilities: Capabilities {
            addresses: true,
            embedded: false,
            partitions: true,
            replication: true,
            keys: true,
            headers: true,
            own_partition: false,
            null_payloads: false,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[SaslMechanism::Plain],
            properties: false,
            topic_config: false,
            existing_topics: false,
            offsets: false,
        },
        check_options: |options| options.try_into::<RabbitmqStreamOptions>()?.check().map_err(serde::de::Error::custom),
    };

    type Producer = RabbitmqStreamProducer;
    type Consumer = RabbitmqStreamConsumer;

    async fn connect(setup: Setup) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: KIND, reason };
        let options: RabbitmqStreamOptions =
            setup.config.options.clone().try_into().map_err(|error: toml::de::Error| refused(error.to_string()))?;
        let writer = Arc::new(Writer::new(options.body, &setup.headers).map_err(refused)?);
        let connector = Arc::new(Connector::new(&setup.config, &options, &setup.run_id, setup.timeout)?);
        let nodes = Arc::new(Nodes::new(setup.config.addresses.clone(), options.connect_to, options.consume_from));
        let admin = Arc::new(Admin::new(connector.clone(), nodes.clone(), setup.timeout));
        let server = admin.reach().await?;
        let pool = Pool::start(connector.clone(), admin.clone(), nodes.clone(), setup.acks, setup.config.connections);
        Ok(RabbitmqStreamBroker {
            connector,
            admin,
            nodes,
            writer,
            pool,
            topics: Mutex::default(),
            version: server.version,
            timeout: setup.timeout,
        })
    }

    async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        self.admin.prepare(topics, created).await
    }

    async fn producer(&self, producer_index: usize, topic: &Topic) -> Result<RabbitmqStreamProducer, BrokerError> {
        let mut routes = Vec::with_capacity(topic.partitions as usize);
        for location in self.locations(topic).await?.iter() {
            routes.push(self.pool.route(location, producer_index).await?);
        }
        let options = self.connector.options();
        let sub_entries = options.sub_entry.map(|messages| (messages, options.compression));
        Ok(RabbitmqStreamProducer::new(routes, self.writer.clone(), sub_entries, options.reconnect, producer_index))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<RabbitmqStreamConsumer, BrokerError> {
        let from = self.connector.options().start.unwrap_or(match subscription.from {
            StartFrom::Earliest => Offset::First,
            StartFrom::Latest => Offset::Next,
        });
        let locations = self.locations(&subscription.topic).await?;
        let streams = locations
            .iter()
            .enumerate()
            .filter(|(number, _)| number % subscription.members == subscription.member)
            .map(|(number, location)| (number as u32, location.stream.clone()));
        let streams = streams.collect();
        let recovery = Recovery::new(self.connector.clone(), self.admin.clone(), self.nodes.clone());
        RabbitmqStreamConsumer::subscribe(recovery, streams, from).await
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!("brokermark {}, RabbitMQ stream protocol", env!("CARGO_PKG_VERSION")),
            broker: Some(format!("RabbitMQ {}", self.version)),
            embedded: false,
        }
    }

    fn telemetry(&self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        for connection in self.pool.connections() {
            let (queue_full_ns, messages) = connection.take_telemetry();
            telemetry.queue_full_ns += queue_full_ns;
            *telemetry.queue_messages.get_or_insert(0) += messages;
        }
        telemetry
    }

    async fn close(self, created: Vec<String>) -> Result<(), BrokerError> {
        self.pool.close().await;
        let removed = timeout(self.timeout, self.admin.remove(&created)).await.unwrap_or_else(|_| {
            let reason = format!("streams were not removed within {:?}", self.timeout);
            Err(BrokerError::Client { broker: KIND, reason })
        });
        self.admin.close().await;
        removed
    }
}

impl RabbitmqStreamBroker {
    /// The streams of a topic and their locations, requested once.
    async fn locations(&self, topic: &Topic) -> Result<Arc<Vec<StreamLocation>>, BrokerError> {
        let mut topics = self.topics.lock().await;
        if let Some(locations) = topics.get(&topic.name) {
            return Ok(locations.clone());
        }
        let streams = self.admin.streams(&topic.name).await?;
        let names: Vec<&str> = streams.iter().map(String::as_str).collect();
        let mut locations = self.admin.locations(&names).await?;
        // In the order of the partitions. The response may have another order.
        locations.sort_by_key(|location| names.iter().position(|name| *name == location.stream));
        if locations.is_empty() {
            let reason = "the stream does not exist".to_owned();
            return Err(BrokerError::Topic { topic: topic.name.clone(), action: "found", reason });
        }
        let locations = Arc::new(locations);
        topics.insert(topic.name.clone(), locations.clone());
        Ok(locations)
    }
}
