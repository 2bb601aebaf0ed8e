//! Topics: found and described, and where their partitions begin and end. `topics` creates and deletes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{DescribeConfigsRequest, ListOffsetsRequest};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::super::config::Isolation;
use super::super::error::{CallError, NO_LEADER, UNKNOWN_TOPIC, is_retriable};
use super::cluster::{Cluster, Metadata, TopicMetadata, name_of};
use crate::broker::kafka_cluster::{NO_LEADERS, batch_limit};
use crate::broker::{BrokerError, Topic, Unready, Wire};

/// How often nodes are asked again that have not heard of a new topic.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The newest versions of requests that are used here.
const LIST_OFFSETS: i16 = 10;
const DESCRIBE_CONFIGS: i16 = 4;

/// A topic as a resource that has settings (`ConfigResource.Type`).
const TOPIC_RESOURCE: i8 = 2;

/// Fetches of all consumers since the last look.
#[derive(Debug, Default)]
pub struct FetchTraffic {
    answered: AtomicU64,
    throttled: AtomicU64,
}

impl FetchTraffic {
    /// A fetch was answered. `is_throttled`: a quota was used up.
    pub fn answered(&self, is_throttled: bool) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.throttled.fetch_add(u64::from(is_throttled), Ordering::Relaxed);
    }

    /// What was counted since the last call.
    pub fn take(&self) -> Wire {
        // In this order, so that no more are throttled than answered.
        let throttled_fetches = self.throttled.swap(0, Ordering::Relaxed);
        Wire { fetches: self.answered.swap(0, Ordering::Relaxed), throttled_fetches, ..Wire::default() }
    }
}

/// Creates and removes topics.
pub struct Admin {
    pub cluster: Arc<Cluster>,
    /// Settings of topics that are created.
    pub config: Vec<(String, String)>,
    pub timeout: Duration,
    /// What consumers have asked for.
    pub fetched: FetchTraffic,
    /// The largest batch that a topic takes, in bytes, by the topic's name.
    pub limits: Mutex<BTreeMap<String, usize>>,
}

/// An end of a partition, by its number as a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Latest = -1,
    Earliest = -2,
}

/// Ends of partitions that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct EndsQuery<'a> {
    pub topic: &'a str,
    pub partitions: &'a [u32],
    pub end: End,
    pub isolation: Isolation,
}

impl Admin {
    /// The topics as they are, those that exist.
    pub async fn find(&self, topics: &[Topic]) -> Vec<Result<Option<Topic>, BrokerError>> {
        let metadata = self.metadata(topics).await;
        let found = |topic: &Topic| {
            let metadata = metadata.as_ref().map_err(Clone::clone)?;
            Ok(metadata.topics.get(&topic.name).map(|found| shape(topic, found)))
        };
        topics.iter().map(found).collect()
    }

