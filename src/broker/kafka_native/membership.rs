//! A member of a group whose members share partitions: a task joins, beats, and joins again when the group is shared out anew.
//!
//! Source: Kafka's classic group protocol (`JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`), as its `AbstractCoordinator` has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::assignor::{self, Strategy};
use super::cluster::Cluster;
use super::committed::Identity;
use super::coordinator::Coordinator;
use super::error::CallError;
use crate::net::backoff::Backoff;

/// The newest versions of requests that are used here. Later ones encode lengths in another way.
const JOIN_GROUP: i16 = 5;
const SYNC_GROUP: i16 = 3;
const HEARTBEAT: i16 = 3;
const LEAVE_GROUP: i16 = 2;

/// How long members may take to return their partitions: `max.poll.interval.ms` of both librdkafka and Kafka's own client.
const REBALANCE: Duration = Duration::from_secs(300);

/// How long leaving may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Codes of the protocol.
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

/// A member of a group.
pub struct Member {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// What the group has assigned to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub identity: Identity,
    pub partitions: Vec<u32>,
}

struct Shared {
    /// For joining, which takes as long as the slowest member.
    joining: Coordinator,
    coordinator: Coordinator,
    cluster: Arc<Cluster>,
    topic: String,
    session_timeout: Duration,
    state: Mutex<State>,
    /// Wakes the consumer.
    changed: Notify,
    /// Wakes the task: the consumer has returned its partitions.
    returned: Notify,
}

#[derive(Default)]
struct State {
    /// Until the consumer takes it.
    assignment: Option<Assignment>,
    is_revocation_requested: bool,
    error: Option<CallError>,
    member_id: String,
}

/// Why a member must join again.
enum Ended {
    /// The group is shared out anew, when all members have returned their partitions.
    Rebalance,
    /// The group has gone on without this member, whose partitions others may have.
    Lost,
}

impl Member {
    /// Begins to join `group`.
    pub fn join(
        cluster: Arc<Cluster>,
        group: &str,
        topic: &str,
        session_timeout: Duration,
        request_timeout: Duration,
    ) -> Self {
        let shared = Arc::new(Shared {
            joining: Coordinator::new(cluster.clone(), group, REBALANCE + request_timeout),
            coordinator: Coordinator::new(cluster.clone(), group, request_timeout),
            cluster,
            topic: topic.to_owned(),
            session_timeout,
            state: Mutex::default(),
            changed: Notify::new(),
            returned: Notify::new(),
        });
        let task = tokio::spawn(shared.clone().run()).abort_handle();
        Member { shared, task }
    }

