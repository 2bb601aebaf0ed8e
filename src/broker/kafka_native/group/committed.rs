//! Where a member begins to read partitions: at its group's committed offsets, where others of the trial have left off, or at an end.
//!
//! Committed offsets are read when a member begins, and committed by a task, so that a commit holds up no message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::super::config::Isolation;
use super::super::error::{CallError, STALE_MEMBER_EPOCH};
use super::super::net::admin::{Admin, End, EndsQuery};
use super::super::net::cluster::{Coordinator, name_of};
use crate::broker::{FailureClass, ReceiveError};
use crate::net::backoff::Backoff;

/// The newest versions of requests of those that have no epoch. Later ones encode lengths in another way.
const OFFSET_COMMIT: i16 = 7;
const OFFSET_FETCH: i16 = 5;

/// Of members that have one: they ask for several groups at once, and say who asks.
const OFFSET_COMMIT_WITH_EPOCH: i16 = 9;
const OFFSET_FETCH_WITH_EPOCH: i16 = 9;

/// How long a commit may take that is waited for.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberIdentity {
    /// Generation of the group when its partitions were assigned; with `is_epoch`, the epoch of the member.
    pub generation: i32,
    pub member_id: String,
    /// Whether the server shares the partitions out (KIP-848).
    pub is_epoch: bool,
}

impl MemberIdentity {
    /// A group without members.
    pub const OUTSIDE: MemberIdentity = MemberIdentity { generation: -1, member_id: String::new(), is_epoch: false };
}

/// The offset of the next message of each partition.
pub type Positions = BTreeMap<u32, i64>;

/// Where a member begins to read each partition.
pub struct StartOffsets {
    pub admin: Arc<Admin>,
    pub topic: String,
    /// Committed offsets of a group that commits.
    pub committed: Option<Arc<Committed>>,
    /// Positions of partitions without a committed offset: where the group began, or how far its members are, so that no message is received
    /// again when partitions move.
    pub left_off: Arc<Mutex<Positions>>,
    /// Start of partitions of which nothing is known.
    pub end: End,
}

impl StartOffsets {
    /// A member has returned these partitions there. One that the group had lost may return them late, when another one is further.
    pub fn leave_off(&self, positions: &Positions) {
        let mut left_off = self.left_off.lock();
        for (partition, next) in positions {
            let furthest = left_off.entry(*partition).or_insert(*next);
            *furthest = (*furthest).max(*next);
        }
    }

    /// The log of this partition was cut off there: other messages will have the offsets behind it.
    pub fn cut_off(&self, partition: u32, end: i64) {
        self.left_off.lock().entry(partition).and_modify(|next| *next = (*next).min(end));
    }

    /// The positions of these partitions.
    ///
    /// # Errors
    /// When a leader or the group's coordinator does not answer, or refuses.
    pub async fn positions(&self, partitions: &[u32]) -> Result<Positions, CallError> {
        let mut positions = match &self.committed {
            Some(committed) => committed.read(partitions).await?,
            None => Positions::new(),
        };
        {
            let left_off = self.left_off.lock();
            for partition in partitions {
                if let Some(position) = left_off.get(partition) {
                    positions.entry(*partition).or_insert(*position);
                }
            }
        }
        let unknown: Vec<u32> = partitions.iter().copied().filter(|one| !positions.contains_key(one)).collect();
        if !unknown.is_empty() {
            // Also where a transaction is open: what comes after the latest message is received once it ends.
            let isolation = Isolation::ReadUncommitted;
            let query = EndsQuery { topic: &self.topic, partitions: &unknown, end: self.end, isolation };
            positions.extend(self.admin.ends_in_time(&query).await?);
        }
        Ok(positions)
    }
}

/// The committed offsets of a group in one topic.
pub struct Committed {
    shared: Arc<CommitTask>,
    task: AbortHandle,
}

struct CommitTask {
    coordinator: Coordinator,
    topic: String,
    state: Mutex<CommitState>,
    work: Notify,
}

struct CommitState {
    identity: MemberIdentity,
    /// Offset that is to be committed next, of each partition.
    next: BTreeMap<u32, u64>,
    /// Callers that wait for that.
    waiting: Vec<oneshot::Sender<Result<(), ReceiveError>>>,
    /// Failure of a commit whose answer was not awaited.
    refused: Option<ReceiveError>,
}

impl Committed {
    pub fn new(coordinator: Coordinator, topic: &str) -> Self {
        let state = CommitState {
            identity: MemberIdentity::OUTSIDE,
            next: BTreeMap::new(),
            waiting: Vec::new(),
            refused: None,
        };
        let (topic, state, work) = (topic.to_owned(), Mutex::new(state), Notify::new());
        let shared = Arc::new(CommitTask { coordinator, topic, state, work });
        let task = tokio::spawn(shared.clone().serve()).abort_handle();
        Committed { shared, task }
    }

    /// From now on, commits are of this member.
    pub fn identify(&self, identity: MemberIdentity) {
        self.shared.state.lock().identity = identity;
    }

    /// Those of `partitions` that have one.
    ///
    /// # Errors
    /// When the group's coordinator does not answer, or refuses.
    pub async fn read(&self, partitions: &[u32]) -> Result<Positions, CallError> {
        self.shared.with_epoch(|identity| self.shared.read(identity, partitions)).await
    }

