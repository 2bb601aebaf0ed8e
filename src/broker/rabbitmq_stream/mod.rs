//! RabbitMQ's streams, over a protocol module of our own.
//!
//! - `config`: the `[broker.rabbitmq-stream]` table.
//! - `admin`: streams, created, found and removed; their leaders, and the addresses of nodes.
//! - `connection`, `pool`: publishing connections with their messages in flight, and the routes to streams.
//! - `producer`, `topic_publishers`: producers, and the publishers that they share.
//! - `consumer`, `subscriptions`: a member of a group, its connections, and how it gets them back.
//! - `group`, `member_offsets`, `offsets`: its part in the group, what it commits and leaves; the group's offsets, which the server
//!   stores, and the ends of streams.
//! - [`codec`]: the protocol's commands, frames, chunks and errors, and AMQP 1.0; [`body`]: the content of a message.
//! - `connect`: opens connections, and reads them.
//!
//! A topic of one partition is a stream, one of several a super stream. Publishing connections go to the nodes that lead
//! the streams, `broker.connections` to each; a consumer has one connection to each node whose streams it reads. The
//! streams of a super stream are shared out among a group's members: each stream is read by one member.

mod admin;
pub mod body;
pub mod codec;
mod config;
mod connect;
mod connection;
mod consumer;
mod group;
mod member_offsets;
mod offsets;
mod pool;
mod producer;
mod subscriptions;
mod topic_publishers;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::sync::Mutex;

use self::admin::{Admin, Nodes, StreamLocation, durability};
use self::body::Writer;
use self::codec::command::Offset;
pub use self::config::{Body, RabbitmqStreamOptions};
use self::connect::Connector;
use self::consumer::RabbitmqStreamConsumer;
use self::group::{Group, Membership, Sharing};
use self::offsets::{OffsetTracking, StreamEnds};
use self::pool::Pool;
use self::producer::RabbitmqStreamProducer;
use self::subscriptions::Recovery;
use super::{
    Broker, BrokerError, BrokerInfo, Created, Durability, Progress, Removal, RemovalExtent, Setup, Subscription,
    Telemetry, Topic, Unready,
};
use crate::measure::ConditionKind;
use crate::scenario::{BrokerConfig, Capabilities, Descriptor, Need, SaslMechanism, StartFrom};

const KIND: &str = "rabbitmq-stream";

/// The longest name of a group (the server's `IS_INVALID_REF`).
const MAX_GROUP_NAME_BYTES: usize = 255;

/// A RabbitMQ node or cluster, reached over stream connections.
pub struct RabbitmqStreamBroker {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    writer: Arc<Writer>,
    pool: Arc<Pool>,
    topics: Mutex<BTreeMap<String, Arc<Vec<StreamLocation>>>>,
    tracking: Arc<OffsetTracking>,
    ends: Arc<StreamEnds>,
    /// Groups whose members share streams, by name.
    groups: parking_lot::Mutex<BTreeMap<String, Arc<Group>>>,
    version: String,
}

