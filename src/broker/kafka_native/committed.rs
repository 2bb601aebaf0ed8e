//! The committed offsets of a group: read when a member begins, and committed by a task, so that a commit holds up no message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::coordinator::Coordinator;
use super::error::{CallError, class_of};
use crate::broker::{FailureClass, ReceiveError};

/// The newest versions of requests that are used here. Later ones encode lengths in another way.
const OFFSET_COMMIT: i16 = 7;
const OFFSET_FETCH: i16 = 5;

/// How long a commit may take that is waited for.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Of the group, when its partitions were assigned.
    pub generation: i32,
    pub member_id: String,
}

impl Identity {
    /// A group without members.
    pub const OUTSIDE: Identity = Identity { generation: -1, member_id: String::new() };
}

/// The committed offsets of a group in one topic.
pub struct Committed {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    coordinator: Coordinator,
    topic: String,
    state: Mutex<State>,
    work: Notify,
}

struct State {
    identity: Identity,
    /// What is to be committed next, of each partition.
    next: BTreeMap<u32, u64>,
    /// Who waits for that.
    waiting: Vec<oneshot::Sender<Result<(), ReceiveError>>>,
    /// Why a commit failed whose answer was not awaited.
    refused: Option<ReceiveError>,
}

impl Committed {
    pub fn new(coordinator: Coordinator, topic: &str) -> Self {
        let state = State { identity: Identity::OUTSIDE, next: BTreeMap::new(), waiting: Vec::new(), refused: None };
        let (topic, state, work) = (topic.to_owned(), Mutex::new(state), Notify::new());
        let shared = Arc::new(Shared { coordinator, topic, state, work });
        let task = tokio::spawn(shared.clone().serve()).abort_handle();
        Committed { shared, task }
    }

    /// From now on, commits are of this member.
    pub fn identify(&self, identity: Identity) {
        self.shared.state.lock().identity = identity;
    }

    /// Those of `partitions` that have one.
    ///
    /// # Errors
    /// When the group's coordinator does not answer, or refuses.
    pub async fn read(&self, partitions: &[u32]) -> Result<BTreeMap<u32, i64>, CallError> {
        let indexes = partitions.iter().map(|partition| *partition as i32).collect();
        let topic = OffsetFetchRequestTopic::default().with_name(self.shared.name()).with_partition_indexes(indexes);
        let request =
            OffsetFetchRequest::default().with_group_id(self.shared.coordinator.group()).with_topics(Some(vec![topic]));
        let code = |response: &OffsetFetchResponse| response.error_code;
        let response = self.shared.coordinator.call(&request, OFFSET_FETCH, code).await?;
        CallError::check(response.error_code)?;
        let mut found = BTreeMap::new();
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            CallError::check(partition.error_code)?;
            if partition.committed_offset >= 0 {
                found.insert(partition.partition_index as u32, partition.committed_offset);
            }
        }
        Ok(found)
    }

    /// Commits these offsets. With `confirmed`, it waits until the coordinator has them; else a refusal is reported by a later call.
    ///
    /// # Errors
    /// When this commit was refused, or an earlier one whose answer was not awaited.
    pub async fn commit(&self, next: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let (waiting, refused) = {
            let mut state = self.shared.state.lock();
            state.next.extend(next.iter().copied());
            let waiting = confirmed.then(|| {
                let (sender, receiver) = oneshot::channel();
                state.waiting.push(sender);
                receiver
            });
            (waiting, state.refused.take())
        };
        self.shared.work.notify_one();
        if let Some(waiting) = waiting {
            let lost = || ReceiveError {
                class: FailureClass::Timeout,
                message: format!("the commit of offsets was not confirmed within {CONFIRMED_WITHIN:?}"),
            };
            timeout(CONFIRMED_WITHIN, waiting).await.map_err(|_| lost())?.map_err(|_| lost())??;
        }
        refused.map_or(Ok(()), Err)
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn name(&self) -> TopicName {
        TopicName(StrBytes::from_string(self.topic.clone()))
    }

    /// Commits what is to be committed, all of it at once, until the task is aborted.
    async fn serve(self: Arc<Self>) {
        loop {
            self.work.notified().await;
            let (identity, next, waiting) = {
                let mut state = self.state.lock();
                (state.identity.clone(), std::mem::take(&mut state.next), std::mem::take(&mut state.waiting))
            };
            let committed = match next.is_empty() {
                true => Ok(()),
                false => self.commit(identity, &next).await.map_err(|error| refusal(&error)),
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

    async fn commit(&self, identity: Identity, next: &BTreeMap<u32, u64>) -> Result<(), CallError> {
        let partition = |(partition, next): (&u32, &u64)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*partition as i32)
                .with_committed_offset(*next as i64)
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(self.name())
            .with_partitions(next.iter().map(partition).collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id_or_member_epoch(identity.generation)
            .with_member_id(StrBytes::from_string(identity.member_id))
            .with_topics(vec![topic]);
        let response = self.coordinator.call(&request, OFFSET_COMMIT, first_error).await?;
        CallError::check(first_error(&response))
    }
}

fn first_error(response: &OffsetCommitResponse) -> i16 {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.error_code).find(|code| *code != 0).unwrap_or(0)
}

fn refusal(error: &CallError) -> ReceiveError {
    let class = match error {
        CallError::Refused(code, _) => class_of(*code),
        CallError::Timeout(_) => FailureClass::Timeout,
        CallError::Authorisation(_) => FailureClass::Authorisation,
        _ => FailureClass::ConnectionLost,
    };
    ReceiveError { class, message: format!("offsets were not committed: {error}") }
}
