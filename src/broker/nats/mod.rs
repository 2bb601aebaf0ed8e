//! NATS: JetStream, core NATS, and requests. Messages are published by a protocol module of our own, because its official crate
//! `async-nats` costs more than the server does, and so are they pulled from streams; the crate creates streams and has the other consumers.
//!
//! - `config`: the `[broker.nats]` table.
//! - `connect`, `codec`: connections, and what is on them.
//! - `publish`, `in_flight`: publishing connections.
//! - `pull`, `consume`: members of a group that pull; all members of groups, what the crate receives, and its errors.
//!
//! A topic is a stream with one subject, both of the topic's name. A group is a durable consumer of it that its members share, so a group's
//! messages are in order only while it has one member. Core NATS has subjects and queue groups, and keeps nothing.

mod codec;
mod config;
mod connect;
mod consume;
mod in_flight;
mod publish;
mod pull;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use async_nats::Client;
use async_nats::jetstream::consumer;
use async_nats::jetstream::context::{ContextBuilder, GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};

pub use self::config::NatsOptions;
use self::config::{Acknowledge, ConsumerType, Mode};
use self::connect::{Connector, Login, MAX_ANSWER_BYTES};
use self::consume::{
    NatsConsumer, NatsDeliveries, Source, client, create, durable, in_full, name_for_server, round_trip,
};
use self::in_flight::InFlight;
use self::publish::{Connection, NatsProducer, Publishing, header_lines};
use self::pull::PullConsumer;
use super::adapter::{Clients, StreamConsumer};
use super::{
    Broker, BrokerError, BrokerInfo, Created, Durability, DurabilityLevel, OpenIdle, Progress, Removal, RemovalCause,
    RemovalExtent, RemovalRule, Setup, Subscription, Telemetry, Topic,
};
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::scenario::{BrokerConfig, Capabilities, Descriptor, Need, SaslMechanism};

/// The crate and its version, for the record. A test compares it with Cargo.lock.
const CRATE: &str = "async-nats 0.51.0";

/// NATS, reached over publishing connections and over clients of the crate.
pub struct NatsBroker {
    setup: Setup<NatsOptions>,
    admin: jetstream::Context,
    version: String,
    connections: Vec<Arc<Connection>>,
    /// Opens the connections of consumers that pull.
    pulling: Arc<Connector>,
    consumers: Clients<Client>,
    /// The subject of each stream that was created or found.
    subjects: Mutex<HashMap<String, String>>,
    /// Streams and durable consumers of the trial's groups, and whether these end with the trial.
    joined: Mutex<Vec<(String, String, bool)>>,
}

