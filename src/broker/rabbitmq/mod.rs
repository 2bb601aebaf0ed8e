//! RabbitMQ's queues over AMQP 0.9.1. Messages are published and consumed by a protocol module of our own, because the crate `lapin` costs
//! half of what RabbitMQ's own tool does; queues and exchanges are created by the crate.
//!
//! - `config`: the `[broker.rabbitmq]` table.
//! - `handshake`, `codec`, `content`: connections of our own, and what crosses them.
//! - `publish`, `in_flight`: producers. `consume`: members of groups.
//! - `connect`: the crate's connection, which is opened again when it is lost, and the server's refusals.
//!
//! A topic is a queue of its name, which messages reach through the server's default exchange. With several groups or an exchange of the
//! scenario's own, it is an exchange of its name that queues are bound to. Each producer has a channel, and each consumer a connection.

mod codec;
mod config;
mod connect;
mod consume;
mod content;
mod handshake;
mod in_flight;
mod publish;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Error, ExchangeKind};
use parking_lot::Mutex;
use tokio::time::sleep;

use self::codec::table_entries;
use self::config::QueueType;
pub use self::config::RabbitmqOptions;
use self::connect::Link;
use self::consume::{Consuming, RabbitmqConsumer};
use self::content::{MessageProperties, Preamble};
use self::handshake::Connector;
use self::publish::{Connection, Publishing, RabbitmqProducer};
use super::{
    Broker, BrokerError, BrokerInfo, ClientError, Created, Durability, DurabilityLevel, FailureClass, Removal,
    RemovalExtent, Setup, Subscription, Telemetry, Topic,
};
use crate::net::address;
use crate::scenario::{BrokerConfig, Capabilities, Descriptor, Need, SaslMechanism};

/// The crate and its version, for the record. A test compares it with Cargo.lock.
const CRATE: &str = "lapin 4.12.3";

/// The port of RabbitMQ's streams, which users take for that of its queues.
const STREAM_PORT: u16 = 5552;

/// A queue has back what its consumers had when its length is the same at two looks: a quorum queue writes its log first.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const MAX_LOOKS: usize = 8;

/// Queues of a RabbitMQ node or cluster.
pub struct RabbitmqBroker {
    setup: Arc<Setup<RabbitmqOptions>>,
    connections: Vec<Arc<Connection>>,
    connector: Arc<Connector>,
    /// For topics: the server reads nothing from a connection that publishes while an alarm lasts.
    admin: Link,
    /// Entries of the table of each of the scenario's lists of headers.
    header_sets: Vec<Vec<u8>>,
    server: Option<String>,
    /// Queues of groups on exchanges that existed before.
    joined: Mutex<BTreeSet<String>>,
}

