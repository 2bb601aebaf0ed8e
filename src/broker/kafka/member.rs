//! rdkafka's consumer as a member of a group: what the group asks of it, and its commits.
//!
//! A group asks a member to return partitions, and to take on others. rdkafka calls from within the `poll` that meets the group's decision,
//! on the member's own task. Partitions that are assigned are taken on at once. Those that are requested back stay until
//! [`Member::revoke`]: the group waits for that (up to `max.poll.interval.ms`), so that the member can record, or finish and commit, what
//! it has taken from them. A member that commits begins at the offsets that the group has committed. One that does not commit begins where
//! the trial's own members have stopped, by [`GroupOffsets`]: from the broker's begin or end of the partition, messages would seem to be
//! duplicated or lost.
//!
//! Commits are made one after the other. rdkafka tells the outcome only of a commit that is waited for, so a blocking task waits, and each
//! call reports the refusals of the commits before it. What becomes due meanwhile goes into the next commit. Those that librdkafka makes by
//! itself (`enable.auto.commit`) have their outcome in an event.

use std::collections::BTreeMap;
use std::error::Error;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::client::{self, describe, oauth_token};
use super::held_up::condition;
use crate::broker::kafka_shares::MemberShares;
use crate::measure::{ConditionKind, Subject};
use crate::scenario::Secret;

/// How long to wait for the answers.
const CONFIRM: Duration = Duration::from_secs(5);

/// How long partitions may be without a member of the run until another one has them: members are told one after the other.
const SETTLED: Duration = Duration::from_secs(2);

/// rdkafka's consumer, which leaves its group when it is dropped.
pub struct ConsumerClient {
    /// `None` while it is dropped.
    consumer: Option<Arc<BaseConsumer<Member>>>,
    /// Wakes when the queue has gone from empty to not empty.
    pub arrived: Arc<Notify>,
}

impl ConsumerClient {
    /// # Errors
    /// librdkafka's sentence on the property that it does not know or whose value it refuses.
    pub fn new<'p>(
        properties: impl IntoIterator<Item = (&'p str, &'p str)>,
        member: Member,
    ) -> Result<ConsumerClient, String> {
        let arrived = Arc::new(Notify::new());
        let mut consumer: BaseConsumer<Member> = client::create(properties, member)?;
        let notify = arrived.clone();
        consumer.set_nonempty_callback(move || notify.notify_one());
        // A token is asked for by an event, and nothing is sent without one. There is no message yet.
        while consumer.poll(Duration::ZERO).is_some() || consumer.context().was_called() {}
        Ok(ConsumerClient { consumer: Some(Arc::new(consumer)), arrived })
    }
}

impl Deref for ConsumerClient {
    type Target = Arc<BaseConsumer<Member>>;

    fn deref(&self) -> &Self::Target {
        self.consumer.as_ref().expect("it is taken only by `drop`")
    }
}

impl Drop for ConsumerClient {
    /// Other tasks run on meanwhile: without a coordinator, leaving takes as long as a session.
    fn drop(&mut self) {
        self.context().leave(self);
        let consumer = self.consumer.take();
        tokio::task::block_in_place(|| drop(consumer));
    }
}

/// Up to where the members of a group that does not commit have taken each partition of their topic.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    /// By partition; 0: nothing was taken.
    next: Mutex<Vec<i64>>,
}

impl GroupOffsets {
    /// All before these offsets was taken.
    pub fn advance(&self, taken: &[(u32, i64)]) {
        let mut next = self.next.lock();
        for (partition, offset) in taken {
            let partition = *partition as usize;
            if next.len() <= partition {
                next.resize(partition + 1, 0);
            }
            next[partition] = next[partition].max(*offset);
        }
    }

    fn next(&self, partition: i32) -> Option<i64> {
        self.next.lock().get(usize::try_from(partition).ok()?).copied().filter(|offset| *offset > 0)
    }
}

/// A member of a group, as rdkafka calls it.
pub struct Member {
    /// The group for this member: what it waits for before messages come, and whether it is assigned partitions.
    held_up: Subject,
    rebalancing: Subject,
    /// What the members of the run have of the group, and its number among them; `None`: no group assigns its partitions.
    shares: Option<(Arc<MemberShares>, usize)>,
    /// Of a member that does not commit.
    pub offsets: Option<Arc<GroupOffsets>>,
    token: Option<Secret>,
    partitions: Mutex<MemberPartitions>,
    /// The offset in the last report of a partition's end.
    end: Mutex<Option<u64>>,
    /// The first refusal of a commit by librdkafka itself that was not reported yet.
    refused_commit: Mutex<Option<Code>>,
    /// Whether rdkafka has called since the last question.
    was_called: AtomicBool,
}

