//! A member of a consumer group.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Headers, OwnedMessage};
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{self, describe, failure_class, is_unknown_topic};
use super::member::{Commits, ConsumerClient};
use super::reports::trace_header;
use crate::broker::{
    BrokerError, Consumer, Details, FailureClass, Offsets, Progress, ReceiveError, Received, Subscription,
    TRACE_HEADER_NAME,
};
use crate::net::backoff::Backoff;
use crate::scenario::StartFrom;

/// The group's events are served at least so often, as `max.poll.interval.ms` demands of a living member.
const SERVE: Duration = Duration::from_millis(500);

/// Between questions about a topic that is new to the node that is asked.
const PROPAGATION: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// How many messages are taken at a time.
const MAX_TAKEN: usize = 1024;

/// A member of a group on one topic.
pub struct KafkaConsumer {
    /// Of a member that commits. Dropped before `client`, so that it is the last owner.
    commits: Option<Arc<Commits>>,
    client: ConsumerClient,
    /// Whether the queue may hold more messages.
    unread: bool,
    /// When the queue is served again, whether a message arrives or not.
    serve_at: Instant,
    /// A message that came with a group's event, and is to be handed over.
    kept: Option<OwnedMessage>,
    /// Why the group could not decide so far: a node of the cluster that has not heard of the topic yet.
    unknown: Option<Code>,
    /// Partitions that were read to their end, with its offset: librdkafka reports it to members with `enable.partition.eof`.
    ends: BTreeMap<u32, u64>,
    /// How far the messages of one call reached, partition after partition: empty between calls.
    reached: Vec<(u32, i64)>,
}

impl KafkaConsumer {
    /// Takes its share of the partitions, without the group's consent: every so many-th, from its own number on.
    pub(super) fn assign(client: ConsumerClient, subscription: &Subscription) -> Result<Self, BrokerError> {
        let Subscription { topic, members, member, .. } = subscription;
        // Where it begins at the latest message, its end has been committed.
        let from_committed = subscription.progress != Progress::Uncommitted || subscription.from == StartFrom::Latest;
        let begin = if from_committed { Offset::Stored } else { Offset::Beginning };
        let partitions = (*member..topic.partitions as usize).step_by(*members);
        let list = partitions.map(|partition| (topic.name.clone(), partition as i32, begin)).collect();
        client.context().decided();
        client.assign(&list).map_err(|error| cannot_consume(subscription, client::reason(&error)))?;
        Ok(KafkaConsumer::new(client, subscription))
    }

    fn new(client: ConsumerClient, subscription: &Subscription) -> Self {
        let commits = subscription.progress != Progress::Uncommitted;
        KafkaConsumer {
            commits: commits.then(|| Arc::new(Commits::new(client.clone(), &subscription.topic.name))),
            client,
            unread: true,
            serve_at: Instant::now(),
            kept: None,
            unknown: None,
            ends: BTreeMap::new(),
            reached: Vec::new(),
        }
    }

    /// Joins the group and waits until its partitions are assigned, if there is one for every member.
    pub(super) async fn join(
        client: ConsumerClient,
        subscription: &Subscription,
        deadline: Duration,
    ) -> Result<Self, BrokerError> {
        let cannot = |reason: String| cannot_consume(subscription, reason);
        client.subscribe(&[&subscription.topic.name]).map_err(|error| cannot(client::reason(&error)))?;
        let mut consumer = KafkaConsumer::new(client, subscription);
        if consumer.commits.is_some() {
            // It begins at the group's offsets whenever partitions are assigned to it, and may not discard messages.
            return Ok(consumer);
        }
        let deadline = Instant::now() + deadline;
        while consumer.assigned_partitions().is_empty() {
            if subscription.member >= subscription.topic.partitions as usize {
                break;
            }
            if Instant::now() >= deadline {
                let unknown = consumer.unknown.map(|code| format!(" ({})", describe(code))).unwrap_or_default();
                let group = &subscription.group;
                return Err(cannot(format!("the group {group} assigned no partition to this member{unknown}")));
            }
            // A message that is there as soon as partitions are assigned may be one of a backlog: it is kept.
            match consumer.serve_event() {
                Ok(true) => {}
                // A group event may come without a message: check again soon.
                Ok(false) => _ = timeout(Duration::from_millis(20), consumer.client.arrived.notified()).await,
                Err(code) => return Err(cannot(describe(code))),
            }
        }
        Ok(consumer)
    }

