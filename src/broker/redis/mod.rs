//! Redis and Valkey: streams, channels and lists, by a protocol module of our own.
//!
//! - `config`: the `[broker.redis]` table.
//! - `connect`, `codec`: connections, and what is on them.
//! - `publish`: publishing connections.
//! - `source`, `consume`, `reply`: members of groups: what they ask for, how they wait, and what comes.
//!
//! A topic is a stream, a channel or a list of its name. A group is a consumer group of the stream, which its members share, so a group's messages
//! are in order only while it has one member. A channel sends each message to all who listen; a list gives it to one.

mod codec;
mod config;
mod connect;
mod consume;
mod publish;
mod reply;
mod source;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};

use self::codec::{Value, append_bulk};
pub use self::config::RedisOptions;
use self::config::{Mode, Pop};
use self::connect::{Admin, Connector, field, server};
use self::consume::RedisConsumer;
use self::publish::{Connection, InFlight, Publishing, RedisProducer};
use self::reply::offset;
use self::source::{Source, own_list};
use super::{
    Broker, BrokerError, BrokerInfo, ClientError, Created, Durability, DurabilityLevel, OpenIdle, Progress, Removal,
    RemovalCause, RemovalExtent, RemovalRule, Setup, Subscription, Telemetry, Topic,
};
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::scenario::{
    BrokerConfig, Capabilities, Contradiction, Descriptor, Need, SaslMechanism, Scenario, StartFrom,
};

/// Redis or Valkey, reached over publishing connections; each consumer has one of its own.
pub struct RedisBroker {
    setup: Setup<RedisOptions>,
    admin: Admin,
    version: Option<String>,
    /// Keys that the server had evicted before the trial.
    evicted: Option<u64>,
    connections: Vec<Arc<Connection>>,
    /// What the trial leaves beside topics: the streams and names of groups, and the lists of single consumers.
    left: Mutex<Left>,
}

#[derive(Default)]
struct Left {
    groups: Vec<(String, String)>,
    lists: Vec<String>,
}

