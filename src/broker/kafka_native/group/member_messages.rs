//! The messages in which members of a classic group and their leader say what they read, what they have, and what they get.
//!
//! Source: `ConsumerProtocolSubscription.json` and `ConsumerProtocolAssignment.json` of Apache Kafka.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as Owned;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use super::super::codec::layout;
use super::super::error::CallError;

/// The oldest version of both messages, which every member understands.
const OLDEST: i16 = 0;

/// The oldest version of a subscription that has what the member owns, and since which generation (KIP-792).
const OWNING: i16 = 2;

/// Partitions of each topic.
pub type Partitions = BTreeMap<String, Vec<i32>>;

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscription {
    pub topics: Vec<String>,
    /// Partitions that it keeps while it joins again.
    pub owned: Partitions,
    /// Generation of the group when it got these; −1: it does not say.
    pub generation: i32,
}

/// What each member says of itself, by its id.
pub type Members = BTreeMap<String, Subscription>;

/// Partitions of each member, by its id.
pub type Shares = BTreeMap<String, Partitions>;

impl Subscription {
    /// What a member says that has returned everything.
    pub fn new(topic: &str) -> Self {
        Subscription { topics: vec![topic.to_owned()], owned: Partitions::new(), generation: -1 }
    }

    /// In a version that every member understands, without what it owns; with `owning`, in one that has it, of which older members read
    /// the rest.
    ///
    /// # Errors
    /// When a topic's name cannot be written.
    pub fn encode(&self, owning: bool) -> Result<Bytes, CallError> {
        let text = |text: &String| StrBytes::from_string(text.clone());
        let topics = self.topics.iter().map(text).collect();
        let message = ConsumerProtocolSubscription::default().with_topics(topics);
        if !owning {
            return encoded(&message, OLDEST);
        }
        let owned = self.owned.iter().map(|(topic, partitions)| {
            Owned::default().with_topic(TopicName(text(topic))).with_partitions(partitions.clone())
        });
        // Other members read a missing text as malformed.
        let message = message.with_user_data(Some(Bytes::new()));
        encoded(&message.with_owned_partitions(owned.collect()).with_generation_id(self.generation), OWNING)
    }

    /// What a member of any client says.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn decode(mut bytes: Bytes) -> Result<Self, CallError> {
        let read: ConsumerProtocolSubscription = decoded(&mut bytes, &layout::SUBSCRIPTIONS)?;
        let owned = |one: &Owned| (one.topic.to_string(), one.partitions.clone());
        Ok(Subscription {
            topics: read.topics.iter().map(|topic| topic.to_string()).collect(),
            owned: read.owned_partitions.iter().map(owned).collect(),
            generation: read.generation_id,
        })
    }
}

/// A member's share, as the leader says it.
///
/// # Errors
/// When a topic's name cannot be written.
pub fn assignment(share: &Partitions) -> Result<Bytes, CallError> {
    let topic = |(topic, partitions): (&String, &Vec<i32>)| {
        let name = TopicName(StrBytes::from_string(topic.clone()));
        Assigned::default().with_topic(name).with_partitions(partitions.clone())
    };
    let assigned = share.iter().map(topic).collect();
    encoded(&ConsumerProtocolAssignment::default().with_assigned_partitions(assigned), OLDEST)
}

/// A member's partitions of a topic. Nothing means none.
///
/// # Errors
/// When that cannot be read.
pub fn partitions(mut assignment: Bytes, topic: &str) -> Result<Vec<u32>, CallError> {
    if assignment.is_empty() {
        return Ok(Vec::new());
    }
    let read: ConsumerProtocolAssignment = decoded(&mut assignment, &[layout::ASSIGNMENT])?;
    let own = read.assigned_partitions.iter().filter(|one| one.topic.as_str() == topic);
    Ok(own.flat_map(|one| &one.partitions).map(|partition| *partition as u32).collect())
}

fn encoded(message: &impl Encodable, version: i16) -> Result<Bytes, CallError> {
    let mut bytes = BytesMut::new();
    bytes.put_i16(version);
    message.encode(&mut bytes, version).map_err(|error| CallError::Unsupported(error.to_string()))?;
    Ok(bytes.freeze())
}

/// `layouts`: of the versions from 0 on. What a later one says besides comes after what the last of them has.
fn decoded<T: Decodable>(bytes: &mut Bytes, layouts: &[&str]) -> Result<T, CallError> {
    let version = bytes.try_get_i16().map_err(|error| CallError::Malformed(error.to_string()))?;
    let negative = || CallError::Malformed(format!("a member's message of version {version}"));
    let known = usize::try_from(version).map_err(|_| negative())?.min(layouts.len() - 1);
    layout::walk(bytes, layouts[known])?;
    T::decode(bytes, known as i16).map_err(|error| CallError::Malformed(error.to_string()))
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/group/member_messages.rs"]
mod tests;
