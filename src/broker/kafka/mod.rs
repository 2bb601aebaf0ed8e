//! Apache Kafka through librdkafka, by the safe types of the crate `rdkafka`, as an application uses them.
//!
//! - `config`, `properties`: the `[broker.kafka]` table, and how a scenario becomes librdkafka's properties.
//! - `client`: how rdkafka's clients are made of them, librdkafka's errors, and the token of SASL OAUTHBEARER.
//! - `producer`: what the engine's tasks hold, and the client that they share, with its thread. `reports`: the outcomes of its messages, which
//!   that thread records, and librdkafka's statistics. `held_up`: the conditions that they show. `transactions`: the transactions of a client.
//! - `consumer`, `member`: what the engine's tasks hold, and rdkafka's consumer as a member of a group.
//! - `topics`: created, found, removed. `nodes`: what librdkafka does not tell of nodes.

mod client;
mod config;
mod consumer;
mod held_up;
mod member;
mod nodes;
mod producer;
mod properties;
mod reports;
mod topic_handle;
mod topics;
mod transactions;

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::Producer as _;
use tokio::sync::OnceCell;

use self::client::Token;
use self::config::KafkaOptions;
use self::consumer::{KafkaConsumer, begin_at_latest};
use self::member::{ConsumerClient, GroupOffsets, Member};
use self::producer::{Connection, HeaderSets, KafkaProducer};
use self::properties::Properties;
use self::reports::ConnectionErrors;
use self::topics::Topics;
use super::kafka_cluster::{self, TOPICS_PER_REQUEST};
use super::kafka_options::TransactionOptions;
use super::kafka_shares::MemberShares;
use super::{
    Broker, BrokerError, BrokerInfo, Created, Durability, DurabilityLevel, Progress, Removal, Setup, Subscription,
    Telemetry, Topic, Unready,
};
use crate::emulator::kafka::EmbeddedKafka;
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::scenario::{BrokerConfig, Capabilities, Contradiction, Descriptor, Need, Scenario, StartFrom};

/// How long to wait for the cluster's metadata before the client's errors are checked.
const METADATA_TRY: Duration = Duration::from_millis(500);

/// The properties of a member that commits: librdkafka reports the ends of partitions, for the consumer lag, and all partitions
/// are assigned and revoked at once.
const MEMBER: &[(&str, &str)] = &[
    ("enable.partition.eof", "true"),
    ("partition.assignment.strategy", "range,roundrobin"),
    // librdkafka would commit the messages that were taken, written or not.
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
];

/// A Kafka cluster, reached over one or more producing clients.
pub struct KafkaBroker {
    connections: Vec<Arc<Connection>>,
    topics: Topics,
    properties: Properties,
    header_sets: HeaderSets,
    /// Groups that leave a committed offset on the broker, and whether it has been committed.
    committed_groups: Mutex<BTreeMap<String, Arc<OnceCell<()>>>>,
    /// The offsets of groups that do not commit.
    offsets: Mutex<BTreeMap<String, Arc<GroupOffsets>>>,
    /// What the members of each group have of a topic.
    shares: Mutex<BTreeMap<(String, String), Arc<MemberShares>>>,
    identity: BrokerInfo,
    config: BrokerConfig,
    timeout: Duration,
    conditions: Conditions,
    /// Dropped after the clients that are connected to it.
    embedded: Option<EmbeddedKafka>,
}