impl Broker for RabbitmqStreamBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: KIND,
        aliases: &["rabbitmq-streams"],
        default_port: Some(5552),
        example: include_str!("example.toml"),
        summary: "RabbitMQ's streams and super streams, over their binary protocol",
        capabilities: Capabilities {
            addresses: true,
            partitions: true,
            replication: true,
            keys: true,
            headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[SaslMechanism::Plain, SaslMechanism::External],
            existing_topics: true,
            offsets: true,
            ..Capabilities::NONE
        },
        tells: |kind| {
            let of_streams = [ConditionKind::TopicGone, ConditionKind::Unanswered, ConditionKind::WaitingForLeader];
            kind.is_told_by_all() || of_streams.contains(&kind)
        },
        ..Descriptor::NONE
    };

    type Options = RabbitmqStreamOptions;
    type Producer = RabbitmqStreamProducer;
    type Consumer = RabbitmqStreamConsumer;

    fn remedy(need: Need<'_>, config: &BrokerConfig, options: &RabbitmqStreamOptions) -> Option<String> {
        let host = &options.virtual_host;
        match need {
            Need::ProducerRight(_) | Need::ConsumerRight(_) | Need::CreateRight(_) | Need::DeleteRight(_) => {
                Some(format!("rabbitmqctl set_permissions -p {host} {} '.*' '.*' '.*'", config.user_name()))
            }
            Need::TopicUsers(_) => {
                let lists = ["consumers", "publishers"].map(|of| format!("rabbitmqctl list_stream_{of} -p {host}"));
                Some(format!("{} list its readers and writers", lists.join(" and ")))
            }
            Need::Topic(_) | Need::Durability(_) => None,
        }
    }

    async fn connect(mut setup: Setup<RabbitmqStreamOptions>) -> Result<Self, BrokerError> {
        setup.options.name_process(setup.first_producer);
        let options = &setup.options;
        let writer = Arc::new(Writer::new(options.body, setup.headers()).map_err(BrokerError::Configuration)?);
        let connector =
            Arc::new(Connector::new(&setup.config, options, &setup.run_id, setup.timeout, &setup.conditions)?);
        let nodes = Arc::new(Nodes::new(setup.config.addresses.clone(), options.connect_to, options.consume_from));
        let admin = Arc::new(Admin::new(connector.clone(), nodes.clone(), setup.timeout));
        let server = admin.reach().await?;
        let pool = Pool::start(connector.clone(), admin.clone(), nodes.clone(), setup.acks, setup.config.connections);
        let for_offsets = Admin::new(connector.clone(), nodes.clone(), setup.timeout);
        Ok(RabbitmqStreamBroker {
            tracking: Arc::new(OffsetTracking::new(for_offsets, setup.timeout)),
            ends: Arc::new(StreamEnds::new(connector.clone(), admin.clone(), nodes.clone())),
            groups: parking_lot::Mutex::default(),
            connector,
            admin,
            nodes,
            writer,
            pool,
            topics: Mutex::default(),
            version: server.version,
        })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        self.admin.create(topic).await
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        self.admin.find(topic).await
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        self.admin.delete(&topic.name).await
    }

    async fn unready_topic(&self, topics: &[Topic]) -> Result<Option<Unready>, BrokerError> {
        for topic in topics {
            if let Some(reason) = self.admin.lacks(topic).await? {
                return Ok(Some(Unready { topic: topic.name.clone(), reason }));
            }
        }
        Ok(None)
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<RabbitmqStreamProducer, BrokerError> {
        let mut routes = Vec::with_capacity(topic.partitions as usize);
        for (number, location) in self.locations(topic).await?.iter().enumerate() {
            let counted_in = self.pool.counted_in(&topic.name, number);
            routes.push(self.pool.route(location, counted_in, producer_number).await?);
        }
        let options = self.connector.options();
        let sub_entries = options.sub_entry.map(|messages| (messages, options.compression));
        let (writer, is_filtered) = (self.writer.clone(), options.filter.is_some());
        let producer =
            RabbitmqStreamProducer::new(routes, writer, sub_entries, options.reconnect, producer_number, is_filtered);
        Ok(producer)
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<RabbitmqStreamConsumer, BrokerError> {
        let from = self.connector.options().start.unwrap_or(match subscription.from {
            StartFrom::Earliest => Offset::First,
            StartFrom::Latest => Offset::Next,
        });
        let locations = self.locations(&subscription.topic).await?;
        let is_shared = self.connector.options().single_active_consumer;
        if is_shared && subscription.is_divided {
            let reason = "the members of a group are in several processes, which do not know how far the others are: remove \
                          `broker.rabbitmq-stream.single_active_consumer`";
            return Err(BrokerError::Configuration(reason.to_owned()));
        }
        let streams: Vec<(u32, String)> = locations
            .iter()
            .enumerate()
            .filter(|(number, _)| is_shared || number % subscription.members == subscription.member)
            .map(|(number, location)| (number as u32, location.stream.clone()))
            .collect();
        let mut recovery = Recovery::new(self.connector.clone(), self.admin.clone(), self.nodes.clone());
        let membership = self.membership(subscription, &streams)?;
        if is_shared {
            let topic = &subscription.topic;
            recovery = recovery.shared(&subscription.group, (topic.partitions > 1).then_some(&topic.name));
        }
        RabbitmqStreamConsumer::subscribe(Arc::new(recovery), streams, from, membership).await
    }

    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        let topic = topic.clone();
        Some(async move {
            let locations = self.locations(&topic).await.ok()?;
            let streams: Vec<String> = locations.iter().map(|location| location.stream.clone()).collect();
            // The engine polls the question now and then only, and it holds connections that others wait for.
            let ends = self.ends.clone();
            tokio::spawn(async move { ends.find(&streams).await }).await.ok().flatten()
        })
    }

    async fn removal(&self, topic: &Topic, _: &[String]) -> Option<Removal> {
        let locations = self.locations(topic).await.ok()?;
        let streams = locations.iter().map(|location| self.admin.first_offset(&location.stream));
        let firsts = try_join_all(streams).await.ok()?;
        Some(Removal { rules: self.connector.options().removal_rules(), extent: RemovalExtent::FirstOffsets(firsts) })
    }

    fn withholds_messages(&self) -> bool {
        !self.connector.options().filters.is_empty()
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        let mut members = Vec::new();
        for topic in topics {
            let Ok(locations) = self.locations(topic).await else { return Durability::default() };
            members.extend(locations.iter().map(|location| location.members));
        }
        durability(members)
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
            connection.look_for_answers();
        }
        telemetry
    }

    async fn stop(&self) {
        self.pool.close().await;
        self.ends.close().await;
        self.tracking.close().await;
    }

    async fn close(self) -> Result<(), BrokerError> {
        self.admin.close().await;
        Ok(())
    }
}

impl RabbitmqStreamBroker {
    /// The place of a consumer of `streams` in its group; `None`: the group neither commits nor shares its streams.
    fn membership(
        &self,
        subscription: &Subscription,
        streams: &[(u32, String)],
    ) -> Result<Option<Membership>, BrokerError> {
        let is_shared = self.connector.options().single_active_consumer;
        let commits = subscription.progress != Progress::Uncommitted;
        if !commits && !is_shared {
            return Ok(None);
        }
        let name = subscription.group.clone();
        if name.len() > MAX_GROUP_NAME_BYTES {
            let reason =
                format!("the name of a group has {MAX_GROUP_NAME_BYTES} bytes at most, and not {}", name.len());
            return Err(BrokerError::Configuration(reason));
        }
        let sharing = is_shared.then(|| {
            let group = || Arc::new(Group::new(streams.iter().map(|(_, stream)| stream.clone())));
            let group = self.groups.lock().entry(name.clone()).or_insert_with(group).clone();
            Sharing::new(group, streams.len())
        });
        Ok(Some(Membership { name: name.into(), tracking: self.tracking.clone(), commits, sharing }))
    }

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
