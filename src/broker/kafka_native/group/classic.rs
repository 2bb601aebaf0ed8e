//! A member of a group that one of its members shares out: a task joins, beats, and joins again when the group is shared out again.
//!
//! Source: Kafka's classic group protocol (`JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`), as its `AbstractCoordinator` and
//! `ConsumerCoordinator` have it; KIP-345 for static members, KIP-429 for those that keep partitions while they join again.

use std::collections::BTreeSet;
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
use tokio::time::{Instant, sleep, timeout_at};

use super::super::error::{
    CallError, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
};
use super::super::net::cluster::Coordinator;
use super::assignors::{self, Members, Partitions, Strategy, Subscription};
use super::committed::MemberIdentity;
use super::membership::{AssignmentMailbox, MemberConfig, NO_HEARTBEAT, PATIENCE, REBALANCE, Revocation, milliseconds};
use crate::net::backoff::Backoff;

/// The newest versions of requests that are used here. Later ones encode lengths in another way.
const JOIN_GROUP: i16 = 5;
const SYNC_GROUP: i16 = 3;
const HEARTBEAT: i16 = 3;
const LEAVE_GROUP: i16 = 2;

/// Members that keep partitions while they join again leave some without a member in between.
const SETTLED: Duration = Duration::from_secs(1);

const MEMBER_ID_REQUIRED: i16 = 79;

/// Words for a join that takes long.
const NOT_JOINED: &str =
    "its coordinator has not answered a member that joins: it waits for other members, or answers nothing";

/// A member of a classic group.
pub struct Classic {
    config: MemberConfig,
    /// Strategies that it offers, best first.
    strategies: Vec<Strategy>,
    session_timeout: Duration,
    /// Connection for joining, which takes as long as the slowest member.
    joining: Coordinator,
    coordinator: Coordinator,
    mailbox: Arc<AssignmentMailbox>,
    member_id: Mutex<String>,
}

/// What the member reads, and keeps while it joins again.
#[derive(Debug, Default)]
struct OwnedPartitions {
    partitions: BTreeSet<u32>,
    /// Generation in which it got them.
    generation: i32,
}

struct Joined {
    identity: MemberIdentity,
    partitions: BTreeSet<u32>,
}

/// Why a member must join again.
enum MembershipEnd {
    /// The group is shared out again.
    Rebalance,
    /// The group has gone on without this member, whose partitions others may have.
    Lost,
    /// It may not join again.
    Refused(CallError),
}

impl Classic {
    /// A member that has sent nothing yet. After `session_timeout` without a sign of life, others get its partitions.
    pub fn new(
        config: MemberConfig,
        strategies: Vec<Strategy>,
        session_timeout: Duration,
        mailbox: Arc<AssignmentMailbox>,
    ) -> Self {
        let timeout = REBALANCE + config.timeout;
        Classic {
            joining: Coordinator::new(config.cluster.clone(), &config.group, timeout),
            coordinator: config.coordinator(),
            config,
            strategies,
            session_timeout,
            mailbox,
            member_id: Mutex::default(),
        }
    }

    /// Takes part in the group until the task is aborted, or the group refuses the member for good.
    pub async fn run(self: Arc<Self>) {
        let mut owned = OwnedPartitions::default();
        let mut backoff = Backoff::RECEIVE;
        loop {
            let joined = self.join(&owned).await;
            match &joined {
                Ok(_) => backoff.succeeded(),
                Err(_) => _ = backoff.failed(),
            }
            let ended = match joined {
                Ok(joined) => self.take_part(joined, &mut owned).await,
                Err(CallError::Refused(REBALANCE_IN_PROGRESS | MEMBER_ID_REQUIRED, _)) => MembershipEnd::Rebalance,
                Err(CallError::Refused(UNKNOWN_MEMBER_ID, _)) => self.forgotten(),
                Err(CallError::Refused(ILLEGAL_GENERATION, _)) => MembershipEnd::Lost,
                Err(error @ (CallError::Refused(FENCED_INSTANCE_ID, _) | CallError::Unsupported(_))) => {
                    MembershipEnd::Refused(error)
                }
                Err(error) => {
                    self.mailbox.fail(error);
                    MembershipEnd::Rebalance
                }
            };
            match ended {
                MembershipEnd::Rebalance => {}
                MembershipEnd::Lost => self.lose(&mut owned).await,
                MembershipEnd::Refused(error) => {
                    self.mailbox.fail(self.explain(error));
                    return self.lose(&mut owned).await;
                }
            }
            // A coordinator that refuses the member may refuse it again at once.
            backoff.wait().await;
        }
    }