    /// The first of the topics that has not all its leaders yet.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn unready(&self, topics: &[Topic]) -> Result<Option<Unready>, BrokerError> {
        let metadata = self.metadata(topics).await?;
        // Not every node has heard of a new topic.
        let is_ready = |topic: &&Topic| {
            let found = metadata.topics.get(&topic.name);
            found.is_some_and(|found| found.leaders.iter().all(Option::is_some) && shape(topic, found) == **topic)
        };
        let unready = topics.iter().find(|topic| !is_ready(topic));
        Ok(unready.map(|topic| Unready { topic: topic.name.clone(), reason: NO_LEADERS.to_owned() }))
    }

    /// The broker's values of `keys` for each of `topics`; nothing of a topic that it does not tell them of.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn settings(&self, topics: &[Topic], keys: &[&str]) -> Result<Vec<BTreeMap<String, String>>, CallError> {
        let resource = |topic: &Topic| {
            DescribeConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(text(&topic.name))
                .with_configuration_keys(Some(keys.iter().map(|key| text(key)).collect()))
        };
        let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(resource).collect());
        let response = self.cluster.call(&request, DESCRIBE_CONFIGS).await?;
        let values = |result: &DescribeConfigsResult| {
            let value = result
                .configs
                .iter()
                .filter_map(|config| Some((config.name.to_string(), config.value.as_ref()?.to_string())));
            value.collect()
        };
        let of_topic = |topic: &Topic| {
            let found = response.results.iter().find(|result| result.resource_name.as_str() == topic.name);
            found.filter(|found| found.error_code == 0).map(values).unwrap_or_default()
        };
        Ok(topics.iter().map(of_topic).collect())
    }

    /// Remembers the largest batches that topics take.
    pub fn learn_limits(&self, topics: &[Topic], settings: &[BTreeMap<String, String>]) {
        let limits = topics.iter().zip(settings).filter_map(|(topic, of)| Some((topic.name.clone(), batch_limit(of)?)));
        self.limits.lock().extend(limits);
    }

    /// The largest batch that the topic takes, in bytes, as the broker or else the scenario says.
    pub fn batch_limit(&self, topic: &str) -> Option<usize> {
        let known = self.limits.lock().get(topic).copied();
        known.or_else(|| batch_limit(self.config.iter().map(|(key, value)| (key, value))))
    }

    /// The end of every one of these partitions.
    ///
    /// # Errors
    /// When a leader does not answer, or refuses.
    pub async fn ends(&self, query: &EndsQuery<'_>) -> Result<BTreeMap<u32, i64>, CallError> {
        let EndsQuery { topic, partitions, end, isolation } = *query;
        let metadata = self.cluster.metadata(&[topic]).await?;
        let found = metadata.topics.get(topic).ok_or(CallError::Refused(UNKNOWN_TOPIC, None))?;
        let mut by_leader: BTreeMap<i32, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for partition in partitions {
            let leader = found.leaders.get(*partition as usize).copied().flatten();
            let leader = leader.ok_or(CallError::Refused(NO_LEADER, None))?;
            let asked = ListOffsetsPartition::default()
                .with_partition_index(*partition as i32)
                .with_current_leader_epoch(-1)
                .with_timestamp(end as i64);
            by_leader.entry(leader).or_default().push(asked);
        }
        let mut ends = BTreeMap::new();
        for (leader, asked) in by_leader {
            let address = metadata.nodes.get(&leader).ok_or(CallError::Refused(NO_LEADER, None))?;
            let request = ListOffsetsRequest::default()
                .with_replica_id((-1).into())
                .with_isolation_level(isolation as i8)
                .with_topics(vec![ListOffsetsTopic::default().with_name(name_of(topic)).with_partitions(asked)]);
            let response = self.cluster.call_at(address, &request, LIST_OFFSETS).await?;
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                CallError::check(partition.error_code)?;
                ends.insert(partition.partition_index as u32, partition.offset);
            }
        }
        Ok(ends)
    }

    /// As [`Admin::ends`]. Nodes that have not heard of a new topic yet are asked again.
    ///
    /// # Errors
    /// As [`Admin::ends`].
    pub async fn ends_in_time(&self, query: &EndsQuery<'_>) -> Result<BTreeMap<u32, i64>, CallError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.ends(query).await {
                Err(CallError::Refused(code, _)) if is_retriable(code) && Instant::now() < deadline => {
                    sleep(CHECK_EVERY).await;
                }
                answer => return answer,
            }
        }
    }

    pub(super) async fn metadata(&self, topics: &[Topic]) -> Result<Metadata, BrokerError> {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let metadata = self.cluster.metadata(&names).await;
        metadata.map_err(|error| BrokerError::Client(error.to_string()))
    }
}

/// A topic of this name as it was found.
pub(super) fn shape(topic: &Topic, found: &TopicMetadata) -> Topic {
    let (partitions, replication) = (found.leaders.len() as u32, found.replication as u32);
    Topic { name: topic.name.clone(), partitions, replication }
}

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic_error(topic: &str, action: &'static str, reason: String) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason }
}
