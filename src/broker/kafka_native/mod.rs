//! Apache Kafka over a protocol module of our own: `client = "native"`.
//!
//! - `produce`: a `producer` encodes each record straight into the open batch of its partition (`accumulator`, `producer_batch`). A `sender` for each
//!   node sends the batches that are due, several in one `request`, which records what became of them. `client` is what they share; `maintenance`
//!   and `transactions` are its tasks.
//! - `consume`: a `consumer` reads what its `fetcher` has put into the `buffer`. `session`: what nodes remember of its fetches; `recovery`: where it
//!   goes on when its place is gone.
//! - `group`: `groups` makes members. A member (`membership`) takes part by the `classic` protocol, with `assignors`, or by the one of KIP-848
//!   (`server_assigned`). `committed`: where members begin, and their offsets.
//! - `share`: share groups (KIP-932). `groups` makes members. A `member` lives in its group; its `link` fetches from nodes, by their `requests`, for
//!   the `consumer` (`step`: what is to do at a node), which answers each message. `answers`: what the group has answered. `options`: their table.
//! - `net`: `connect` opens connections, with TLS and SASL (`msk_iam`: by credentials of AWS); `control` sends one request after the other; `cluster` finds leaders and
//!   coordinators; `admin` and `topics`: topics.
//! - [`codec`]: record batches, and the layouts of messages. `config`: the options. `error`: what error codes mean.

pub mod codec;
mod config;
mod error;
mod consume {
    pub mod buffer;
    pub mod consumer;
    pub mod fetcher;
    mod recovery;
    mod session;
}
mod group {
    pub mod assignors;
    pub mod classic;
    pub mod committed;
    pub mod groups;
    pub mod membership;
    pub mod server_assigned;
}
mod net {
    pub mod admin;
    pub mod cluster;
    pub mod connect;
    pub mod control;
    mod msk_iam;
    mod scram;
    pub mod topics;
}
mod produce {
    pub mod accumulator;
    pub mod client;
    pub mod maintenance;
    pub mod producer;
    pub mod producer_batch;
    pub mod request;
    pub mod sender;
    pub mod transactions;
}
mod share {
    pub mod answers;
    pub mod consumer;
    pub mod groups;
    pub mod link;
    pub mod member;
    pub mod options;
    pub mod requests;
    mod step;
}
#[cfg(test)]
#[path = "../../../tests/unit/kafka_native/mod.rs"]
mod tests;

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use self::codec::batch::Headers;
use self::config::{Isolation, KafkaNativeOptions};
use self::group::groups::{self, Groups};
use self::net::admin::{Admin, End, EndsQuery, FetchTraffic};
use self::net::cluster::Cluster;
use self::net::connect::{self, Connector};
use self::produce::client::{Client, Messages};
use self::produce::maintenance;
use self::produce::producer::KafkaNativeProducer;
use self::share::consumer::AnyConsumer;
use self::share::groups::ShareGroups;
use super::kafka_cluster::TOPICS_PER_REQUEST;
use super::kafka_options::RequiredAcks;
use super::{
    Broker, BrokerError, BrokerInfo, ConsumerAnswers, Created, Durability, Removal, Setup, Subscription, Telemetry,
    Topic, Unready, kafka_cluster,
};
use crate::measure::{ConditionKind, Conditions};
use crate::net::tls;
use crate::net::token::Token;
use crate::scenario::{BrokerConfig, Capabilities, Contradiction, Descriptor, Need, Scenario, Security};

/// A Kafka cluster, reached over one or more producing clients.
pub struct KafkaNativeBroker {
    clients: Vec<Arc<Client>>,
    admin: Arc<Admin>,
    groups: Groups,
    share_groups: Option<ShareGroups>,
    acks: RequiredAcks,
    may_reorder: bool,
    identity: BrokerInfo,
}