impl Broker for NatsBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "nats",
        aliases: &["jetstream"],
        tls_scheme: Some(("tls", 4222)),
        default_port: Some(4222),
        omb_driver: Some("NatsBenchmarkDriver"),
        example: include_str!("example.toml"),
        summary: "NATS: JetStream, core NATS and requests",
        capabilities: Capabilities {
            addresses: true,
            replication: true,
            headers: true,
            own_headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[SaslMechanism::Plain],
            existing_topics: true,
            idle_connections: true,
            ..Capabilities::NONE
        },
        tells: |kind| kind.is_told_by_all() || matches!(kind, ConditionKind::TopicGone | ConditionKind::Unanswered),
        ..Descriptor::NONE
    };

    type Options = NatsOptions;
    type Producer = NatsProducer;
    type Consumer = NatsConsumer;

    fn remedy(need: Need<'_>, _: &BrokerConfig, _: &NatsOptions) -> Option<String> {
        match need {
            Need::Topic(topic) => Some(format!("nats stream add {topic} --subjects {topic} --defaults")),
            Need::TopicUsers(topic) => Some(format!("nats consumer report {topic} lists its consumers")),
            _ => None,
        }
    }

    async fn connect(setup: Setup<NatsOptions>) -> Result<Self, BrokerError> {
        let Setup { config, options, run_id, timeout, conditions, .. } = &setup;
        let refused = BrokerError::Configuration;
        let connector = |role: &str| {
            let login = Login::read(config, options)?;
            Connector::new(config, login, format!("{run_id}-{role}"), *timeout, conditions).map(Arc::new)
        };
        let pulling = connector("consumer").map_err(refused)?;
        let connector = connector("producer").map_err(refused)?;
        let mut version = String::new();
        let mut connections = Vec::with_capacity(config.connections);
        for number in 0..config.connections {
            let inbox = format!("_INBOX.{:032x}.", rand::random::<u128>()).into_bytes();
            let opened = connector
                .connect(number, &inbox, MAX_ANSWER_BYTES)
                .await
                .map_err(|error| error.at(&config.addresses.join(", ")))?;
            version.clone_from(&opened.info.version);
            let publishing = Publishing {
                mode: options.mode,
                batches: options.batches,
                connector: connector.clone(),
                number,
                inbox,
                ack_timeout: options.ack_timeout,
                recorder: setup.acks.recorder(),
                header_sets: setup.header_sets.iter().map(|headers| header_lines(headers)).collect(),
                routes: RwLock::default(),
                node: Subject::new(conditions, SubjectKind::Node, &opened.address),
                reconnects: AtomicUsize::default(),
                address: Mutex::default(),
                max_payload: AtomicU64::default(),
                lame_duck: AtomicBool::default(),
            };
            connections.push(Arc::new(publishing.start(opened)));
        }
        let admin = client(&setup, "admin", config.addresses[0].clone()).await?;
        let admin = ContextBuilder::new().timeout(*timeout).build(admin);
        let (consumers, subjects, joined) = (Clients::for_consumers(), Mutex::default(), Mutex::default());
        Ok(NatsBroker { setup, admin, version, connections, pulling, consumers, subjects, joined })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        if let Some(existing) = self.find_topic(topic).await? {
            return Ok(Created::Existing(existing));
        }
        if self.setup.options.mode == Mode::Jetstream {
            let created = self.admin.create_stream(self.setup.options.stream_config(topic)).await;
            created.map_err(|error| {
                let mut reason = in_full(&error);
                if reason.contains("not enabled") || reason.contains("no responders") {
                    reason += ": start nats-server with `-js`, give the account `jetstream: enabled` if the server has \
                        accounts, or set `broker.nats.mode` to \"core\"";
                }
                BrokerError::Topic { topic: topic.name.clone(), action: "created", reason }
            })?;
        }
        self.subjects.lock().insert(topic.name.clone(), topic.name.clone());
        Ok(Created::New)
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        if self.setup.options.mode != Mode::Jetstream {
            return Ok(None);
        }
        let failed = |reason| BrokerError::Topic { topic: topic.name.clone(), action: "looked up", reason };
        let config = match self.admin.get_stream(&topic.name).await {
            Ok(stream) => stream.cached_info().config.clone(),
            Err(error) if is_missing(&error) => return Ok(None),
            // `create_topic` says what to do.
            Err(error) if in_full(&error).contains("not enabled") => return Ok(None),
            Err(error) => return Err(failed(in_full(&error))),
        };
        let concrete = config.subjects.iter().find(|subject| !subject.contains(['*', '>']));
        let subject = concrete.ok_or_else(|| {
            let subjects = config.subjects.join(", ");
            failed(format!(
                "none of its subjects ({subjects}) is without a wildcard, so that no message can be sent to it"
            ))
        })?;
        self.subjects.lock().insert(topic.name.clone(), subject.clone());
        Ok(Some(Topic { name: topic.name.clone(), partitions: 1, replication: config.num_replicas as u32 }))
    }

    fn finds_created(&self) -> bool {
        self.setup.options.mode == Mode::Jetstream
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        if self.setup.options.mode != Mode::Jetstream {
            return Ok(());
        }
        match self.admin.delete_stream(&topic.name).await {
            Ok(_) => Ok(()),
            Err(error) if in_full(&error).contains("stream not found") => Ok(()),
            Err(error) => {
                let reason = in_full(&error);
                Err(BrokerError::Topic { topic: topic.name.clone(), action: "deleted", reason })
            }
        }
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<NatsProducer, BrokerError> {
        let Setup { options, run_id, conditions, .. } = &self.setup;
        let connection = self.connections[producer_number % self.connections.len()].clone();
        let message_ids = options.duplicate_window.map(|_| format!("{run_id}-{producer_number}"));
        let held_up = Subject::new(conditions, SubjectKind::Topic, &topic.name);
        Ok(NatsProducer::new(connection, self.subject(&topic.name), message_ids, held_up))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<Self::Consumer, BrokerError> {
        let options = &self.setup.options;
        let topic = &subscription.topic.name;
        if options.mode == Mode::Jetstream {
            self.joins(subscription);
            if options.consumer == ConsumerType::Pull {
                self.create_consumer(subscription).await?;
                let consumer = (topic.as_str(), name_for_server(&subscription.group));
                let pulls = (options.ack_policy, options.pull_batch.get());
                let connecting =
                    PullConsumer::connect(self.pulling.clone(), subscription.consumer_number, consumer, pulls);
                let pulling = connecting.await.map_err(|error| error.at(&self.setup.config.addresses.join(", ")))?;
                return Ok(NatsConsumer::Pull(Box::new(pulling)));
            }
        }
        let connect = |address| client(&self.setup, "consumer", address);
        let client = self.consumers.consuming(subscription.consumer_number, &self.setup, connect).await?.clone();
        let failed = |reason| BrokerError::Topic { topic: topic.clone(), action: "consumed", reason };
        let source = if options.mode == Mode::Jetstream {
            let context = ContextBuilder::new().timeout(self.setup.timeout).build(client.clone());
            match options.consumer {
                ConsumerType::Push => Source::pushed(&context, options, subscription).await,
                ConsumerType::Pull | ConsumerType::Ordered => Source::ordered(&context, options, subscription).await,
            }
            .map_err(failed)?
        } else {
            let group = name_for_server(&subscription.group);
            let subscriber = client.queue_subscribe(self.subject(topic), group).await;
            let subscriber = subscriber.map_err(|error| failed(in_full(&error)))?;
            let arrived = tokio::time::timeout(self.setup.timeout, round_trip(&client)).await;
            arrived
                .map_err(|_| format!("the server did not answer within {:?}", self.setup.timeout))
                .and_then(|result| result)
                .map_err(failed)?;
            Source::Subject { subscriber, replies: options.mode == Mode::Request }
        };
        let deliveries = NatsDeliveries::new(source, client, options.ack_policy);
        let receiving = StreamConsumer::new(vec![deliveries], options.ack_policy == Acknowledge::All);
        Ok(NatsConsumer::Crate(Box::new(receiving)))
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        if self.setup.options.mode != Mode::Jetstream {
            return Err(BrokerError::Configuration(
                "core NATS keeps no message for a group that joins later: set `broker.nats.mode` to \"jetstream\""
                    .to_owned(),
            ));
        }
        // An ordered consumer reads what the stream keeps.
        if self.setup.options.consumer == ConsumerType::Ordered {
            return Ok(());
        }
        self.joins(subscription);
        self.create_consumer(subscription).await
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!(
                "brokermark {}, NATS protocol; streams, and consumers that do not pull, by {CRATE}",
                env!("CARGO_PKG_VERSION")
            ),
            broker: Some(format!("nats-server {}", self.version)),
            embedded: false,
        }
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        const SOURCE: &str = "stream info";
        let Some(topic) = topics.first() else { return Durability::default() };
        if self.setup.options.mode != Mode::Jetstream {
            let mode = if self.setup.options.mode == Mode::Core { "core" } else { "request" };
            return Durability::new(DurabilityLevel::Nowhere, None, [("mode", mode.to_owned())], "broker.nats.mode");
        }
        let Ok(stream) = self.admin.get_stream(&topic.name).await else { return Durability::default() };
        let config = &stream.cached_info().config;
        // A server writes to the page cache, and synchronises every `sync_interval` (default 2 minutes), which it does not tell clients.
        let (level, storage) = match config.storage {
            StorageType::File => (DurabilityLevel::PageCache, "file"),
            StorageType::Memory => (DurabilityLevel::Memory, "memory"),
        };
        // An acknowledgement is sent when most replicas have the message.
        let copies = config.num_replicas as u32 / 2 + 1;
        let settings = [("storage", storage.to_owned()), ("num_replicas", config.num_replicas.to_string())];
        Durability::new(level, Some(copies), settings, SOURCE)
    }

    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        let name = topic.name.clone();
        (self.setup.options.mode == Mode::Jetstream).then_some(async move {
            let stream = self.admin.get_stream(name).await.ok()?;
            Some(vec![stream.cached_info().state.last_sequence + 1])
        })
    }

    async fn will_redeliver(&self, topic: &Topic) -> bool {
        let options = &self.setup.options;
        if options.mode != Mode::Jetstream || options.ack_policy == Acknowledge::None {
            return false;
        }
        let joined = self.joined.lock().clone();
        let of_topic = joined.iter().filter(|(stream, ..)| *stream == topic.name);
        let pending = of_topic.map(|(stream, durable, _)| async move {
            let found = self.admin.get_consumer_from_stream::<consumer::Config, _, _>(durable, stream).await;
            // Of a consumer that does not answer, all may come again.
            !found.is_ok_and(|consumer| consumer.cached_info().num_ack_pending == 0)
        });
        join_all(pending).await.contains(&true)
    }

    fn may_reorder(&self) -> bool {
        // A message that is not acknowledged comes again.
        self.setup.options.mode == Mode::Jetstream && self.setup.options.ack_policy != Acknowledge::None
    }

    fn takes_turns(&self) -> bool {
        // A message that its own member must acknowledge is pending until then.
        self.setup.options.mode != Mode::Jetstream || self.setup.options.ack_policy != Acknowledge::Explicit
    }

    async fn removal(&self, topic: &Topic, _: &[String]) -> Option<Removal> {
        if self.setup.options.mode != Mode::Jetstream {
            return None;
        }
        let stream = self.admin.get_stream(&topic.name).await.ok()?;
        let info = stream.cached_info();
        let rules = removal_rules(&info.config);
        // Sequences begin at 1, and the offsets of a new topic at 0: nothing was removed before the first sequence.
        let first = info.state.first_sequence;
        let extent = RemovalExtent::FirstOffsets(vec![if first == 1 { 0 } else { first }]);
        // Without a limit, a message is removed when its groups have acknowledged it.
        (!rules.is_empty()).then_some(Removal { rules, extent })
    }

    fn idle_connections(&self) -> Option<OpenIdle> {
        let connector = self.pulling.clone();
        Some(Arc::new(move |number| connector.clone().idle(number).boxed()))
    }

    fn telemetry(&self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        for connection in &self.connections {
            let (queue_full_ns, messages) = connection.take_telemetry();
            telemetry.queue_full_ns += queue_full_ns;
            *telemetry.queue_messages.get_or_insert(0) += messages;
            telemetry.unmatched_answers += connection.with_state(InFlight::take_unmatched);
        }
        telemetry
    }

    async fn stop(&self) {
        self.connections.iter().for_each(|connection| connection.end());
    }

    async fn close(self) -> Result<(), BrokerError> {
        for (stream, durable, _) in self.joined.into_inner().into_iter().filter(|(.., ends)| *ends) {
            // A stream of the trial is gone with its consumers.
            if let Err(error) = self.admin.delete_consumer_from_stream(&durable, &stream).await
                && !in_full(&error).contains("not found")
            {
                let reason = format!("its consumer {durable} cannot be deleted: {}", in_full(&error));
                return Err(BrokerError::Topic { topic: stream, action: "left", reason });
            }
        }
        Ok(())
    }
}

