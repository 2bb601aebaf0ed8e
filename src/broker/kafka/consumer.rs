//! A member of a consumer group.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::native::{Begin, Client, ConsumerQueue, Membership, Taken, class_of, is_unknown_topic, name_of};
use crate::broker::{BrokerError, Consumer, Offsets, Progress, ReceiveError, Received, Subscription};
use crate::net::backoff::Backoff;
use crate::scenario::StartFrom;

/// The group's events are served at least so often, as `max.poll.interval.ms` demands of a living member.
const SERVE: Duration = Duration::from_millis(500);

/// Between questions about a topic that is new to the node that is asked.
const PROPAGATION: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// A member of a group on one topic.
pub struct KafkaConsumer {
    queue: ConsumerQueue,
    arrived: Arc<Notify>,
    /// Whether the queue may hold more messages: it notifies only when it changes from empty to not empty.
    unread: bool,
    topic: String,
    /// Without commits, requested partitions are revoked as soon as the messages taken from them are recorded.
    commits: bool,
    /// Why the group could not decide so far: a node of the cluster that has not heard of the topic yet.
    unknown: Option<Code>,
}

impl KafkaConsumer {
    /// Takes its share of the partitions, without the group's consent: every so many-th, from its own number on.
    pub(super) fn assign(client: Client, subscription: &Subscription) -> Result<Self, BrokerError> {
        let Subscription { topic, members, member, .. } = subscription;
        let reason = |code| BrokerError::Topic { topic: topic.name.clone(), action: "consumed", reason: name_of(code) };
        // Where it begins at the latest message, its end has been committed.
        let from_committed = subscription.progress != Progress::Uncommitted || subscription.from == StartFrom::Latest;
        let begin = if from_committed { Begin::Committed } else { Begin::First };
        let partitions = (*member..topic.partitions as usize).step_by(*members).map(|partition| partition as i32);
        let queue = ConsumerQueue::assign(client, &topic.name, partitions, begin).map_err(reason)?;
        Ok(KafkaConsumer::new(queue, subscription))
    }

    fn new(queue: ConsumerQueue, subscription: &Subscription) -> Self {
        let arrived = queue.arrived();
        let commits = subscription.progress != Progress::Uncommitted;
        let topic = subscription.topic.name.clone();
        KafkaConsumer { queue, arrived, unread: true, topic, commits, unknown: None }
    }

    /// Joins the group and waits until its partitions are assigned, if there is one for every member.
    pub(super) async fn join(
        client: Client,
        subscription: &Subscription,
        deadline: Duration,
    ) -> Result<Self, BrokerError> {
        let topic = &subscription.topic;
        let cannot = |reason: String| BrokerError::Topic { topic: topic.name.clone(), action: "consumed", reason };
        let queue = ConsumerQueue::subscribe(client, &topic.name).map_err(|code| cannot(name_of(code)))?;
        let mut consumer = KafkaConsumer::new(queue, subscription);
        if consumer.commits {
            // It begins at the group's offsets whenever partitions are assigned to it, and may not discard messages.
            return Ok(consumer);
        }
        let deadline = Instant::now() + deadline;
        while consumer.queue.assigned().is_empty() {
            if subscription.member >= topic.partitions as usize {
                break;
            }
            if Instant::now() >= deadline {
                let unknown = consumer.unknown.map(|code| format!(" ({})", name_of(code))).unwrap_or_default();
                let group = &subscription.group;
                return Err(cannot(format!("the group {group} assigned no partition to this member{unknown}")));
            }
            // A message that is there as soon as partitions are assigned may be one of a backlog: it is kept.
            let events = consumer.queue.serve_events();
            let taken = consumer.served(events);
            if let Some(code) = taken.error {
                return Err(cannot(name_of(code)));
            }
            if taken.emptied {
                // A group event may come without a message: check again soon.
                let _ = timeout(Duration::from_millis(20), consumer.arrived.notified()).await;
            }
        }
        Ok(consumer)
    }

    /// Does what the group requests, after its events were served.
    fn served(&mut self, mut taken: Taken) -> Taken {
        if taken.error.is_some_and(is_unknown_topic) && !self.queue.membership().is_some_and(Membership::has_met) {
            self.unknown = taken.error.take();
        }
        // What was just handed over is recorded only when this call has returned.
        if taken.messages == 0 {
            self.revoke_if_requested();
        }
        taken
    }

    fn revoke_if_requested(&mut self) {
        if !self.commits && self.is_revocation_requested() {
            self.queue.revoke();
        }
    }
}

/// Makes a group without members begin at the message that is the latest now, not at the one that is the latest when its
/// first fetch is answered. A node that has not heard of a new topic yet is asked again.
pub(super) async fn begin_at_latest(
    client: &Client,
    subscription: &Subscription,
    timeout: Duration,
) -> Result<(), BrokerError> {
    let topic = &subscription.topic;
    let deadline = Instant::now() + timeout;
    let mut backoff = PROPAGATION;
    loop {
        let ends = || ConsumerQueue::commit_ends(client, &topic.name, topic.partitions, timeout);
        match tokio::task::block_in_place(ends) {
            Ok(()) => return Ok(()),
            Err(code) if is_unknown_topic(code) && Instant::now() < deadline => backoff.pause().await,
            Err(code) => {
                let action = "consumed from its latest message";
                return Err(BrokerError::Topic { topic: topic.name.clone(), action, reason: name_of(code) });
            }
        }
    }
}

