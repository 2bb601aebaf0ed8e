//! What a member of a share group has from the nodes that lead its partitions: a task for each fetches, and sends the member's answers.
//!
//! As with Kafka's own client, a node is asked for more when the member has answered what it had from there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::codec::shares::{Acquired, SharePartition, ShareResponse};
use super::super::consume::buffer::{Fetched, wait_until};
use super::super::consume::fetcher::failure;
use super::super::error::{CallError, UNKNOWN_TOPIC, describe, is_retriable};
use super::super::group::membership::AssignmentMailbox;
use super::super::net::connect::throttle_words;
use super::super::net::control::{ControlConnection, MAX_THROTTLE};
use super::answers::{Answer, Answers, GroupAnswers, Stretch, append};
use super::member::ShareIdentity;
use super::options::{Acknowledge, ShareGroupOptions};
use super::requests::{Exchange, ShareSession};
use super::step::{NodeState, Step};
use crate::broker::{FailureClass, ReceiveError};
use crate::measure::ConditionKind;
use crate::measure::host::tasks::watched;
use crate::net::backoff::Backoff;

/// `INVALID_RECORD_STATE`: a message is not the member's any more, because its lock has expired.
const NOT_HELD: i16 = 121;

/// Between a partition's failure and the look for its leader. The pause doubles while there is always one that has failed.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The member's side of its sessions with nodes.
pub struct ShareLink {
    pub identity: Arc<ShareIdentity>,
    options: ShareGroupOptions,
    pub group: Arc<GroupAnswers>,
    state: Mutex<LinkState>,
    /// Signal for the consumer: something has arrived.
    arrived: Notify,
    /// Signal for tasks: partitions or answers have changed.
    changed: Notify,
    /// Signal for the task that finds partitions' leaders, and for the consumer that closes: a task has ended.
    displaced: Notify,
    /// Signal for tasks: the time for the last answers is over.
    late: CancellationToken,
}

#[derive(Default)]
struct LinkState {
    /// By the nodes' ids. A task serves each.
    nodes: BTreeMap<i32, NodeState>,
    /// Partitions whose leader is not known, or whose last fetch has failed.
    displaced: BTreeSet<u32>,
    topic: Uuid,
    /// How many tasks were begun.
    sessions: u64,
    arrived: VecDeque<Delivered>,
    /// What the consumer is to be told, each once.
    errors: Vec<ReceiveError>,
    /// Whether a node has answered a fetch.
    has_begun: bool,
    is_closing: bool,
}

/// Where a delivery came from: answers go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    node: i32,
    session: u64,
}

/// Messages of a partition that were delivered together.
pub struct Delivered {
    pub origin: Origin,
    pub fetched: Fetched,
    /// The messages among them that are the member's, in their order.
    pub acquired: VecDeque<Acquired>,
}

impl ShareLink {
    pub fn new(identity: Arc<ShareIdentity>, options: ShareGroupOptions, group: Arc<GroupAnswers>) -> Self {
        let (state, arrived, changed, displaced, late) = Default::default();
        ShareLink { identity, options, group, state, arrived, changed, displaced, late }
    }

    /// Has the partitions that the group assigns fetched from their leaders. Never returns.
    pub async fn follow(self: Arc<Self>, mailbox: Arc<AssignmentMailbox>) {
        // They end with this task.
        let mut nodes = JoinSet::new();
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        let mut placed: Option<Instant> = None;
        loop {
            tokio::select! {
                () = mailbox.changed() => {
                    if let Some(error) = mailbox.take_error() {
                        self.fail(failure(&error));
                    }
                    if let Some(partitions) = mailbox.take_assigned() {
                        self.assign(&partitions);
                    }
                }
                () = wait_until(&self.displaced, || !self.state.lock().displaced.is_empty()) => {
                    match placed {
                        Some(placed) if placed.elapsed() < MAX_PAUSE => backoff.pause().await,
                        _ => backoff.succeeded(),
                    }
                    placed = Some(Instant::now());
                    if let Err(error) = self.place(&mut nodes).await {
                        self.report(&error);
                    }
                    while nodes.try_join_next().is_some() {}
                }
            }
        }
    }

