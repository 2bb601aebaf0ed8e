//! A member of a consumer group.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::native::{Client, ConsumerQueue, Membership, Taken, class_of, name_of};
use crate::broker::{BrokerError, Consumer, Progress, ReceiveError, Received, Subscription};

/// The group's events are served at least so often, as `max.poll.interval.ms` demands of a living member.
const SERVE: Duration = Duration::from_millis(500);

/// A member of a group on one topic.
pub struct KafkaConsumer {
    queue: ConsumerQueue,
    arrived: Arc<Notify>,
    /// Whether the queue may hold more than the last notification told of.
    unread: bool,
    topic: String,
    membership: Option<Arc<Membership>>,
    /// Whether partitions are let go as soon as what was taken from them is recorded, as there is nothing to commit.
    lets_go: bool,
}

impl KafkaConsumer {
    /// Joins the group and waits until it has been given its partitions, where there is one for every member.
    pub(super) async fn join(
        client: Client,
        subscription: &Subscription,
        deadline: Duration,
    ) -> Result<Self, BrokerError> {
        let topic = &subscription.topic;
        let cannot = |reason: String| BrokerError::Topic { topic: topic.name.clone(), action: "consumed", reason };
        let membership = client.membership();
        let queue =
            ConsumerQueue::subscribe(client, &topic.name, membership.clone()).map_err(|code| cannot(name_of(code)))?;
        let arrived = queue.arrived();
        let lets_go = subscription.progress == Progress::Unsaid;
        let mut consumer =
            KafkaConsumer { queue, arrived, unread: true, topic: topic.name.clone(), membership, lets_go };
        if !lets_go {
            // It begins where the group has got to, whenever it is given its partitions, and may not throw messages away.
            return Ok(consumer);
        }
        let deadline = Instant::now() + deadline;
        while consumer.queue.assigned() == 0 {
            if subscription.member >= topic.partitions as usize {
                break;
            }
            if Instant::now() >= deadline {
                return Err(cannot(format!("the group {} gave this member no partition", subscription.group)));
            }
            // Nothing has been sent yet, or it is older than the trial: nobody misses it.
            let taken = consumer.serve(|_| {});
            if let Some(code) = taken.error {
                return Err(cannot(name_of(code)));
            }
            if taken.emptied {
                // A group event may come without a message: look again soon.
                let _ = timeout(Duration::from_millis(20), consumer.arrived.notified()).await;
            }
        }
        Ok(consumer)
    }

    /// Takes what is queued and does what the group asks for.
    fn serve(&mut self, each: impl FnMut(Received<'_>)) -> Taken {
        let taken = self.queue.take(each);
        if self.lets_go && self.is_asked_to_let_go() {
            self.queue.let_go();
        }
        taken
    }
}

/// Makes a group that has no members yet begin at what is the latest message now, not at what will be when its first fetch
/// happens to be answered.
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
            // Either way the queue is served: a group without messages has events, too.
            let _ = timeout(SERVE, self.arrived.notified()).await;
        }
        self.unread = true;
        Ok(())
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let taken = self.serve(each);
        // The queue tells only of its change from empty to not empty.
        self.unread = !taken.emptied;
        match taken.error {
            None => Ok(taken.messages),
            Some(code) => Err(ReceiveError { class: class_of(code), message: name_of(code) }),
        }
    }

    fn commit(&mut self, done: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let commit = || self.queue.commit(&self.topic, done, confirmed);
        let committed = if confirmed { tokio::task::block_in_place(commit) } else { commit() };
        committed.map_err(|code| ReceiveError { class: class_of(code), message: name_of(code) })
    }

    fn partitions(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        Some(self.queue.offsets())
    }

    fn has_joined(&self) -> bool {
        self.membership.as_ref().is_none_or(|membership| membership.has_joined())
    }

    fn is_asked_to_let_go(&self) -> bool {
        self.membership.as_ref().is_some_and(|membership| membership.is_asked_to_let_go())
    }

    fn let_go(&mut self) {
        self.queue.let_go();
    }
}
