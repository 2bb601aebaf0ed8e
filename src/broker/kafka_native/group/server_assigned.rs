//! A member of a group that the server shares out: a task tells what the member has, and hears what it is to have.
//!
//! Source: KIP-848 and KIP-1082; Kafka's `ConsumerGroupHeartbeatRequest.json`, `ConsumerHeartbeatRequestManager` and
//! `AbstractMembershipManager`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::consumer_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::super::error::{
    CallError, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, UNKNOWN_TOPIC,
    UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, UNSUPPORTED_VERSION, is_retriable,
};
use super::super::net::cluster::{Coordinator, name_of};
use super::committed::MemberIdentity;
use super::membership::{AssignmentMailbox, MemberConfig, NO_HEARTBEAT, PATIENCE, REBALANCE, Revocation, milliseconds};
use crate::net::backoff::Backoff;

/// Version 1 has the member's id made by the client.
const HEARTBEAT: i16 = 1;

/// Epochs that say what a member wants.
const JOIN: i32 = 0;
const LEAVE: i32 = -1;
const LEAVE_FOR_NOW: i32 = -2;

/// `INVALID_REQUEST`.
const INVALID_REQUEST: i16 = 42;

/// A member of a group of the type `consumer`.
pub struct ServerAssigned {
    config: MemberConfig,
    /// Name of the assignor; `None`: the server's choice.
    assignor: Option<String>,
    coordinator: Coordinator,
    mailbox: Arc<AssignmentMailbox>,
    identity: Mutex<MemberIdentity>,
}

/// What the member has, and what the server wants it to have.
#[derive(Debug, Default)]
struct AssignmentState {
    held: BTreeSet<u32>,
    target: BTreeSet<u32>,
    /// Partitions that the coordinator has heard of last; `None`: the member tells it everything.
    told: Option<BTreeSet<u32>>,
    /// Partitions that are left of `held` when the consumer has returned what it was asked for.
    kept: Option<BTreeSet<u32>>,
    /// Whether the consumer has heard of anything: that it has no partitions is news once.
    has_begun: bool,
    /// Id by which the server names the topic.
    topic: Option<Uuid>,
}

impl ServerAssigned {
    /// A member that has sent nothing yet.
    pub fn new(config: MemberConfig, assignor: Option<String>, mailbox: Arc<AssignmentMailbox>) -> Self {
        let member_id = format!("{:032x}", rand::random::<u128>());
        let identity = Mutex::new(MemberIdentity { generation: JOIN, member_id, is_epoch: true });
        ServerAssigned { coordinator: config.coordinator(), config, assignor, mailbox, identity }
    }

