//! A member of a group: it reads its share of the partitions, which brokermark assigns.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::admin::{Admin, End, EndsQuery};
use super::config::Isolation;
use super::fetch::Fetcher;
use super::inbox::{Fetched, Inbox};
use crate::broker::{BrokerError, Consumer, FailureClass, ReceiveError, Received, Subscription};
use crate::scenario::StartFrom;

/// A member of a group on one topic.
pub struct KafkaNativeConsumer {
    inbox: Arc<Inbox>,
    task: AbortHandle,
    /// Empty between calls, kept for their memory.
    taken: VecDeque<Fetched>,
    unpacked: Vec<u8>,
}

impl KafkaNativeConsumer {
    /// Begins at the messages that the subscription asks for, as they are now.
    pub async fn start(
        admin: Arc<Admin>,
        subscription: &Subscription,
        isolation: Isolation,
    ) -> Result<Self, BrokerError> {
        let Subscription { topic, members, member, .. } = subscription;
        let partitions: Vec<u32> =
            (*member..topic.partitions as usize).step_by(*members).map(|one| one as u32).collect();
        let end = match subscription.from {
            StartFrom::Earliest => End::Earliest,
            StartFrom::Latest => End::Latest,
        };
        // Also where a transaction is open: what comes after the latest message is received once it ends.
        let query =
            EndsQuery { topic: &topic.name, partitions: &partitions, end, isolation: Isolation::ReadUncommitted };
        let positions = admin.ends_in_time(&query).await;
        let positions = positions.map_err(|error| BrokerError::Topic {
            topic: topic.name.clone(),
            action: "consumed",
            reason: error.to_string(),
        })?;
        let inbox = Arc::new(Inbox::default());
        let (topic, positions) = (topic.name.clone(), Mutex::new(positions));
        let fetcher = Arc::new(Fetcher { admin, topic, isolation, inbox: inbox.clone(), positions });
        let task = tokio::spawn(fetcher.run()).abort_handle();
        Ok(KafkaNativeConsumer { inbox, task, taken: VecDeque::new(), unpacked: Vec::new() })
    }
}

impl Drop for KafkaNativeConsumer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Consumer for KafkaNativeConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        self.inbox.ready().await;
        Ok(())
    }

    fn take(&mut self, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let error = self.inbox.take(&mut self.taken);
        let mut messages = 0;
        let mut malformed = None;
        for fetched in self.taken.drain(..) {
            let partition = fetched.partition;
            let read = fetched.for_each(&mut self.unpacked, |record| {
                messages += 1;
                each(Received {
                    payload: record.value.unwrap_or_default(),
                    trace_header: record.trace_header,
                    partition,
                    offset: record.offset as u64,
                    redelivered: false,
                    details: &record,
                });
            });
            malformed = read.err().or(malformed);
        }
        let malformed = malformed.map(|error| ReceiveError {
            class: FailureClass::Other,
            message: format!("{error}: messages were skipped"),
        });
        match malformed.or(error) {
            None => Ok(messages),
            Some(error) => Err(error),
        }
    }
}
