//! How the leader of a classic group shares partitions among its members, and the messages in which members and their leader say what they read, what
//! they have, and what they get.
//!
//! Source: Kafka's `RangeAssignor` and `RoundRobinAssignor`. Of `cooperative-sticky`: KIP-54 and KIP-429; Kafka's `AbstractStickyAssignor`
//! and `CooperativeStickyAssignor`, whose results have the same properties, but need not be the same. Of the messages:
//! `ConsumerProtocolSubscription.json` and `ConsumerProtocolAssignment.json`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as Owned;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use super::super::codec::layout;
use super::super::error::CallError;
use super::super::net::cluster::name_of;

/// How partitions are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each member has neighbouring partitions of a topic.
    Range,
    /// Members take the partitions of all topics in turn.
    RoundRobin,
    /// Members keep what they can, and go on reading it while they join again (KIP-429).
    CooperativeSticky,
}

impl Strategy {
    pub const ALL: [Strategy; 3] = [Strategy::Range, Strategy::RoundRobin, Strategy::CooperativeSticky];

    /// As members offer them, best first: those of librdkafka's default.
    pub const DEFAULT: [Strategy; 2] = [Strategy::Range, Strategy::RoundRobin];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Range => "range",
            Strategy::RoundRobin => "roundrobin",
            Strategy::CooperativeSticky => "cooperative-sticky",
        }
    }

    pub fn by_name(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// The shares of members. `partitions`: how many each topic has.
    pub fn share(self, members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
        match self {
            Strategy::Range | Strategy::RoundRobin => self.share_anew(members, partitions),
            Strategy::CooperativeSticky => cooperative(members, partitions),
        }
    }

    fn share_anew(self, members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
        let mut shares: Shares = members.keys().map(|member| (member.clone(), Partitions::new())).collect();
        let topics: BTreeSet<&String> = members.values().flat_map(|member| &member.topics).collect();
        let mut turn = 0;
        for topic in topics {
            let readers: Vec<&String> =
                members.iter().filter(|(_, one)| one.topics.contains(topic)).map(|(member, _)| member).collect();
            let count = partitions.get(topic).copied().unwrap_or(0);
            for partition in 0..count {
                let reader = match self {
                    Strategy::Range => range(partition, count, readers.len()),
                    _ => turn % readers.len(),
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

/// A partition: its topic, and its number there.
type TopicPartition<'a> = (&'a str, i32);

/// The shares, without what another member has to return first: it gets none of these partitions, returns them, and joins again, and so
/// the group shares them out next.
pub fn cooperative(members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
    let claims = claims(members);
    let mut shares = balanced(members, partitions);
    for (member, share) in &mut shares {
        let is_free = |place: TopicPartition<'_>| {
            claims.get(&place).is_none_or(|owners| owners.iter().all(|(_, owner)| *owner == member.as_str()))
        };
        for (topic, numbers) in &mut *share {
            numbers.retain(|number| is_free((topic.as_str(), *number)));
        }
        share.retain(|_, numbers| !numbers.is_empty());
    }
    shares
}

/// Who says that it owns a partition, each with the generation in which it got it.
fn claims(members: &Members) -> BTreeMap<TopicPartition<'_>, Vec<(i32, &str)>> {
    let mut claims: BTreeMap<TopicPartition<'_>, Vec<(i32, &str)>> = BTreeMap::new();
    for (member, subscription) in members {
        for (topic, numbers) in &subscription.owned {
            for number in numbers {
                claims.entry((topic, *number)).or_default().push((subscription.generation, member));
            }
        }
    }
    claims
}

/// As equal as they can be, with as much as possible where it is.
fn balanced(members: &Members, partitions: &BTreeMap<String, usize>) -> Shares {
    let mut balance = Balance::new(members);
    let mut free = Vec::new();
    let claims = claims(members);
    for (topic, count) in partitions {
        for number in 0..*count as i32 {
            let place = (topic.as_str(), number);
            let owner = claims.get(&place).and_then(|claims| newest(claims));
            match owner.filter(|owner| balance.reads(owner, topic)) {
                Some(owner) => balance.give(owner, place),
                None => free.push(place),
            }
        }
    }
    for place in free {
        if let Some(reader) = balance.least_loaded(place.0) {
            balance.give(reader, place);
        }
    }
    while balance.improve() {}
    let shares = members.keys().map(|member| (member.clone(), balance.share(member)));
    shares.collect()
}

/// The owner of the latest generation; `None`: there are several of it, of which at most one is right.
fn newest<'a>(claims: &[(i32, &'a str)]) -> Option<&'a str> {
    let latest = claims.iter().map(|(generation, _)| *generation).max()?;
    let mut owners = claims.iter().filter(|(generation, _)| *generation == latest);
    owners.next().filter(|_| owners.next().is_none()).map(|(_, owner)| *owner)
}