    /// Commits these offsets. With `confirmed`, it waits until the coordinator has them; else a refusal is reported by a later call.
    ///
    /// # Errors
    /// When this commit was refused, or an earlier one whose answer was not awaited.
    pub async fn commit(&self, next: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let waiting = {
            let mut state = self.shared.state.lock();
            state.next.extend(next.iter().copied());
            confirmed.then(|| {
                let (sender, receiver) = oneshot::channel();
                state.waiting.push(sender);
                receiver
            })
        };
        self.shared.work.notify_one();
        let committed = match waiting {
            None => Ok(()),
            Some(waiting) => match timeout(CONFIRMED_WITHIN, waiting).await {
                Ok(Ok(committed)) => committed,
                Ok(Err(_)) | Err(_) => Err(ReceiveError {
                    class: FailureClass::Timeout,
                    message: format!("the commit of offsets was not confirmed within {CONFIRMED_WITHIN:?}"),
                }),
            },
        };
        // After the wait: commits are answered one after the other, so that those before this one are known by now.
        let earlier = self.shared.state.lock().refused.take();
        match (committed, earlier) {
            (Err(error), Some(earlier)) => {
                let message = format!("{}; an earlier commit: {}", error.message, earlier.message);
                Err(ReceiveError { message, ..error })
            }
            (committed, earlier) => committed.and(earlier.map_or(Ok(()), Err)),
        }
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CommitTask {
    async fn read(&self, identity: MemberIdentity, partitions: &[u32]) -> Result<Positions, CallError> {
        let indexes: Vec<i32> = partitions.iter().map(|partition| *partition as i32).collect();
        let name = name_of(&self.topic);
        // The partition, its committed offset (below 0: none was committed), and its error code.
        let found: Vec<(i32, i64, i16)> = if identity.is_epoch {
            let topic = OffsetFetchRequestTopics::default().with_name(name).with_partition_indexes(indexes);
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(self.coordinator.group())
                .with_member_id(Some(StrBytes::from_string(identity.member_id)))
                .with_member_epoch(identity.generation)
                .with_topics(Some(vec![topic]));
            let request = OffsetFetchRequest::default().with_groups(vec![group]);
            let code = |response: &OffsetFetchResponse| response.groups.first().map_or(0, |group| group.error_code);
            let response = self.coordinator.call(&request, OFFSET_FETCH_WITH_EPOCH, code).await?;
            CallError::check(code(&response))?;
            let partitions = response.groups.iter().flat_map(|group| &group.topics).flat_map(|topic| &topic.partitions);
            partitions.map(|one| (one.partition_index, one.committed_offset, one.error_code)).collect()
        } else {
            let topic = OffsetFetchRequestTopic::default().with_name(name).with_partition_indexes(indexes);
            let group = self.coordinator.group();
            let request = OffsetFetchRequest::default().with_group_id(group).with_topics(Some(vec![topic]));
            let code = |response: &OffsetFetchResponse| response.error_code;
            let response = self.coordinator.call(&request, OFFSET_FETCH, code).await?;
            CallError::check(response.error_code)?;
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|one| (one.partition_index, one.committed_offset, one.error_code)).collect()
        };
        let mut positions = Positions::new();
        for (partition, offset, code) in found {
            CallError::check(code)?;
            if offset >= 0 {
                positions.insert(partition as u32, offset);
            }
        }
        Ok(positions)
    }

    /// Asks as the member is now. It asks again where the coordinator knows a later epoch, of which the member is about to hear; one that
    /// the group has lost, whose epoch is 0, hears of none.
    async fn with_epoch<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        ask: impl Fn(MemberIdentity) -> F,
    ) -> Result<T, CallError> {
        let (deadline, mut backoff) = (Instant::now() + CONFIRMED_WITHIN, Backoff::RECEIVE);
        loop {
            let identity = self.state.lock().identity.clone();
            let may_hear = identity.generation > 0;
            match ask(identity).await {
                Err(CallError::Refused(STALE_MEMBER_EPOCH, _)) if may_hear && Instant::now() < deadline => {
                    backoff.pause().await;
                }
                answer => return answer,
            }
        }
    }

    /// Commits what is to be committed, all of it at once, until the task is aborted.
    async fn serve(self: Arc<Self>) {
        loop {
            self.work.notified().await;
            let (next, waiting) = {
                let mut state = self.state.lock();
                (std::mem::take(&mut state.next), std::mem::take(&mut state.waiting))
            };
            let committed = if next.is_empty() {
                Ok(())
            } else {
                let committed = self.with_epoch(|identity| self.commit(identity, &next)).await;
                committed.map_err(|error| refusal(&error))
            };
            if waiting.is_empty()
                && let Err(refused) = &committed
            {
                self.state.lock().refused = Some(refused.clone());
            }
            for one in waiting {
                // Who waited for it may have stopped to.
                let _ = one.send(committed.clone());
            }
        }
    }

    async fn commit(&self, identity: MemberIdentity, next: &BTreeMap<u32, u64>) -> Result<(), CallError> {
        let partition = |(partition, next): (&u32, &u64)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*partition as i32)
                .with_committed_offset(*next as i64)
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(name_of(&self.topic))
            .with_partitions(next.iter().map(partition).collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id_or_member_epoch(identity.generation)
            .with_member_id(StrBytes::from_string(identity.member_id.clone()))
            .with_topics(vec![topic]);
        let newest = if identity.is_epoch { OFFSET_COMMIT_WITH_EPOCH } else { OFFSET_COMMIT };
        let response = self.coordinator.call(&request, newest, first_error).await?;
        CallError::check(first_error(&response))
    }
}

fn first_error(response: &OffsetCommitResponse) -> i16 {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.error_code).find(|code| *code != 0).unwrap_or(0)
}

fn refusal(error: &CallError) -> ReceiveError {
    ReceiveError { class: error.class(), message: format!("offsets were not committed: {error}") }
}
