//! What holds messages up, as far as librdkafka tells it: the states and the throttling of its connections once a second, and the outcomes of
//! messages. It does not tell what it sends again, until a message fails.
//!
//! Source: librdkafka's `STATISTICS.md`, and the names of states in `rdkafka_broker.c`.

use std::collections::BTreeMap;
use std::time::Instant;

use rdkafka::error::RDKafkaErrorCode as Code;
use serde::Deserialize;

use super::client::describe;
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};

/// A connection, in librdkafka's statistics.
#[derive(Debug, Deserialize)]
pub struct Link {
    /// `host:port`.
    #[serde(default)]
    nodename: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    state: String,
    throttle: Option<Throttle>,
}

/// By how many milliseconds the broker delayed the client in the interval.
#[derive(Debug, Deserialize)]
struct Throttle {
    #[serde(default)]
    max: u64,
}

/// A partition, in librdkafka's statistics; `-1`: the queue of messages that have no partition yet.
#[derive(Debug, Deserialize)]
pub struct PartitionQueue {
    partition: i32,
    /// The number of its node; below 0: none is known.
    #[serde(default)]
    leader: i32,
    /// Whether the brokers' metadata lacks it.
    #[serde(default)]
    unknown: bool,
    /// Messages that wait to be sent, in two queues.
    #[serde(default)]
    msgq_cnt: u64,
    #[serde(default)]
    xmit_msgq_cnt: u64,
}

impl PartitionQueue {
    fn condition(&self) -> Option<(ConditionKind, &'static str)> {
        const GONE: &str = "the brokers' metadata lacks it: it was deleted, or is not there yet";
        if self.msgq_cnt + self.xmit_msgq_cnt == 0 {
            return None;
        }
        if self.partition < 0 || self.unknown {
            return Some((ConditionKind::TopicGone, GONE));
        }
        (self.leader < 0).then_some((ConditionKind::WaitingForLeader, "the brokers' metadata names no leader"))
    }
}

/// What holds up the messages of a client.
#[derive(Default)]
pub struct HeldUp {
    conditions: Conditions,
    nodes: BTreeMap<String, Node>,
    /// Partitions whose last message failed; below 0: a topic, of which the partition is not known.
    partitions: BTreeMap<(String, i32), Subject>,
    /// The client itself, once it takes no message any more.
    client: Option<Subject>,
    /// Partitions whose messages waited at the last look, each since when.
    waiting: BTreeMap<(String, i32), (Subject, Instant)>,
}

/// The connections to a node.
#[derive(Default)]
struct Links {
    up: bool,
    failing: bool,
    throttled_ms: u64,
}

struct Node {
    subject: Subject,
    was_up: bool,
    down_since: Option<Instant>,
}

impl HeldUp {
    pub fn new(conditions: Conditions) -> Self {
        HeldUp { conditions, ..HeldUp::default() }
    }