    /// Serves what is next in the queue: whether there was anything. A message is kept for the next [`Consumer::take`].
    fn serve_event(&mut self) -> Result<bool, Code> {
        self.revoke_if_requested();
        if self.kept.is_some() {
            return Ok(false);
        }
        let error = match self.client.poll(Duration::ZERO) {
            Some(Ok(message)) => {
                self.kept = Some(message.detach());
                return Ok(true);
            }
            Some(Err(error)) => error,
            None => return Ok(self.client.context().was_called()),
        };
        self.concerns(&error).map_or(Ok(true), Err)
    }

    /// The code of an error that concerns what is consumed.
    fn concerns(&mut self, error: &KafkaError) -> Option<Code> {
        let member = self.client.context();
        let code = match error {
            KafkaError::PartitionEOF(partition) => {
                self.ends.extend(member.take_end().map(|end| (partition.unsigned_abs(), end)));
                return None;
            }
            KafkaError::MessageConsumptionFatal(_) => {
                let fatal = self.client.client().fatal_error();
                return Some(fatal.map_or_else(|| client::code(error), |(code, _)| code));
            }
            error => client::code(error),
        };
        match failure_class(code) {
            // Errors of a connection, to which librdkafka connects again.
            FailureClass::ConnectionLost | FailureClass::Timeout => None,
            _ if is_unknown_topic(code) && !member.has_met() => {
                self.unknown = Some(code);
                None
            }
            _ => Some(code),
        }
    }

    fn revoke_if_requested(&mut self) {
        // Without commits, requested partitions are revoked as soon as the messages taken from them are recorded.
        if self.commits.is_none() {
            self.client.context().revoke(&self.client);
        }
    }

    /// Notes how far a message reaches, and hands it over.
    fn hand_over<M: Message>(reached: &mut Vec<(u32, i64)>, message: &M, each: &mut impl FnMut(Received<'_>)) {
        let (partition, offset) = (message.partition().unsigned_abs(), message.offset());
        each(Received {
            payload: message.payload().unwrap_or_default(),
            trace_header: trace_header(message),
            partition,
            offset: offset.max(0) as u64,
            redelivered: false,
            details: &MessageDetails(message),
        });
        match reached.last_mut() {
            Some((latest, reached)) if *latest == partition => *reached = offset + 1,
            _ => reached.push((partition, offset + 1)),
        }
    }

    /// The partitions of this member, each with the offset of the next message to take, if that is known.
    fn assigned_partitions(&mut self) -> Vec<(u32, Option<u64>)> {
        let Ok(list) = self.client.position() else { return Vec::new() };
        let elements = list.elements();
        let ends = &mut self.ends;
        ends.retain(|partition, _| elements.iter().any(|known| known.partition().unsigned_abs() == *partition));
        let next = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            let partition = element.partition().unsigned_abs();
            let offset = match element.offset() {
                Offset::Offset(offset) => u64::try_from(offset).ok(),
                _ => None,
            };
            // Of a partition from which nothing was taken, only its end may be known.
            (partition, offset.max(ends.get(&partition).copied()))
        };
        elements.iter().map(next).collect()
    }
}

