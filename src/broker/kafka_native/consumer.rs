//! A member of a group: it reads partitions that brokermark assigns, or that the group shares among its members.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::beginning::{Beginning, Positions};
use super::config::Isolation;
use super::fetch::{self, Fetcher};
use super::inbox::{Fetched, Inbox};
use super::membership::{Assignment, Member};
use crate::broker::{BrokerError, Consumer, FailureClass, Offsets, ReceiveError, Received};

/// A member of a group on one topic.
pub struct KafkaNativeConsumer {
    beginning: Arc<Beginning>,
    isolation: Isolation,
    /// `None`: its partitions never change.
    member: Option<Member>,
    /// `None`: it has no partitions, because the group has not decided or has requested them back.
    reading: Option<Reading>,
    /// Empty between calls, kept for their memory.
    taken: VecDeque<Fetched>,
    unpacked: Vec<u8>,
}

/// What a member reads from its partitions.
struct Reading {
    /// Of each partition the offset of the next message that is taken, if it is known.
    next: BTreeMap<u32, Option<u64>>,
    inbox: Arc<Inbox>,
    task: AbortHandle,
}

impl KafkaNativeConsumer {
    /// Reads these partitions, from the messages that the subscription asks for, as they are now.
    ///
    /// # Errors
    /// When nothing says where to begin.
    pub async fn of_partitions(
        beginning: Beginning,
        partitions: Vec<u32>,
        isolation: Isolation,
    ) -> Result<Self, BrokerError> {
        let positions = beginning.positions(&partitions).await;
        let positions = positions.map_err(|error| BrokerError::Topic {
            topic: beginning.topic.clone(),
            action: "consumed",
            reason: error.to_string(),
        })?;
        let mut consumer = KafkaNativeConsumer::new(beginning, isolation, None);
        consumer.read(&partitions, Some(positions));
        Ok(consumer)
    }

    /// Reads what the group assigns.
    pub fn of_group(beginning: Beginning, member: Member, isolation: Isolation) -> Self {
        KafkaNativeConsumer::new(beginning, isolation, Some(member))
    }

    fn new(beginning: Beginning, isolation: Isolation, member: Option<Member>) -> Self {
        let beginning = Arc::new(beginning);
        KafkaNativeConsumer {
            beginning,
            isolation,
            member,
            reading: None,
            taken: VecDeque::new(),
            unpacked: Vec::new(),
        }
    }

    /// Begins to read partitions. Without `positions`, they are asked for first.
    fn read(&mut self, partitions: &[u32], positions: Option<Positions>) {
        let inbox = Arc::new(Inbox::default());
        let known = |partition: &u32| positions.as_ref()?.get(partition).and_then(|next| u64::try_from(*next).ok());
        let next = partitions.iter().map(|partition| (*partition, known(partition))).collect();
        let (admin, topic) = (self.beginning.admin.clone(), self.beginning.topic.clone());
        let fetcher = Fetcher { admin, topic, isolation: self.isolation, inbox: inbox.clone() };
        let task = tokio::spawn(fetch::run(fetcher, self.beginning.clone(), partitions.to_vec(), positions));
        self.reading = Some(Reading { next, inbox, task: task.abort_handle() });
    }

    /// Waits until the group has assigned partitions, if it does.
    pub async fn joined(&mut self) -> Result<(), ReceiveError> {
        while self.reading.is_none()
            && let Some(member) = &self.member
        {
            member.changed().await;
            self.follow_group()?;
        }
        Ok(())
    }

    /// Does what the group has asked for.
    fn follow_group(&mut self) -> Result<(), ReceiveError> {
        let Some(member) = &self.member else { return Ok(()) };
        let (assignment, error) = (member.take_assignment(), member.take_error());
        if let Some(Assignment { identity, partitions }) = assignment {
            if let Some(committed) = &self.beginning.committed {
                committed.identify(identity);
            }
            self.read(&partitions, None);
        }
        // One that commits is asked for its partitions, so that it can commit before.
        if self.beginning.committed.is_none() && self.is_revocation_requested() {
            self.return_partitions();
        }
        match error {
            None => Ok(()),
            Some(error) => Err(fetch::failure(&error)),
        }
    }

    fn return_partitions(&mut self) {
        if let Some(reading) = self.reading.take() {
            let known = reading.next.iter().filter_map(|(partition, next)| Some((*partition, (*next)? as i64)));
            self.beginning.left_off.lock().extend(known);
        }
        if let Some(member) = &self.member {
            member.return_partitions();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reading {
    /// Hands over what has arrived.
    fn take(
        &mut self,
        taken: &mut VecDeque<Fetched>,
        unpacked: &mut Vec<u8>,
        mut each: impl FnMut(Received<'_>),
    ) -> Result<usize, ReceiveError> {
        let error = self.inbox.take(taken);
        let mut messages = 0;
        let mut malformed = None;
        for fetched in taken.drain(..) {
            let partition = fetched.partition;
            let read = fetched.for_each(unpacked, |record| {
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
            self.next.insert(partition, u64::try_from(fetched.next).ok());
        }
        let malformed = malformed.map(|error| ReceiveError {
            class: FailureClass::Other,
            message: format!("{error}: messages were skipped"),
        });
        malformed.or(error).map_or(Ok(messages), Err)
    }
}

impl Consumer for KafkaNativeConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        match (&self.reading, &self.member) {
            (Some(reading), None) => reading.inbox.ready().await,
            (None, Some(member)) => member.changed().await,
            (Some(reading), Some(member)) => tokio::select! {
                () = reading.inbox.ready() => {}
                () = member.changed() => {}
            },
            (None, None) => std::future::pending().await,
        }
        Ok(())
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        // First, because what was taken before is recorded by now: the next member may take what follows.
        self.follow_group()?;
        match &mut self.reading {
            None => Ok(0),
            Some(reading) => reading.take(&mut self.taken, &mut self.unpacked, each),
        }
    }

    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        Some(self)
    }

    async fn close(self) {
        let KafkaNativeConsumer { member, reading, beginning, .. } = self;
        drop(reading);
        if let Some(committed) = &beginning.committed {
            // Commits whose answers were not awaited.
            let _ = committed.commit(&[], true).await;
        }
        if let Some(member) = member {
            member.leave().await;
        }
    }
}

impl Offsets for KafkaNativeConsumer {
    fn assigned(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        let reading = self.reading.as_ref()?;
        Some(reading.next.iter().map(|(partition, next)| (*partition, *next)).collect())
    }

    async fn commit(&mut self, next: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        match &self.beginning.committed {
            Some(committed) => committed.commit(next, confirmed).await,
            // The engine commits only in groups that do.
            None => Ok(()),
        }
    }

    fn is_revocation_requested(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_revocation_requested)
    }

    async fn revoke(&mut self) {
        self.return_partitions();
    }
}