impl Broker for RedisBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "redis",
        aliases: &["valkey"],
        tls_scheme: Some(("rediss", 6379)),
        default_port: Some(6379),
        omb_driver: Some("RedisBenchmarkDriver"),
        example: include_str!("example.toml"),
        summary: "Redis and Valkey: streams, channels and lists",
        capabilities: Capabilities {
            addresses: true,
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
        tells: |kind| {
            kind.is_told_by_all() || matches!(kind, ConditionKind::NotEnoughReplicas | ConditionKind::Unanswered)
        },
        ..Descriptor::NONE
    };

    type Options = RedisOptions;
    type Producer = RedisProducer;
    type Consumer = RedisConsumer;

    fn contradiction(scenario: &Scenario, _: &BTreeMap<String, String>) -> Option<Contradiction> {
        let options: RedisOptions = scenario.broker.options.clone().try_into().ok()?;
        let refused =
            |message: &str, advice: &str| Some(Contradiction { message: message.into(), advice: advice.into() });
        if options.mode == Mode::Streams {
            return None;
        }
        if !scenario.producers.header_sets[0].is_empty() {
            return refused("messages of channels and lists have no headers", "remove `producers.headers`");
        }
        let consumers = scenario.consumers.as_ref()?;
        if (consumers.end_to_end || consumers.verify) && !scenario.payload.fits_trace_header() {
            return refused(
                "payloads that are so small cannot carry the trace header, and messages of channels and lists have no headers",
                "make payloads larger, or set `consumers.verify` and `consumers.end_to_end` to false",
            );
        }
        if options.mode == Mode::List && consumers.groups.len() > 1 {
            return refused(
                "each message of a list goes to one consumer",
                "set `consumers.groups` to 1, or use streams",
            );
        }
        if options.mode == Mode::Pubsub && consumers.most_members() > 1 {
            return refused(
                "a channel sends each message to all who listen, so members of a group cannot share one",
                "set `consumers.members` to 1, or use more groups",
            );
        }
        None
    }

    fn remedy(need: Need<'_>, _: &BrokerConfig, options: &RedisOptions) -> Option<String> {
        match (need, options.mode) {
            (Need::TopicUsers(topic), Mode::Streams) => {
                Some(format!("redis-cli XINFO GROUPS {topic} lists its groups"))
            }
            (Need::TopicUsers(topic), Mode::Pubsub) => {
                Some(format!("redis-cli PUBSUB NUMSUB {topic} counts its subscribers"))
            }
            _ => None,
        }
    }

    async fn connect(setup: Setup<RedisOptions>) -> Result<Self, BrokerError> {
        let connector = Connector::new(&setup).map(Arc::new).map_err(BrokerError::Configuration)?;
        let unreachable = |error: ClientError| error.at(&setup.config.addresses.join(", "));
        let mut connections = Vec::with_capacity(setup.config.connections);
        for number in 0..setup.config.connections {
            let opened = connector.connect(number).await.map_err(unreachable)?;
            let publishing = Publishing {
                options: setup.options.clone(),
                connector: connector.clone(),
                number,
                recorder: setup.acks.recorder(),
                header_sets: setup.header_sets.iter().map(|headers| fields(headers)).collect(),
                routes: RwLock::default(),
                node: Subject::new(&setup.conditions, SubjectKind::Node, &opened.address),
                reconnects: AtomicUsize::default(),
                address: Mutex::default(),
            };
            connections.push(Arc::new(publishing.start(opened)));
        }
        let admin = Admin::new(connector);
        // A login may not be allowed to ask.
        let information = admin.ask(&[b"INFO"]).await.ok();
        let information = information.as_ref().and_then(Value::text).unwrap_or_default();
        if field(information, "cluster_enabled") == Some("1") {
            let reason = "this is a node of a Redis Cluster, whose slots brokermark does not follow: name a server without `cluster-enabled`";
            return Err(BrokerError::Configuration(reason.to_owned()));
        }
        if setup.options.wait_local_file {
            let tried = admin.ask(&[b"WAITAOF", b"1", b"0", b"1"]).await;
            tried.map_err(|error| {
                let needs = "`broker.redis.wait_local_file` needs Redis 7.2 or later, or Valkey, with `appendonly yes`";
                BrokerError::Configuration(format!("{needs}: {}", error.message))
            })?;
        }
        let version = server(information);
        let evicted = field(information, "evicted_keys").and_then(|keys| keys.parse().ok());
        Ok(RedisBroker { setup, admin, version, evicted, connections, left: Mutex::default() })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        if let Some(existing) = self.find_topic(topic).await? {
            return Ok(Created::Existing(existing));
        }
        if self.setup.options.mode == Mode::Streams {
            // A stream is there, without an entry, as soon as it has had a group.
            let (key, group) = (topic.name.as_bytes(), self.setup.run_id.as_bytes());
            let created = self.admin.ask(&[b"XGROUP", b"CREATE", key, group, b"$", b"MKSTREAM"]).await;
            created.map_err(|error| error.for_topic(&topic.name, "created"))?;
            let left = self.admin.ask(&[b"XGROUP", b"DESTROY", key, group]).await;
            left.map_err(|error| error.for_topic(&topic.name, "created"))?;
        }
        Ok(Created::New)
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        let wanted = match self.setup.options.mode {
            Mode::Streams => "stream",
            Mode::List => "list",
            Mode::Pubsub => return Ok(None),
        };
        let failed = |error: ClientError| error.for_topic(&topic.name, "looked up");
        let kind = self.admin.ask(&[b"TYPE", topic.name.as_bytes()]).await.map_err(failed)?;
        match kind.text() {
            Some("none") => Ok(None),
            Some(found) if found == wanted => {
                Ok(Some(Topic { name: topic.name.clone(), partitions: 1, replication: 1 }))
            }
            found => {
                let reason = format!(
                    "there is a key of this name, which is a {} and not a {wanted}",
                    found.unwrap_or("module's")
                );
                Err(BrokerError::Topic { topic: topic.name.clone(), action: "used", reason })
            }
        }
    }

    fn finds_created(&self) -> bool {
        // A list is there as long as it has a message.
        self.setup.options.mode == Mode::Streams
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        if self.setup.options.mode == Mode::Pubsub {
            return Ok(());
        }
        let deleted = self.admin.ask(&[b"UNLINK", topic.name.as_bytes()]).await;
        deleted.map(drop).map_err(|error| error.for_topic(&topic.name, "deleted"))
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<RedisProducer, BrokerError> {
        let connection = self.connections[producer_number % self.connections.len()].clone();
        let held_up = Subject::new(&self.setup.conditions, SubjectKind::Topic, &topic.name);
        Ok(RedisProducer::new(connection, &topic.name, held_up))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<RedisConsumer, BrokerError> {
        let Setup { options, run_id, .. } = &self.setup;
        let topic = &subscription.topic.name;
        if options.mode == Mode::Streams {
            self.create_group(subscription).await?;
        }
        let member = format!("{run_id}-{}", subscription.member);
        if options.mode == Mode::List && options.pop == Pop::Blmove {
            self.left.lock().lists.push(own_list(topic, &member));
        }
        let source = Source::new(options, topic, &subscription.group, &member);
        let connecting = RedisConsumer::connect(self.admin.connector.clone(), subscription.consumer_number, source);
        connecting.await.map_err(|error| error.for_topic(topic, "consumed"))
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        match self.setup.options.mode {
            Mode::Streams => self.create_group(subscription).await,
            Mode::List => Ok(()),
            Mode::Pubsub => Err(BrokerError::Configuration(
                "a channel keeps no message for a group that joins later: set `broker.redis.mode` to \"streams\""
                    .to_owned(),
            )),
        }
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!("brokermark {}, RESP{}", env!("CARGO_PKG_VERSION"), self.setup.options.resp),
            broker: self.version.clone(),
            embedded: false,
        }
    }

    async fn durability(&self, _: &[Topic]) -> Durability {
        let options = &self.setup.options;
        if options.mode == Mode::Pubsub {
            return Durability::new(
                DurabilityLevel::Nowhere,
                None,
                [("mode", "pubsub".to_owned())],
                "broker.redis.mode",
            );
        }
        let mut settings = Vec::new();
        for name in ["appendonly", "appendfsync", "min-replicas-to-write"] {
            let Ok(value) = self.admin.ask(&[b"CONFIG", b"GET", name.as_bytes()]).await else {
                return Durability::default();
            };
            settings.push((name, value.get(name).and_then(Value::text).unwrap_or_default().to_owned()));
        }
        let level = match (settings[0].1.as_str(), settings[1].1.as_str()) {
            (_, "always") if settings[0].1 == "yes" => DurabilityLevel::Disk,
            ("yes", _) if options.wait_local_file => DurabilityLevel::Disk,
            ("yes", _) => DurabilityLevel::PageCache,
            _ => DurabilityLevel::Memory,
        };
        let replicas = options.wait_replicas.map_or(0, |replicas| replicas.get());
        Durability::new(level, Some(1 + replicas), settings, "CONFIG GET")
    }

    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        let name = topic.name.clone();
        (self.setup.options.mode == Mode::Streams).then_some(async move {
            let stream = self.admin.ask(&[b"XINFO", b"STREAM", name.as_bytes()]).await.ok()?;
            Some(vec![id(&stream, "last-generated-id")? + 1])
        })
    }

    async fn will_redeliver(&self, topic: &Topic) -> bool {
        let options = &self.setup.options;
        if options.claim_after.is_none() {
            return false;
        }
        let Some(groups) = self.groups(&topic.name).await else { return true };
        groups.iter().any(|group| group.get("pending").and_then(Value::integer) != Some(0))
    }

    fn may_reorder(&self) -> bool {
        self.setup.options.claim_after.is_some()
    }

    fn takes_turns(&self) -> bool {
        // An entry that may be claimed is pending until its member has acknowledged it.
        self.setup.options.mode != Mode::Pubsub && self.setup.options.claim_after.is_none()
    }

    async fn removal(&self, topic: &Topic, groups: &[String]) -> Option<Removal> {
        let rules = self.removal_rules().await;
        if rules.is_empty() || self.setup.options.mode != Mode::Streams {
            return None;
        }
        let stream = self.admin.ask(&[b"XINFO", b"STREAM", topic.name.as_bytes()]).await.ok();
        let found = self.groups(&topic.name).await.unwrap_or_default();
        let left = groups.iter().map(|name| {
            let group = found.iter().find(|group| group.get("name").and_then(Value::text) == Some(name))?;
            entries_behind(stream.as_ref()?, id(group, "last-delivered-id")?)
        });
        // A stream or group that is gone has no messages left.
        let left = left.map(Option::unwrap_or_default);
        Some(Removal { extent: RemovalExtent::Left(left.collect()), rules })
    }

    fn idle_connections(&self) -> Option<OpenIdle> {
        let connector = self.admin.connector.clone();
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
        let Left { groups, lists } = self.left.into_inner();
        for (stream, group) in groups {
            // A stream of the trial is gone with its groups.
            if let Err(error) = self.admin.ask(&[b"XGROUP", b"DESTROY", stream.as_bytes(), group.as_bytes()]).await
                && !error.message.contains("requires the key to exist")
            {
                let reason = format!("its group {group} cannot be deleted: {}", error.message);
                return Err(BrokerError::Topic { topic: stream, action: "left", reason });
            }
        }
        for list in lists {
            let deleted = self.admin.ask(&[b"UNLINK", list.as_bytes()]).await;
            deleted.map_err(|error| error.for_topic(&list, "deleted"))?;
        }
        Ok(())
    }
}

