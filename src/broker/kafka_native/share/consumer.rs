//! A member of a share group, as the engine's task owns it: it takes messages that were delivered to the member, and answers them when it comes back
//! for more, that is after it has done its work on them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::codec::records::ReadRecord;
use super::super::codec::shares::Acquired;
use super::super::consume::consumer::KafkaNativeConsumer;
use super::super::group::membership::Member;
use super::answers::{Answer, AnswerChoice, Stretch};
use super::link::{Delivered, Origin, ShareLink};
use crate::broker::{BrokerError, Consumer, FailureClass, Offsets, ReceiveError, Received};

/// How long the last answers may take. A fetch that is on its way waits for its messages first.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A member of a share group on one topic.
pub struct ShareConsumer {
    link: Arc<ShareLink>,
    member: Member,
    /// The task that follows the group's assignments, and all tasks that it has begun.
    task: Following,
    /// Deliveries that are not handed over.
    taken: VecDeque<Delivered>,
    choice: AnswerChoice,
    /// Answers to messages that the engine has taken, and deliveries of which it has all.
    answers: Vec<(Origin, u32, Stretch)>,
    done: Vec<Origin>,
    /// Errors that the engine is told next.
    untold: Vec<ReceiveError>,
    /// Records of a compressed batch. Empty between calls, kept for its memory.
    unpacked: Vec<u8>,
}

/// A task that ends with the consumer: without a farewell, its nodes give what they have delivered to others.
struct Following(AbortHandle);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes answers to the messages of a delivery, in their order.
struct Answering<'a> {
    origin: Origin,
    partition: u32,
    /// What is not answered yet.
    acquired: VecDeque<Acquired>,
    answers: &'a mut Vec<(Origin, u32, Stretch)>,
}

impl Answering<'_> {
    /// The acquired offsets with that one, if it is the member's. Those before it have no message.
    #[inline]
    fn reach(&mut self, offset: i64) -> Option<Acquired> {
        loop {
            let next = *self.acquired.front().filter(|next| next.first <= offset)?;
            if next.first == offset {
                return Some(next);
            }
            self.put(next.last.min(offset - 1), Some(Answer::Gap));
        }
    }

    /// Answers all that is left up to `last`, which is in the first of the acquired stretches.
    #[inline]
    fn put(&mut self, last: i64, answer: Option<Answer>) {
        let Some(next) = self.acquired.front_mut() else { return };
        let first = std::mem::replace(&mut next.first, last + 1);
        if next.first > next.last {
            self.acquired.pop_front();
        }
        let Some(answer) = answer else { return };
        match self.answers.last_mut() {
            Some((origin, partition, before))
                if (*origin, *partition, before.answer, before.last + 1)
                    == (self.origin, self.partition, answer, first) =>
            {
                before.last = last;
            }
            _ => self.answers.push((self.origin, self.partition, Stretch { first, last, answer })),
        }
    }

    /// Answers all that is left.
    fn end(&mut self, answer: Answer) {
        while let Some(next) = self.acquired.front() {
            self.put(next.last, Some(answer));
        }
    }
}

impl ShareConsumer {
    /// Begins to read what the group assigns to `member`.
    pub fn new(link: Arc<ShareLink>, member: Member, choice: AnswerChoice) -> Self {
        let task = tokio::spawn(link.clone().follow(member.mailbox.clone())).abort_handle();
        let task = Following(task);
        let (taken, answers, done, untold, unpacked) = Default::default();
        ShareConsumer { link, member, task, taken, choice, answers, done, untold, unpacked }
    }

    /// Waits until a node has the member's place, so that nothing that is sent later is missed.
    ///
    /// # Errors
    /// When the group or a node refuses the member, or does not answer within `limit`.
    pub async fn begun(&mut self, limit: Duration) -> Result<(), BrokerError> {
        let reason = match timeout(limit, self.link.begun()).await {
            Ok(None) => return Ok(()),
            Ok(Some(error)) => error.message,
            Err(_) => format!("the group {} assigned nothing to this member in time", self.link.identity.group),
        };
        Err(BrokerError::Topic { topic: self.link.identity.topic.clone(), action: "consumed", reason })
    }

    /// The engine has done its work on what it has taken.
    fn answer(&mut self) {
        if !self.answers.is_empty() || !self.done.is_empty() {
            self.link.answer(self.answers.drain(..), self.done.drain(..));
        }
    }

    /// As [`Consumer::close`], with so much time for the last answers.
    pub async fn close_within(mut self, limit: Duration) {
        self.answer();
        self.link.close(limit).await;
        drop(self.task);
        self.member.leave().await;
    }
}

impl Consumer for ShareConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        self.answer();
        if self.taken.is_empty() && self.untold.is_empty() {
            self.link.ready().await;
        }
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        if self.taken.is_empty() {
            self.link.take(&mut self.taken, &mut self.untold);
        }
        let mut messages = 0;
        while messages < most
            && let Some(Delivered { origin, fetched, acquired }) = self.taken.pop_front()
        {
            let partition = fetched.partition;
            let mut answers = Answering { origin, partition, acquired, answers: &mut self.answers };
            let (group, choice) = (&self.link.group, &mut self.choice);
            let mut expiring = 0;
            let read = fetched.for_each(&mut self.unpacked, most - messages, |record: ReadRecord<'_>| {
                let Some(Acquired { deliveries, .. }) = answers.reach(record.offset) else { return };
                messages += 1;
                let answer = choice.next(deliveries);
                expiring += u64::from(answer.is_none());
                each(Received {
                    payload: record.value.unwrap_or_default(),
                    trace_header: record.trace_header,
                    partition,
                    offset: record.offset as u64,
                    // An accepted message may not come again: it counts as a duplicate, although the broker announces a redelivery.
                    redelivered: deliveries > 1 && !group.has_accepted(partition, record.offset, record.offset),
                    details: &record,
                });
                answers.put(record.offset, answer);
            });
            if expiring > 0 {
                group.left_to_expire(expiring);
            }
            match read {
                Ok(Some(left)) => {
                    let acquired = answers.acquired;
                    self.taken.push_front(Delivered { origin, fetched: left, acquired });
                    continue;
                }
                Ok(None) => answers.end(Answer::Gap),
                Err(error) => {
                    answers.end(Answer::Release);
                    let message = format!("{error}: messages were given back");
                    self.untold.push(ReceiveError { class: FailureClass::Other, message });
                }
            }
            self.done.push(origin);
        }
        ReceiveError::take_joined(&mut self.untold).map_or(Ok(messages), Err)
    }

    async fn close(self) {
        self.close_within(CLOSE_WITHIN).await;
    }
}

/// A consumer of either kind of group.
pub enum AnyConsumer {
    /// Reads partitions that no other member of its group reads.
    OfPartitions(KafkaNativeConsumer),
    OfShareGroup(ShareConsumer),
}

impl Consumer for AnyConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        match self {
            AnyConsumer::OfPartitions(consumer) => consumer.ready().await,
            AnyConsumer::OfShareGroup(consumer) => consumer.ready().await,
        }
    }

    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        match self {
            AnyConsumer::OfPartitions(consumer) => consumer.take_some(most, each),
            AnyConsumer::OfShareGroup(consumer) => consumer.take_some(most, each),
        }
    }

    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        match self {
            AnyConsumer::OfPartitions(consumer) => Some(consumer),
            AnyConsumer::OfShareGroup(_) => None,
        }
    }

    async fn close(self) {
        match self {
            AnyConsumer::OfPartitions(consumer) => consumer.close().await,
            AnyConsumer::OfShareGroup(consumer) => consumer.close().await,
        }
    }
}
