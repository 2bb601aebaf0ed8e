//! Topics and groups: found, created and removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication, TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};

use super::client::{self, set_admin_token};
use super::properties::Properties;
use crate::broker::kafka_cluster::NO_LEADERS;
use crate::broker::{BrokerError, Created, Topic, Unready};
use crate::scenario::Secret;

/// Creates and removes topics, and removes groups.
pub struct Topics {
    admin: Arc<AdminClient<DefaultClientContext>>,
    /// Settings of topics that are created.
    config: Vec<(String, String)>,
    /// With SASL OAUTHBEARER, where the token is.
    token: Option<Secret>,
    timeout: Duration,
}

impl Topics {
    /// # Errors
    /// When librdkafka does not accept the properties.
    pub fn new(
        properties: &Properties,
        config: Vec<(String, String)>,
        token: Option<Secret>,
        timeout: Duration,
    ) -> Result<Self, BrokerError> {
        let admin = client::create(properties.for_admin(), DefaultClientContext).map_err(BrokerError::Configuration)?;
        Ok(Topics { admin: Arc::new(admin), config, token, timeout })
    }

    /// With SASL OAUTHBEARER, where the token is.
    pub fn token(&self) -> Option<Secret> {
        self.token.clone()
    }

    /// Before requests.
    fn renew_token(&self) {
        if let Some(token) = &self.token {
            set_admin_token(&self.admin, token);
        }
    }

    /// Creates those of the topics that do not exist, with a result for each.
    pub async fn create(&self, topics: &[Topic]) -> Vec<Result<Created, BrokerError>> {
        let existing = match self.existing() {
            Ok(existing) => existing,
            Err(error) => return vec![Err(error); topics.len()],
        };
        let found = |topic: &Topic| existing.iter().find(|(found, _)| found.name == topic.name);
        let missing: Vec<&Topic> = topics.iter().filter(|topic| found(topic).is_none()).collect();
        let results = self.create_all(&missing).await;
        let created = |topic: &Topic| {
            if let Some((found, _)) = found(topic) {
                return Ok(Created::Existing(found.clone()));
            }
            let failed = |reason: String| topic_error(&topic.name, "created", reason);
            let results = results.as_ref().map_err(|error| failed(client::reason(error)))?;
            let mut refused = results.iter().filter_map(|result| result.as_ref().err());
            let Some((_, code)) = refused.find(|(name, _)| *name == topic.name) else { return Ok(Created::New) };
            // The crate gives the code of a refusal, and not the broker's own sentence.
            let advice = match code {
                Code::InvalidReplicationFactor => ": is `topology.replication` more than the brokers?",
                Code::InvalidConfig => {
                    ": correct `topology.config`; `broker.client = \"native\"` shows the broker's reason"
                }
                _ => "",
            };
            Err(failed(format!("{}{advice}", client::describe(*code))))
        };
        topics.iter().map(created).collect()
    }