    /// Joins, and shares the partitions out if this member is the leader.
    async fn join(&self, owned: &OwnedPartitions) -> Result<Joined, CallError> {
        let member_id = self.member_id.lock().clone();
        let metadata = self.subscription(owned).encode(self.keeps_partitions())?;
        let protocol = |strategy: &Strategy| {
            let name = StrBytes::from_static_str(strategy.name());
            JoinGroupRequestProtocol::default().with_name(name).with_metadata(metadata.clone())
        };
        let request = JoinGroupRequest::default()
            .with_group_id(self.joining.group())
            .with_session_timeout_ms(milliseconds(self.session_timeout))
            .with_rebalance_timeout_ms(milliseconds(REBALANCE))
            .with_member_id(StrBytes::from_string(member_id))
            .with_group_instance_id(self.config.instance_id())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(self.strategies.iter().map(protocol).collect());
        // At least as long as Kafka waits for the first members of a group, which is 3 s.
        let patience = self.session_timeout.min(PATIENCE);
        let joined = self.joining.call(&request, JOIN_GROUP, |response| response.error_code);
        let joined = self.mailbox.awaited(patience, NOT_JOINED, joined).await?;
        if joined.error_code == 0 || joined.error_code == MEMBER_ID_REQUIRED {
            *self.member_id.lock() = joined.member_id.to_string();
        }
        CallError::check(joined.error_code)?;
        let shares = if joined.leader == joined.member_id { self.share_out(&joined).await? } else { Vec::new() };
        let request = SyncGroupRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_group_instance_id(self.config.instance_id())
            .with_assignments(shares);
        let synced = self.joining.call(&request, SYNC_GROUP, |response| response.error_code);
        let synced = self.mailbox.awaited(patience, NOT_JOINED, synced).await?;
        CallError::check(synced.error_code)?;
        let member_id = joined.member_id.to_string();
        let identity = MemberIdentity { generation: joined.generation_id, member_id, is_epoch: false };
        let partitions = assignors::partitions(synced.assignment, &self.config.topic)?;
        Ok(Joined { identity, partitions: partitions.into_iter().collect() })
    }

    /// What the member says of itself.
    fn subscription(&self, owned: &OwnedPartitions) -> Subscription {
        let alone = Subscription::new(&self.config.topic);
        if owned.partitions.is_empty() {
            return alone;
        }
        let numbers = owned.partitions.iter().map(|partition| *partition as i32).collect();
        let by_topic = [(self.config.topic.clone(), numbers)].into();
        Subscription { owned: by_topic, generation: owned.generation, ..alone }
    }

    fn keeps_partitions(&self) -> bool {
        self.strategies.contains(&Strategy::CooperativeSticky)
    }

