//! Topics and groups: found, created and removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::{Instant, sleep};

use super::config::Properties;
use super::native::{Client, create_topics, set_admin_token};
use super::token::Token;
use crate::broker::{BrokerError, Topic};
use crate::scenario::Secret;

/// How often to check whether new topics have leaders.
const CHECK_EVERY: Duration = Duration::from_millis(50);

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
        let admin = client_config
            .create()
            .map_err(|error| BrokerError::Configuration { broker: "kafka", reason: error.to_string() })?;
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

    /// Creates those of `topics` that do not exist, adds them to `created`, and waits until all have leaders.
    ///
    /// # Errors
    /// When one exists with another number of partitions or replicas, or cannot be created.
    pub async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        let existing = self.existing()?;
        let mut missing = Vec::new();
        for topic in topics {
            match existing.iter().find(|(found, _)| found.name == topic.name) {
                Some((found, _)) => agree(topic, found)?,
                None => missing.push(topic),
            }
        }
        self.create(&missing, created).await?;
        self.wait_for_leaders(topics).await
    }

    /// Those of the topics that exist, as they are.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub fn present(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let existing = self.existing()?.into_iter().map(|(found, _)| found);
        Ok(existing.filter(|found| topics.iter().any(|topic| topic.name == found.name)).collect())
    }

    /// The topics of these names, as they are.
    ///
    /// # Errors
    /// When one does not exist.
    pub fn find(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let existing = self.existing()?;
        let found = |wanted: &Topic| {
            let found = existing.iter().find(|(found, _)| found.name == wanted.name);
            found.map(|(found, _)| found.clone()).ok_or_else(|| BrokerError::Topic {
                topic: wanted.name.clone(),
                action: "taken as it is",
                reason: "it does not exist: create it first, or remove `topology.existing`".to_owned(),
            })
        };
        topics.iter().map(found).collect()
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

    /// Removes topics by name.
    ///
    /// # Errors
    /// When the broker refuses or does not answer.
    pub async fn remove(&self, names: &[String]) -> Result<(), BrokerError> {
        if names.is_empty() {
            return Ok(());
        }
        self.renew_token();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let failed =
            |topic: &str, reason: String| BrokerError::Topic { topic: topic.to_owned(), action: "removed", reason };
        let results = self
            .admin
            .delete_topics(&names, &self.options())
            .await
            .map_err(|error| failed(names[0], error.to_string()))?;
        for result in results {
            if let Err((name, code)) = result {
                return Err(failed(&name, code.to_string()));
            }
        }
        Ok(())
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
        let failed = |reason: String| BrokerError::Client { broker: "kafka", reason };
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

    async fn create(&self, missing: &[&Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        if missing.is_empty() {
            return Ok(());
        }
        let failed =
            |topic: &str, reason: String| BrokerError::Topic { topic: topic.to_owned(), action: "created", reason };
        let request = || create_topics(&self.client, missing, &self.config, self.timeout);
        let results = tokio::task::block_in_place(request).map_err(|reason| failed(&missing[0].name, reason))?;
        let mut refused = None;
        for (name, result) in results {
            match result {
                Ok(()) => created.push(name),
                Err(refusal) => refused = Some((name, refusal)),
            }
        }
        let Some((name, (code, reason))) = refused else { return Ok(()) };
        let advice = match code {
            Code::RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR => ": is `topology.replication` more than the brokers?",
            Code::RD_KAFKA_RESP_ERR_INVALID_CONFIG => ": correct `topology.config`",
            _ => "",
        };
        Err(failed(&name, format!("{}{advice}", reason.trim_end_matches('.'))))
    }

    async fn wait_for_leaders(&self, topics: &[Topic]) -> Result<(), BrokerError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let existing = self.existing()?;
            let waiting = topics.iter().find(|topic| {
                !existing.iter().any(|(found, led)| found.name == topic.name && *led && agree(topic, found).is_ok())
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

    /// Every topic of the cluster, and whether each of its partitions has a leader. Asking for one by name would create it
    /// on brokers that create topics on demand.
    fn existing(&self) -> Result<Vec<(Topic, bool)>, BrokerError> {
        self.renew_token();
        let metadata = tokio::task::block_in_place(|| self.admin.inner().fetch_metadata(None, self.timeout))
            .map_err(|error: KafkaError| BrokerError::Client { broker: "kafka", reason: error.to_string() })?;
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

fn agree(wanted: &Topic, found: &Topic) -> Result<(), BrokerError> {
    if wanted.partitions == found.partitions && wanted.replication == found.replication {
        return Ok(());
    }
    let shape = |topic: &Topic| format!("{} partition(s) and replication {}", topic.partitions, topic.replication);
    Err(BrokerError::TopicMismatch { topic: wanted.name.clone(), found: shape(found), wanted: shape(wanted) })
}
