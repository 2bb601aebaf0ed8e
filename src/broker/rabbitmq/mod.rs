//! RabbitMQ's queues over AMQP 0.9.1, in a protocol module of our own.
//!
//! - `config`: the `[broker.rabbitmq]` table.
//! - `connect`, `codec`, `content`: connections, and what crosses them.
//! - `admin`: requests about exchanges and queues. `publish`, `in_flight`: producers. `consume`: members of groups.
//!
//! A topic is a queue of its name, which messages reach through the server's default exchange. With several groups or an exchange of the
//! scenario's own, it is an exchange of its name that queues are bound to. Each producer has a channel, and each consumer a connection.

mod admin;
mod codec;
mod config;
mod connect;
mod consume;
mod content;
mod in_flight;
mod publish;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::sleep;

use self::admin::{Admin, Request};
use self::codec::{Value, append_entry};
use self::config::QueueType;
pub use self::config::RabbitmqOptions;
use self::connect::{Connector, Role};
use self::consume::{Consuming, RabbitmqConsumer};
use self::content::{MessageProperties, Preamble};
use self::publish::{Connection, Publishing, RabbitmqProducer};
use super::{
    Broker, BrokerError, BrokerInfo, ClientError, Created, Durability, DurabilityLevel, FailureClass, OpenIdle,
    Removal, RemovalExtent, Setup, Subscription, Telemetry, Topic,
};
use crate::measure::ConditionKind;
use crate::net::address;
use crate::scenario::{BrokerConfig, Capabilities, Descriptor, Need, SaslMechanism};

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
    admin: Admin,
    /// Entries of the table of each of the scenario's lists of headers.
    header_sets: Vec<Vec<u8>>,
    server: Option<String>,
    /// Queues of groups on exchanges that existed before.
    joined: Mutex<BTreeSet<String>>,
    /// Queues that existed before topics were created: they are not deleted with them.
    found: Mutex<BTreeSet<String>>,
}