impl Broker for RabbitmqBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "rabbitmq",
        aliases: &["amqp"],
        tls_scheme: Some(("amqps", 5671)),
        default_port: Some(5672),
        example: include_str!("example.toml"),
        omb_driver: Some("RabbitMqBenchmarkDriver"),
        summary: "RabbitMQ's quorum and classic queues over AMQP 0.9.1, with topics by the crate lapin",
        capabilities: Capabilities {
            addresses: true,
            replication: true,
            headers: true,
            own_headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[SaslMechanism::Plain, SaslMechanism::External],
            existing_topics: true,
            ..Capabilities::NONE
        },
        ..Descriptor::NONE
    };

    type Options = RabbitmqOptions;
    type Producer = RabbitmqProducer;
    type Consumer = RabbitmqConsumer;

    fn refusal(config: &BrokerConfig, _: &RabbitmqOptions) -> Option<String> {
        let is_of_streams = |one: &String| address::split(one).is_some_and(|(_, port)| port == STREAM_PORT);
        config.addresses.iter().any(is_of_streams).then(|| {
            format!(
                "port {STREAM_PORT} in `broker.addresses` is that of RabbitMQ's streams, and this kind is its queues: write \
                 `rabbitmq-stream://` or `kind = \"rabbitmq-stream\"`, or the port of AMQP, 5672"
            )
        })
    }

    fn remedy(need: Need<'_>, config: &BrokerConfig, options: &RabbitmqOptions) -> Option<String> {
        let host = &options.virtual_host;
        match need {
            Need::ProducerRight(_) | Need::ConsumerRight(_) | Need::CreateRight(_) | Need::DeleteRight(_) => {
                Some(format!("rabbitmqctl set_permissions -p {host} {} '.*' '.*' '.*'", config.user_name()))
            }
            Need::TopicUsers(_) => Some(format!("rabbitmqctl list_consumers -p {host} lists its readers")),
            Need::Topic(_) | Need::Durability(_) => None,
        }
    }

    async fn connect(setup: Setup<RabbitmqOptions>) -> Result<Self, BrokerError> {
        let setup = Arc::new(setup);
        let Setup { config, options, header_sets, .. } = &*setup;
        let admin = Link::new(&setup).await?;
        let header_sets: Result<_, _> = header_sets.iter().map(|headers| table_entries(headers)).collect();
        let header_sets = header_sets.map_err(|error| BrokerError::Configuration(error.to_string()))?;
        let connector = Arc::new(Connector::new(setup.clone()).map_err(BrokerError::Configuration)?);
        let mut server = None;
        let mut connections = Vec::with_capacity(config.connections);
        for number in 0..config.connections {
            let (opened, place) = connector
                .connect("producer", number)
                .await
                .map_err(|failure| failure.at(&config.addresses.join(", ")))?;
            server.clone_from(&opened.server);
            let outcomes = (options.confirms, options.reconnect);
            connections.push(Arc::new(Publishing::start(&setup, connector.clone(), outcomes, (opened, place))));
        }
        Ok(RabbitmqBroker { setup, connections, connector, admin, header_sets, server, joined: Mutex::default() })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        if options.queue == QueueType::Classic && topic.replication > 1 {
            return Err(BrokerError::Configuration(
                "a classic queue has one copy: set `topology.replication = 1`, or `broker.rabbitmq.queue = \"quorum\"`"
                    .to_owned(),
            ));
        }
        let existing = self.find_topic(topic).await?;
        let created = self.with_channel(async |channel| {
            if let Some(kind) = options.exchange_kind(*groups) {
                declare_exchange(channel, &topic.name, kind, false).await?;
            }
            // Those that exist must have these arguments: the server names what differs.
            for queue in self.queues_of(topic) {
                self.declare(channel, topic, &queue).await?;
            }
            Ok(())
        });
        created.await.map_err(|error| error.of_topic(&topic.name, "created"))?;
        Ok(existing.map_or(Created::New, Created::Existing))
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        let found = self.with_channel(async |channel| match options.exchange_kind(*groups) {
            Some(kind) => declare_exchange(channel, &topic.name, kind, true).await,
            None => find_queue(channel, &topic.name).await.map(drop),
        });
        match found.await {
            Ok(()) => Ok(Some(topic.clone())),
            Err(error) if error.class == FailureClass::UnknownTopic => Ok(None),
            Err(error) => Err(error.of_topic(&topic.name, "looked up")),
        }
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        let deleted = self.with_channel(async |channel| {
            // The server accepts the deletion of a queue that is gone.
            for queue in self.queues_of(topic) {
                channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
            }
            if options.exchange_kind(*groups).is_some() {
                channel.exchange_delete(topic.name.as_str().into(), ExchangeDeleteOptions::default()).await?;
            }
            Ok(())
        });
        deleted.await.map_err(|error| error.of_topic(&topic.name, "deleted"))
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<RabbitmqProducer, BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        let connection = self.connections[producer_number % self.connections.len()].clone();
        let properties = MessageProperties {
            persistent: options.persistent,
            priority: options.priority.map(|priority| priority.get()),
        };
        let exchange = if options.exchange_kind(*groups).is_some() { topic.name.as_str() } else { "" };
        let preambles = |channel| {
            let preamble = |headers: &Vec<u8>| {
                let target = (exchange, topic.name.as_str());
                Preamble::new(channel, target, options.mandatory(), headers.clone(), properties)
            };
            self.header_sets.iter().map(preamble).collect()
        };
        let producer = RabbitmqProducer::open(connection, &topic.name, preambles).await;
        producer.map_err(|error| error.of_topic(&topic.name, "written to"))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<Self::Consumer, BrokerError> {
        self.register(subscription).await?;
        let Setup { options, timeout, .. } = &*self.setup;
        let consuming = Consuming {
            connector: self.connector.clone(),
            place: subscription.member,
            queue: self.queue_of(subscription),
            options: options.clone(),
            timeout: *timeout,
        };
        let opened = RabbitmqConsumer::open(consuming).await;
        opened.map_err(|error| error.of_topic(&subscription.topic.name, "consumed"))
    }

    /// A topic's queues were made with it, except for those of an exchange that existed.
    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        let (topic, queue) = (&subscription.topic, self.queue_of(subscription));
        if self.setup.groups <= 1 {
            return Ok(());
        }
        match self.with_channel(async |channel| find_queue(channel, &queue).await).await {
            Err(error) if error.class == FailureClass::UnknownTopic => {
                self.joined.lock().insert(queue.clone());
                self.with_channel(async |channel| self.declare(channel, topic, &queue).await).await
            }
            found => found.map(drop),
        }
        .map_err(|error| error.of_topic(&topic.name, "consumed"))
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!("brokermark {}, AMQP 0.9.1; topics by {CRATE}", env!("CARGO_PKG_VERSION")),
            broker: self.server.clone(),
            embedded: false,
        }
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        const SOURCE: &str = "broker.rabbitmq";
        let RabbitmqOptions { queue, persistent, confirms, .. } = &self.setup.options;
        if !confirms {
            return Durability::new(DurabilityLevel::Nowhere, None, [("confirms", "false".to_owned())], SOURCE);
        }
        // rabbitmq.com/docs/confirms, "When Will Published Messages Be Confirmed by the Broker?": when a majority of a quorum queue's
        // members have it on disk; when a classic queue has written a persistent message, which it does not synchronise.
        let (level, copies) = match (queue, persistent) {
            (QueueType::Quorum, _) => (DurabilityLevel::Disk, topics.first().map(|topic| topic.replication / 2 + 1)),
            (QueueType::Classic, true) => (DurabilityLevel::PageCache, Some(1)),
            (QueueType::Classic, false) => (DurabilityLevel::Memory, Some(1)),
        };
        let settings = [("queue", queue.name().to_owned()), ("persistent", persistent.to_string())];
        Durability::new(level, copies, settings, SOURCE)
    }

    /// The server does not tell what a queue has removed, nor a queue's arguments, but whether they are those of the scenario.
    async fn removal(&self, topic: &Topic, _: &[String]) -> Option<Removal> {
        let rules = self.setup.options.removal_rules();
        if rules.is_empty() {
            return None;
        }
        let mut left = Vec::new();
        for queue in self.queues_of(topic) {
            left.push(self.messages_left(topic, &queue).await.ok()?);
        }
        Some(Removal { rules, extent: RemovalExtent::Left(left) })
    }

    fn telemetry(&self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        for connection in &self.connections {
            let (queue_full_ns, messages) = connection.take_telemetry();
            telemetry.queue_full_ns += queue_full_ns;
            *telemetry.queue_messages.get_or_insert(0) += messages;
        }
        telemetry
    }

    async fn stop(&self) {
        self.connections.iter().for_each(|connection| publish::end(connection));
    }

    async fn close(self) -> Result<(), BrokerError> {
        let joined = self.joined.lock().clone();
        for queue in joined {
            let deleted = self.with_channel(async |channel| {
                channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.map(drop)
            });
            deleted.await.map_err(|error| error.of_topic(&queue, "deleted"))?;
        }
        self.admin.close().await;
        Ok(())
    }
}

