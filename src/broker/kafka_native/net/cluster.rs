//! The cluster, apart from messages: which nodes lead which partitions, and requests that any node, a certain one, or a coordinator
//! answers.
//!
//! The node that coordinates a group or transactions is found by their name, and found again when another one coordinates them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    FindCoordinatorRequest, GroupId, InitProducerIdRequest, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::super::error::{CallError, UNKNOWN_TOPIC, is_retriable};
use super::connect::Connector;
use super::control::ControlConnection;
use crate::broker::kafka_cluster::MetadataLevels;
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::net::address;
use crate::net::backoff::Backoff;
use crate::net::tcp::in_turn;

/// The newest versions of requests that are used here.
const METADATA: i16 = 13;
const INIT_PRODUCER_ID: i16 = 5;

/// `REBOOTSTRAP_REQUIRED`.
const REBOOTSTRAP_REQUIRED: i16 = 129;

/// How often a node may ask for patience before a request fails.
const MAX_ATTEMPTS: usize = 50;

/// After so many answers that did not help, another node is asked.
pub const MAX_FRUITLESS: usize = 3;

/// How long a node may say nothing before another one is asked as well.
const PATIENCE: Duration = Duration::from_secs(1);

/// A cluster, with a connection to one of its nodes for requests that are rare.
pub struct Cluster {
    pub connector: Arc<Connector>,
    addresses: Vec<String>,
    connection: tokio::sync::Mutex<Option<ControlConnection>>,
    /// The addresses that the nodes themselves name.
    known: Mutex<Vec<String>>,
    levels: Mutex<MetadataLevels>,
    /// Topics by their names, as they were first seen.
    topics: Mutex<BTreeMap<String, KnownTopic>>,
    /// How many addresses come after the others: nodes that have answered and not helped.
    passed: AtomicUsize,
}

struct KnownTopic {
    id: Uuid,
    /// The topic, once there is another one of its name.
    replaced: Option<Subject>,
    /// The id of the topic that `leaders` are of.
    id_now: Uuid,
    /// The newest leader of each partition that a node has named, with its epoch.
    leaders: Vec<(i32, Option<i32>)>,
}

impl KnownTopic {
    fn new(id: Uuid) -> Self {
        KnownTopic { id, replaced: None, id_now: id, leaders: Vec::new() }
    }

    /// Puts the leaders that are known, and their epochs, in place of older ones: the node that answers may not have heard of an election (KIP-320).
    fn keep_newer_leaders(&mut self, found: &mut TopicMetadata) {
        if std::mem::replace(&mut self.id_now, found.id) != found.id {
            self.leaders.clear();
        }
        self.leaders.resize(found.leaders.len(), (-1, None));
        for ((known_epoch, known), (epoch, leader)) in
            self.leaders.iter_mut().zip(found.epochs.iter_mut().zip(&mut found.leaders))
        {
            if *epoch >= 0 && *epoch < *known_epoch {
                (*epoch, *leader) = (*known_epoch, *known);
            } else {
                (*known_epoch, *known) = (*epoch, *leader);
            }
        }
    }
}

/// What the cluster says of itself.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    pub cluster_id: Option<String>,
    /// The addresses of nodes by their ids.
    pub nodes: BTreeMap<i32, String>,
    pub controller: Option<i32>,
    pub topics: BTreeMap<String, TopicMetadata>,
}

/// A topic that exists.
#[derive(Debug, Clone, Default)]
pub struct TopicMetadata {
    /// Id of the node that leads each partition.
    pub leaders: Vec<Option<i32>>,
    /// How often each had got another leader by then; below 0: the node does not tell.
    pub epochs: Vec<i32>,
    pub replication: usize,
    /// Id of the topic; nil before Kafka 2.8.
    pub id: Uuid,
}

impl Cluster {
    pub fn new(connector: Arc<Connector>, addresses: Vec<String>) -> Self {
        let (connection, known) = (tokio::sync::Mutex::default(), Mutex::default());
        let (levels, topics, passed) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        Cluster { connector, addresses, connection, known, levels, topics, passed }
    }

