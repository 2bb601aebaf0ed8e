//! Topics: found, created, described and removed, and where their partitions begin and end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::DescribeConfigsResult;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, ListOffsetsRequest, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use tokio::time::{Instant, sleep, timeout};

use super::super::config::Isolation;
use super::super::error::{CallError, NAME, describe, is_retriable};
use super::super::traffic::FetchTraffic;
use super::cluster::{Cluster, Metadata, TopicMetadata};
use crate::broker::{BrokerError, Topic};

/// How often to check whether new topics have leaders.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The newest versions of requests that are used here. A later one of `DeleteTopics` names topics by their ids.
const CREATE_TOPICS: i16 = 7;
const DELETE_TOPICS: i16 = 5;
const LIST_OFFSETS: i16 = 10;
const DESCRIBE_CONFIGS: i16 = 4;

/// A topic as a resource that has settings (`ConfigResource.Type`).
const TOPIC_RESOURCE: i8 = 2;

/// `INVALID_REPLICATION_FACTOR` and `INVALID_CONFIG`.
const INVALID_REPLICATION: i16 = 38;
const INVALID_CONFIG: i16 = 40;

/// Creates and removes topics.
pub struct Admin {
    pub cluster: Arc<Cluster>,
    /// Settings of topics that are created.
    pub config: Vec<(String, String)>,
    pub timeout: Duration,
    /// What consumers have asked for.
    pub fetched: FetchTraffic,
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
    /// Creates those of `topics` that do not exist, adds them to `created`, and waits until all have leaders.
    ///
    /// # Errors
    /// When one exists with another number of partitions or replicas, or cannot be created.
    pub async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        let existing = self.metadata(topics).await?;
        let mut missing = Vec::new();
        for topic in topics {
            match existing.topics.get(&topic.name) {
                Some(found) => agree(topic, found)?,
                None => missing.push(topic),
            }
        }
        if !missing.is_empty() {
            self.create(&missing, &existing, created).await?;
        }
        self.wait_for_leaders(topics).await
    }

    /// Those of the topics that exist, as they are.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn present(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let existing = self.metadata(topics).await?;
        let found = |wanted: &Topic| {
            let found = existing.topics.get(&wanted.name)?;
            let (partitions, replication) = (found.leaders.len() as u32, found.replication as u32);
            Some(Topic { name: wanted.name.clone(), partitions, replication })
        };
        Ok(topics.iter().filter_map(found).collect())
    }

    /// The topics of these names, as they are.
    ///
    /// # Errors
    /// When one does not exist.
    pub async fn find(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let present = self.present(topics).await?;
        match topics.iter().find(|wanted| present.iter().all(|found| found.name != wanted.name)) {
            None => Ok(present),
            Some(missing) => Err(BrokerError::Topic {
                topic: missing.name.clone(),
                action: "taken as it is",
                reason: "it does not exist: create it first, or remove `topology.existing`".to_owned(),
            }),
        }
    }

    /// Removes topics by name.
    ///
    /// # Errors
    /// When the broker refuses or does not answer.
    pub async fn remove(&self, names: &[String]) -> Result<(), BrokerError> {
        let Some(first) = names.first() else { return Ok(()) };
        let failed =
            |topic: &str, reason: String| BrokerError::Topic { topic: topic.to_owned(), action: "removed", reason };
        let no_answer = |error: CallError| failed(first, error.to_string());
        let metadata = self.cluster.metadata(&[]).await.map_err(no_answer)?;
        let request = DeleteTopicsRequest::default()
            .with_topic_names(names.iter().map(|name| name_of(name)).collect())
            .with_timeout_ms(self.timeout.as_millis() as i32);
        let response = self.call_controller(&metadata, &request, DELETE_TOPICS).await.map_err(no_answer)?;
        match response.responses.iter().find(|result| result.error_code != 0) {
            None => Ok(()),
            Some(refused) => {
                let name = refused.name.as_ref().map_or("", |name| name.as_str());
                Err(failed(name, describe(refused.error_code, refused.error_message.as_deref())))
            }
        }
    }

    /// As [`Admin::remove`], in the time that it has.
    ///
    /// # Errors
    /// As [`Admin::remove`], or when the time is over.
    pub async fn remove_in_time(&self, names: &[String]) -> Result<(), BrokerError> {
        timeout(self.timeout, self.remove(names)).await.unwrap_or_else(|_| {
            let reason = format!("topics were not removed within {:?}", self.timeout);
            Err(BrokerError::Client { broker: NAME, reason })
        })
    }

    /// Sends a request to the node that creates and removes topics; in a cluster with KRaft any may be named.
    async fn call_controller<R: Request>(
        &self,
        metadata: &Metadata,
        request: &R,
        newest: i16,
    ) -> Result<R::Response, CallError> {
        match metadata.controller.and_then(|id| metadata.nodes.get(&id)) {
            Some(address) => self.cluster.call_at(address, request, newest).await,
            None => self.cluster.call(request, newest).await,
        }
    }

    /// The broker's values of `keys` for each of `topics`; nothing of a topic that it does not tell them of.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn settings(&self, topics: &[Topic], keys: &[&str]) -> Result<Vec<BTreeMap<String, String>>, CallError> {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
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

    /// The end of every one of these partitions.
    ///
    /// # Errors
    /// When a leader does not answer, or refuses.
    pub async fn ends(&self, query: &EndsQuery<'_>) -> Result<BTreeMap<u32, i64>, CallError> {
        let EndsQuery { topic, partitions, end, isolation } = *query;
        let metadata = self.cluster.metadata(&[topic]).await?;
        let found = metadata.topics.get(topic).ok_or(CallError::Refused(3, None))?;
        let mut by_leader: BTreeMap<i32, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for partition in partitions {
            let leader = found.leaders.get(*partition as usize).copied().flatten();
            let leader = leader.ok_or(CallError::Refused(5, None))?;
            let asked = ListOffsetsPartition::default()
                .with_partition_index(*partition as i32)
                .with_current_leader_epoch(-1)
                .with_timestamp(end as i64);
            by_leader.entry(leader).or_default().push(asked);
        }
        let mut ends = BTreeMap::new();
        for (leader, asked) in by_leader {
            let address = metadata.nodes.get(&leader).ok_or(CallError::Refused(5, None))?;
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

    async fn create(
        &self,
        missing: &[&Topic],
        metadata: &Metadata,
        created: &mut Vec<String>,
    ) -> Result<(), BrokerError> {
        let failed =
            |topic: &str, reason: String| BrokerError::Topic { topic: topic.to_owned(), action: "created", reason };
        let request = CreateTopicsRequest::default()
            .with_topics(missing.iter().map(|topic| self.creatable(topic)).collect())
            .with_timeout_ms(self.timeout.as_millis() as i32);
        let response = self.call_controller(metadata, &request, CREATE_TOPICS).await;
        let response = response.map_err(|error| failed(&missing[0].name, error.to_string()))?;
        let mut refused = None;
        for result in &response.topics {
            match result.error_code {
                0 => created.push(result.name.to_string()),
                _ => refused = Some(result),
            }
        }
        let Some(result) = refused else { return Ok(()) };
        let advice = match result.error_code {
            INVALID_REPLICATION => ": is `topology.replication` more than the brokers?",
            INVALID_CONFIG => ": correct `topology.config`",
            _ => "",
        };
        let reason = describe(result.error_code, result.error_message.as_deref());
        Err(failed(result.name.as_str(), format!("{}{advice}", reason.trim_end_matches('.'))))
    }

    fn creatable(&self, topic: &Topic) -> CreatableTopic {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let config = |(name, value): &(String, String)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        };
        CreatableTopic::default()
            .with_name(name_of(&topic.name))
            .with_num_partitions(topic.partitions as i32)
            .with_replication_factor(topic.replication as i16)
            .with_configs(self.config.iter().map(config).collect())
    }

    async fn wait_for_leaders(&self, topics: &[Topic]) -> Result<(), BrokerError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let metadata = self.metadata(topics).await?;
            let waiting = topics.iter().find(|topic| {
                let found = metadata.topics.get(&topic.name);
                !found.is_some_and(|found| found.leaders.iter().all(Option::is_some) && agree(topic, found).is_ok())
            });
            match waiting {
                None => return Ok(()),
                Some(topic) if Instant::now() >= deadline => {
                    let reason = format!("no leader for all its partitions within {:?}", self.timeout);
                    return Err(BrokerError::Topic { topic: topic.name.clone(), action: "created", reason });
                }
                Some(_) => sleep(CHECK_EVERY).await,
            }
        }
    }

    async fn metadata(&self, topics: &[Topic]) -> Result<Metadata, BrokerError> {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let metadata = self.cluster.metadata(&names).await;
        metadata.map_err(|error| BrokerError::Client { broker: NAME, reason: error.to_string() })
    }
}

pub fn name_of(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn agree(wanted: &Topic, found: &TopicMetadata) -> Result<(), BrokerError> {
    let (partitions, replication) = (found.leaders.len(), found.replication);
    if wanted.partitions as usize == partitions && wanted.replication as usize == replication {
        return Ok(());
    }
    let shape = |partitions, replication| format!("{partitions} partition(s) and replication {replication}");
    Err(BrokerError::TopicMismatch {
        topic: wanted.name.clone(),
        found: shape(partitions, replication),
        wanted: shape(wanted.partitions as usize, wanted.replication as usize),
    })
}