impl RabbitmqBroker {
    /// The queues of a topic: its own, or one for each group.
    fn queues_of(&self, topic: &Topic) -> Vec<String> {
        match self.setup.groups {
            0 | 1 => vec![topic.name.clone()],
            groups => (0..groups).map(|group| format!("{}.{group}", topic.name)).collect(),
        }
    }

    fn queue_of(&self, subscription: &Subscription) -> String {
        self.queues_of(&subscription.topic).swap_remove(if self.setup.groups > 1 { subscription.number } else { 0 })
    }

    /// Declares a queue, and binds it to the topic's exchange if there is one.
    async fn declare(&self, channel: &Channel, topic: &Topic, queue: &str) -> Result<(), Error> {
        let Setup { options, groups, .. } = &*self.setup;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let arguments = options.queue_arguments(topic.replication);
        channel.queue_declare(queue.into(), durable, arguments).await?;
        if options.exchange_kind(*groups).is_some() {
            let (exchange, key) = (topic.name.as_str().into(), topic.name.as_str().into());
            let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
            channel.queue_bind(queue.into(), exchange, key, options, arguments).await?;
        }
        Ok(())
    }

    /// The messages in a queue that has the scenario's arguments, when it has back what consumers had that are gone.
    async fn messages_left(&self, topic: &Topic, queue: &str) -> Result<u64, ClientError> {
        let count = async |channel: &Channel| {
            let mut count = find_queue(channel, queue).await?;
            // A queue that exists is not changed by it.
            self.declare(channel, topic, queue).await?;
            for _ in 0..MAX_LOOKS {
                sleep(BETWEEN_LOOKS).await;
                if std::mem::replace(&mut count, find_queue(channel, queue).await?) == count {
                    break;
                }
            }
            Ok(count)
        };
        self.with_channel(count).await
    }

    /// Makes requests on a channel of their own: one that the server refuses closes it.
    async fn with_channel<T>(
        &self,
        requests: impl AsyncFnOnce(&Channel) -> Result<T, Error>,
    ) -> Result<T, ClientError> {
        let channel = self.admin.channel().await?;
        let answer = requests(&channel).await?;
        // It ends with the connection otherwise.
        let _ = channel.close(200, "done".into()).await;
        Ok(answer)
    }
}

/// The messages of a queue that are there to be delivered.
async fn find_queue(channel: &Channel, name: &str) -> Result<u64, Error> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(name.into(), passive, FieldTable::default()).await?;
    Ok(queue.message_count().into())
}

async fn declare_exchange(channel: &Channel, name: &str, kind: ExchangeKind, passive: bool) -> Result<(), Error> {
    let options = ExchangeDeclareOptions { durable: true, passive, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_names_the_version_that_is_compiled() {
        let lock = include_str!("../../../Cargo.lock");
        let (name, version) = CRATE.split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
    }
}