impl Broker for RabbitmqBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "rabbitmq",
        aliases: &["amqp"],
        tls_scheme: Some(("amqps", 5671)),
        default_port: Some(5672),
        example: include_str!("example.toml"),
        omb_driver: Some("RabbitMqBenchmarkDriver"),
        summary: "RabbitMQ's quorum and classic queues over AMQP 0.9.1",
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
            idle_connections: true,
            ..Capabilities::NONE
        },
        tells: |kind| kind.is_told_by_all() || matches!(kind, ConditionKind::TopicGone | ConditionKind::Blocked),
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
        let mut header_set_entries = Vec::with_capacity(header_sets.len());
        for headers in header_sets {
            let mut entries = Vec::new();
            for (name, value) in headers {
                append_entry(&mut entries, name, Value::Text(value))
                    .map_err(|error| BrokerError::Configuration(error.to_string()))?;
            }
            header_set_entries.push(entries);
        }
        let connector = Arc::new(Connector::new(setup.clone()).map_err(BrokerError::Configuration)?);
        let mut server = None;
        let mut connections = Vec::with_capacity(config.connections);
        for number in 0..config.connections {
            let opened = connector.connect(Role::Producer, number).await;
            let (opened, place) = opened.map_err(|failure| failure.at(&config.addresses.join(", ")))?;
            server.clone_from(&opened.server);
            let outcomes = (options.confirms, options.reconnect);
            connections.push(Arc::new(Publishing::start(&setup, connector.clone(), outcomes, (opened, place))));
        }
        let admin = Admin::new(connector.clone());
        let (header_sets, joined, found) = (header_set_entries, Mutex::default(), Mutex::default());
        Ok(RabbitmqBroker { setup, connections, connector, admin, header_sets, server, joined, found })
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
        let (queues, arguments) = (self.queues_of(topic), options.queue_arguments(topic.replication));
        let exchange = options.exchange(*groups).map(|kind| Request::DeclareExchange(&topic.name, kind));
        let found = if exchange.is_some() {
            self.find_queues(&queues).await.map_err(|error| error.for_topic(&topic.name, "created"))?
        } else {
            // Such a topic is its queue.
            existing.iter().map(|topic| topic.name.clone()).collect()
        };
        self.found.lock().extend(found.iter().cloned());
        // Those that exist must have these arguments: the server names what differs, before anything is made.
        let mut requests: Vec<_> = found.iter().map(|queue| Request::DeclareQueue(queue, &arguments)).collect();
        requests.extend(exchange);
        if existing.is_none() {
            requests.extend(queues.iter().flat_map(|queue| self.declaration(topic, queue, &arguments)));
        }
        self.admin.ask(&requests).await.map_err(|error| error.for_topic(&topic.name, "created"))?;
        Ok(existing.map_or(Created::New, Created::Existing))
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        let of_queue = Request::FindQueue(&topic.name);
        let request = options.exchange(*groups).map_or(of_queue, |kind| Request::FindExchange(&topic.name, kind));
        match self.admin.ask(&[request]).await {
            Ok(_) => Ok(Some(topic.clone())),
            Err(error) if error.class == FailureClass::UnknownTopic => Ok(None),
            Err(error) => Err(error.for_topic(&topic.name, "looked up")),
        }
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        let (mut queues, exchange) = (self.queues_of(topic), options.exchange(*groups));
        queues.retain(|queue| !self.found.lock().contains(queue));
        // It takes with it what binds queues to it.
        let exchange = exchange.map(|_| Request::DeleteExchange(&topic.name));
        let requests: Vec<_> = queues.iter().map(|queue| Request::DeleteQueue(queue)).chain(exchange).collect();
        let deleted = self.admin.ask(&requests).await;
        deleted.map(drop).map_err(|error| error.for_topic(&topic.name, "deleted"))
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<RabbitmqProducer, BrokerError> {
        let Setup { options, groups, .. } = &*self.setup;
        let connection = self.connections[producer_number % self.connections.len()].clone();
        let properties = MessageProperties {
            persistent: options.persistent,
            priority: options.priority.map(|priority| priority.get()),
        };
        let exchange = if options.exchange(*groups).is_some() { topic.name.as_str() } else { "" };
        let preambles = |channel| {
            let preamble = |headers: &Vec<u8>| {
                let target = (exchange, topic.name.as_str());
                Preamble::new(channel, target, options.mandatory(), headers.clone(), properties)
            };
            self.header_sets.iter().map(preamble).collect()
        };
        let producer = RabbitmqProducer::open(connection, &topic.name, preambles).await;
        producer.map_err(|error| error.for_topic(&topic.name, "written to"))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<Self::Consumer, BrokerError> {
        self.register(subscription).await?;
        let (connector, queue) = (self.connector.clone(), self.queue_of(subscription));
        let opened = RabbitmqConsumer::open(Consuming { connector, place: subscription.consumer_number, queue }).await;
        opened.map_err(|error| error.for_topic(&subscription.topic.name, "consumed"))
    }

    /// A topic's queues were made with it, except for those of an exchange that existed: they are made here, and removed at the end.
    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        let (topic, queue) = (&subscription.topic, self.queue_of(subscription));
        let Setup { options, groups, .. } = &*self.setup;
        if options.exchange(*groups).is_none() {
            return Ok(());
        }
        let found = match self.admin.ask(&[Request::FindQueue(&queue)]).await {
            Err(error) if error.class == FailureClass::UnknownTopic => {
                // Other processes may use a divided group's queue for longer.
                if !subscription.is_divided {
                    self.joined.lock().insert(queue.clone());
                }
                let arguments = options.queue_arguments(topic.replication);
                self.admin.ask(&self.declaration(topic, &queue, &arguments)).await
            }
            found => found,
        };
        found.map(drop).map_err(|error| error.for_topic(&topic.name, "consumed"))
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!("brokermark {}, AMQP 0.9.1", env!("CARGO_PKG_VERSION")),
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

    fn takes_turns(&self) -> bool {
        true
    }

    fn idle_connections(&self) -> Option<OpenIdle> {
        let connector = self.connector.clone();
        Some(Arc::new(move |number| connector.clone().idle(number).boxed()))
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
            let deleted = self.admin.ask(&[Request::DeleteQueue(&queue)]).await;
            deleted.map_err(|error| error.for_topic(&queue, "deleted"))?;
        }
        self.admin.close();
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

    /// Those of the queues that exist.
    async fn find_queues(&self, queues: &[String]) -> Result<Vec<String>, ClientError> {
        let mut found = Vec::new();
        for queue in queues {
            match self.admin.ask(&[Request::FindQueue(queue)]).await {
                Ok(_) => found.push(queue.clone()),
                Err(error) if error.class == FailureClass::UnknownTopic => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Declares a queue with these arguments, and binds it to the topic's exchange if there is one.
    fn declaration<'a>(
        &self,
        topic: &'a Topic,
        queue: &'a str,
        arguments: &'a [(&'a str, Value<'a>)],
    ) -> Vec<Request<'a>> {
        let Setup { options, groups, .. } = &*self.setup;
        let binding = options.exchange(*groups).map(|_| Request::Bind(queue, &topic.name));
        [Request::DeclareQueue(queue, arguments)].into_iter().chain(binding).collect()
    }

    /// The messages in a queue that has the scenario's arguments, when it has back what consumers had that are gone.
    async fn messages_left(&self, topic: &Topic, queue: &str) -> Result<u64, ClientError> {
        let arguments = self.setup.options.queue_arguments(topic.replication);
        // A queue that exists is not changed by it.
        let mut count = self.admin.ask(&[Request::FindQueue(queue), Request::DeclareQueue(queue, &arguments)]).await?;
        for _ in 0..MAX_LOOKS {
            sleep(BETWEEN_LOOKS).await;
            if std::mem::replace(&mut count, self.admin.ask(&[Request::FindQueue(queue)]).await?) == count {
                break;
            }
        }
        Ok(count)
    }
}