    /// Takes part in the group until the task is aborted, or the group refuses the member for good.
    pub async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::RECEIVE;
        loop {
            let begun = Instant::now();
            let ended = self.take_part().await;
            let is_fenced = self.is_fenced(&ended);
            if !is_fenced {
                self.mailbox.fail(self.explain(ended));
            }
            // Others may have its partitions by now, and it commits no more.
            let identity = {
                let mut identity = self.identity.lock();
                identity.generation = JOIN;
                identity.clone()
            };
            self.config.identify(identity);
            self.mailbox.request_back(Revocation::All);
            self.mailbox.returned().await;
            if !is_fenced {
                return;
            }
            // A group may let it in and refuse it again at once.
            backoff.lasted(begun.elapsed());
            backoff.pause().await;
        }
    }

    /// Joins, and has what the server assigns. Returns why that ended.
    async fn take_part(&self) -> CallError {
        let (mut state, mut backoff) = (AssignmentState::default(), Backoff::RECEIVE);
        let mut patience = PATIENCE;
        loop {
            let next = match self.mailbox.awaited(patience, NO_HEARTBEAT, self.beat(&mut state)).await {
                Ok(pause) => {
                    patience = (3 * pause).min(PATIENCE);
                    backoff.succeeded();
                    // Without an assignment, where nothing has changed. A request to return partitions lasts until the consumer has returned them.
                    if state.kept.is_none() {
                        self.mailbox.answered();
                    }
                    Instant::now() + pause
                }
                Err(error) if self.is_fenced(&error) || is_final(&error) => return error,
                Err(error) => {
                    // The coordinator may have heard it or not.
                    state.told = None;
                    // A node may not have heard of a new topic yet; and a member may wait for its coordinator to come back.
                    let may_pass = match &error {
                        CallError::Refused(code, _) => is_retriable(*code),
                        _ => self.is_member(),
                    };
                    if !may_pass {
                        self.mailbox.fail(error);
                    }
                    backoff.pause().await;
                    continue;
                }
            };
            loop {
                self.approach(&mut state);
                if state.has_news() {
                    break;
                }
                tokio::select! {
                    () = sleep_until(next) => break,
                    () = self.mailbox.returned(), if state.kept.is_some() => state.returned(),
                }
            }
        }
    }

    /// Tells the coordinator what it does not know, and hears what it says. Returns how long it may wait for the next time.
    async fn beat(&self, state: &mut AssignmentState) -> Result<Duration, CallError> {
        let topic = match state.topic {
            Some(topic) => topic,
            None => *state.topic.insert(self.topic_id().await?),
        };
        let request = self.request(state, topic);
        let response = self.call(&request).await?;
        if request.topic_partitions.is_some() {
            state.told = Some(state.held.clone());
        }
        let identity = {
            let mut identity = self.identity.lock();
            identity.generation = response.member_epoch;
            // A server of version 0 may give the member another id.
            if let Some(given) = response.member_id.as_ref().filter(|given| !given.is_empty()) {
                identity.member_id = given.to_string();
            }
            identity.clone()
        };
        self.config.identify(identity);
        if let Some(assignment) = &response.assignment {
            state.target = partitions(assignment, topic);
        }
        let pause = Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(0).max(1));
        // What one member returns, another one hears of with its next sign of life.
        self.config.hold(response.member_epoch, &state.target, 2 * pause);
        Ok(pause)
    }

    fn request(&self, state: &AssignmentState, topic: Uuid) -> ConsumerGroupHeartbeatRequest {
        let epoch = self.identity.lock().generation;
        let request = self.request_with(epoch);
        let held = || {
            let numbers = state.held.iter().map(|partition| *partition as i32).collect();
            let held = TopicPartitions::default().with_topic_id(topic).with_partitions(numbers);
            Some(if state.held.is_empty() { Vec::new() } else { vec![held] })
        };
        match &state.told {
            None => request
                .with_rebalance_timeout_ms(milliseconds(REBALANCE))
                .with_subscribed_topic_names(Some(vec![name_of(&self.config.topic)]))
                .with_server_assignor(self.assignor.clone().map(StrBytes::from_string))
                .with_topic_partitions(held()),
            Some(_) if state.has_news() => request.with_topic_partitions(held()),
            Some(_) => request,
        }
    }

    /// A request with only the member that sends it, and its epoch.
    fn request_with(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.coordinator.group())
            .with_member_id(StrBytes::from_string(self.identity.lock().member_id.clone()))
            .with_member_epoch(epoch)
            .with_instance_id(self.config.instance_id())
    }

    async fn call(&self, request: &ConsumerGroupHeartbeatRequest) -> Result<ConsumerGroupHeartbeatResponse, CallError> {
        let response = self.coordinator.call(request, HEARTBEAT, |response| response.error_code).await?;
        CallError::check_told(response.error_code, response.error_message.as_ref()).map(|()| response)
    }

    /// Whether the group has let it in.
    fn is_member(&self) -> bool {
        self.identity.lock().generation > JOIN
    }

    /// Whether the group has gone on without the member, or is gone, and the member may join again.
    fn is_fenced(&self, error: &CallError) -> bool {
        match error {
            CallError::Refused(FENCED_MEMBER_EPOCH | UNKNOWN_MEMBER_ID, _) => true,
            // Who joins hears this of a group that is of the other type.
            CallError::Refused(GROUP_ID_NOT_FOUND, _) => self.is_member(),
            _ => false,
        }
    }

    async fn topic_id(&self) -> Result<Uuid, CallError> {
        let topic = &self.config.topic;
        let metadata = self.config.cluster.metadata(&[topic]).await?;
        metadata
            .topics
            .get(topic)
            .map(|found| found.id)
            .ok_or(CallError::Refused(UNKNOWN_TOPIC, Some(format!("topic '{topic}'"))))
    }

    /// One step towards what the server wants: what goes is returned first, and what comes is read then.
    fn approach(&self, state: &mut AssignmentState) {
        if state.kept.is_some() || (state.has_begun && state.held == state.target) {
            return;
        }
        let kept: BTreeSet<u32> = state.held.intersection(&state.target).copied().collect();
        if kept.len() < state.held.len() {
            self.mailbox.request_back(Revocation::AllBut(kept.clone()));
            state.kept = Some(kept);
        } else {
            (state.held, state.has_begun) = (state.target.clone(), true);
            self.mailbox.assign(state.held.clone());
        }
    }

    /// Leaves the group, so that its partitions go to others at once; those of a static member stay its own until its session ends.
    ///
    /// # Errors
    /// When the coordinator does not answer, or refuses.
    pub async fn leave(&self) -> Result<(), CallError> {
        self.config.shares.leave(self.config.member);
        let epoch = if self.config.instance_id.is_some() { LEAVE_FOR_NOW } else { LEAVE };
        self.call(&self.request_with(epoch)).await.map(drop)
    }

    /// Says what to do where the group refuses the member.
    fn explain(&self, error: CallError) -> CallError {
        match error {
            CallError::Unsupported(_) | CallError::Refused(UNSUPPORTED_VERSION, _) => CallError::Unsupported(
                "the broker does not have the group protocol of KIP-848 (request ConsumerGroupHeartbeat), which comes with Kafka 4.0 and its \
                 feature `group.version` = 1: remove `\"group.protocol\" = \"consumer\"` from `consumers.properties`, or update the broker"
                    .to_owned(),
            ),
            error => self.config.explain(error),
        }
    }
}

impl AssignmentState {
    /// Whether the coordinator waits to hear what the member has now.
    fn has_news(&self) -> bool {
        self.kept.is_none() && self.told.as_ref() != Some(&self.held)
    }

    /// The consumer has returned what it was asked for.
    fn returned(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.held = kept;
        }
    }
}

/// Whether the group refuses the member for good.
fn is_final(error: &CallError) -> bool {
    match error {
        CallError::Unsupported(_) => true,
        CallError::Refused(code, _) => matches!(
            *code,
            FENCED_INSTANCE_ID | UNRELEASED_INSTANCE_ID | UNSUPPORTED_ASSIGNOR | UNSUPPORTED_VERSION | INVALID_REQUEST
        ),
        _ => false,
    }
}

/// A member's partitions of a topic.
fn partitions(assignment: &Assignment, topic: Uuid) -> BTreeSet<u32> {
    let own = assignment.topic_partitions.iter().filter(|one| one.topic_id == topic);
    own.flat_map(|one| &one.partitions).map(|partition| *partition as u32).collect()
}
