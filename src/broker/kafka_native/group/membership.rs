//! A member of a group whose members share partitions: who it is, and the mailbox between the task that speaks with the group, by either of Kafka's two
//! protocols, and the consumer that reads.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::consume::buffer::wait_until;
use super::super::error::{CallError, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID};
use super::super::net::cluster::{Cluster, Coordinator};
use super::committed::{Committed, MemberIdentity};
use crate::broker::kafka_shares::MemberShares;
use crate::measure::{ConditionKind, Subject};

/// How long members may take to return their partitions: `max.poll.interval.ms` of both librdkafka and Kafka's own client.
pub const REBALANCE: Duration = Duration::from_secs(300);

/// How long the group's coordinator may say nothing, at most, before that is told.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Words for a coordinator that says nothing to a heartbeat.
pub const NO_HEARTBEAT: &str =
    "its coordinator has not answered a heartbeat; the member keeps its partitions meanwhile";

/// What a member says of itself, in both protocols of groups.
pub struct MemberConfig {
    /// Its number among the members of the run, and what they have.
    pub member: usize,
    pub shares: Arc<MemberShares>,
    pub cluster: Arc<Cluster>,
    pub group: String,
    pub topic: String,
    /// Name of a static member (KIP-345), by which the group knows it after an absence.
    pub instance_id: Option<String>,
    /// Committed offsets of a group that commits.
    pub committed: Option<Arc<Committed>>,
    /// Time that a response may take.
    pub timeout: Duration,
}

impl MemberConfig {
    /// The group's coordinator, for requests that are answered at once.
    pub fn coordinator(&self) -> Coordinator {
        Coordinator::new(self.cluster.clone(), &self.group, self.timeout)
    }

    /// As requests have it.
    pub fn instance_id(&self) -> Option<StrBytes> {
        self.instance_id.clone().map(StrBytes::from_string)
    }

    /// From now on, what is committed is of this member.
    pub fn identify(&self, identity: MemberIdentity) {
        if let Some(committed) = &self.committed {
            committed.identify(identity);
        }
    }

    /// It has these partitions in that generation of the group, which may change for `settled` without another member having some.
    pub fn hold(&self, generation: i32, partitions: &BTreeSet<u32>, settled: Duration) {
        self.shares.hold(self.member, Some(generation), partitions, settled);
    }

    /// Names the static member whose place another one has.
    pub fn explain(&self, error: CallError) -> CallError {
        let (group, name) = (&self.group, self.instance_id.as_deref().unwrap_or_default());
        let explained = |code, reason| CallError::Refused(code, Some(reason));
        match error {
            CallError::Refused(code @ FENCED_INSTANCE_ID, _) => explained(
                code,
                format!(
                    "another client has joined the group '{group}' as its static member '{name}', and has its place now"
                ),
            ),
            CallError::Refused(code @ UNRELEASED_INSTANCE_ID, _) => explained(
                code,
                format!(
                    "the group '{group}' has a static member '{name}' already: end its client, or wait for its session's end"
                ),
            ),
            other => other,
        }
    }
}

/// As requests have it.
pub fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// What the group has assigned or requests back, between the task that speaks with it and the consumer that reads.
#[derive(Default)]
pub struct AssignmentMailbox {
    /// The group, as what can be held up.
    group: Option<Subject>,
    state: Mutex<MailboxState>,
    /// Signal for the consumer.
    changed: Notify,
    /// Signal for the task: the consumer has returned partitions.
    returned: Notify,
}

#[derive(Default)]
struct MailboxState {
    /// Partitions that the consumer has not taken yet.
    assigned: Option<BTreeSet<u32>>,
    /// Partitions that the consumer has not returned yet.
    requested: Option<Revocation>,
    error: Option<CallError>,
}

/// Which partitions a group requests back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revocation {
    /// All: the group decides again, or has lost the member.
    All,
    /// All but these, which the member goes on to read.
    AllBut(BTreeSet<u32>),
}

impl AssignmentMailbox {
    pub fn for_group(group: Subject) -> Self {
        AssignmentMailbox { group: Some(group), ..AssignmentMailbox::default() }
    }

    /// From now on, these are the member's partitions.
    pub fn assign(&self, partitions: BTreeSet<u32>) {
        self.answered();
        self.state.lock().assigned = Some(partitions);
        self.changed.notify_one();
    }