    /// The connections are so now. `last_error`: of the client.
    pub fn look<'a>(
        &mut self,
        links: impl Iterator<Item = &'a Link>,
        last_error: Option<&(Code, String)>,
        now: Instant,
    ) {
        // A node may have a connection by which it was found, and one of its own.
        let mut nodes: BTreeMap<&str, Links> = BTreeMap::new();
        for link in links.filter(|link| matches!(&*link.source, "configured" | "learned")) {
            let node = nodes.entry(&link.nodename).or_default();
            match &*link.state {
                "UP" | "UPDATE" => node.up = true,
                "INIT" => {}
                _ => node.failing = true,
            }
            node.throttled_ms = node.throttled_ms.max(link.throttle.as_ref().map_or(0, |throttle| throttle.max));
        }
        for (address, Links { up, failing, throttled_ms }) in nodes {
            let subject = || Subject::new(&self.conditions, SubjectKind::Node, address);
            let node = self.nodes.entry(address.to_owned());
            let node = node.or_insert_with(|| Node { subject: subject(), was_up: false, down_since: None });
            node.was_up |= up;
            // A connection that is not needed is not opened. One that was lost is as if it were new until it is tried again.
            let is_down = !up && (failing || node.was_up);
            match (is_down, node.down_since) {
                // Connecting takes a moment.
                (true, None) => node.down_since = Some(now),
                (true, Some(since)) => {
                    let (kind, words) = match last_error {
                        Some((Code::Authentication | Code::SaslAuthenticationFailed, words)) => {
                            (ConditionKind::Authentication, &**words)
                        }
                        Some((_, words)) => (ConditionKind::Connecting, &**words),
                        None => (ConditionKind::Connecting, ""),
                    };
                    node.subject.begin_since(kind, words, since);
                }
                (false, _) if throttled_ms > 0 => {
                    node.down_since = None;
                    node.subject.begin(ConditionKind::Throttled, "the broker delays the client (its quota)");
                }
                (false, _) => {
                    node.down_since = None;
                    node.subject.end();
                }
            }
        }
    }

    /// The queues of partitions are so now.
    pub fn look_at_queues<'a>(&mut self, queues: impl Iterator<Item = (&'a str, &'a PartitionQueue)>, now: Instant) {
        let mut before = std::mem::take(&mut self.waiting);
        for (topic, queue) in queues {
            let Some((kind, words)) = queue.condition() else { continue };
            let key = (topic.to_owned(), queue.partition);
            // Metadata takes a moment at the beginning.
            let waiting = match before.remove(&key) {
                Some((subject, since)) => {
                    subject.begin_since(kind, words, since);
                    (subject, since)
                }
                None => (self.subject(topic, queue.partition), now),
            };
            self.waiting.insert(key, waiting);
        }
    }

    fn subject(&self, topic: &str, partition: i32) -> Subject {
        match partition {
            ..0 => Subject::new(&self.conditions, SubjectKind::Topic, topic),
            _ => Subject::new(&self.conditions, SubjectKind::Partition, &format!("{topic}/{partition}")),
        }
    }

    /// A message has failed.
    pub fn failed(&mut self, topic: &str, partition: i32, code: Code) {
        let Some(kind) = condition(code) else { return };
        let subject = self.subject(topic, partition);
        self.partitions.entry((topic.to_owned(), partition)).or_insert(subject).begin(kind, &describe(code));
    }

    /// The client takes no message any more.
    pub fn ended(&mut self, code: Code) {
        let Some(kind) = condition(code) else { return };
        let subject = || Subject::new(&self.conditions, SubjectKind::Producer, "of librdkafka's client");
        self.client.get_or_insert_with(subject).begin(kind, &describe(code));
    }

    /// Whether messages of a partition failed or waited, and no message of it was written since.
    pub fn has_unwritten(&self) -> bool {
        !self.partitions.is_empty() || !self.waiting.is_empty()
    }

    /// A message was written.
    pub fn written(&mut self, topic: &str, partition: i32) {
        let is_of_others = |of: &str, index: i32| of != topic || (index >= 0 && index != partition);
        self.partitions.retain(|(of, index), _| is_of_others(of, *index));
        self.waiting.retain(|(of, index), _| is_of_others(of, *index));
    }
}