#[derive(Default)]
struct MemberPartitions {
    /// The group has decided, and has not requested partitions back since.
    assigned: bool,
    /// The group has decided at least once.
    met: bool,
    /// The partitions that the group requests back.
    requested: Option<TopicPartitionList>,
    /// The member is leaving: requested partitions are revoked at once.
    leaving: bool,
}

impl Member {
    /// `offsets`: of a group whose members do not commit. `token`: with SASL OAUTHBEARER, where the token is.
    pub fn new(
        offsets: Option<Arc<GroupOffsets>>,
        token: Option<Secret>,
        shares: Option<(Arc<MemberShares>, usize)>,
        group: impl Fn() -> Subject,
    ) -> Self {
        let (partitions, end, refused_commit, was_called) = Default::default();
        let (held_up, rebalancing) = (group(), group());
        Member { held_up, rebalancing, shares, offsets, token, partitions, end, refused_commit, was_called }
    }

    /// Messages have come.
    pub fn received(&self) {
        self.held_up.end();
    }

    /// Receiving has failed.
    pub fn failed(&self, code: Code) {
        if let Some(kind) = condition(code) {
            self.held_up.begin(kind, &describe(code));
        }
    }

    /// Partitions are assigned, by a group or without one.
    pub fn decided(&self) {
        let mut partitions = self.partitions.lock();
        (partitions.assigned, partitions.met) = (true, true);
    }

    pub fn is_assigned(&self) -> bool {
        self.partitions.lock().assigned
    }

    /// Whether the group has decided at least once.
    pub fn has_met(&self) -> bool {
        self.partitions.lock().met
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.partitions.lock().requested.is_some()
    }

    /// Returns the partitions that the group requests back, by this member's `consumer`.
    pub fn revoke(&self, consumer: &BaseConsumer<Member>) {
        let mut partitions = self.partitions.lock();
        if let Some(requested) = partitions.requested.take() {
            // Until the group assigns other partitions.
            partitions.assigned = false;
            unassign(consumer, &requested);
        }
    }

    /// From now on partitions are revoked at once, so that the consumer can be closed.
    pub fn leave(&self, consumer: &BaseConsumer<Member>) {
        self.partitions.lock().leaving = true;
        self.revoke(consumer);
        if let Some((shares, member)) = &self.shares {
            shares.leave(*member);
        }
    }

    /// Whether rdkafka has called since the last question. Its `poll` returns nothing after each call, although there may be messages.
    pub fn was_called(&self) -> bool {
        self.was_called.swap(false, Ordering::Relaxed)
    }

    /// The offset at which the partition ended whose end was reported last.
    pub fn take_end(&self) -> Option<u64> {
        self.end.lock().take()
    }

    /// Why the broker refused a commit that librdkafka made by itself, since the last question.
    pub fn take_refused_commit(&self) -> Option<Code> {
        self.refused_commit.lock().take()
    }

    fn called(&self) {
        self.was_called.store(true, Ordering::Relaxed);
    }
}

impl ConsumerContext for Member {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, code: RDKafkaRespErr, list: &mut TopicPartitionList) {
        self.called();
        let mut partitions = self.partitions.lock();
        match code {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                (partitions.assigned, partitions.met) = (true, true);
                self.rebalancing.end();
                if let Some(offsets) = &self.offsets {
                    resume(list, offsets);
                }
                assign(consumer, list);
                if let (Some((shares, member)), Ok(assigned)) = (&self.shares, consumer.assignment()) {
                    let assigned = assigned.elements().iter().map(|one| one.partition().unsigned_abs()).collect();
                    shares.hold(*member, None, &assigned, SETTLED);
                }
            }
            _ if partitions.leaving => unassign(consumer, list),
            _ => {
                self.rebalancing.begin(ConditionKind::Rebalancing, "");
                let earlier = partitions.requested.replace(list.clone());
                if let Some(earlier) = earlier {
                    unassign(consumer, &earlier);
                }
            }
        }
    }

    /// Of all partitions, or of some of them.
    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        self.called();
        let refused = result.err().or_else(|| offsets.elements().iter().find_map(|offset| offset.error().err()));
        if let Some(error) = refused {
            self.refused_commit.lock().get_or_insert(client::code(&error));
        }
    }
}

impl ClientContext for Member {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {
        self.called();
    }

    fn stats_raw(&self, _json: &[u8]) {
        self.called();
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let kind = match client::code(&error) {
            Code::PartitionEOF => {
                *self.end.lock() = end_offset(reason);
                return;
            }
            Code::AllBrokersDown => ConditionKind::Connecting,
            Code::Authentication | Code::SaslAuthenticationFailed => ConditionKind::Authentication,
            _ => return,
        };
        self.held_up.begin(kind, &client::without_circumstances(reason));
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.called();
        oauth_token(self.token.as_ref())
    }
}