    /// Waits until the group has assigned something, or requests it back.
    pub async fn changed(&self) {
        loop {
            // Created before the look, so that a notification in between is not missed.
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.state.lock();
                if state.assignment.is_some() || state.is_revocation_requested || state.error.is_some() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// What the group has assigned since the last call.
    pub fn take_assignment(&self) -> Option<Assignment> {
        self.shared.state.lock().assignment.take()
    }

    /// Why the member could not join at its last attempt.
    pub fn take_error(&self) -> Option<CallError> {
        self.shared.state.lock().error.take()
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.shared.state.lock().is_revocation_requested
    }

    /// The partitions are returned: nothing more is taken from them.
    pub fn return_partitions(&self) {
        let mut state = self.shared.state.lock();
        state.is_revocation_requested = false;
        // It was not taken before it was requested back.
        state.assignment = None;
        drop(state);
        self.shared.returned.notify_one();
    }

    /// Leaves the group, so that its partitions go to others at once.
    pub async fn leave(self) {
        self.task.abort();
        let member_id = self.shared.state.lock().member_id.clone();
        if !member_id.is_empty() {
            let _ = timeout(LEAVE_WITHIN, self.shared.leave(&member_id)).await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Until the task is aborted.
    async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::RECEIVE;
        loop {
            match self.join().await {
                Ok(assignment) => {
                    backoff.succeeded();
                    let identity = assignment.identity.clone();
                    self.state.lock().assignment = Some(assignment);
                    self.changed.notify_one();
                    let ended = self.beat(&identity).await;
                    self.get_back(&identity, ended).await;
                }
                Err(CallError::Refused(REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | MEMBER_ID_REQUIRED, _)) => {}
                Err(CallError::Refused(UNKNOWN_MEMBER_ID, _)) => self.state.lock().member_id.clear(),
                Err(error) => {
                    self.state.lock().error = Some(error);
                    self.changed.notify_one();
                    backoff.pause().await;
                }
            }
        }
    }

    /// Joins, and shares the partitions out if this member is the leader.
    async fn join(&self) -> Result<Assignment, CallError> {
        let member_id = self.state.lock().member_id.clone();
        let metadata = assignor::subscription(&self.topic)?;
        let protocol = |strategy: Strategy| {
            let name = StrBytes::from_static_str(strategy.name());
            JoinGroupRequestProtocol::default().with_name(name).with_metadata(metadata.clone())
        };
        let request = JoinGroupRequest::default()
            .with_group_id(self.joining.group())
            .with_session_timeout_ms(milliseconds(self.session_timeout))
            .with_rebalance_timeout_ms(milliseconds(REBALANCE))
            .with_member_id(StrBytes::from_string(member_id))
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(Strategy::OFFERED.map(protocol).into());
        let joined = self.joining.call(&request, JOIN_GROUP, |response| response.error_code).await?;
        if joined.error_code == 0 || joined.error_code == MEMBER_ID_REQUIRED {
            self.state.lock().member_id = joined.member_id.to_string();
        }
        CallError::check(joined.error_code)?;
        let shares = if joined.leader == joined.member_id { self.share_out(&joined).await? } else { Vec::new() };
        let request = SyncGroupRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_assignments(shares);
        let synced = self.joining.call(&request, SYNC_GROUP, |response| response.error_code).await?;
        CallError::check(synced.error_code)?;
        let identity = Identity { generation: joined.generation_id, member_id: joined.member_id.to_string() };
        Ok(Assignment { identity, partitions: assignor::partitions(synced.assignment, &self.topic)? })
    }

    async fn share_out(&self, joined: &JoinGroupResponse) -> Result<Vec<SyncGroupRequestAssignment>, CallError> {
        let chosen = joined.protocol_name.as_ref().and_then(|name| Strategy::by_name(name.as_str()));
        let strategy = chosen.ok_or_else(|| CallError::Malformed("the group chose a strategy of others".to_owned()))?;
        let mut members = BTreeMap::new();
        for member in &joined.members {
            members.insert(member.member_id.to_string(), assignor::topics(member.metadata.clone())?);
        }
        let topics: Vec<&str> = members.values().flatten().map(String::as_str).collect();
        let metadata = self.cluster.metadata(&topics).await?;
        let partitions = metadata.topics.iter().map(|(topic, found)| (topic.clone(), found.leaders.len())).collect();
        let share = |(member, share): (String, BTreeMap<String, Vec<i32>>)| {
            let assignment: Bytes = assignor::assignment(&share)?;
            Ok(SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member))
                .with_assignment(assignment))
        };
        strategy.share(&members, &partitions).into_iter().map(share).collect()
    }

    /// Says that the member is alive, until the group is shared out anew or has lost it.
    async fn beat(&self, identity: &Identity) -> Ended {
        let mut silent = Duration::ZERO;
        loop {
            sleep(self.pause()).await;
            match self.heartbeat(identity).await {
                Ok(0) => silent = Duration::ZERO,
                Ok(REBALANCE_IN_PROGRESS) => return Ended::Rebalance,
                Ok(UNKNOWN_MEMBER_ID) => {
                    self.state.lock().member_id.clear();
                    return Ended::Lost;
                }
                Ok(ILLEGAL_GENERATION) => return Ended::Lost,
                // The coordinator may be found again before the session ends.
                Ok(_) | Err(_) => {
                    silent += self.pause();
                    if silent >= self.session_timeout {
                        return Ended::Lost;
                    }
                }
            }
        }
    }

    /// Requests the partitions back from the consumer, and waits until it has returned them.
    async fn get_back(&self, identity: &Identity, ended: Ended) {
        self.state.lock().is_revocation_requested = true;
        self.changed.notify_one();
        loop {
            tokio::select! {
                () = self.returned.notified() => return,
                () = sleep(self.pause()) => {
                    // The group waits for members that are alive.
                    if matches!(ended, Ended::Rebalance) {
                        let _ = self.heartbeat(identity).await;
                    }
                }
            }
        }
    }

    async fn heartbeat(&self, identity: &Identity) -> Result<i16, CallError> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id(identity.generation)
            .with_member_id(StrBytes::from_string(identity.member_id.clone()));
        Ok(self.coordinator.call(&request, HEARTBEAT, |response| response.error_code).await?.error_code)
    }

    async fn leave(&self, member_id: &str) -> Result<(), CallError> {
        let request = LeaveGroupRequest::default()
            .with_group_id(self.coordinator.group())
            .with_member_id(StrBytes::from_string(member_id.to_owned()));
        let left = self.coordinator.call(&request, LEAVE_GROUP, |response| response.error_code).await?;
        CallError::check(left.error_code)
    }

    /// Between heartbeats: 3 s with the usual session of 45 s.
    fn pause(&self) -> Duration {
        self.session_timeout / 15
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