    async fn create_all(&self, topics: &[&Topic]) -> KafkaResult<Vec<TopicResult>> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let config = || self.config.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let new: Vec<NewTopic<'_>> = topics
            .iter()
            .map(|Topic { name, partitions, replication }| {
                let replication = TopicReplication::Fixed(*replication as i32);
                NewTopic { config: config(), ..NewTopic::new(name, *partitions as i32, replication) }
            })
            .collect();
        self.admin.create_topics(&new, &self.options()).await
    }

    /// The topics as they are, those that exist.
    pub fn find(&self, topics: &[Topic]) -> Vec<Result<Option<Topic>, BrokerError>> {
        let existing = self.existing();
        let found = |topic: &Topic| {
            let existing = existing.as_ref().map_err(Clone::clone)?;
            Ok(existing.iter().map(|(found, _)| found).find(|found| found.name == topic.name).cloned())
        };
        topics.iter().map(found).collect()
    }

    /// The first of the topics that has not all its leaders yet.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub fn unready(&self, topics: &[Topic]) -> Result<Option<Unready>, BrokerError> {
        let existing = self.existing()?;
        // Not every node has heard of a new topic.
        let is_ready = |topic: &&Topic| existing.iter().any(|(found, is_led)| found == *topic && *is_led);
        let unready = topics.iter().find(|topic| !is_ready(topic));
        Ok(unready.map(|topic| Unready { topic: topic.name.clone(), reason: NO_LEADERS.to_owned() }))
    }

    /// Where every partition of `topic` begins and ends.
    ///
    /// The request uses a connection of its own. On a consumer's connection it would be answered after the fetches before it.
    /// On a producer's, a request that times out would end the connection, and with it the messages in flight.
    ///
    /// # Errors
    /// When the broker does not answer for one of them.
    pub fn bounds(&self, topic: &Topic) -> impl Future<Output = Result<Vec<(u64, u64)>, KafkaError>> + Send + use<> {
        self.renew_token();
        let (admin, timeout) = (self.admin.clone(), self.timeout);
        let (name, partitions) = (topic.name.clone(), topic.partitions);
        let bounds = move |partition| {
            let (begin, end) = admin.inner().fetch_watermarks(&name, partition, timeout)?;
            Ok((u64::try_from(begin).unwrap_or(0), u64::try_from(end).unwrap_or(0)))
        };
        let ask = move || (0..partitions as i32).map(bounds).collect();
        async { tokio::task::spawn_blocking(ask).await.unwrap_or(Err(KafkaError::Canceled)) }
    }

    /// The broker's values of `keys` for each of `topics`; nothing of a topic that it does not tell them of.
    pub async fn settings(&self, topics: &[Topic], keys: &[&str]) -> Vec<BTreeMap<String, String>> {
        self.renew_token();
        let names: Vec<ResourceSpecifier<'_>> =
            topics.iter().map(|topic| ResourceSpecifier::Topic(&topic.name)).collect();
        let described = self.admin.describe_configs(&names, &self.options()).await.unwrap_or_default();
        let values = |described: &ConfigResource| {
            let wanted = keys.iter().filter_map(|key| described.get(key));
            wanted.filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?))).collect()
        };
        described.iter().map(|described| described.as_ref().map(values).unwrap_or_default()).collect()
    }

    /// Deletes topics, with a result for each.
    pub async fn delete(&self, topics: &[Topic]) -> Vec<Result<(), BrokerError>> {
        self.renew_token();
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let results = self.admin.delete_topics(&names, &self.options()).await;
        let deleted = |topic: &Topic| {
            let failed = |reason: String| topic_error(&topic.name, "removed", reason);
            let results = results.as_ref().map_err(|error| failed(client::reason(error)))?;
            let refused = results.iter().filter_map(|result| result.as_ref().err());
            match refused.into_iter().find(|(name, _)| *name == topic.name) {
                Some((_, code)) if *code != Code::UnknownTopicOrPartition => Err(failed(client::describe(*code))),
                Some(_) | None => Ok(()),
            }
        };
        topics.iter().map(deleted).collect()
    }

    /// Removes groups that have committed offsets.
    ///
    /// # Errors
    /// When the broker refuses or does not answer.
    pub async fn remove_groups(&self, groups: &[String]) -> Result<(), BrokerError> {
        if groups.is_empty() {
            return Ok(());
        }
        self.renew_token();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let failed = BrokerError::Client;
        let results = self.admin.delete_groups(&groups, &self.options()).await;
        for result in
            results.map_err(|error| failed(format!("groups cannot be removed: {}", client::reason(&error))))?
        {
            // One whose members have committed nothing is gone with them.
            if let Err((group, code)) = result
                && code != Code::GroupIdNotFound
            {
                let reason = client::describe(code);
                return Err(failed(format!("group '{group}' cannot be removed: {reason}")));
            }
        }
        Ok(())
    }

    /// Every topic of the cluster, and whether each of its partitions has a leader. Asking for one by name would create it
    /// on brokers that create topics on demand.
    fn existing(&self) -> Result<Vec<(Topic, bool)>, BrokerError> {
        self.renew_token();
        let metadata = tokio::task::block_in_place(|| self.admin.inner().fetch_metadata(None, self.timeout))
            .map_err(|error| BrokerError::Client(client::reason(&error)))?;
        let describe = |topic: &rdkafka::metadata::MetadataTopic| {
            let partitions = topic.partitions();
            let found = Topic {
                name: topic.name().to_owned(),
                partitions: partitions.len() as u32,
                replication: partitions.first().map_or(0, |partition| partition.replicas().len() as u32),
            };
            (found, partitions.iter().all(|partition| partition.leader() >= 0))
        };
        Ok(metadata.topics().iter().map(describe).collect())
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.timeout)).operation_timeout(Some(self.timeout))
    }
}

fn topic_error(topic: &str, action: &'static str, reason: String) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason }
}
