//! A member of a share group: a task tells the coordinator that it lives, and hears which partitions it may read.
//!
//! Source: KIP-932; Kafka's `ShareGroupHeartbeatRequest.json` and `ShareMembershipManager`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{GroupId, ShareGroupHeartbeatRequest};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::super::error::{
    CallError, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, is_retriable,
};
use super::super::group::membership::AssignmentMailbox;
use super::super::net::admin::Admin;
use super::super::net::cluster::{Coordinator, name_of};
use crate::net::backoff::Backoff;

/// The version of Kafka 4.1 and newer.
const HEARTBEAT: i16 = 1;

/// Epochs that say what a member wants.
const JOIN: i32 = 0;
const LEAVE: i32 = -1;

/// Who a member is.
pub struct ShareIdentity {
    pub admin: Arc<Admin>,
    pub group: String,
    pub topic: String,
    pub member_id: String,
}

impl ShareIdentity {
    pub fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.group.clone()))
    }

    pub fn member_id(&self) -> StrBytes {
        StrBytes::from_string(self.member_id.clone())
    }
}

/// A member, as its group's coordinator knows it.
pub struct ShareMember {
    identity: Arc<ShareIdentity>,
    coordinator: Coordinator,
    mailbox: Arc<AssignmentMailbox>,
    epoch: Mutex<i32>,
}

impl ShareMember {
    /// A member that has sent nothing yet.
    pub fn new(identity: Arc<ShareIdentity>, mailbox: Arc<AssignmentMailbox>) -> Self {
        let Admin { cluster, timeout, .. } = &*identity.admin;
        let coordinator = Coordinator::new(cluster.clone(), &identity.group, *timeout);
        ShareMember { coordinator, identity, mailbox, epoch: Mutex::new(JOIN) }
    }

    /// Takes part in the group until the task is aborted, or the broker has no share groups.
    pub async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::RECEIVE;
        loop {
            match self.beat().await {
                Ok(pause) => {
                    backoff.succeeded();
                    self.mailbox.answered();
                    sleep(pause).await;
                    continue;
                }
                // The group has gone on without the member, which keeps what it was delivered: sessions have an end of their own.
                Err(error) if self.is_forgotten(&error) => *self.epoch.lock() = JOIN,
                Err(error @ (CallError::Unsupported(_) | CallError::Refused(UNSUPPORTED_VERSION, _))) => {
                    return self.mailbox.fail(no_share_groups(&error));
                }
                Err(CallError::Refused(code, _)) if is_retriable(code) => {}
                Err(error) => self.mailbox.fail(error),
            }
            backoff.pause().await;
        }
    }

    /// Tells the coordinator that the member lives. Returns how long it may wait for the next time.
    async fn beat(&self) -> Result<Duration, CallError> {
        let epoch = *self.epoch.lock();
        let topics = (epoch == JOIN).then(|| vec![name_of(&self.identity.topic)]);
        let response = self.call(&self.request(epoch).with_subscribed_topic_names(topics)).await?;
        *self.epoch.lock() = response.member_epoch;
        if let Some(assignment) = &response.assignment {
            let partitions = assignment.topic_partitions.iter().flat_map(|topic| &topic.partitions);
            self.mailbox.assign(partitions.map(|partition| *partition as u32).collect::<BTreeSet<u32>>());
        }
        Ok(Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(1)))
    }

    fn request(&self, epoch: i32) -> ShareGroupHeartbeatRequest {
        ShareGroupHeartbeatRequest::default()
            .with_group_id(self.identity.group_id())
            .with_member_id(self.identity.member_id())
            .with_member_epoch(epoch)
    }

    async fn call(
        &self,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<kafka_protocol::messages::ShareGroupHeartbeatResponse, CallError> {
        let response = self.coordinator.call(request, HEARTBEAT, |response| response.error_code).await?;
        CallError::check_told(response.error_code, response.error_message.as_ref()).map(|()| response)
    }

    /// Whether it may join again.
    fn is_forgotten(&self, error: &CallError) -> bool {
        match error {
            CallError::Refused(UNKNOWN_MEMBER_ID | FENCED_MEMBER_EPOCH, _) => true,
            CallError::Refused(GROUP_ID_NOT_FOUND, _) => *self.epoch.lock() != JOIN,
            _ => false,
        }
    }

    /// Leaves the group.
    ///
    /// # Errors
    /// When the coordinator does not answer, or refuses.
    pub async fn leave(&self) -> Result<(), CallError> {
        self.call(&self.request(LEAVE)).await.map(drop)
    }
}

fn no_share_groups(error: &CallError) -> CallError {
    CallError::Unsupported(format!(
        "the broker does not have share groups (KIP-932, request ShareGroupHeartbeat), which come with Kafka 4.2, and with the feature \
         `share.version` = 1: remove `broker.kafka.share_group`, or update the broker ({error})"
    ))
}
