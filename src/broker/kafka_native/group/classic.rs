//! A member of a group that one of its members shares out: a task joins, beats, and joins again when the group is shared out anew.
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
use tokio::time::sleep;

use super::super::error::{
    CallError, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
};
use super::super::net::coordinator::Coordinator;
use super::assignors::Strategy;
use super::committed::Identity;
use super::enrolment::{Enrolment, REBALANCE, milliseconds};
use super::member_messages::{self, Members, Partitions, Subscription};
use super::place::{Place, Revocation};
use crate::net::backoff::Backoff;

/// The newest versions of requests that are used here. Later ones encode lengths in another way.
const JOIN_GROUP: i16 = 5;
const SYNC_GROUP: i16 = 3;
const HEARTBEAT: i16 = 3;
const LEAVE_GROUP: i16 = 2;

const MEMBER_ID_REQUIRED: i16 = 79;

/// A member of a classic group.
pub struct Classic {
    enrolment: Enrolment,
    /// That it offers, best first.
    strategies: Vec<Strategy>,
    session_timeout: Duration,
    /// For joining, which takes as long as the slowest member.
    joining: Coordinator,
    coordinator: Coordinator,
    place: Arc<Place>,
    member_id: Mutex<String>,
}

/// What the member reads, and keeps while it joins again.
#[derive(Debug, Default)]
struct Held {
    partitions: BTreeSet<u32>,
    /// In which it got them.
    generation: i32,
}

struct Joined {
    identity: Identity,
    partitions: BTreeSet<u32>,
}

/// Why a member must join again.
enum Ended {
    /// The group is shared out anew.
    Rebalance,
    /// The group has gone on without this member, whose partitions others may have.
    Lost,
    /// It may not join again.
    Refused(CallError),
}

impl Classic {
    /// With nothing sent yet. After `session_timeout` without a sign of life, others get its partitions.
    pub fn new(enrolment: Enrolment, strategies: Vec<Strategy>, session_timeout: Duration, place: Arc<Place>) -> Self {
        let timeout = REBALANCE + enrolment.timeout;
        Classic {
            joining: Coordinator::new(enrolment.cluster.clone(), &enrolment.group, timeout),
            coordinator: enrolment.coordinator(),
            enrolment,
            strategies,
            session_timeout,
            place,
            member_id: Mutex::default(),
        }
    }

    /// Takes part in the group until the task is aborted, or the group refuses the member for good.
    pub async fn run(self: Arc<Self>) {
        let mut held = Held::default();
        let mut backoff = Backoff::RECEIVE;
        loop {
            let ended = match self.join(&held).await {
                Ok(joined) => {
                    backoff.succeeded();
                    self.take_part(joined, &mut held).await
                }
                Err(CallError::Refused(REBALANCE_IN_PROGRESS | MEMBER_ID_REQUIRED, _)) => Ended::Rebalance,
                Err(CallError::Refused(UNKNOWN_MEMBER_ID, _)) => self.forgotten(),
                Err(CallError::Refused(ILLEGAL_GENERATION, _)) => Ended::Lost,
                Err(error @ (CallError::Refused(FENCED_INSTANCE_ID, _) | CallError::Unsupported(_))) => {
                    Ended::Refused(error)
                }
                Err(error) => {
                    self.place.fail(error);
                    backoff.pause().await;
                    Ended::Rebalance
                }
            };
            match ended {
                Ended::Rebalance => {}
                Ended::Lost => self.lose(&mut held).await,
                Ended::Refused(error) => {
                    self.place.fail(self.explain(error));
                    return self.lose(&mut held).await;
                }
            }
        }
    }

    /// Joins, and shares the partitions out if this member is the leader.
    async fn join(&self, held: &Held) -> Result<Joined, CallError> {
        let member_id = self.member_id.lock().clone();
        let metadata = self.subscription(held).encode(self.keeps_partitions())?;
        let protocol = |strategy: &Strategy| {
            let name = StrBytes::from_static_str(strategy.name());
            JoinGroupRequestProtocol::default().with_name(name).with_metadata(metadata.clone())
        };
        let request = JoinGroupRequest::default()
            .with_group_id(self.joining.group())
            .with_session_timeout_ms(milliseconds(self.session_timeout))
            .with_rebalance_timeout_ms(milliseconds(REBALANCE))
            .with_member_id(StrBytes::from_string(member_id))
            .with_group_instance_id(self.enrolment.instance_id())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(self.strategies.iter().map(protocol).collect());
        let joined = self.joining.call(&request, JOIN_GROUP, |response| response.error_code).await?;
        if joined.error_code == 0 || joined.error_code == MEMBER_ID_REQUIRED {
            *self.member_id.lock() = joined.member_id.to_string();
        }
        CallError::check(joined.error_code)?;
        let shares = if joined.leader == joined.member_id { self.share_out(&joined).await? } else { Vec::new() };
        let request = SyncGroupRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_group_instance_id(self.enrolment.instance_id())
            .with_assignments(shares);
        let synced = self.joining.call(&request, SYNC_GROUP, |response| response.error_code).await?;
        CallError::check(synced.error_code)?;
        let identity = Identity::of_generation(joined.generation_id, joined.member_id.as_str());
        let partitions = member_messages::partitions(synced.assignment, &self.enrolment.topic)?;
        Ok(Joined { identity, partitions: partitions.into_iter().collect() })
    }