    /// Sends a request to any node, on a connection that is kept: to one node after the other, until one answers.
    ///
    /// # Errors
    /// When no node answers: the error of the last one.
    pub async fn call<R: Request>(&self, request: &R, newest: i16) -> Result<R::Response, CallError> {
        self.call_in_turn(request, newest, self.connector.timeout).await
    }

    /// As [`Cluster::call`], of a request that may be answered twice: a node that says nothing for a while does not hold it up.
    async fn ask<R: Request>(&self, request: &R, newest: i16) -> Result<R::Response, CallError> {
        self.call_in_turn(request, newest, PATIENCE).await
    }

    /// The next node is asked when the one before has failed, or has not answered for `patience`.
    async fn call_in_turn<R: Request>(
        &self,
        request: &R,
        newest: i16,
        patience: Duration,
    ) -> Result<R::Response, CallError> {
        let mut kept = self.connection.lock().await;
        let mut addresses: Vec<String> = self.addresses.iter().cloned().chain(self.known.lock().clone()).collect();
        let passed = self.passed.load(Ordering::Relaxed) % addresses.len().max(1);
        addresses.rotate_left(passed);
        let kept_open = kept.take().filter(|open| !open.is_expiring());
        let nodes = kept_open.map(|open| (Some(open), String::new()));
        let nodes = nodes.into_iter().chain(addresses.into_iter().map(|address| (None, address)));
        let asked = nodes.map(|(open, address)| async move {
            let mut connection = match open {
                // One that was idle may have been closed since.
                Some(open) => open,
                None => self.connector.open(&address).await?,
            };
            let response = connection.call(request, newest).await?;
            Ok::<_, CallError>((connection, response))
        });
        let asked = asked.collect();
        match in_turn(asked, patience).await {
            Ok(((connection, response), _)) => {
                *self.levels.lock() = connection.versions.metadata;
                *kept = Some(connection);
                Ok(response)
            }
            Err(mut errors) => Err(errors.pop().unwrap_or_else(|| CallError::Lost("no address is known".to_owned()))),
        }
    }

    /// Sends a request to the node at `address`, on a connection of its own.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn call_at<R: Request>(&self, address: &str, request: &R, newest: i16) -> Result<R::Response, CallError> {
        self.connector.open(address).await?.call(request, newest).await
    }

    /// The nodes, and those of `topics` that exist. A node that has lost its cluster sends the client back to the scenario's addresses, whose names
    /// are resolved again (KIP-1102).
    ///
    /// # Errors
    /// When no node answers, or one refuses.
    pub async fn metadata(&self, topics: &[&str]) -> Result<Metadata, CallError> {
        // Each once: a server that is asked twice may answer twice, and partitions would count double.
        let topics: BTreeSet<&str> = topics.iter().copied().collect();
        let topics =
            topics.into_iter().map(|name| MetadataRequestTopic::default().with_name(Some(name_of(name)))).collect();
        let request = MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(false);
        let mut response = self.ask(&request, METADATA).await?;
        for _ in &self.addresses {
            if response.error_code != REBOOTSTRAP_REQUIRED {
                break;
            }
            self.known.lock().clear();
            self.ask_another().await;
            response = self.ask(&request, METADATA).await?;
        }
        CallError::check(response.error_code)?;
        let mut metadata = read(&response)?;
        *self.known.lock() = metadata.nodes.values().cloned().collect();
        self.recognise(&mut metadata.topics);
        Ok(metadata)
    }

    /// Compares the ids of topics with those that they had first: a topic that is deleted and created again has another one (KIP-516).
    fn recognise(&self, found: &mut BTreeMap<String, TopicMetadata>) {
        let mut topics = self.topics.lock();
        for (name, found) in found.iter_mut().filter(|(_, found)| !found.id.is_nil()) {
            let id = found.id;
            let known = topics.entry(name.clone()).or_insert_with(|| KnownTopic::new(id));
            known.keep_newer_leaders(found);
            if known.id == id {
                known.replaced = None;
                continue;
            }
            let topic = || Subject::new(&self.connector.conditions, SubjectKind::Topic, name);
            let words = format!("its id was {}, and is {}", shown(known.id), shown(id));
            known.replaced.get_or_insert_with(topic).begin(ConditionKind::TopicReplaced, &words);
        }
    }

    /// The trial has created this topic.
    pub fn created(&self, topic: &str, id: Uuid) {
        if !id.is_nil() {
            self.topics.lock().insert(topic.to_owned(), KnownTopic::new(id));
        }
    }

    /// The next request goes to another node: the one that has answered does not know what the caller waits for.
    pub async fn ask_another(&self) {
        *self.connection.lock().await = None;
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// The id that a topic had first, where the cluster tells it.
    pub fn first_id(&self, topic: &str) -> Option<Uuid> {
        self.topics.lock().get(topic).map(|known| known.id)
    }

    /// Whether there is another topic of that name now.
    pub fn is_replaced(&self, topic: &str) -> bool {
        self.topics.lock().get(topic).is_some_and(|known| known.replaced.is_some())
    }

    /// What the node told that answered last.
    pub fn metadata_levels(&self) -> MetadataLevels {
        *self.levels.lock()
    }

    /// A new id and epoch of an idempotent producer.
    ///
    /// # Errors
    /// When no node gives one.
    pub async fn new_identity(&self) -> Result<(i64, i16), CallError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(i32::MAX)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let mut backoff = Backoff::RECEIVE;
        for _ in 0..MAX_ATTEMPTS {
            let response = self.ask(&request, INIT_PRODUCER_ID).await?;
            match response.error_code {
                0 => return Ok((response.producer_id.0, response.producer_epoch)),
                code if is_retriable(code) => backoff.pause().await,
                code => return Err(CallError::Refused(code, Some("no producer id was given".to_owned()))),
            }
        }
        Err(CallError::Lost("the broker gave no producer id in time".to_owned()))
    }
}