impl Broker for KafkaBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        client: Some("librdkafka"),
        summary: "Apache Kafka and what speaks its protocol, through librdkafka",
        capabilities: Capabilities {
            embedded: true,
            tls: cfg!(feature = "kafka-tls"),
            sasl: properties::SASL_MECHANISMS,
            properties: true,
            ..kafka_cluster::DESCRIPTOR.capabilities
        },
        tells: |kind| {
            !matches!(
                kind,
                ConditionKind::Unanswered
                    | ConditionKind::Blocked
                    | ConditionKind::BacklogQuota
                    | ConditionKind::Refused
                    | ConditionKind::TopicReplaced
            )
        },
        ..kafka_cluster::DESCRIPTOR
    };

    type Options = KafkaOptions;
    type Producer = KafkaProducer;
    type Consumer = KafkaConsumer;

    fn refusal(config: &BrokerConfig, options: &KafkaOptions) -> Option<String> {
        config::refusal(config, options)
    }

    fn remedy(need: Need<'_>, config: &BrokerConfig, _: &KafkaOptions) -> Option<String> {
        kafka_cluster::remedy(need, config)
    }

    fn contradiction(scenario: &Scenario, settings: &BTreeMap<String, String>) -> Option<Contradiction> {
        kafka_cluster::contradiction(scenario, settings).or_else(|| {
            let limit = kafka_cluster::batch_limit(settings).filter(|_| kafka_cluster::sends(scenario))?;
            let in_flight = scenario.producers.count as f64 * scenario.producers.in_flight as f64;
            let gathers_more = |mean: f64| in_flight * mean > limit as f64;
            scenario.payload.content.mean_bytes().is_none_or(gathers_more).then_some(())?;
            let options: KafkaOptions = scenario.broker.options.clone().try_into().ok()?;
            let mut properties = Properties::new(&scenario.broker, &options, "", "").ok()?;
            properties.keep_batches_within(&scenario.topology.config);
            properties.too_large_batches(limit)
        })
    }

    async fn connect(setup: Setup<KafkaOptions>) -> Result<Self, BrokerError> {
        let bearer = setup.config.security.written_token().cloned();
        // A token that cannot be read is named before anything connects.
        bearer.as_ref().map(Token::read).transpose().map_err(BrokerError::Configuration)?;
        let embedded = match setup.config.is_embedded() {
            true if !setup.topic_config.is_empty() => {
                let reason = "the embedded cluster has no settings of topics: remove `topology.config`";
                return Err(BrokerError::Configuration(reason.to_owned()));
            }
            true => Some(EmbeddedKafka::start().map_err(BrokerError::Configuration)?),
            false => None,
        };
        let addresses = match &embedded {
            Some(embedded) => embedded.address(),
            None => setup.config.addresses.join(","),
        };
        let mut properties = Properties::new(&setup.config, &setup.options, &setup.run_id, &addresses)?;
        properties.keep_batches_within(&setup.topic_config);
        if embedded.is_some() {
            properties.shorten_sessions();
        }
        let transactions = properties.transactions();
        transactions.map_or(Ok(()), |options| options.check(&setup)).map_err(BrokerError::Configuration)?;
        let connections = (0..setup.config.connections).map(|index| connection(index, &properties, &setup));
        let connections = connections.collect::<Result<Vec<_>, _>>().map_err(BrokerError::Configuration)?;
        let brokers = match tokio::task::block_in_place(|| reach(&connections[0], &addresses, setup.timeout)) {
            Ok(brokers) => brokers,
            Err(error) => return Err(nodes::explained(error, &setup.config).await),
        };
        if let Some(options) = transactions {
            begin_transactions(&connections, options, &addresses, setup.timeout).await?;
        }
        let cluster = connections[0].producer.client().fetch_cluster_id(Duration::ZERO);
        let identity = BrokerInfo {
            client: client::library(),
            broker: Some(kafka_cluster::cluster(cluster.as_deref(), brokers)),
            embedded: embedded.is_some(),
        };
        Ok(KafkaBroker {
            topics: Topics::new(&properties, setup.topic_config, bearer, setup.timeout)?,
            connections,
            properties,
            header_sets: HeaderSets::new(&setup.header_sets),
            conditions: setup.conditions,
            committed_groups: Mutex::default(),
            offsets: Mutex::default(),
            shares: Mutex::default(),
            identity,
            config: setup.config,
            timeout: setup.timeout,
            embedded,
        })
    }

    const TOPICS_PER_REQUEST: usize = TOPICS_PER_REQUEST;

    async fn create_topics(&self, topics: &[Topic]) -> Vec<Result<Created, BrokerError>> {
        let Some(embedded) = &self.embedded else {
            return nodes::late_explained(self.topics.create(topics).await, &self.config).await;
        };
        let create = |topic: &Topic| {
            let created = embedded.create_topic(&topic.name, topic.partitions, topic.replication);
            created.map(|()| Created::New).map_err(|reason| BrokerError::Topic {
                topic: topic.name.clone(),
                action: "created",
                reason,
            })
        };
        topics.iter().map(create).collect()
    }

    async fn find_topics(&self, topics: &[Topic]) -> Vec<Result<Option<Topic>, BrokerError>> {
        nodes::late_explained(self.topics.find(topics), &self.config).await
    }

    async fn delete_topics(&self, topics: &[Topic]) -> Vec<Result<(), BrokerError>> {
        match self.embedded {
            // They end with the cluster, which does not know how to delete them.
            Some(_) => vec![Ok(()); topics.len()],
            None => self.topics.delete(topics).await,
        }
    }

    async fn unready_topic(&self, topics: &[Topic]) -> Result<Option<Unready>, BrokerError> {
        match self.embedded {
            Some(_) => Ok(None),
            None => self.topics.unready(topics),
        }
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<KafkaProducer, BrokerError> {
        let connection = self.connections[producer_number % self.connections.len()].clone();
        KafkaProducer::new(connection, &topic.name, self.header_sets.clone()).map_err(BrokerError::Configuration)
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<KafkaConsumer, BrokerError> {
        properties::check(&subscription.properties)?;
        Properties::check_start(subscription)?;
        let instance_id = self.properties.instance_id(subscription)?;
        let instance_id = instance_id.as_deref().map(|instance_id| ("group.instance.id", instance_id));
        let properties = self.properties.for_consumer(&subscription.group, &subscription.properties);
        let is_manual = self.properties.is_assignment_manual(subscription)?;
        let (offsets, own) = match subscription.progress {
            Progress::Uncommitted if is_manual => (None, &[][..]),
            Progress::Uncommitted => {
                (Some(self.offsets.lock().entry(subscription.group.clone()).or_default().clone()), &[][..])
            }
            Progress::OfTheTrial | Progress::Kept => {
                properties::check_member(MEMBER, &subscription.properties)?;
                (None, MEMBER)
            }
        };
        if subscription.progress == Progress::OfTheTrial {
            self.committed_groups.lock().entry(subscription.group.clone()).or_default();
        }
        let own = own.iter().copied().chain(instance_id);
        let held_up = || Subject::new(&self.conditions, SubjectKind::Group, &subscription.group);
        let Subscription { group, topic, members, member, .. } = subscription;
        let shares_of = || MemberShares::new(group, &topic.name, topic.partitions, *members, self.conditions.clone());
        let of_group = |shares: &mut BTreeMap<_, Arc<MemberShares>>| {
            shares.entry((group.clone(), topic.name.clone())).or_insert_with(|| Arc::new(shares_of())).clone()
        };
        let shares = (!is_manual).then(|| (of_group(&mut self.shares.lock()), *member));
        let member = Member::new(offsets, self.topics.token(), shares, held_up);
        let client = ConsumerClient::new(properties.chain(own), member).map_err(BrokerError::Configuration)?;
        if subscription.from == StartFrom::Latest {
            let committed = self.committed_groups.lock().entry(subscription.group.clone()).or_default().clone();
            committed.get_or_try_init(async || begin_at_latest(&client, subscription, self.timeout).await).await?;
        }
        if is_manual {
            KafkaConsumer::assign(client, subscription)
        } else {
            KafkaConsumer::join(client, subscription, self.timeout).await
        }
    }

    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        let bounds = self.topics.bounds(topic);
        Some(async move { Some(bounds.await.ok()?.into_iter().map(|(_, end)| end).collect()) })
    }

    async fn removal(&self, topic: &Topic, _: &[String]) -> Option<Removal> {
        if self.embedded.is_some() {
            return None;
        }
        let settings = self.topics.settings(slice::from_ref(topic), &kafka_cluster::REMOVAL_SETTINGS).await;
        let bounds = self.topics.bounds(topic).await.ok()?;
        kafka_cluster::removal(settings.first()?, bounds.into_iter().map(|(begin, _)| begin).collect())
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        if self.embedded.is_some() {
            let evidence = "librdkafka's mock cluster keeps messages in memory";
            return Durability::new(DurabilityLevel::Memory, Some(1), [], evidence);
        }
        let settings = self.topics.settings(topics, &kafka_cluster::TOPIC_SETTINGS).await;
        kafka_cluster::durability(self.properties.acks(), topics, &settings)
    }

    async fn topic_settings(&self, topics: &[Topic]) -> Vec<BTreeMap<String, String>> {
        if self.embedded.is_some() {
            return Vec::new();
        }
        self.topics.settings(topics, &kafka_cluster::MESSAGE_SETTINGS).await
    }

    fn identity(&self) -> BrokerInfo {
        self.identity.clone()
    }

    async fn describe(&self) -> Option<String> {
        let cluster = self.identity.broker.as_deref()?;
        match self.embedded {
            Some(_) => Some(cluster.to_owned()),
            None => {
                let release = nodes::release(&self.config).await;
                Some(kafka_cluster::with_release(release, cluster, "whose release librdkafka does not tell"))
            }
        }
    }

    fn may_reorder(&self) -> bool {
        self.properties.may_reorder()
    }

    fn telemetry(&self) -> Telemetry {
        self.connections.iter().map(|connection| connection.telemetry()).sum()
    }

    async fn close(self) -> Result<(), BrokerError> {
        let mut groups: Vec<String> = std::mem::take(&mut *self.committed_groups.lock()).into_keys().collect();
        if self.embedded.is_some() {
            // They end with the cluster, which does not know how to remove them.
            groups.clear();
        }
        let groups_removed = self.topics.remove_groups(&groups).await;
        self.connections.iter().for_each(|connection| connection.begin_closing());
        tokio::task::block_in_place(|| drop(self));
        groups_removed
    }
}