impl Broker for KafkaNativeBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        client: Some("native"),
        alternative: Some("librdkafka"),
        summary: "Apache Kafka and what speaks its protocol, through brokermark's own client",
        capabilities: Capabilities {
            tls: true,
            sasl: connect::MECHANISMS,
            group_properties: groups::PROPERTIES,
            ..kafka_cluster::DESCRIPTOR.capabilities
        },
        tells: |kind| !matches!(kind, ConditionKind::Blocked | ConditionKind::BacklogQuota),
        ..kafka_cluster::DESCRIPTOR
    };

    type Options = KafkaNativeOptions;
    type Producer = KafkaNativeProducer;
    type Consumer = AnyConsumer;

    fn remedy(need: Need<'_>, config: &BrokerConfig, _: &KafkaNativeOptions) -> Option<String> {
        kafka_cluster::remedy(need, config)
    }

    fn contradiction(scenario: &Scenario, settings: &BTreeMap<String, String>) -> Option<Contradiction> {
        kafka_cluster::contradiction(scenario, settings)
    }

    async fn connect(setup: Setup<KafkaNativeOptions>) -> Result<Self, BrokerError> {
        let options = &setup.options;
        let connector = Arc::new(Connector {
            tls: tls::client_config(setup.config.security.tls.as_ref()).map_err(BrokerError::Configuration)?,
            security: setup.config.security.clone(),
            token: first_token(&setup.config.security, setup.timeout).await?,
            given: setup.config.addresses.clone(),
            client_id: setup.run_id.clone(),
            timeout: setup.timeout,
            conditions: setup.conditions.clone(),
        });
        let addresses = setup.config.addresses.clone();
        options
            .transactions
            .map_or(Ok(()), |transactions| transactions.check(&setup))
            .map_err(BrokerError::Configuration)?;
        let unreachable = |error: error::CallError| error.into_broker_error(&addresses.join(","));
        let cluster = Arc::new(Cluster::new(connector, addresses.clone()));
        let metadata = timeout(setup.timeout, cluster.metadata(&[])).await;
        let metadata = metadata.unwrap_or(Err(error::CallError::Timeout(setup.timeout))).map_err(unreachable)?;
        let headers: Vec<Headers> = setup.header_sets.iter().map(|set| Headers::new(set)).collect();
        let mut clients = Vec::with_capacity(setup.config.connections);
        for index in 0..setup.config.connections {
            let messages =
                Messages { headers: headers.clone(), payloads: setup.payloads.clone(), acks: setup.acks.clone() };
            let transactional_id = format!("{}-{}", setup.run_id, setup.first_producer + index);
            let client = maintenance::start(cluster.clone(), options.clone(), messages, &transactional_id).await;
            clients.push(client.map_err(unreachable)?);
        }
        let named = kafka_cluster::cluster(metadata.cluster_id.as_deref(), metadata.nodes.len());
        let (config, fetched) = (setup.topic_config, FetchTraffic::default());
        let limits = Mutex::default();
        let admin = Arc::new(Admin { cluster, config, timeout: setup.timeout, fetched, limits });
        Ok(KafkaNativeBroker {
            clients,
            acks: options.acks,
            may_reorder: options.may_reorder(),
            share_groups: ShareGroups::new(admin.clone(), &setup.options),
            groups: Groups::new(admin.clone(), setup.options),
            admin,
            identity: BrokerInfo {
                client: format!("brokermark {}, Kafka protocol", env!("CARGO_PKG_VERSION")),
                broker: Some(named),
                embedded: false,
            },
        })
    }

    fn identity(&self) -> BrokerInfo {
        self.identity.clone()
    }

    async fn describe(&self) -> Option<String> {
        let release = kafka_cluster::release(self.admin.cluster.metadata_levels());
        let cluster = self.identity.broker.as_deref()?;
        Some(kafka_cluster::with_release(release, cluster, "which does not tell its release"))
    }

    fn may_reorder(&self) -> bool {
        // What a member of a share group gives back comes again behind later ones.
        self.may_reorder || self.share_groups.is_some()
    }

    fn telemetry(&self) -> Telemetry {
        let fetched = Telemetry { wire: Some(self.admin.fetched.take()), ..Telemetry::default() };
        self.clients.iter().map(|client| client.traffic.take()).chain([fetched]).sum()
    }

    const TOPICS_PER_REQUEST: usize = TOPICS_PER_REQUEST;

    async fn create_topics(&self, topics: &[Topic]) -> Vec<Result<Created, BrokerError>> {
        self.admin.create(topics).await
    }

    async fn find_topics(&self, topics: &[Topic]) -> Vec<Result<Option<Topic>, BrokerError>> {
        self.admin.find(topics).await
    }

    async fn delete_topics(&self, topics: &[Topic]) -> Vec<Result<(), BrokerError>> {
        self.admin.delete(topics).await
    }

    async fn unready_topic(&self, topics: &[Topic]) -> Result<Option<Unready>, BrokerError> {
        self.admin.unready(topics).await
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<KafkaNativeProducer, BrokerError> {
        let client = &self.clients[producer_number % self.clients.len()];
        let limit = self.admin.batch_limit(&topic.name);
        let routes = client.topic(&topic.name, producer_number, limit).await?;
        Ok(KafkaNativeProducer::new(client.clone(), routes))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<AnyConsumer, BrokerError> {
        match &self.share_groups {
            Some(groups) => groups.consumer(subscription).await.map(AnyConsumer::OfShareGroup),
            None => self.groups.consumer(subscription).await.map(AnyConsumer::OfPartitions),
        }
    }

    async fn will_redeliver(&self, topic: &Topic) -> bool {
        match &self.share_groups {
            Some(groups) => groups.will_redeliver(topic).await,
            None => false,
        }
    }

    fn answers(&self) -> Option<ConsumerAnswers> {
        self.share_groups.as_ref().map(ShareGroups::answers)
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        let settings = self.admin.settings(topics, &kafka_cluster::TOPIC_SETTINGS).await;
        kafka_cluster::durability(self.acks.name(), topics, &settings.unwrap_or_default())
    }

    async fn topic_settings(&self, topics: &[Topic]) -> Vec<BTreeMap<String, String>> {
        let settings = self.admin.settings(topics, &kafka_cluster::MESSAGE_SETTINGS).await.unwrap_or_default();
        self.admin.learn_limits(topics, &settings);
        settings
    }

    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        let (admin, topic) = (self.admin.clone(), topic.clone());
        Some(async move { offsets(&admin, &topic, End::Latest).await })
    }

    async fn removal(&self, topic: &Topic, _: &[String]) -> Option<Removal> {
        let settings = self.admin.settings(slice::from_ref(topic), &kafka_cluster::REMOVAL_SETTINGS).await.ok()?;
        kafka_cluster::removal(settings.first()?, offsets(&self.admin, topic, End::Earliest).await?)
    }

    async fn stop(&self) {
        join_all(self.clients.iter().map(|client| client.end_transactions())).await;
        self.clients.iter().for_each(|client| client.close());
    }

    async fn close(self) -> Result<(), BrokerError> {
        if let Some(groups) = &self.share_groups {
            groups.remove(&self.groups).await?;
        }
        self.groups.remove().await
    }
}

