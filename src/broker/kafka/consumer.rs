//! A member of a consumer group.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::native::{Client, ConsumerQueue, Membership, Taken, class_of, name_of};
use crate::broker::{BrokerError, Consumer, Offsets, Progress, ReceiveError, Received, Subscription};

/// The group's events are served at least so often, as `max.poll.interval.ms` demands of a living member.
const SERVE: Duration = Duration::from_millis(500);

/// A member of a group on one topic.
pub struct KafkaConsumer {
    queue: ConsumerQueue,
    arrived: Arc<Notify>,
    /// Whether the queue may hold more messages: it notifies only when it changes from empty to not empty.
    unread: bool,
    topic: String,
    /// Without commits, requested partitions are revoked as soon as the messages taken from them are recorded.
    commits: bool,
}

impl KafkaConsumer {
    /// Joins the group and waits until its partitions are assigned, if there is one for every member.
    pub(super) async fn join(
        client: Client,
        subscription: &Subscription,
        deadline: Duration,
    ) -> Result<Self, BrokerError> {
        let topic = &subscription.topic;
        let cannot = |reason: String| BrokerError::Topic { topic: topic.name.clone(), action: "consumed", reason };
        let queue = ConsumerQueue::subscribe(client, &topic.name).map_err(|code| cannot(name_of(code)))?;
        let arrived = queue.arrived();
        let commits = subscription.progress != Progress::Uncommitted;
        let mut consumer = KafkaConsumer { queue, arrived, unread: true, topic: topic.name.clone(), commits };
        if commits {
            // It begins at the group's offsets whenever partitions are assigned to it, and may not discard messages.
            return Ok(consumer);
        }
        let deadline = Instant::now() + deadline;
        while consumer.queue.assigned().is_empty() {
            if subscription.member >= topic.partitions as usize {
                break;
            }
            if Instant::now() >= deadline {
                return Err(cannot(format!("the group {} assigned no partition to this member", subscription.group)));
            }
            // Messages that are there now are older than the trial.
            let taken = consumer.serve(|_| {});
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

    /// Takes what is queued and does what the group requests.
    fn serve(&mut self, each: impl FnMut(Received<'_>)) -> Taken {
        let taken = self.queue.take(each);
        if !self.commits && self.is_revocation_requested() {
            self.queue.revoke();
        }
        taken
    }
}

/// Makes a group without members begin at the message that is the latest now, not at the one that is the latest when its
/// first fetch is answered.
pub(super) fn begin_at_latest(
    client: &Client,
    subscription: &Subscription,
    timeout: Duration,
) -> Result<(), BrokerError> {
    let topic = &subscription.topic;
    let ends = || ConsumerQueue::commit_ends(client, &topic.name, topic.partitions, timeout);
    tokio::task::block_in_place(ends).map_err(|code| BrokerError::Topic {
        topic: topic.name.clone(),
        action: "consumed from its latest message",
        reason: name_of(code),
    })
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
        let taken = self.serve(each);
        self.unread = !taken.emptied;
        match taken.error {
            None => Ok(taken.messages),
            Some(code) => Err(ReceiveError { class: class_of(code), message: name_of(code) }),
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