/// A producing client, which has an id of its own if it sends in transactions.
fn connection(index: usize, properties: &Properties, setup: &Setup<KafkaOptions>) -> Result<Arc<Connection>, String> {
    let is_transactional = properties.transactions().is_some();
    let id = format!("{}-{}", setup.run_id, setup.first_producer + index);
    let id = is_transactional.then_some(("transactional.id", id.as_str()));
    let token = setup.config.security.written_token().cloned();
    let settings = properties.for_producer().chain(id);
    let conditions = setup.conditions.clone();
    Connection::new(settings, setup.acks.recorder(), is_transactional, token, conditions).map(Arc::new)
}

/// Begins the first transaction of each client.
async fn begin_transactions(
    connections: &[Arc<Connection>],
    options: TransactionOptions,
    addresses: &str,
    timeout: Duration,
) -> Result<(), BrokerError> {
    let begin = |connection: &Arc<Connection>| {
        let connection = connection.clone();
        tokio::task::spawn_blocking(move || connection.begin_transactions(options, timeout))
    };
    for begun in futures_util::future::join_all(connections.iter().map(begin)).await {
        let begun = begun.unwrap_or_else(|error| Err(error.to_string()));
        begun
            .map_err(|reason| BrokerError::Client(format!("transactions cannot be begun at {addresses}: {reason}")))?;
    }
    Ok(())
}

/// Waits until the cluster answers; how many brokers it has.
fn reach(connection: &Connection, addresses: &str, timeout: Duration) -> Result<usize, BrokerError> {
    let address = addresses.to_owned();
    let begin = Instant::now();
    loop {
        let error = match connection.producer.client().fetch_metadata(None, METADATA_TRY) {
            Ok(metadata) => return Ok(metadata.brokers().len()),
            Err(error) => error,
        };
        let ConnectionErrors { last, all_down } = connection.errors();
        let silent = || if all_down { "none of its addresses answers".to_owned() } else { client::reason(&error) };
        let reason = last.as_ref().map_or_else(silent, |(_, reason)| reason.clone());
        match last {
            Some((Code::Authentication, _)) => {
                return Err(BrokerError::Authorisation { address, reason });
            }
            // Without a reason, an address was silent: the client goes on to the next one of the name. Or the reason follows a little later
            // than the fact.
            last if all_down && last.is_some() || begin.elapsed() >= timeout => {
                return Err(BrokerError::Unreachable { address, reason });
            }
            _ => {}
        }
    }
}
