//! Topics and groups: found, created and removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::config::Properties;
use super::native::{Client, create_topics, set_admin_token};
use super::token::Token;
use crate::broker::kafka_cluster::NO_LEADERS;
use crate::broker::{BrokerError, Created, Topic, Unready};
use crate::scenario::Secret;

/// Creates and removes topics, and removes groups.
pub struct Topics {
    admin: Arc<AdminClient<DefaultClientContext>>,
    /// Makes the requests that `admin` does not tell the outcome of.
    client: Arc<Client>,
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
        client: Arc<Client>,
        config: Vec<(String, String)>,
        token: Option<Secret>,
        timeout: Duration,
    ) -> Result<Self, BrokerError> {
        let mut client_config = ClientConfig::new();
        for (key, value) in properties.for_admin() {
            client_config.set(key, value);
        }
        let admin = client_config.create().map_err(|error| BrokerError::Configuration(error.to_string()))?;
        let topics = Topics { admin: Arc::new(admin), client, config, token, timeout };
        topics.renew_token();
        Ok(topics)
    }

    /// With SASL OAUTHBEARER, where the token is.
    pub fn token(&self) -> Option<Secret> {
        self.token.clone()
    }

    /// Before requests: rdkafka's administrator is not asked for a token by librdkafka. Without a valid one, the requests say so.
    fn renew_token(&self) {
        if let Some(Ok(token)) = self.token.as_ref().map(Token::read) {
            set_admin_token(&self.admin, &token);
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
        let request = || create_topics(&self.client, &missing, &self.config, self.timeout);
        let results = if missing.is_empty() { Ok(Vec::new()) } else { tokio::task::block_in_place(request) };
        let created = |topic: &Topic| {
            if let Some((found, _)) = found(topic) {
                return Ok(Created::Existing(found.clone()));
            }
            let failed = |reason: &str| topic_error(&topic.name, "created", reason.to_owned());
            let results = results.as_ref().map_err(|reason| failed(reason))?;
            let result = results.iter().find(|(name, _)| *name == topic.name);
            let (_, result) = result.ok_or_else(|| failed("the response does not name it"))?;
            let Err((code, reason)) = result else { return Ok(Created::New) };
            let advice = match code {
                Code::RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR => {
                    ": is `topology.replication` more than the brokers?"
                }
                Code::RD_KAFKA_RESP_ERR_INVALID_CONFIG => ": correct `topology.config`",
                _ => "",
            };
            Err(failed(&format!("{}{advice}", reason.trim_end_matches('.'))))
        };
        topics.iter().map(created).collect()
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

    /// The end of every partition of `topic`.
    ///
    /// The request uses a connection of its own. On a consumer's connection it would be answered after the fetches before it.
    /// On a producer's, a request that times out would end the connection, and with it the messages in flight.
    ///
    /// # Errors
    /// When the broker does not answer for one of them.
    pub fn end_offsets(&self, topic: &Topic) -> impl Future<Output = Result<Vec<u64>, KafkaError>> + Send + use<> {
        self.renew_token();
        let (admin, timeout) = (self.admin.clone(), self.timeout);
        let (name, partitions) = (topic.name.clone(), topic.partitions);
        let end = move |partition| {
            let (_, end) = admin.inner().fetch_watermarks(&name, partition, timeout)?;
            Ok(u64::try_from(end).unwrap_or(0))
        };
        let ask = move || (0..partitions as i32).map(end).collect();
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
            let results = results.as_ref().map_err(|error| failed(error.to_string()))?;
            let refused = results.iter().filter_map(|result| result.as_ref().err());
            match refused.into_iter().find(|(name, _)| *name == topic.name) {
                Some((_, code)) if *code != RDKafkaErrorCode::UnknownTopicOrPartition => Err(failed(code.to_string())),
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
        for result in results.map_err(|error| failed(format!("groups cannot be removed: {error}")))? {
            // One whose members have committed nothing is gone with them.
            if let Err((group, code)) = result
                && code != RDKafkaErrorCode::GroupIdNotFound
            {
                return Err(failed(format!("group '{group}' cannot be removed: {code}")));
            }
        }
        Ok(())
    }

    /// Every topic of the cluster, and whether each of its partitions has a leader. Asking for one by name would create it
    /// on brokers that create topics on demand.
    fn existing(&self) -> Result<Vec<(Topic, bool)>, BrokerError> {
        self.renew_token();
        let metadata = tokio::task::block_in_place(|| self.admin.inner().fetch_metadata(None, self.timeout))
            .map_err(|error: KafkaError| BrokerError::Client(error.to_string()))?;
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