/// Makes a group without members begin at the message that is the latest now, not at the one that is the latest when its
/// first fetch is answered. A node that has not heard of a new topic yet is asked again.
pub(super) async fn begin_at_latest(
    client: &ConsumerClient,
    subscription: &Subscription,
    timeout: Duration,
) -> Result<(), BrokerError> {
    let topic = &subscription.topic;
    let deadline = Instant::now() + timeout;
    let mut backoff = PROPAGATION;
    let commit_ends = || {
        let mut ends = TopicPartitionList::new();
        for partition in 0..topic.partitions as i32 {
            let (_, end) = client.fetch_watermarks(&topic.name, partition, timeout)?;
            ends.add_partition_offset(&topic.name, partition, Offset::Offset(end))?;
        }
        client.commit(&ends, CommitMode::Sync)
    };
    loop {
        match tokio::task::block_in_place(commit_ends) {
            Ok(()) => return Ok(()),
            Err(error) if is_unknown_topic(client::code(&error)) && Instant::now() < deadline => backoff.pause().await,
            Err(error) => {
                let (action, reason) = ("consumed from its latest message", client::reason(&error));
                return Err(BrokerError::Topic { topic: topic.name.clone(), action, reason });
            }
        }
    }
}

fn cannot_consume(subscription: &Subscription, reason: String) -> BrokerError {
    BrokerError::Topic { topic: subscription.topic.name.clone(), action: "consumed", reason }
}

impl Consumer for KafkaConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        if !self.unread {
            // The queue is also served after a timeout: a group without messages has events, too. The engine drops this call and makes it
            // again, which does not put the timeout off.
            let _ = timeout_at(self.serve_at, self.client.arrived.notified()).await;
        }
        self.unread = true;
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        self.revoke_if_requested();
        let mut taken = 0;
        let mut failure = None;
        if let Some(message) = self.kept.take() {
            Self::hand_over(&mut self.reached, &message, &mut each);
            taken = 1;
        }
        while taken < most.min(MAX_TAKEN) {
            let error = match self.client.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    Self::hand_over(&mut self.reached, &message, &mut each);
                    taken += 1;
                    continue;
                }
                Some(Err(error)) => error,
                None if self.client.context().was_called() => continue,
                None => {
                    (self.unread, self.serve_at) = (false, Instant::now() + SERVE);
                    break;
                }
            };
            failure = failure.or(self.concerns(&error));
        }
        if let Some(offsets) = &self.client.context().offsets {
            offsets.advance(&self.reached);
        }
        self.reached.clear();
        let member = self.client.context();
        match failure {
            Some(code) => member.failed(code),
            None if taken > 0 => member.received(),
            None => {}
        }
        // What was just handed over is recorded only when this call has returned.
        if taken == 0 {
            self.revoke_if_requested();
        }
        let refused = || self.client.context().take_refused_commit();
        failure.map(receive_error).or_else(|| refused().map(commit_error)).map_or(Ok(taken), Err)
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
        self.client.context().is_assigned().then(|| self.assigned_partitions())
    }

    async fn commit(&mut self, next: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        match &self.commits {
            Some(commits) => commits.commit(next, confirmed).await.map_err(receive_error),
            None => Ok(()),
        }
    }

    fn is_revocation_requested(&self) -> bool {
        self.client.context().is_revocation_requested()
    }

    async fn revoke(&mut self) {
        self.client.context().revoke(&self.client);
    }
}

fn receive_error(code: Code) -> ReceiveError {
    ReceiveError { class: failure_class(code), message: describe(code) }
}

fn commit_error(code: Code) -> ReceiveError {
    ReceiveError { class: failure_class(code), message: format!("offsets were not committed: {}", describe(code)) }
}

/// What a message carries beside its payload, taken from librdkafka when it is asked for.
struct MessageDetails<'m, M>(&'m M);

impl<M: Message> fmt::Debug for MessageDetails<'_, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition, offset) = (self.0.partition(), self.0.offset());
        formatter.debug_struct("MessageDetails").field("partition", &partition).field("offset", &offset).finish()
    }
}

impl<M: Message> Details for MessageDetails<'_, M> {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.0.key().map(Cow::Borrowed)
    }

    /// When the producer's client made it, or, with `message.timestamp.type=LogAppendTime`, when the broker stored it.
    fn timestamp_unix_ns(&self) -> Option<u64> {
        u64::try_from(self.0.timestamp().to_millis()?).ok()?.checked_mul(1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let headers = self.0.headers().into_iter().flat_map(Headers::iter);
        let own = headers.filter(|header| header.key != TRACE_HEADER_NAME);
        own.map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka/consumer.rs"]
mod tests;