/// Who reads what, and who has what.
struct Balance<'a> {
    members: &'a Members,
    readers: BTreeMap<&'a str, Vec<&'a str>>,
    /// What each had before.
    owned: BTreeMap<&'a str, BTreeSet<TopicPartition<'a>>>,
    /// What each has: the topic, whether it had the partition before, and its number.
    held: BTreeMap<&'a str, BTreeSet<(&'a str, bool, i32)>>,
}

impl<'a> Balance<'a> {
    fn new(members: &'a Members) -> Self {
        let mut readers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (member, subscription) in members {
            // A member may name a topic twice.
            for topic in subscription.topics.iter().collect::<BTreeSet<_>>() {
                readers.entry(topic).or_default().push(member);
            }
        }
        let owned = |(member, subscription): (&'a String, &'a Subscription)| {
            let places =
                |(topic, numbers): (&'a String, &'a Vec<i32>)| numbers.iter().map(|number| (topic.as_str(), *number));
            (member.as_str(), subscription.owned.iter().flat_map(places).collect())
        };
        let held = members.keys().map(|member| (member.as_str(), BTreeSet::new())).collect();
        Balance { members, readers, owned: members.iter().map(owned).collect(), held }
    }

    fn reads(&self, member: &str, topic: &str) -> bool {
        self.readers.get(topic).is_some_and(|readers| readers.contains(&member))
    }

    fn load(&self, member: &str) -> usize {
        self.held.get(member).map_or(0, BTreeSet::len)
    }

    fn give(&mut self, member: &'a str, (topic, number): TopicPartition<'a>) {
        let was_owned = self.owned.get(member).is_some_and(|owned| owned.contains(&(topic, number)));
        self.held.entry(member).or_default().insert((topic, was_owned, number));
    }

    fn least_loaded(&self, topic: &str) -> Option<&'a str> {
        self.readers.get(topic)?.iter().copied().min_by_key(|reader| self.load(reader))
    }

    /// Moves a partition from a member to one that has at least two fewer, if there are such. Each time, the sum of the squares of loads
    /// becomes less, so that this ends.
    fn improve(&mut self) -> bool {
        let mut givers: Vec<&str> = self.held.keys().copied().collect();
        givers.sort_by_key(|member| std::cmp::Reverse(self.load(member)));
        let Some((giver, taker, place)) = givers.into_iter().find_map(|giver| self.improvement(giver)) else {
            return false;
        };
        if let Some(held) = self.held.get_mut(giver) {
            held.remove(&place);
        }
        self.give(taker, (place.0, place.2));
        true
    }

    /// What the member would better give to whom.
    fn improvement(&self, giver: &'a str) -> Option<(&'a str, &'a str, (&'a str, bool, i32))> {
        let held = self.held.get(giver)?;
        // What it did not have before comes first.
        let first_of = |topic: &'a str| held.range((topic, false, i32::MIN)..).next().filter(|place| place.0 == topic);
        let topics: BTreeSet<&str> = self.members.get(giver)?.topics.iter().map(String::as_str).collect();
        let places = topics.into_iter().filter_map(|topic| Some((self.least_loaded(topic)?, *first_of(topic)?)));
        let (taker, place) = places.min_by_key(|(taker, _)| self.load(taker))?;
        (self.load(taker) + 2 <= held.len()).then_some((giver, taker, place))
    }

    fn share(&self, member: &str) -> Partitions {
        let mut share = Partitions::new();
        for (topic, _, number) in self.held.get(member).into_iter().flatten() {
            share.entry((*topic).to_owned()).or_default().push(*number);
        }
        share.values_mut().for_each(|numbers| numbers.sort_unstable());
        share
    }
}

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
        let owned = self
            .owned
            .iter()
            .map(|(topic, partitions)| Owned::default().with_topic(name_of(topic)).with_partitions(partitions.clone()));
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
        Assigned::default().with_topic(name_of(topic)).with_partitions(partitions.clone())
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
#[path = "../../../../tests/unit/broker/kafka_native/group/assignors.rs"]
mod tests;

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/group/cooperative.rs"]
mod cooperative_tests;
