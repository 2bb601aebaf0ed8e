//! A member of a group: it reads partitions that brokermark assigns, or that the group shares among its members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::super::config::Isolation;
use super::super::group::committed::{Positions, StartOffsets};
use super::super::group::membership::{Member, Revocation};
use super::buffer::{FetchBuffer, Fetched};
use super::fetcher;
use crate::broker::{BrokerError, Consumer, FailureClass, Offsets, ReceiveError, Received};

/// A member of a group on one topic.
pub struct KafkaNativeConsumer {
    start_offsets: Arc<StartOffsets>,
    isolation: Isolation,
    /// Membership of a group; `None`: its partitions never change.
    member: Option<Member>,
    /// Partitions that it reads; `None`: it has no partitions, because the group has not decided or has requested them back.
    reading: Option<Reading>,
    /// Reports about partitions that it does not read any more.
    untold: Vec<ReceiveError>,
    /// Records of a compressed batch. Empty between calls, kept for its memory.
    unpacked: Vec<u8>,
}

/// What a member reads from its partitions.
struct Reading {
    /// Offset of the next message that is taken of each partition, if it is known.
    next: BTreeMap<u32, Option<u64>>,
    buffer: Arc<FetchBuffer>,
    /// Batches taken from the buffer and not handed over: a caller that wants few messages leaves the others here.
    taken: VecDeque<Fetched>,
    task: AbortHandle,
}

impl KafkaNativeConsumer {
    /// Reads these partitions, from the messages that the subscription asks for, as they are now.
    ///
    /// # Errors
    /// When nothing says where to begin.
    pub async fn with_partitions(
        start_offsets: StartOffsets,
        partitions: Vec<u32>,
        isolation: Isolation,
    ) -> Result<Self, BrokerError> {
        let positions = start_offsets.positions(&partitions).await;
        let positions = positions.map_err(|error| BrokerError::Topic {
            topic: start_offsets.topic.clone(),
            action: "consumed",
            reason: error.to_string(),
        })?;
        let mut consumer = KafkaNativeConsumer::new(start_offsets, isolation, None);
        consumer.read(&partitions.into_iter().collect(), positions);
        Ok(consumer)
    }

    /// Reads what the group assigns, if it is a member.
    pub fn new(start_offsets: StartOffsets, isolation: Isolation, member: Option<Member>) -> Self {
        let start_offsets = Arc::new(start_offsets);
        let (untold, unpacked) = Default::default();
        KafkaNativeConsumer { start_offsets, isolation, member, reading: None, untold, unpacked }
    }

    /// Begins to read these partitions. Positions that are not `known` are asked for first.
    fn read(&mut self, partitions: &BTreeSet<u32>, known: Positions) {
        let buffer = Arc::new(FetchBuffer::default());
        let position = |partition: &u32| known.get(partition).and_then(|next| u64::try_from(*next).ok());
        let next = partitions.iter().map(|partition| (*partition, position(partition))).collect();
        let (start_offsets, partitions) = (self.start_offsets.clone(), partitions.iter().copied().collect());
        let task = tokio::spawn(fetcher::run(start_offsets, self.isolation, buffer.clone(), partitions, known));
        self.reading = Some(Reading { next, buffer, taken: VecDeque::new(), task: task.abort_handle() });
    }

    /// Waits until the group has assigned partitions, if it does; with `needs_one`, until it is one at least.
    pub async fn joined(&mut self, needs_one: bool) -> Result<(), ReceiveError> {
        let is_ready = |reading: &Reading| !needs_one || !reading.next.is_empty();
        while !self.reading.as_ref().is_some_and(is_ready)
            && let Some(member) = &self.member
        {
            member.mailbox.changed().await;
            self.follow_group()?;
        }
        Ok(())
    }

    /// Does what the group has asked for.
    fn follow_group(&mut self) -> Result<(), ReceiveError> {
        let Some(member) = &self.member else { return Ok(()) };
        let (assigned, error) = (member.mailbox.take_assigned(), member.mailbox.take_error());
        if let Some(partitions) = assigned {
            self.take_on(&partitions);
        }
        // One that commits is asked for its partitions, so that it can commit before.
        if self.start_offsets.committed.is_none() {
            self.return_requested();
        }
        match error {
            None => Ok(()),
            Some(error) => Err(fetcher::failure(&error)),
        }
    }