impl RedisBroker {
    /// Creates the consumer group of a group, unless another member has.
    async fn create_group(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        let (topic, group) = (&subscription.topic.name, &subscription.group);
        if subscription.progress != Progress::Kept && !subscription.is_divided {
            let mut left = self.left.lock();
            let own = (topic.clone(), group.clone());
            if !left.groups.contains(&own) {
                left.groups.push(own);
            }
        }
        let from: &[u8] = if subscription.from == StartFrom::Latest { b"$" } else { b"0" };
        match self.admin.ask(&[b"XGROUP", b"CREATE", topic.as_bytes(), group.as_bytes(), from]).await {
            Err(error) if !error.message.starts_with("BUSYGROUP") => Err(error.for_topic(topic, "consumed")),
            _ => Ok(()),
        }
    }

    /// The consumer groups of a stream, as the server tells them.
    async fn groups(&self, topic: &str) -> Option<Vec<Value>> {
        match self.admin.ask(&[b"XINFO", b"GROUPS", topic.as_bytes()]).await {
            Ok(Value::List(groups)) => Some(groups),
            _ => None,
        }
    }

    /// The rules by which messages of the trial are removed: those of the scenario, and the server's eviction, if keys were evicted.
    async fn removal_rules(&self) -> Vec<RemovalRule> {
        let options = &self.setup.options;
        let retention = |setting, value: String| RemovalRule::new(RemovalCause::Retention, setting, value);
        let length = options.max_length.map(|length| retention("MAXLEN", length.to_string()));
        let age = options.max_age.map(|age| retention("MINID", format!("{age:?} ago")));
        let mut rules: Vec<RemovalRule> = length.into_iter().chain(age).collect();
        let statistics = self.admin.ask(&[b"INFO", b"stats"]).await.ok();
        let evicted = statistics.as_ref().and_then(Value::text).and_then(|text| field(text, "evicted_keys"));
        if evicted.and_then(|keys| keys.parse().ok()) > self.evicted
            && let Ok(policy) = self.admin.ask(&[b"CONFIG", b"GET", b"maxmemory-policy"]).await
        {
            let policy = policy.get("maxmemory-policy").and_then(Value::text).unwrap_or_default();
            rules.push(RemovalRule::new(RemovalCause::Eviction, "maxmemory-policy", policy));
        }
        rules
    }
}

/// An id that the server tells under this name.
fn id(told: &Value, name: &str) -> Option<u64> {
    offset(told.get(name)?.text()?.as_bytes())
}

/// Entries of a stream that a group has not been given, of which it was given the one at `delivered` last: at most so many, if it is in the middle of
/// what is left. The server's own `lag` counts entries that were trimmed before they were read.
fn entries_behind(stream: &Value, delivered: u64) -> Option<u64> {
    if delivered >= id(stream, "last-generated-id")? {
        return Some(0);
    }
    stream.get("length")?.integer()
}

/// Headers as fields of an entry, encoded, with their number.
fn fields(headers: &[(String, String)]) -> (usize, Vec<u8>) {
    let mut encoded = Vec::new();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        append_bulk(&mut encoded, text.as_bytes());
    }
    (headers.len(), encoded)
}
