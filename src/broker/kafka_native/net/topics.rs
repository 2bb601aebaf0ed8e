//! Topics: created and deleted, as fast as the quota of the broker lets them be (KIP-599).
//!
//! A request is about many topics, and each has an answer of its own. Those that the quota refuses are asked for again.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{CreateTopicsRequest, DeleteTopicsRequest};
use kafka_protocol::protocol::Request;
use tokio::time::{Instant, sleep};

use super::super::error::{CallError, NOT_CONTROLLER, QUOTA_EXCEEDED, UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, describe};
use super::admin::{Admin, shape, text, topic_error};
use super::cluster::name_of;
use super::control::ControlConnection;
use crate::broker::{BrokerError, Created, Topic};
use crate::measure::{ConditionKind, Subject};

/// The newest versions of requests that are used here.
const CREATE_TOPICS: i16 = 7;
const DELETE_TOPICS: i16 = 6;

/// The first version that names topics by their ids.
const DELETES_BY_ID: i16 = 6;

/// `INVALID_REPLICATION_FACTOR` and `INVALID_CONFIG`.
const INVALID_REPLICATION: i16 = 38;
const INVALID_CONFIG: i16 = 40;

/// The least time before topics are asked for again.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// What is done to topics.
#[derive(Clone, Copy)]
enum Change {
    Create,
    Delete,
}

/// What became of topics, by their names.
type Answers = BTreeMap<String, Result<(), CallError>>;

impl Admin {
    /// Creates those of the topics that do not exist, with a result for each.
    pub async fn create(&self, topics: &[Topic]) -> Vec<Result<Created, BrokerError>> {
        let metadata = match self.metadata(topics).await {
            Ok(metadata) => metadata,
            Err(error) => return vec![Err(error); topics.len()],
        };
        let missing = topics.iter().filter(|topic| !metadata.topics.contains_key(&topic.name)).collect();
        let mut answers = self.change(Change::Create, missing).await;
        let created = |topic: &Topic| {
            if let Some(found) = metadata.topics.get(&topic.name) {
                return Ok(Created::Existing(shape(topic, found)));
            }
            let answer = answers.remove(&topic.name).unwrap_or_else(|| Err(unanswered()));
            answer.map(|()| Created::New).map_err(|error| topic_error(&topic.name, "created", explained(&error)))
        };
        topics.iter().map(created).collect()
    }

    /// Deletes topics, with a result for each. One that another client has replaced stays.
    pub async fn delete(&self, topics: &[Topic]) -> Vec<Result<(), BrokerError>> {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        // Without an answer, the ids are those that are known.
        let _ = self.cluster.metadata(&names).await;
        let own = topics.iter().filter(|topic| !self.cluster.is_replaced(&topic.name)).collect();
        let mut answers = self.change(Change::Delete, own).await;
        let deleted = |topic: &Topic| match answers.remove(&topic.name) {
            Some(Err(CallError::Refused(UNKNOWN_TOPIC | UNKNOWN_TOPIC_ID, _))) | Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(topic_error(&topic.name, "removed", explained(&error))),
            None => Err(topic_error(
                &topic.name,
                "removed",
                "another client has deleted it and created it again: the one that exists now is not the run's"
                    .to_owned(),
            )),
        };
        topics.iter().map(deleted).collect()
    }

    /// Asks for a change, again of the topics that a quota refuses, until each has its answer or the time is over.
    async fn change(&self, change: Change, mut topics: Vec<&Topic>) -> Answers {
        let deadline = Instant::now() + self.timeout;
        let mut answers = Answers::new();
        let mut held_up: Option<Subject> = None;
        while !topics.is_empty() {
            let wait = match self.ask(change, &topics).await {
                Err(error) => {
                    answers.extend(topics.iter().map(|topic| (topic.name.clone(), Err(error.clone()))));
                    break;
                }
                Ok((address, answered, wait)) => {
                    let is_refused = |name: &str| match answered.get(name) {
                        Some(Err(CallError::Refused(code @ (QUOTA_EXCEEDED | NOT_CONTROLLER), _))) => Some(*code),
                        _ => None,
                    };
                    topics.retain(|topic| is_refused(&topic.name).is_some());
                    if topics.iter().any(|topic| is_refused(&topic.name) == Some(QUOTA_EXCEEDED)) {
                        let held_up = held_up.get_or_insert_with(|| self.cluster.connector.node(&address));
                        held_up.begin(ConditionKind::Throttled, "its quota of topics that are created and deleted");
                    }
                    answers.extend(answered);
                    wait
                }
            };
            if Instant::now() + wait >= deadline {
                break;
            }
            if !topics.is_empty() {
                sleep(wait).await;
            }
        }
        answers
    }