    async fn share_out(&self, joined: &JoinGroupResponse) -> Result<Vec<SyncGroupRequestAssignment>, CallError> {
        let chosen = joined.protocol_name.as_ref().and_then(|name| Strategy::by_name(name.as_str()));
        let strategy = chosen.ok_or_else(|| CallError::Malformed("the group chose a strategy of others".to_owned()))?;
        let mut members = Members::new();
        for member in &joined.members {
            members.insert(member.member_id.to_string(), Subscription::decode(member.metadata.clone())?);
        }
        let topics: Vec<&str> = members.values().flat_map(|member| &member.topics).map(String::as_str).collect();
        let metadata = self.config.cluster.metadata(&topics).await?;
        let partitions = metadata.topics.iter().map(|(topic, found)| (topic.clone(), found.leaders.len())).collect();
        let share = |(member, share): (String, Partitions)| {
            let assignment: Bytes = assignors::assignment(&share)?;
            Ok(SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member))
                .with_assignment(assignment))
        };
        strategy.share(&members, &partitions).into_iter().map(share).collect()
    }

    /// Has what the group has assigned, until the member must join again.
    async fn take_part(&self, Joined { identity, partitions }: Joined, owned: &mut OwnedPartitions) -> MembershipEnd {
        self.config.identify(identity.clone());
        self.config.hold(identity.generation, &partitions, SETTLED);
        if !self.keeps_partitions() {
            self.mailbox.assign(partitions);
            let ended = self.beat(&identity).await;
            // Also if it is lost: what the consumer returns now is not returned again.
            self.get_back(&identity, Revocation::All, &ended).await;
            return ended;
        }
        let kept: BTreeSet<u32> = owned.partitions.intersection(&partitions).copied().collect();
        let is_less = kept.len() < owned.partitions.len();
        if is_less {
            self.get_back(&identity, Revocation::AllBut(kept), &MembershipEnd::Rebalance).await;
        }
        *owned = OwnedPartitions { partitions: partitions.clone(), generation: identity.generation };
        self.mailbox.assign(partitions);
        // The members to which the returned partitions go get them when this one joins again.
        if is_less { MembershipEnd::Rebalance } else { self.beat(&identity).await }
    }

    /// Says that the member is alive, until the group is shared out again or has lost it.
    async fn beat(&self, identity: &MemberIdentity) -> MembershipEnd {
        let mut session_end = Instant::now() + self.session_timeout;
        loop {
            sleep(self.pause()).await;
            let sent = Instant::now();
            let answer = self.mailbox.awaited(3 * self.pause(), NO_HEARTBEAT, self.heartbeat(identity));
            // A request may wait for its answer for longer than a session.
            match timeout_at(session_end, answer).await {
                Ok(Ok(0)) => session_end = sent + self.session_timeout,
                Ok(Ok(REBALANCE_IN_PROGRESS)) => return MembershipEnd::Rebalance,
                Ok(Ok(UNKNOWN_MEMBER_ID)) => return self.forgotten(),
                Ok(Ok(ILLEGAL_GENERATION)) => return MembershipEnd::Lost,
                Ok(Ok(code @ FENCED_INSTANCE_ID)) => return MembershipEnd::Refused(CallError::Refused(code, None)),
                // The coordinator may be found again before the session ends.
                Ok(_) => {}
                Err(_) => return MembershipEnd::Lost,
            }
        }
    }

    /// The group does not know the member by its name.
    fn forgotten(&self) -> MembershipEnd {
        self.member_id.lock().clear();
        MembershipEnd::Lost
    }

    /// Requests partitions back from the consumer, and waits until it has returned them.
    async fn get_back(&self, identity: &MemberIdentity, revocation: Revocation, ended: &MembershipEnd) {
        self.mailbox.request_back(revocation);
        loop {
            tokio::select! {
                () = self.mailbox.returned() => return,
                () = sleep(self.pause()) => {
                    // The group waits for members that are alive.
                    if matches!(ended, MembershipEnd::Rebalance) {
                        let _ = self.heartbeat(identity).await;
                    }
                }
            }
        }
    }

    /// Others may have what the member has kept.
    async fn lose(&self, owned: &mut OwnedPartitions) {
        if !std::mem::take(owned).partitions.is_empty() {
            self.mailbox.request_back(Revocation::All);
            self.mailbox.returned().await;
        }
    }

    async fn heartbeat(&self, identity: &MemberIdentity) -> Result<i16, CallError> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id(identity.generation)
            .with_member_id(StrBytes::from_string(identity.member_id.clone()))
            .with_group_instance_id(self.config.instance_id());
        Ok(self.coordinator.call(&request, HEARTBEAT, |response| response.error_code).await?.error_code)
    }

    /// Leaves the group, so that its partitions go to others at once. A static member stays until its session ends, so that it finds its
    /// place again.
    ///
    /// # Errors
    /// When the coordinator does not answer, or refuses.
    pub async fn leave(&self) -> Result<(), CallError> {
        self.config.shares.leave(self.config.member);
        let member_id = self.member_id.lock().clone();
        if member_id.is_empty() || self.config.instance_id.is_some() {
            return Ok(());
        }
        let request = LeaveGroupRequest::default()
            .with_group_id(self.coordinator.group())
            .with_member_id(StrBytes::from_string(member_id));
        let left = self.coordinator.call(&request, LEAVE_GROUP, |response| response.error_code).await?;
        CallError::check(left.error_code)
    }

    /// Says what to do where the group refuses a static member.
    fn explain(&self, error: CallError) -> CallError {
        match (error, &self.config.instance_id) {
            (error, None) => error,
            (CallError::Unsupported(reason), Some(_)) => CallError::Unsupported(format!(
                "static members need Kafka 2.3 or newer: remove `static_members` ({reason})"
            )),
            (error, Some(_)) => self.config.explain(error),
        }
    }

    /// Between heartbeats: 3 s with the usual session of 45 s.
    fn pause(&self) -> Duration {
        self.session_timeout / 15
    }
}