/// The error that reports a partition's end has its number only, so the offset is taken from librdkafka's sentence
/// (`rdkafka_fetcher.c`): "Fetch from broker 1 reached end of partition at offset 42 (HighwaterMark 42)".
fn end_offset(reason: &str) -> Option<u64> {
    let (_, rest) = reason.split_once("at offset ")?;
    rest.split_once(' ').map_or(rest, |(offset, _)| offset).parse().ok()
}

fn resume(list: &mut TopicPartitionList, offsets: &GroupOffsets) {
    for mut element in list.elements() {
        if let Some(offset) = offsets.next(element.partition()) {
            // Never negative, which is all that would be refused.
            let _ = element.set_offset(Offset::Offset(offset));
        }
    }
}

/// After an error, the next fetch reports the same one.
fn assign(consumer: &BaseConsumer<Member>, list: &TopicPartitionList) {
    let _ = match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
        _ => consumer.assign(list),
    };
}

/// In the eager protocol all partitions are revoked together.
fn unassign(consumer: &BaseConsumer<Member>, list: &TopicPartitionList) {
    let _ = match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
        _ => consumer.unassign(),
    };
}

/// The commits of a member.
pub struct Commits {
    consumer: Arc<BaseConsumer<Member>>,
    topic: String,
    open: Mutex<OpenCommits>,
    /// Wakes when everything that was due is answered.
    answered: Notify,
}

#[derive(Default)]
struct OpenCommits {
    /// By partition, the offset of the first message that is not done.
    due: BTreeMap<u32, u64>,
    /// Whether a task is committing.
    is_running: bool,
    /// The first refusal that no call has reported yet.
    refusal: Option<Code>,
}

impl Commits {
    pub fn new(consumer: Arc<BaseConsumer<Member>>, topic: &str) -> Self {
        Commits { consumer, topic: topic.to_owned(), open: Mutex::default(), answered: Notify::new() }
    }

    /// Commits these offsets; `confirmed`: waits for all answers, but no longer than [`CONFIRM`].
    ///
    /// # Errors
    /// librdkafka's code of the first refusal since the last call, or of a timeout.
    pub async fn commit(self: &Arc<Self>, next: &[(u32, u64)], confirmed: bool) -> Result<(), Code> {
        if !self.add(next) {
            let commits = self.clone();
            tokio::task::spawn_blocking(move || commits.run());
        }
        let answers = async {
            loop {
                let answered = self.answered.notified();
                if !self.open.lock().is_running {
                    return;
                }
                answered.await;
            }
        };
        let in_time = !confirmed || timeout(CONFIRM, answers).await.is_ok();
        match self.open.lock().refusal.take() {
            Some(code) => Err(code),
            None if in_time => Ok(()),
            None => Err(Code::OperationTimedOut),
        }
    }

    /// Adds what is due: whether a task is committing already.
    fn add(&self, next: &[(u32, u64)]) -> bool {
        let mut open = self.open.lock();
        open.due.extend(next.iter().copied());
        mem::replace(&mut open.is_running, true)
    }

    fn run(&self) {
        loop {
            let mut open = self.open.lock();
            let due = mem::take(&mut open.due);
            if due.is_empty() {
                open.is_running = false;
                drop(open);
                return self.answered.notify_waiters();
            }
            drop(open);
            if let Err(error) = self.commit_all(due) {
                self.open.lock().refusal.get_or_insert(client::code(&error));
            }
        }
    }

    fn commit_all(&self, due: BTreeMap<u32, u64>) -> KafkaResult<()> {
        let mut list = TopicPartitionList::with_capacity(due.len());
        for (partition, offset) in due {
            list.add_partition_offset(&self.topic, partition as i32, Offset::Offset(offset as i64))?;
        }
        self.consumer.commit(&list, CommitMode::Sync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_only_grow_and_an_unread_partition_has_none() {
        let offsets = GroupOffsets::default();
        offsets.advance(&[(2, 10), (0, 4), (2, 12)]);
        offsets.advance(&[(2, 11)]);
        assert_eq!([0, 1, 2, 3, -1].map(|partition| offsets.next(partition)), [Some(4), None, Some(12), None, None]);
    }

    #[test]
    fn end_of_a_partition_is_read_from_librdkafkas_sentence() {
        let reason = "Fetch from broker 1 reached end of partition at offset 42 (HighwaterMark 43)";
        assert_eq!(end_offset(reason), Some(42));
        assert_eq!(end_offset("Broker: No more messages"), None);
    }
}
