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
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_refused() {
        let alone = Subscription::new("orders");
        assert_eq!(Subscription::decode(alone.encode(false).unwrap()).unwrap(), alone);
        let owning = Subscription { owned: [("orders".to_owned(), vec![0, 3])].into(), generation: 7, ..alone.clone() };
        assert_eq!(Subscription::decode(owning.encode(true).unwrap()).unwrap(), owning);
        // A version that is not known has more behind what is known.
        let mut later = BytesMut::from(&owning.encode(true).unwrap()[..]);
        later[..2].copy_from_slice(&9_i16.to_be_bytes());
        later.put_slice(&[0xff, 0xff, 1, 2, 3]);
        assert_eq!(Subscription::decode(later.freeze()).unwrap(), owning);
        // Older members read the topics only.
        let mut older = owning.encode(true).unwrap().to_vec();
        older[..2].copy_from_slice(&[0, 0]);
        assert_eq!(Subscription::decode(older.into()).unwrap(), alone);

        let share = BTreeMap::from([("orders".to_owned(), vec![0, 3]), ("other".to_owned(), vec![1])]);
        assert_eq!(partitions(assignment(&share).unwrap(), "orders").unwrap(), [0, 3]);
        assert_eq!(partitions(Bytes::new(), "orders").unwrap(), [0; 0]);
        for bytes in [&[0_u8][..], &[0, 0], &[0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 1, 0, 9, b'x'], &[0xff, 0xff, 0, 0]] {
            assert!(partitions(Bytes::from(bytes.to_vec()), "orders").is_err(), "{bytes:?}");
            assert!(Subscription::decode(Bytes::from(bytes.to_vec())).is_err(), "{bytes:?}");
        }
    }

    /// What librdkafka 2.12.1 writes (`rd_kafka_consumer_protocol_member_metadata_new`): version 3 with a topic "t", no data of the user,
    /// partitions 1 and 2 of it, generation 5, and no rack.
    #[test]
    fn what_librdkafka_says_of_a_member_is_read() {
        let bytes: &[u8] = &[
            0, 3, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0,
            0, 5, 0xff, 0xff,
        ];
        let owned = [("t".to_owned(), vec![1, 2])].into();
        let expected = Subscription { owned, generation: 5, ..Subscription::new("t") };
        assert_eq!(Subscription::decode(Bytes::from_static(bytes)).unwrap(), expected);
    }

    proptest! {
        /// Also where a length says that more follows than there is.
        #[test]
        fn any_bytes_of_a_member_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..64), version in -1..4_i16) {
            bytes.splice(..bytes.len().min(2), version.to_be_bytes());
            let _ = Subscription::decode(bytes.clone().into());
            let _ = partitions(bytes.into(), "orders");
        }

        #[test]
        fn a_byte_that_is_wrong_is_refused_or_read_without_panic(place: proptest::sample::Index, byte: u8) {
            let owned = [("orders".to_owned(), vec![0, 3])].into();
            let subscription = Subscription { owned, generation: 7, ..Subscription::new("orders") };
            let share = BTreeMap::from([("orders".to_owned(), vec![0, 3])]);
            for message in [subscription.encode(true).unwrap(), assignment(&share).unwrap()] {
                let mut bytes = message.to_vec();
                let place = place.index(bytes.len());
                bytes[place] = byte;
                let _ = Subscription::decode(bytes.clone().into());
                let _ = partitions(bytes.into(), "orders");
            }
        }
    }
}