/// The id of a topic as Kafka's own tools print it.
fn shown(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// A topic's name as requests have it.
pub fn name_of(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn read(response: &MetadataResponse) -> Result<Metadata, CallError> {
    let node = |node: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
        (node.node_id.0, address::joined(&node.host, node.port))
    };
    let mut topics = BTreeMap::new();
    for topic in &response.topics {
        let Some(name) = &topic.name else { continue };
        match topic.error_code {
            UNKNOWN_TOPIC => continue,
            code if code != 0 && !is_retriable(code) => {
                return Err(CallError::Refused(code, Some(format!("topic '{}'", name.as_str()))));
            }
            _ => {}
        }
        let (mut leaders, mut epochs) = (vec![None; topic.partitions.len()], vec![-1; topic.partitions.len()]);
        for partition in &topic.partitions {
            let index = usize::try_from(partition.partition_index).ok().filter(|index| *index < leaders.len());
            let index = index.ok_or_else(|| CallError::Malformed("a topic's partitions have gaps".to_owned()))?;
            leaders[index] = (partition.leader_id.0 >= 0).then_some(partition.leader_id.0);
            epochs[index] = partition.leader_epoch;
        }
        let replication = topic.partitions.first().map_or(0, |partition| partition.replica_nodes.len());
        topics.insert(name.to_string(), TopicMetadata { leaders, epochs, replication, id: topic.topic_id });
    }
    Ok(Metadata {
        cluster_id: response.cluster_id.as_ref().map(|id| id.to_string()),
        nodes: response.brokers.iter().map(node).collect(),
        controller: (response.controller_id.0 >= 0).then_some(response.controller_id.0),
        topics,
    })
}

/// Later versions ask for several groups at once.
const FIND_COORDINATOR: i16 = 3;

/// `COORDINATOR_LOAD_IN_PROGRESS`, `COORDINATOR_NOT_AVAILABLE` and `NOT_COORDINATOR`.
const LOADING: i16 = 14;
const NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;

/// What is coordinated, by its number in a request.
const GROUP: i8 = 0;
const TRANSACTIONS: i8 = 1;

/// A group or the transactions with an id, and a connection to the node that coordinates them.
pub struct Coordinator {
    cluster: Arc<Cluster>,
    /// Name of the group, or id of the transactions.
    name: String,
    kind: i8,
    /// Time to find the coordinator, and for a response.
    timeout: Duration,
    connection: tokio::sync::Mutex<Option<ControlConnection>>,
}

impl Coordinator {
    pub fn new(cluster: Arc<Cluster>, group: &str, timeout: Duration) -> Self {
        Coordinator { cluster, name: group.to_owned(), kind: GROUP, timeout, connection: tokio::sync::Mutex::default() }
    }

    /// That of the transactions with an id.
    pub fn for_transactions(cluster: Arc<Cluster>, id: &str, timeout: Duration) -> Self {
        Coordinator { kind: TRANSACTIONS, ..Coordinator::new(cluster, id, timeout) }
    }

    pub fn group(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.name.clone()))
    }

    /// Sends a request to the coordinator, again where the coordinator moves or is not ready. `code`: the error code of a response.
    ///
    /// # Errors
    /// When no coordinator answers in time. Other error codes are left to the caller.
    pub async fn call<R: Request>(
        &self,
        request: &R,
        newest: i16,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, CallError> {
        let deadline = Instant::now() + self.timeout;
        let mut backoff = Backoff::RECEIVE;
        let mut kept = self.connection.lock().await;
        loop {
            let open = match kept.take().filter(|open| !open.is_expiring()) {
                Some(open) => Ok(open),
                None => self.open().await,
            };
            let failed = match open {
                Err(error) => error,
                Ok(mut open) => match open.call(request, newest).await {
                    Err(error) => error,
                    Ok(response) => match code(&response) {
                        code @ (LOADING | NOT_AVAILABLE | NOT_COORDINATOR) => {
                            *kept = (code == LOADING).then_some(open);
                            CallError::Refused(code, None)
                        }
                        _ => {
                            *kept = Some(open);
                            return Ok(response);
                        }
                    },
                },
            };
            let may_pass = match &failed {
                CallError::Lost(_) | CallError::Timeout(_) => true,
                CallError::Refused(code, _) => is_retriable(*code),
                _ => false,
            };
            if !may_pass || Instant::now() >= deadline {
                return Err(failed);
            }
            backoff.pause().await;
        }
    }

    /// As [`ControlConnection::call_adapted`], of a request that is not sent again; its body is that of version `known`.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub async fn call_newer<R: Request>(&self, request: &R, known: i16, version: i16) -> Result<Bytes, CallError> {
        let mut open = self.open().await?;
        open.versions.newest_common(R::KEY, version, version)?;
        open.call_adapted(request, known, version, |_| {}).await
    }

    /// A connection to the node that is the coordinator now.
    async fn open(&self) -> Result<ControlConnection, CallError> {
        let name = StrBytes::from_string(self.name.clone());
        let request = FindCoordinatorRequest::default().with_key(name).with_key_type(self.kind);
        let found = self.cluster.ask(&request, FIND_COORDINATOR).await?;
        if found.error_code != 0 {
            let what = if self.kind == GROUP { "the group" } else { "the transactional id" };
            return Err(CallError::Refused(found.error_code, Some(format!("{what} '{}'", self.name))));
        }
        let mut connection = self.cluster.connector.open(&address::joined(&found.host, found.port)).await?;
        connection.timeout = self.timeout;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It refuses a fetch that names the epoch of the leader before it.
    #[test]
    fn a_newer_leader_has_its_own_epoch() {
        let told = |epoch, leader| TopicMetadata {
            leaders: vec![Some(leader)],
            epochs: vec![epoch],
            ..TopicMetadata::default()
        };
        let mut known = KnownTopic::new(Uuid::nil());
        known.keep_newer_leaders(&mut told(8, 1));
        let mut outdated = told(7, 0);
        known.keep_newer_leaders(&mut outdated);
        assert_eq!((outdated.leaders, outdated.epochs), (vec![Some(1)], vec![8]));
    }
}