    /// Reads what is assigned now, and goes on where it is with what it had before.
    fn take_on(&mut self, partitions: &BTreeSet<u32>) {
        let is_same = |reading: &Reading| reading.next.keys().eq(partitions);
        if self.reading.as_ref().is_some_and(is_same) {
            return;
        }
        let mut known = self.stop_reading();
        known.retain(|partition, _| partitions.contains(partition));
        self.read(partitions, known);
    }

    /// Returns the positions of what was read. Reports that the consumer was not told are kept for it.
    fn stop_reading(&mut self) -> Positions {
        let Some(reading) = self.reading.take() else { return Positions::new() };
        self.untold.extend(reading.buffer.take_reports());
        reading.positions()
    }

    fn return_requested(&mut self) {
        let member = self.member.as_ref().filter(|member| member.mailbox.is_revocation_requested());
        let Some(mailbox) = member.map(|member| member.mailbox.clone()) else { return };
        let mut known = self.stop_reading();
        // Before the next member of a partition can look. Of a group that commits, only what was committed is finished.
        if self.start_offsets.committed.is_none() {
            self.start_offsets.leave_off(&known);
        }
        if let Some(Revocation::AllBut(kept)) = mailbox.return_requested() {
            // One that commits has finished or abandoned all that it took, and begins again at what it has committed.
            known.retain(|partition, _| self.start_offsets.committed.is_none() && kept.contains(partition));
            self.read(&kept, known);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reading {
    /// The offsets of the next messages that are taken, as far as they are known.
    fn positions(&self) -> Positions {
        self.next.iter().filter_map(|(partition, next)| Some((*partition, (*next)? as i64))).collect()
    }

    /// Hands over the messages that have arrived, until there were `most`.
    fn take(
        &mut self,
        unpacked: &mut Vec<u8>,
        most: usize,
        mut each: impl FnMut(Received<'_>),
    ) -> Result<usize, ReceiveError> {
        if self.taken.is_empty() {
            self.buffer.take(&mut self.taken);
        }
        let mut messages = 0;
        while messages < most
            && let Some(fetched) = self.taken.pop_front()
        {
            let partition = fetched.partition;
            let read = fetched.for_each(unpacked, most - messages, |record| {
                messages += 1;
                each(Received {
                    payload: record.value.unwrap_or_default(),
                    trace_header: record.trace_header,
                    partition,
                    offset: record.offset as u64,
                    redelivered: record.offset < fetched.read_before,
                    details: &record,
                });
            });
            let left = read.unwrap_or_else(|error| {
                let message = format!("{error}: messages were skipped");
                self.buffer.report(ReceiveError { class: FailureClass::Other, message });
                None
            });
            let next = left.as_ref().map_or(fetched.next, |left| left.from);
            self.next.insert(partition, u64::try_from(next).ok());
            if let Some(left) = left {
                self.taken.push_front(left);
            }
        }
        self.buffer.take_error().map_or(Ok(messages), Err)
    }
}

impl Consumer for KafkaNativeConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        if !self.untold.is_empty() || self.reading.as_ref().is_some_and(|reading| !reading.taken.is_empty()) {
            return Ok(());
        }
        match (&self.reading, &self.member) {
            (Some(reading), None) => reading.buffer.ready().await,
            (None, Some(member)) => member.mailbox.changed().await,
            (Some(reading), Some(member)) => tokio::select! {
                () = reading.buffer.ready() => {}
                () = member.mailbox.changed() => {}
            },
            (None, None) => std::future::pending().await,
        }
        Ok(())
    }

    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        // First, because what was taken before is recorded by now: the next member may take what follows.
        self.follow_group()?;
        ReceiveError::take_joined(&mut self.untold).map_or(Ok(()), Err)?;
        match &mut self.reading {
            None => Ok(0),
            Some(reading) => reading.take(&mut self.unpacked, most, each),
        }
    }

    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        Some(self)
    }

    async fn close(self) {
        let KafkaNativeConsumer { member, reading, .. } = self;
        drop(reading);
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
        match &self.start_offsets.committed {
            Some(committed) => committed.commit(next, confirmed).await,
            // The engine commits only in groups that do.
            None => Ok(()),
        }
    }

    fn is_revocation_requested(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.mailbox.is_revocation_requested())
    }

    async fn revoke(&mut self) {
        self.return_requested();
    }
}
