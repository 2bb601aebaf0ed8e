//! How the leader of a group shares partitions among its members, and the messages in which members and leader say so.
//!
//! Source: Kafka's `RangeAssignor` and `RoundRobinAssignor`; `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use super::codec::layout;
use super::error::CallError;

/// The oldest version of both messages, which every member understands.
const VERSION: i16 = 0;

/// How partitions are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each member has neighbouring partitions of a topic.
    Range,
    /// Members take the partitions of all topics in turn.
    RoundRobin,
}

/// Of each member, by its id, partitions by topic.
pub type Shares = BTreeMap<String, BTreeMap<String, Vec<i32>>>;

impl Strategy {
    /// As members offer them, best first: those of librdkafka's default.
    pub const OFFERED: [Strategy; 2] = [Strategy::Range, Strategy::RoundRobin];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Range => "range",
            Strategy::RoundRobin => "roundrobin",
        }
    }

    pub fn by_name(name: &str) -> Option<Strategy> {
        Strategy::OFFERED.into_iter().find(|strategy| strategy.name() == name)
    }

    /// The shares of members, by the topics that they read. `partitions`: how many each topic has.
    pub fn share(self, members: &BTreeMap<String, Vec<String>>, partitions: &BTreeMap<String, usize>) -> Shares {
        let mut shares: Shares = members.keys().map(|member| (member.clone(), BTreeMap::new())).collect();
        let topics: BTreeSet<&String> = members.values().flatten().collect();
        let mut turn = 0;
        for topic in topics {
            let readers: Vec<&String> =
                members.iter().filter(|(_, topics)| topics.contains(topic)).map(|(member, _)| member).collect();
            let count = partitions.get(topic).copied().unwrap_or(0);
            for partition in 0..count {
                let reader = match self {
                    Strategy::Range => range(partition, count, readers.len()),
                    Strategy::RoundRobin => turn % readers.len(),
                };
                turn += 1;
                let share = shares.entry(readers[reader].clone()).or_default();
                share.entry(topic.clone()).or_default().push(partition as i32);
            }
        }
        shares
    }
}

/// The reader of a partition: the first ones have one more, if they cannot have equally many.
fn range(partition: usize, partitions: usize, readers: usize) -> usize {
    let (each, more) = (partitions / readers, partitions % readers);
    let of_larger = more * (each + 1);
    if partition < of_larger { partition / (each + 1) } else { more + (partition - of_larger) / each }
}

/// What a member says it reads.
///
/// # Errors
/// When the topic's name cannot be written.
pub fn subscription(topic: &str) -> Result<Bytes, CallError> {
    let topics = vec![StrBytes::from_string(topic.to_owned())];
    encoded(&ConsumerProtocolSubscription::default().with_topics(topics))
}

/// The topics that a member says it reads.
///
/// # Errors
/// When that cannot be read.
pub fn topics(mut subscription: Bytes) -> Result<Vec<String>, CallError> {
    let read: ConsumerProtocolSubscription = decoded(&mut subscription, layout::SUBSCRIPTION)?;
    Ok(read.topics.iter().map(|topic| topic.to_string()).collect())
}

/// A member's share, as the leader says it.
///
/// # Errors
/// When a topic's name cannot be written.
pub fn assignment(share: &BTreeMap<String, Vec<i32>>) -> Result<Bytes, CallError> {
    let topic = |(topic, partitions): (&String, &Vec<i32>)| {
        let name = TopicName(StrBytes::from_string(topic.clone()));
        TopicPartition::default().with_topic(name).with_partitions(partitions.clone())
    };
    encoded(&ConsumerProtocolAssignment::default().with_assigned_partitions(share.iter().map(topic).collect()))
}

/// A member's partitions of a topic. Nothing means none.
///
/// # Errors
/// When that cannot be read.
pub fn partitions(mut assignment: Bytes, topic: &str) -> Result<Vec<u32>, CallError> {
    if assignment.is_empty() {
        return Ok(Vec::new());
    }
    let read: ConsumerProtocolAssignment = decoded(&mut assignment, layout::ASSIGNMENT)?;
    let own = read.assigned_partitions.iter().filter(|one| one.topic.as_str() == topic);
    Ok(own.flat_map(|one| &one.partitions).map(|partition| *partition as u32).collect())
}

fn encoded(message: &impl Encodable) -> Result<Bytes, CallError> {
    let mut bytes = BytesMut::new();
    bytes.put_i16(VERSION);
    message.encode(&mut bytes, VERSION).map_err(|error| CallError::Unsupported(error.to_string()))?;
    Ok(bytes.freeze())
}

/// What later versions say besides comes after it.
fn decoded<T: Decodable>(bytes: &mut Bytes, layout: &str) -> Result<T, CallError> {
    bytes.try_get_i16().map_err(|error| CallError::Malformed(error.to_string()))?;
    layout::walk(bytes, layout)?;
    T::decode(bytes, VERSION).map_err(|error| CallError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(strategy: Strategy, members: &[(&str, &[&str])], topics: &[(&str, usize)]) -> Vec<String> {
        let members = members
            .iter()
            .map(|(member, topics)| ((*member).to_owned(), topics.iter().map(|one| (*one).to_owned()).collect()));
        let topics = topics.iter().map(|(topic, partitions)| ((*topic).to_owned(), *partitions));
        let shares = strategy.share(&members.collect(), &topics.collect());
        shares.into_iter().map(|(member, share)| format!("{member} {share:?}")).collect()
    }

    /// The examples of the documentation of Kafka's `RangeAssignor` and `RoundRobinAssignor`.
    #[test]
    fn partitions_are_shared_as_kafkas_own_clients_share_them() {
        let both: &[(&str, &[&str])] = &[("C0", &["t0", "t1"]), ("C1", &["t0", "t1"])];
        let topics = [("t0", 3), ("t1", 3)];
        assert_eq!(
            shares(Strategy::Range, both, &topics),
            [r#"C0 {"t0": [0, 1], "t1": [0, 1]}"#, r#"C1 {"t0": [2], "t1": [2]}"#]
        );
        assert_eq!(
            shares(Strategy::RoundRobin, both, &topics),
            [r#"C0 {"t0": [0, 2], "t1": [1]}"#, r#"C1 {"t0": [1], "t1": [0, 2]}"#]
        );
        let more: &[(&str, &[&str])] = &[("a", &["t0"]), ("b", &["t0"]), ("c", &["t0"])];
        assert_eq!(shares(Strategy::Range, more, &[("t0", 2)]), [r#"a {"t0": [0]}"#, r#"b {"t0": [1]}"#, "c {}"]);
    }

    #[test]
    fn what_is_written_is_read_and_nonsense_is_refused() {
        assert_eq!(topics(subscription("orders").unwrap()).unwrap(), ["orders"]);
        let share = BTreeMap::from([("orders".to_owned(), vec![0, 3]), ("other".to_owned(), vec![1])]);
        assert_eq!(partitions(assignment(&share).unwrap(), "orders").unwrap(), [0, 3]);
        assert_eq!(partitions(Bytes::new(), "orders").unwrap(), [0; 0]);
        for bytes in [&[0_u8][..], &[0, 0], &[0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 1, 0, 9, b'x']] {
            assert!(partitions(Bytes::from(bytes.to_vec()), "orders").is_err(), "{bytes:?}");
        }
    }
}