/// The condition that a failed message, or failed receiving, shows.
pub fn condition(code: Code) -> Option<ConditionKind> {
    Some(match code {
        Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend => ConditionKind::NotEnoughReplicas,
        Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition | Code::UnknownTopicId => {
            ConditionKind::TopicGone
        }
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed => ConditionKind::Denied,
        Code::Fenced | Code::FencedInstanceId | Code::ProducerFenced | Code::InvalidProducerEpoch => {
            ConditionKind::Fenced
        }
        Code::LeaderNotAvailable | Code::NotLeaderForPartition => ConditionKind::WaitingForLeader,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn links(state: &str, throttled_ms: u64) -> Vec<Link> {
        let link = |source: &str, nodename: &str, state: &str, throttled_ms: u64| {
            format!(
                r#"{{"source": "{source}", "nodename": "{nodename}", "state": "{state}", "throttle": {{"max": {throttled_ms}}}}}"#
            )
        };
        let all = [
            link("learned", "a:1", state, throttled_ms),
            link("logical", "", "TRY_CONNECT", 0),
            link("learned", "b:1", "INIT", 0),
        ];
        all.iter().map(|json| serde_json::from_str(json).unwrap()).collect()
    }

    #[test]
    fn a_node_is_told_that_is_down_in_two_looks_until_it_is_up() {
        let conditions = Conditions::default();
        let mut held_up = HeldUp::new(conditions.clone());
        let (begin, error) = (Instant::now(), (Code::BrokerTransportFailure, "a:1: refused".to_owned()));
        let mut look = |links: Vec<Link>, seconds| {
            held_up.look(links.iter(), Some(&error), begin + Duration::from_secs(seconds));
            conditions.lasting().iter().map(|one| format!("{} ({})", one.told(), one.words)).collect::<Vec<_>>()
        };
        assert!(look(links("TRY_CONNECT", 0), 0).is_empty());
        assert_eq!(look(links("CONNECT", 0), 1), ["node a:1: connecting (a:1: refused)"]);
        assert!(look(links("UP", 0), 2).is_empty());
        let throttled = "node a:1: throttled by a quota (the broker delays the client (its quota))";
        assert_eq!(look(links("UP", 40), 3), [throttled]);
        assert!(look(links("UP", 0), 4).is_empty());
        // Between two attempts.
        assert!(look(links("INIT", 0), 5).is_empty());
        assert_eq!(look(links("INIT", 0), 6), ["node a:1: connecting (a:1: refused)"]);
    }

    #[test]
    fn messages_that_wait_tell_why_in_two_looks() {
        let conditions = Conditions::default();
        let mut held_up = HeldUp::new(conditions.clone());
        let begin = Instant::now();
        let mut look = |queue: &str, seconds| {
            let queue: PartitionQueue = serde_json::from_str(queue).unwrap();
            held_up.look_at_queues([("orders", &queue)].into_iter(), begin + Duration::from_secs(seconds));
            conditions.lasting().iter().map(|one| one.told()).collect::<Vec<_>>()
        };
        let leaderless = r#"{"partition": 1, "leader": -1, "msgq_cnt": 7}"#;
        assert!(look(leaderless, 0).is_empty());
        assert_eq!(look(leaderless, 1), ["partition orders/1: no leader"]);
        assert!(look(r#"{"partition": 1, "leader": 1, "msgq_cnt": 7}"#, 2).is_empty());
        let gone = r#"{"partition": -1, "leader": -1, "xmit_msgq_cnt": 3}"#;
        assert!(look(gone, 3).is_empty());
        assert_eq!(look(gone, 4), ["topic orders: the topic does not exist"]);
        assert!(look(r#"{"partition": -1, "leader": -1}"#, 5).is_empty());
    }

    #[test]
    fn messages_wait_no_longer_once_one_of_their_partition_is_written() {
        let conditions = Conditions::default();
        let mut held_up = HeldUp::new(conditions.clone());
        let begin = Instant::now();
        let leaderless: PartitionQueue =
            serde_json::from_str(r#"{"partition": 1, "leader": -1, "msgq_cnt": 7}"#).unwrap();
        for seconds in 0..2 {
            held_up.look_at_queues([("orders", &leaderless)].into_iter(), begin + Duration::from_secs(seconds));
        }
        held_up.written("orders", 0);
        assert!(held_up.has_unwritten() && conditions.lasting().len() == 1, "that is another partition");
        held_up.written("orders", 1);
        assert!(!held_up.has_unwritten() && conditions.lasting().is_empty());
    }

    #[test]
    fn a_failure_lasts_until_its_partition_is_written() {
        let conditions = Conditions::default();
        let mut held_up = HeldUp::new(conditions.clone());
        held_up.failed("orders", 1, Code::MessageSizeTooLarge);
        assert!(!held_up.has_unwritten(), "it is about that message only");
        held_up.failed("orders", 1, Code::NotEnoughReplicas);
        held_up.failed("orders", -1, Code::UnknownTopicOrPartition);
        let told: Vec<String> = conditions.lasting().iter().map(|one| one.told()).collect();
        assert_eq!(told, ["partition orders/1: not enough in-sync replicas", "topic orders: the topic does not exist"]);
        held_up.written("orders", 0);
        assert_eq!(conditions.lasting().len(), 1, "the topic is there");
        held_up.written("orders", 1);
        assert!(conditions.lasting().is_empty());
    }
}