    /// Asks for a change. Returns the address of the node that was asked, its answers, and how long to wait before it is asked again.
    async fn ask(&self, change: Change, topics: &[&Topic]) -> Result<(String, Answers, Duration), CallError> {
        let metadata = self.cluster.metadata(&[]).await?;
        // In a cluster with KRaft, any node may be named.
        let controller = metadata.controller.and_then(|id| metadata.nodes.get(&id)).or(metadata.nodes.values().next());
        let address = controller.ok_or_else(|| CallError::Lost("the metadata names no node".to_owned()))?;
        let mut connection = self.cluster.connector.open(address).await?;
        let (answers, throttled_ms) = match change {
            Change::Create => self.ask_to_create(&mut connection, topics).await?,
            Change::Delete => self.ask_to_delete(&mut connection, topics).await?,
        };
        let wait = Duration::from_millis(u64::try_from(throttled_ms).unwrap_or(0)).max(MIN_WAIT);
        Ok((address.clone(), answers, wait))
    }

    async fn ask_to_create(
        &self,
        connection: &mut ControlConnection,
        topics: &[&Topic],
    ) -> Result<(Answers, i32), CallError> {
        let request = CreateTopicsRequest::default()
            .with_topics(topics.iter().map(|topic| self.creatable(topic)).collect())
            .with_timeout_ms(self.timeout.as_millis() as i32);
        let response = connection.call(&request, CREATE_TOPICS).await?;
        let mut answers = Answers::new();
        for result in response.topics {
            if result.error_code == 0 {
                self.cluster.created(&result.name, result.topic_id);
            }
            let answer = CallError::check_told(result.error_code, result.error_message.as_ref());
            answers.insert(result.name.to_string(), answer);
        }
        Ok((answers, response.throttle_time_ms))
    }

    async fn ask_to_delete(
        &self,
        connection: &mut ControlConnection,
        topics: &[&Topic],
    ) -> Result<(Answers, i32), CallError> {
        let version = connection.versions.newest_common(DeleteTopicsRequest::KEY, 1, DELETE_TOPICS)?;
        let request = DeleteTopicsRequest::default().with_timeout_ms(self.timeout.as_millis() as i32);
        let ids: BTreeMap<&str, _> = topics
            .iter()
            .filter_map(|topic| Some((topic.name.as_str(), self.cluster.first_id(&topic.name)?)))
            .collect();
        let request = if version >= DELETES_BY_ID {
            // By its id, no topic that another client creates meanwhile is deleted.
            let state = |topic: &&Topic| match ids.get(topic.name.as_str()) {
                Some(id) => DeleteTopicState::default().with_name(None).with_topic_id(*id),
                None => DeleteTopicState::default().with_name(Some(name_of(&topic.name))),
            };
            request.with_topics(topics.iter().map(state).collect())
        } else {
            request.with_topic_names(topics.iter().map(|topic| name_of(&topic.name)).collect())
        };
        let response = connection.call(&request, version).await?;
        let mut answers = Answers::new();
        for result in response.responses {
            let is_named = |topic: &&&Topic| match &result.name {
                Some(name) => name.as_str() == topic.name,
                None => ids.get(topic.name.as_str()) == Some(&result.topic_id),
            };
            if let Some(topic) = topics.iter().find(is_named) {
                let answer = CallError::check_told(result.error_code, result.error_message.as_ref());
                answers.insert(topic.name.clone(), answer);
            }
        }
        // What is not named is not there.
        topics.iter().for_each(|topic| _ = answers.entry(topic.name.clone()).or_insert(Ok(())));
        Ok((answers, response.throttle_time_ms))
    }

    fn creatable(&self, topic: &Topic) -> CreatableTopic {
        let config = |(name, value): &(String, String)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        };
        CreatableTopic::default()
            .with_name(name_of(&topic.name))
            .with_num_partitions(topic.partitions as i32)
            .with_replication_factor(topic.replication as i16)
            .with_configs(self.config.iter().map(config).collect())
    }
}

fn unanswered() -> CallError {
    CallError::Malformed("it does not name the topic".to_owned())
}

/// The broker's words, and what to do.
fn explained(error: &CallError) -> String {
    let CallError::Refused(code, message) = error else { return error.to_string() };
    let advice = match *code {
        INVALID_REPLICATION => ": is `topology.replication` more than the brokers?",
        INVALID_CONFIG => ": correct `topology.config`",
        QUOTA_EXCEEDED => ": fewer or smaller topics take less of the quota `controller_mutation_rate`, or raise it",
        _ => "",
    };
    format!("{}{advice}", describe(*code, message.as_deref()).trim_end_matches('.'))
}