impl NatsBroker {
    fn subject(&self, topic: &str) -> String {
        self.subjects.lock().get(topic).cloned().unwrap_or_else(|| topic.to_owned())
    }

    /// Creates the durable consumer of a group, unless another member has.
    async fn create_consumer(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        let settings = durable(&self.setup.options, subscription);
        let created = create::<consumer::Config>(&self.admin, subscription, settings).await;
        let topic = subscription.topic.name.clone();
        created.map(drop).map_err(|reason| BrokerError::Topic { topic, action: "consumed", reason })
    }

    /// Remembers the durable consumer of a group. A group of ordered consumers has none.
    fn joins(&self, subscription: &Subscription) {
        if self.setup.options.consumer != ConsumerType::Ordered {
            let ends = subscription.progress != Progress::Kept && !subscription.is_divided;
            let mut joined = self.joined.lock();
            let consumer = (subscription.topic.name.clone(), name_for_server(&subscription.group), ends);
            if !joined.contains(&consumer) {
                joined.push(consumer);
            }
        }
    }
}

/// The limits by which a stream removes messages, as the server has them.
fn removal_rules(config: &stream::Config) -> Vec<RemovalRule> {
    let retention = |setting, value: String| RemovalRule::new(RemovalCause::Retention, setting, value);
    let discards = config.discard == DiscardPolicy::Old;
    let limit = |limit: i64| (discards && limit > 0).then(|| limit.to_string());
    let age = (!config.max_age.is_zero()).then(|| retention("max_age", format!("{:?}", config.max_age)));
    let sizes = [
        ("max_bytes", limit(config.max_bytes)),
        ("max_msgs", limit(config.max_messages)),
        ("max_msgs_per_subject", limit(config.max_messages_per_subject)),
    ];
    age.into_iter().chain(sizes.into_iter().filter_map(|(setting, value)| Some(retention(setting, value?)))).collect()
}

fn is_missing(error: &GetStreamError) -> bool {
    match error.kind() {
        GetStreamErrorKind::JetStream(error) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    }
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