    /// The coordinator has answered the member: the condition of a refusal or of a wait ends.
    pub fn answered(&self) {
        self.group.as_ref().inspect(|group| group.end());
    }

    /// Reports why the member is not in the group.
    pub fn fail(&self, error: CallError) {
        if let (Some(group), Some(kind)) = (&self.group, error.condition()) {
            group.begin(kind, &error.to_string());
        }
        self.state.lock().error = Some(error);
        self.changed.notify_one();
    }

    /// Waits for an answer of the group's coordinator. After `patience`, the condition `unanswered` begins with these words and lasts until the
    /// answer, unless another condition holds the group up.
    pub async fn awaited<T>(
        &self,
        patience: Duration,
        words: &str,
        answer: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let (mut answer, since) = (pin!(answer), Instant::now());
        let answered = match timeout(patience, &mut answer).await {
            Ok(answered) => answered,
            Err(_) => {
                self.group.as_ref().inspect(|group| group.begin_only(ConditionKind::Unanswered, words, since));
                answer.await
            }
        };
        if !matches!(answered, Err(CallError::Lost(_) | CallError::Timeout(_))) {
            self.group.as_ref().inspect(|group| group.end_only(ConditionKind::Unanswered));
        }
        answered
    }

    /// Requests partitions back from the consumer.
    pub fn request_back(&self, revocation: Revocation) {
        if let Some(group) = &self.group {
            group.begin(ConditionKind::Rebalancing, "");
        }
        self.state.lock().requested = Some(revocation);
        self.changed.notify_one();
    }

    /// Waits until the consumer has returned what was requested.
    pub async fn returned(&self) {
        wait_until(&self.returned, || self.state.lock().requested.is_none()).await;
    }

    /// Waits until the group has assigned something, requests it back, or an error is to be reported.
    pub async fn changed(&self) {
        let has_changed = || {
            let state = self.state.lock();
            state.assigned.is_some() || state.requested.is_some() || state.error.is_some()
        };
        wait_until(&self.changed, has_changed).await;
    }

    /// What was assigned since the last call.
    pub fn take_assigned(&self) -> Option<BTreeSet<u32>> {
        self.state.lock().assigned.take()
    }

    /// Why the member was not in the group since the last call.
    pub fn take_error(&self) -> Option<CallError> {
        self.state.lock().error.take()
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.state.lock().requested.is_some()
    }

    /// The consumer takes nothing more from the partitions that were requested. Returns which these are.
    pub fn return_requested(&self) -> Option<Revocation> {
        let mut state = self.state.lock();
        let requested = state.requested.take()?;
        // It was not taken before it was requested back.
        state.assigned = None;
        drop(state);
        self.returned.notify_one();
        Some(requested)
    }
}

/// How long leaving may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A member of a group, by either protocol.
pub struct Member {
    pub mailbox: Arc<AssignmentMailbox>,
    task: AbortHandle,
    leaving: BoxFuture<'static, Result<(), CallError>>,
}

impl Member {
    /// Begins to take part. `leaving` leaves the group.
    pub fn begin(
        mailbox: Arc<AssignmentMailbox>,
        taking_part: impl Future<Output = ()> + Send + 'static,
        leaving: impl Future<Output = Result<(), CallError>> + Send + 'static,
    ) -> Self {
        Member { mailbox, task: tokio::spawn(taking_part).abort_handle(), leaving: leaving.boxed() }
    }

    /// Leaves the group.
    pub async fn leave(mut self) {
        self.task.abort();
        // A member that the group does not hear from is forgotten when its session ends.
        let _ = timeout(LEAVE_WITHIN, &mut self.leaving).await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A return that the task has not looked at yet does not count for the next request.
    #[tokio::test]
    async fn revocation_is_open_until_the_consumer_has_answered_it() {
        let mailbox = AssignmentMailbox::default();
        let kept = Revocation::AllBut([1].into());
        mailbox.assign([1, 2].into());
        mailbox.request_back(kept.clone());
        assert_eq!(mailbox.return_requested(), Some(kept));
        assert_eq!(mailbox.return_requested(), None);
        assert_eq!(mailbox.take_assigned(), None);
        mailbox.request_back(Revocation::All);
        assert!(mailbox.returned().now_or_never().is_none());
        assert_eq!(mailbox.return_requested(), Some(Revocation::All));
        mailbox.returned().await;
    }
}