/// Where each partition begins or ends.
async fn offsets(admin: &Admin, topic: &Topic, end: End) -> Option<Vec<u64>> {
    let partitions: Vec<u32> = (0..topic.partitions).collect();
    let isolation = Isolation::ReadUncommitted;
    let query = EndsQuery { topic: &topic.name, partitions: &partitions, end, isolation };
    let ends = admin.ends(&query).await.ok()?;
    partitions.iter().map(|partition| ends.get(partition).and_then(|end| u64::try_from(*end).ok())).collect()
}

/// What connections log in with, where that is a token.
fn token(security: &Security, limit: Duration) -> Result<Option<Token>, String> {
    security.bearer.clone().map(|source| Token::new(source, limit)).transpose()
}

/// The same. That there is one is known before anything connects.
async fn first_token(security: &Security, limit: Duration) -> Result<Option<Token>, BrokerError> {
    let token = token(security, limit).map_err(BrokerError::Configuration)?;
    if let Some(token) = &token {
        let is_written = security.written_token().is_some();
        token.current().await.map_err(if is_written { BrokerError::Configuration } else { BrokerError::Client })?;
    }
    Ok(token)
}

/// Connects to nodes of which another client does not tell enough.
fn asking(addresses: &[String], security: Security, limit: Duration) -> Option<Connector> {
    Some(Connector {
        tls: tls::client_config(security.tls.as_ref()).ok()?,
        token: token(&security, limit).ok()?,
        security,
        given: addresses.to_vec(),
        client_id: "brokermark-asking".to_owned(),
        timeout: limit,
        conditions: Conditions::default(),
    })
}

/// Why no client can work with the cluster at `addresses` by this `security`, or with a node that only the cluster names. `None`: they answer, or
/// say nothing within `limit`.
pub async fn refusal(addresses: &[String], security: &Security, limit: Duration) -> Option<BrokerError> {
    let connector = Arc::new(asking(addresses, security.clone(), limit)?);
    let cluster = Cluster::new(connector.clone(), addresses.to_vec());
    let answered = async {
        let metadata = cluster.metadata(&[]).await.map_err(|error| error.into_broker_error(&addresses.join(",")))?;
        for node in metadata.nodes.values().filter(|node| !addresses.contains(node)) {
            connector.open(node).await.map_err(|error| error.into_broker_error(node))?;
        }
        Ok(())
    };
    timeout(limit, answered).await.ok()?.err()
}

/// The release of the first of `addresses` that answers, if it does so within `limit`. Nodes tell it before a login.
pub async fn release(addresses: &[String], security: &Security, limit: Duration) -> Option<String> {
    let without_login = Security { tls: security.tls.clone(), ..Security::default() };
    let connector = asking(addresses, without_login, limit)?;
    let first_answer = async {
        for address in addresses {
            if let Ok(connection) = connector.open(address).await {
                return kafka_cluster::release(connection.versions.metadata);
            }
        }
        None
    };
    timeout(limit, first_answer).await.ok().flatten()
}

impl Drop for KafkaNativeBroker {
    fn drop(&mut self) {
        self.clients.iter().for_each(|client| client.close());
    }
}