impl Consumer for KafkaConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        if !self.unread {
            // The queue is served after a timeout as well: a group without messages has events, too.
            let _ = timeout(SERVE, self.arrived.notified()).await;
        }
        self.unread = true;
        Ok(())
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        self.take_some(usize::MAX, each)
    }

    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        self.revoke_if_requested();
        let taken = self.queue.take(most, each);
        let taken = self.served(taken);
        self.unread = !taken.emptied;
        match taken.error {
            None => Ok(taken.messages),
            Some(code) => {
                // A fatal error has another code.
                let code = self.queue.fatal_error().unwrap_or(code);
                Err(ReceiveError { class: class_of(code), message: name_of(code) })
            }
        }
    }

    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        Some(self)
    }

    async fn close(self) {
        // Leaving blocks until the coordinator has answered.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Offsets for KafkaConsumer {
    fn assigned(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        let is_assigned = self.queue.membership().is_none_or(Membership::is_assigned);
        is_assigned.then(|| self.queue.assigned())
    }

    async fn commit(&mut self, next: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let committed = self.queue.commit(&self.topic, next, confirmed).await;
        committed.map_err(|code| ReceiveError { class: class_of(code), message: name_of(code) })
    }

    fn is_revocation_requested(&self) -> bool {
        self.queue.membership().is_some_and(Membership::is_revocation_requested)
    }

    async fn revoke(&mut self) {
        self.queue.revoke();
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    use super::*;
    use crate::broker::Topic;
    use crate::broker::kafka::native::Role;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn subscription() -> Subscription {
        Subscription {
            group: "group".to_owned(),
            topic: Topic { name: "topic".to_owned(), partitions: 2, replication: 1 },
            from: StartFrom::Latest,
            members: 1,
            member: 0,
            is_divided: false,
            properties: Vec::new(),
            progress: Progress::Uncommitted,
        }
    }

    fn member(cluster: &MockCluster<'_, DefaultProducerContext>) -> Client {
        let addresses = cluster.bootstrap_servers();
        let properties = [("bootstrap.servers", addresses.as_str()), ("group.id", "group")];
        Client::new(Role::Consumer(Membership::default()), properties, None).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_node_that_has_not_heard_of_the_topic_is_asked_for_its_end_again() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 2, 1).unwrap();
        for request in [RDKafkaApiKey::ListOffsets, RDKafkaApiKey::OffsetCommit] {
            cluster.request_errors(request, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART; 4]);
            let begun = begin_at_latest(&member(&cluster), &subscription(), TIMEOUT).await;
            begun.unwrap_or_else(|error| panic!("{request:?}: {error}"));
        }
        cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID]);
        let refused = begin_at_latest(&member(&cluster), &subscription(), TIMEOUT).await.unwrap_err();
        assert!(refused.to_string().contains("latest"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_message_that_comes_with_the_groups_events_is_kept() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 2, 1).unwrap();
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().unwrap();
        for payload in ["a", "b", "c"] {
            producer.send(BaseRecord::<(), str>::to("topic").partition(0).payload(payload)).unwrap();
        }
        producer.flush(TIMEOUT).unwrap();
        let subscription = Subscription { from: StartFrom::Earliest, ..subscription() };
        let mut consumer = KafkaConsumer::assign(member(&cluster), &subscription).unwrap();
        while consumer.queue.serve_events().emptied {
            consumer.arrived.notified().await;
        }
        let mut payloads = Vec::new();
        let receive = async {
            while payloads.len() < 3 {
                consumer.ready().await.unwrap();
                consumer.take(|message| payloads.push(message.payload.to_vec())).unwrap();
            }
        };
        timeout(TIMEOUT, receive).await.expect("no message is missing");
        assert_eq!(payloads, [b"a", b"b", b"c"]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_commit_that_was_not_waited_for_reports_its_refusal_later() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 2, 1).unwrap();
        let subscription = Subscription { progress: Progress::OfTheTrial, ..subscription() };
        let mut consumer = KafkaConsumer::assign(member(&cluster), &subscription).unwrap();
        consumer.commit(&[(0, 1)], true).await.unwrap();
        cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID]);
        // Its answer cannot be there yet, or this call reports it.
        let begun = consumer.commit(&[(0, 2)], false).await;
        let confirmed = consumer.commit(&[(0, 3)], true).await;
        let refusals: Vec<String> = [begun, confirmed].into_iter().filter_map(|one| Some(one.err()?.message)).collect();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert!(refusals[0].contains("group"), "{refusals:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_member_waits_until_its_node_has_heard_of_the_topic() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 2, 1).unwrap();
        cluster.topic_error("topic", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
        let joined = KafkaConsumer::join(member(&cluster), &subscription(), Duration::from_secs(1)).await;
        let error = joined.err().unwrap().to_string();
        assert!(error.contains("assigned no partition") && error.contains("Unknown topic"), "{error}");
    }
}