    /// From now on, these are the member's partitions. It still answers for messages that it received from other partitions.
    fn assign(&self, partitions: &BTreeSet<u32>) {
        let mut state = self.state.lock();
        state.nodes.values_mut().for_each(|node| node.partitions.retain(|partition| partitions.contains(partition)));
        let placed: BTreeSet<u32> = state.nodes.values().flat_map(|node| &node.partitions).copied().collect();
        state.displaced = partitions.difference(&placed).copied().collect();
        drop(state);
        self.changed.notify_waiters();
        self.displaced.notify_waiters();
    }

    /// Gives displaced partitions to the nodes that lead them now.
    async fn place(self: &Arc<Self>, nodes: &mut JoinSet<()>) -> Result<(), CallError> {
        let topic = &self.identity.topic;
        let metadata = self.identity.admin.cluster.metadata(&[topic]).await?;
        let found = metadata.topics.get(topic).ok_or(CallError::Refused(UNKNOWN_TOPIC, None))?;
        let mut guard = self.state.lock();
        let LinkState { nodes: known, displaced, sessions, topic, is_closing, .. } = &mut *guard;
        if *is_closing {
            displaced.clear();
            return Ok(());
        }
        *topic = found.id;
        displaced.retain(|partition| {
            let leader = found.leaders.get(*partition as usize).copied().flatten();
            let Some((leader, address)) = leader.and_then(|id| Some((id, metadata.nodes.get(&id)?))) else {
                return true;
            };
            let of_node = known.entry(leader).or_insert_with(|| {
                *sessions += 1;
                nodes.spawn(watched("fetcher", 0, self.clone().serve(leader, address.clone())));
                NodeState { session: *sessions, partitions: BTreeSet::new(), answers: Answers::new(), held: 0 }
            });
            of_node.partitions.insert(*partition);
            false
        });
        drop(guard);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Serves one node while it leads partitions.
    async fn serve(self: Arc<Self>, node: i32, address: String) {
        let ended = tokio::select! {
            // First, so that what it is sending is accounted for.
            biased;
            ended = self.serve_while_placed(node, &address) => ended,
            () = self.late.cancelled() => Ok(()),
        };
        let mut state = self.state.lock();
        if let Some(NodeState { partitions, answers, .. }) = state.nodes.remove(&node) {
            // The node gives what is not answered to others when it misses the connection.
            self.group.unconfirmed(answers.values().flatten());
            state.displaced.extend(partitions);
        }
        drop(state);
        self.displaced.notify_waiters();
        if let Err(error) = ended {
            self.report(&error);
        }
    }

    /// Returns the error that ends the connection.
    async fn serve_while_placed(&self, node: i32, address: &str) -> Result<(), CallError> {
        let connector = &self.identity.admin.cluster.connector;
        let mut connection = connector.open(address).await?;
        let of_node = connector.node(address);
        let mut session = ShareSession::default();
        loop {
            let mut step = self.next_step(node).await;
            let is_expiring = connection.is_expiring();
            if is_expiring {
                // The node ends a session with its connection: what is answered is sent before.
                step = step.into_last();
            }
            let (answers, is_last) = match &step {
                Step::Fetch(.., answers) | Step::Acknowledge(_, answers) => (answers, false),
                Step::End(_, answers) => (answers, true),
            };
            let exchanged = tokio::select! {
                exchanged = self.exchange(&mut session, &mut connection, &step) => exchanged,
                () = self.late.cancelled() => Err(CallError::Lost("the member is closed".to_owned())),
            };
            match exchanged {
                Ok(Exchange::Answered(response)) => {
                    self.note_answers(node, answers, &response);
                    let throttled = u64::try_from(response.throttled_ms).unwrap_or(0);
                    if matches!(step, Step::Fetch(..)) {
                        self.identity.admin.fetched.answered(throttled > 0);
                        self.note_fetched(node, response.partitions);
                    }
                    // Until then, the broker does not read from this connection (KIP-219).
                    if throttled > 0 && !is_last {
                        let asked = Duration::from_millis(throttled);
                        let pause = sleep(asked.min(MAX_THROTTLE));
                        of_node.during(ConditionKind::Throttled, &throttle_words(asked), pause).await;
                    }
                }
                Ok(Exchange::Lost) => {
                    self.group.unconfirmed(answers.values().flatten());
                    self.begin_again(node);
                }
                Err(error) => {
                    self.group.unconfirmed(answers.values().flatten());
                    return Err(error);
                }
            }
            if is_expiring {
                (connection, session) = (connector.open(address).await?, ShareSession::default());
                self.begin_again(node);
            } else if is_last {
                return Ok(());
            }
        }
    }

    /// The node gives what it has delivered to others: the member's answers come too late.
    fn begin_again(&self, node: i32) {
        let mut guard = self.state.lock();
        let LinkState { nodes, sessions, .. } = &mut *guard;
        let Some(of_node) = nodes.get_mut(&node) else { return };
        *sessions += 1;
        (of_node.session, of_node.held) = (*sessions, 0);
        let late = std::mem::take(&mut of_node.answers);
        drop(guard);
        self.group.unconfirmed(late.values().flatten());
    }

    async fn exchange(
        &self,
        session: &mut ShareSession,
        connection: &mut ControlConnection,
        step: &Step,
    ) -> Result<Exchange, CallError> {
        let identity = &self.identity;
        match step {
            Step::Fetch(topic, partitions, answers) => {
                let most = self.options.max_records.get();
                session.fetch(connection, identity, (*topic, partitions), answers, most).await
            }
            Step::Acknowledge(topic, answers) => {
                session.acknowledge(connection, identity, *topic, answers, false).await
            }
            Step::End(topic, answers) => session.acknowledge(connection, identity, *topic, answers, true).await,
        }
    }

    /// Waits until there is something to do at a node.
    async fn next_step(&self, node: i32) -> Step {
        loop {
            // Created before the look, so that a change in between is not missed.
            let changed = self.changed.notified();
            let step = {
                let LinkState { nodes, topic, is_closing, .. } = &mut *self.state.lock();
                let is_explicit = self.options.acknowledge == Acknowledge::Explicit;
                Step::next(*topic, nodes.get_mut(&node), *is_closing, is_explicit)
            };
            if let Some(step) = step {
                return step;
            }
            changed.await;
        }
    }

    /// What became of answers. A partition that the response does not name has no error.
    fn note_answers(&self, node: i32, answers: &Answers, response: &ShareResponse) {
        for (partition, stretches) in answers {
            let told = response.partitions.iter().find(|told| told.partition == *partition);
            match told.map_or(0, |told| told.answer_code) {
                0 => {
                    self.group.confirmed(*partition, stretches);
                    self.accept_renewed(node, *partition, stretches);
                }
                code => {
                    self.group.unconfirmed(stretches);
                    if code != NOT_HELD {
                        let message = told.and_then(|told| told.answer_message.as_deref());
                        let message =
                            format!("answers to messages of partition {partition}: {}", describe(code, message));
                        self.fail(ReceiveError { class: FailureClass::Refused, message });
                    }
                }
            }
        }
    }

    /// Messages whose lock was renewed are accepted next.
    fn accept_renewed(&self, node: i32, partition: u32, stretches: &[Stretch]) {
        let renewed = stretches.iter().filter(|stretch| stretch.answer == Answer::Renew);
        let mut state = self.state.lock();
        for stretch in renewed {
            if let Some(of_node) = state.nodes.get_mut(&node) {
                let accepted = of_node.answers.entry(partition).or_default();
                append(accepted, Stretch { answer: Answer::Accept, ..*stretch });
            }
        }
    }

    fn note_fetched(&self, node: i32, partitions: Vec<SharePartition>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(of_node) = state.nodes.get_mut(&node) else { return };
        state.has_begun = true;
        let mut refused = Vec::new();
        for SharePartition { partition, code, records, acquired, .. } in partitions {
            if code != 0 {
                of_node.partitions.remove(&partition);
                state.displaced.insert(partition);
                refused.push(CallError::Refused(code, None));
            }
            let (Some(first), Some(last)) = (acquired.first(), acquired.last()) else { continue };
            let origin = Origin { node, session: of_node.session };
            let fetched = Fetched { records, from: first.first, ..Fetched::none(partition, last.last + 1) };
            acquired.iter().for_each(|acquired| self.group.delivered(acquired.deliveries));
            of_node.held += 1;
            state.arrived.push_back(Delivered { origin, fetched, acquired: acquired.into() });
        }
        drop(guard);
        self.arrived.notify_one();
        if !refused.is_empty() {
            self.displaced.notify_waiters();
            refused.iter().for_each(|error| self.report(error));
        }
    }

    /// Tells the consumer of an error, unless a leader moves or is about to be elected.
    fn report(&self, error: &CallError) {
        if !matches!(error, CallError::Refused(code, _) if is_retriable(*code)) {
            self.fail(failure(error));
        }
    }

    fn fail(&self, error: ReceiveError) {
        let mut state = self.state.lock();
        if !state.errors.contains(&error) {
            state.errors.push(error);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Waits until there is something to take.
    pub async fn ready(&self) {
        let has_arrived = || {
            let state = self.state.lock();
            !state.arrived.is_empty() || !state.errors.is_empty()
        };
        wait_until(&self.arrived, has_arrived).await;
    }

    /// Waits until a node has the member's place, or there is an error, which is returned.
    pub async fn begun(&self) -> Option<ReceiveError> {
        let has_begun = || {
            let state = self.state.lock();
            state.has_begun || !state.errors.is_empty()
        };
        wait_until(&self.arrived, has_begun).await;
        let mut state = self.state.lock();
        if state.has_begun { None } else { ReceiveError::take_joined(&mut state.errors) }
    }

    /// Everything that has arrived, into `into`, which is empty, and all errors.
    pub fn take(&self, into: &mut VecDeque<Delivered>, errors: &mut Vec<ReceiveError>) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.arrived, into);
        errors.append(&mut state.errors);
    }

    /// The consumer answers, and is done with as many deliveries from each of `done`.
    pub fn answer(
        &self,
        answers: impl IntoIterator<Item = (Origin, u32, Stretch)>,
        done: impl IntoIterator<Item = Origin>,
    ) {
        let mut state = self.state.lock();
        let mut late = Vec::new();
        for (origin, partition, stretch) in answers {
            match state.nodes.get_mut(&origin.node).filter(|node| node.session == origin.session) {
                Some(node) => append(node.answers.entry(partition).or_default(), stretch),
                None => late.push(stretch),
            }
        }
        for origin in done {
            if let Some(node) = state.nodes.get_mut(&origin.node).filter(|node| node.session == origin.session) {
                node.held -= 1;
            }
        }
        drop(state);
        self.group.unconfirmed(&late);
        self.changed.notify_waiters();
    }

    /// Sends what is answered, and ends all sessions: the nodes give what is not answered to others. Answers that are not confirmed within `limit`
    /// count as unconfirmed.
    pub async fn close(&self, limit: Duration) {
        self.state.lock().is_closing = true;
        self.changed.notify_waiters();
        if timeout(limit, self.ended()).await.is_err() {
            self.late.cancel();
            self.ended().await;
        }
    }

    /// Waits until all tasks have ended.
    async fn ended(&self) {
        wait_until(&self.displaced, || self.state.lock().nodes.is_empty()).await;
    }
}