    /// What the member says of itself.
    fn subscription(&self, held: &Held) -> Subscription {
        let alone = Subscription::of(&self.enrolment.topic);
        if held.partitions.is_empty() {
            return alone;
        }
        let numbers = held.partitions.iter().map(|partition| *partition as i32).collect();
        let owned = [(self.enrolment.topic.clone(), numbers)].into();
        Subscription { owned, generation: held.generation, ..alone }
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
        let metadata = self.enrolment.cluster.metadata(&topics).await?;
        let partitions = metadata.topics.iter().map(|(topic, found)| (topic.clone(), found.leaders.len())).collect();
        let share = |(member, share): (String, Partitions)| {
            let assignment: Bytes = member_messages::assignment(&share)?;
            Ok(SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member))
                .with_assignment(assignment))
        };
        strategy.share(&members, &partitions).into_iter().map(share).collect()
    }

    /// Has what the group has assigned, until the member must join again.
    async fn take_part(&self, Joined { identity, partitions }: Joined, held: &mut Held) -> Ended {
        self.enrolment.identify(identity.clone());
        if !self.keeps_partitions() {
            self.place.assign(partitions);
            let ended = self.beat(&identity).await;
            // Also if it is lost: what the consumer returns now is not returned again.
            self.get_back(&identity, Revocation::All, &ended).await;
            return ended;
        }
        let kept: BTreeSet<u32> = held.partitions.intersection(&partitions).copied().collect();
        let is_less = kept.len() < held.partitions.len();
        if is_less {
            self.get_back(&identity, Revocation::AllBut(kept), &Ended::Rebalance).await;
        }
        *held = Held { partitions: partitions.clone(), generation: identity.generation };
        self.place.assign(partitions);
        // The members to which the returned partitions go get them when this one joins again.
        if is_less { Ended::Rebalance } else { self.beat(&identity).await }
    }

    /// Says that the member is alive, until the group is shared out anew or has lost it.
    async fn beat(&self, identity: &Identity) -> Ended {
        let mut silent = Duration::ZERO;
        loop {
            sleep(self.pause()).await;
            match self.heartbeat(identity).await {
                Ok(0) => silent = Duration::ZERO,
                Ok(REBALANCE_IN_PROGRESS) => return Ended::Rebalance,
                Ok(UNKNOWN_MEMBER_ID) => return self.forgotten(),
                Ok(ILLEGAL_GENERATION) => return Ended::Lost,
                Ok(code @ FENCED_INSTANCE_ID) => return Ended::Refused(CallError::Refused(code, None)),
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

    /// The group does not know the member by its name.
    fn forgotten(&self) -> Ended {
        self.member_id.lock().clear();
        Ended::Lost
    }

    /// Requests partitions back from the consumer, and waits until it has returned them.
    async fn get_back(&self, identity: &Identity, revocation: Revocation, ended: &Ended) {
        self.place.request_back(revocation);
        loop {
            tokio::select! {
                () = self.place.returned() => return,
                () = sleep(self.pause()) => {
                    // The group waits for members that are alive.
                    if matches!(ended, Ended::Rebalance) {
                        let _ = self.heartbeat(identity).await;
                    }
                }
            }
        }
    }

    /// Others may have what the member has kept.
    async fn lose(&self, held: &mut Held) {
        if !std::mem::take(held).partitions.is_empty() {
            self.place.request_back(Revocation::All);
            self.place.returned().await;
        }
    }

    async fn heartbeat(&self, identity: &Identity) -> Result<i16, CallError> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.coordinator.group())
            .with_generation_id(identity.generation)
            .with_member_id(StrBytes::from_string(identity.member_id.clone()))
            .with_group_instance_id(self.enrolment.instance_id());
        Ok(self.coordinator.call(&request, HEARTBEAT, |response| response.error_code).await?.error_code)
    }

    /// Leaves the group, so that its partitions go to others at once. A static member stays until its session ends, so that it finds its
    /// place again.
    ///
    /// # Errors
    /// When the coordinator does not answer, or refuses.
    pub async fn leave(&self) -> Result<(), CallError> {
        let member_id = self.member_id.lock().clone();
        if member_id.is_empty() || self.enrolment.instance_id.is_some() {
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
        match (error, &self.enrolment.instance_id) {
            (error, None) => error,
            (CallError::Unsupported(reason), Some(_)) => CallError::Unsupported(format!(
                "static members need Kafka 2.3 or newer: remove `static_members` ({reason})"
            )),
            (error, Some(_)) => self.enrolment.explain(error),
        }
    }

    /// Between heartbeats: 3 s with the usual session of 45 s.
    fn pause(&self) -> Duration {
        self.session_timeout / 15
    }
}
