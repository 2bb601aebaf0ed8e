//! Fetches from the nodes that lead a member's partitions, one request at a time from each.
//!
//! A partition that a node refuses to read is displaced: it is fetched from its leader again once metadata names one, and the others are
//! fetched meanwhile, on the connections that there are. A connection that ends displaces all partitions of its node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use super::super::codec::records::SkippedBatch;
use super::super::codec::responses::{FetchResponse, FetchedPartition, NEWEST_FETCHED, read_fetched};
use super::super::codec::{Malformed, records};
use super::super::config::Isolation;
use super::super::error::{CallError, UNKNOWN_TOPIC, is_retriable};
use super::super::group::committed::{Positions, StartOffsets};
use super::super::net::cluster::{MAX_FRUITLESS, name_of};
use super::super::net::connect::throttle_words;
use super::super::net::control::{ControlConnection, MAX_THROTTLE};
use super::buffer::{FetchBuffer, Fetched};
use super::session::{FetchPlace, FetchSession, SessionFetch};
use crate::broker::{FailureClass, ReceiveError};
use crate::measure::host::tasks::watched;
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::net::backoff::Backoff;

/// `OFFSET_OUT_OF_RANGE`.
const OUT_OF_RANGE: i16 = 1;

/// Between a partition's failure and the look for its leader. The pause doubles while there is always one that has failed.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// As Kafka's own client asks: `fetch.max.wait.ms`, `fetch.max.bytes` and `max.partition.fetch.bytes`.
const MAX_WAIT: Duration = Duration::from_millis(500);
const MAX_BYTES: i32 = 50 << 20;
const MAX_PARTITION_BYTES: i32 = 1 << 20;

/// The fetches of a member, and how far they are.
pub(super) struct FetchTask {
    pub(super) start_offsets: Arc<StartOffsets>,
    isolation: Isolation,
    pub(super) buffer: Arc<FetchBuffer>,
    /// The offset of the next message of each partition.
    pub(super) positions: Mutex<Positions>,
    /// The epoch of the leader that wrote the message before it, where that was fetched.
    pub(super) epochs: Mutex<BTreeMap<u32, i32>>,
    /// Where the log was cut off: offsets of the partition below that were read before.
    pub(super) read_before: Mutex<Positions>,
    pub(super) places: Mutex<Placement>,
    /// Signal for the task that finds partitions' leaders.
    displaced: Notify,
}

/// Where partitions are fetched from.
#[derive(Default)]
pub(super) struct Placement {
    /// The id of the topic that positions are of; nil: not known.
    pub(super) topic_id: Uuid,
    /// The partitions of each node, by its id. A task fetches from each.
    nodes: BTreeMap<i32, BTreeSet<u32>>,
    /// The partitions whose leader is not known, or whose last fetch has failed.
    displaced: BTreeSet<u32>,
    /// The epoch of each partition's leader, as metadata tells it.
    pub(super) leader_epochs: BTreeMap<u32, i32>,
    /// Partitions that may have another leader, which may lack what was read before.
    pub(super) unchecked: BTreeSet<u32>,
    /// Sessions with nodes, by their ids: what each remembers of the member.
    sessions: BTreeMap<i32, FetchSession>,
    /// Partitions that something holds up.
    held_up: BTreeMap<u32, Subject>,
}

/// Fetches these partitions until the task is aborted. Positions that are not `known` are asked for first.
pub async fn run(
    start_offsets: Arc<StartOffsets>,
    isolation: Isolation,
    buffer: Arc<FetchBuffer>,
    partitions: Vec<u32>,
    known: Positions,
) {
    let mut positions = known;
    let unknown: Vec<u32> = partitions.into_iter().filter(|partition| !positions.contains_key(partition)).collect();
    if !unknown.is_empty() {
        let found = find(&buffer, &start_offsets, &unknown).await;
        // The consumer learns where it is before there is a message.
        found.iter().for_each(|(partition, next)| buffer.put(Fetched::none(*partition, *next)));
        positions.extend(found);
    }
    if !positions.is_empty() {
        let displaced = positions.keys().copied().collect();
        let places = Mutex::new(Placement { displaced, ..Placement::default() });
        let (positions, epochs, read_before) = (Mutex::new(positions), Mutex::default(), Mutex::default());
        let displaced = Notify::new();
        let task = FetchTask { start_offsets, isolation, buffer, positions, epochs, read_before, places, displaced };
        Arc::new(task).follow_leaders().await;
    }
}

async fn find(buffer: &FetchBuffer, start_offsets: &StartOffsets, partitions: &[u32]) -> Positions {
    let mut backoff = Backoff::RECEIVE;
    loop {
        match start_offsets.positions(partitions).await {
            Ok(positions) => return positions,
            Err(error) => buffer.fail(failure(&error)),
        }
        backoff.pause().await;
    }
}

impl FetchTask {
    /// Has each partition fetched from its leader. Never returns.
    async fn follow_leaders(self: Arc<Self>) {
        // They end with this task.
        let mut nodes = JoinSet::new();
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        let mut fruitless = 0;
        loop {
            if let Err(error) = self.place(&mut nodes).await {
                self.report(&error);
            }
            let placed = Instant::now();
            while self.places.lock().displaced.is_empty() {
                self.displaced.notified().await;
            }
            if placed.elapsed() > MAX_PAUSE {
                backoff.succeeded();
                fruitless = 0;
            }
            fruitless += 1;
            if fruitless % MAX_FRUITLESS == 0 {
                self.start_offsets.admin.cluster.ask_another().await;
            }
            // The other partitions are fetched meanwhile.
            backoff.pause().await;
            while nodes.try_join_next().is_some() {}
        }
    }

    /// Gives displaced partitions to the nodes that lead them now. Those without a leader stay displaced.
    async fn place(self: &Arc<Self>, nodes: &mut JoinSet<()>) -> Result<(), CallError> {
        let metadata = self.start_offsets.admin.cluster.metadata(&[&self.start_offsets.topic]).await?;
        let found = metadata.topics.get(&self.start_offsets.topic).ok_or(CallError::Refused(UNKNOWN_TOPIC, None))?;
        let mut guard = self.places.lock();
        let places = &mut *guard;
        let topic_id = std::mem::replace(&mut places.topic_id, found.id);
        if ![topic_id, found.id].contains(&Uuid::nil()) && topic_id != found.id {
            self.begin_in_new_topic();
        }
        places.sessions.retain(|node, _| metadata.nodes.contains_key(node));
        places.displaced.retain(|partition| {
            let leader = found.leaders.get(*partition as usize).copied().flatten();
            let Some((leader, address)) = leader.and_then(|id| Some((id, metadata.nodes.get(&id)?))) else {
                let held_up = places.held_up.entry(*partition).or_insert_with(|| self.subject(*partition));
                held_up.begin(ConditionKind::WaitingForLeader, "the metadata names no leader");
                return true;
            };
            let of_node = places.nodes.entry(leader).or_insert_with(|| {
                nodes.spawn(watched("fetcher", 0, self.clone().fetch_from(leader, address.clone())));
                BTreeSet::new()
            });
            of_node.insert(*partition);
            let epoch = found.epochs.get(*partition as usize).copied().unwrap_or(-1);
            places.leader_epochs.insert(*partition, epoch);
            false
        });
        Ok(())
    }

    /// The partitions of a node. Without any, its task ends, and `None` is returned.
    fn placed_at(&self, node: i32) -> Option<Vec<u32>> {
        let mut places = self.places.lock();
        let partitions: Vec<u32> = places.nodes.get(&node)?.iter().copied().collect();
        if partitions.is_empty() {
            places.nodes.remove(&node);
            return None;
        }
        Some(partitions)
    }

    /// A partition is not fetched from this node any more.
    fn displace(&self, node: i32, partition: u32, error: &CallError) {
        let mut places = self.places.lock();
        places.nodes.entry(node).and_modify(|partitions| _ = partitions.remove(&partition));
        places.displaced.insert(partition);
        places.unchecked.insert(partition);
        self.hold_up(&mut places, [partition], error);
        drop(places);
        self.displaced.notify_one();
        self.report(error);
    }

    /// Reports that partitions are not read, because of this error.
    fn hold_up(&self, places: &mut Placement, partitions: impl IntoIterator<Item = u32>, error: &CallError) {
        let Some(kind) = error.condition() else { return };
        for partition in partitions {
            places.held_up.entry(partition).or_insert_with(|| self.subject(partition)).begin(kind, &error.to_string());
        }
    }

    fn subject(&self, partition: u32) -> Subject {
        let StartOffsets { admin, topic, .. } = &*self.start_offsets;
        let conditions = &admin.cluster.connector.conditions;
        Subject::new(conditions, SubjectKind::ConsumedPartition, &format!("{topic}/{partition}"))
    }

    /// Tells the consumer of an error, unless a leader moves or is about to be elected.
    fn report(&self, error: &CallError) {
        if !matches!(error, CallError::Refused(code, _) if is_retriable(*code)) {
            self.buffer.fail(failure(error));
        }
    }

    /// Fetches from one node while it leads partitions.
    async fn fetch_from(self: Arc<Self>, node: i32, address: String) {
        let Err(error) = self.fetch_while_placed(node, &address).await else { return };
        let mut places = self.places.lock();
        let partitions = places.nodes.remove(&node).unwrap_or_default();
        self.hold_up(&mut places, partitions.iter().copied(), &error);
        places.unchecked.extend(&partitions);
        places.displaced.extend(partitions);
        drop(places);
        self.displaced.notify_one();
        self.report(&error);
    }

    /// Returns the error that ends the connection, which is of all partitions of the node.
    async fn fetch_while_placed(&self, node: i32, address: &str) -> Result<(), CallError> {
        let connector = &self.start_offsets.admin.cluster.connector;
        let mut connection = connector.open(address).await?;
        let of_node = connector.node(address);
        loop {
            let was_idle = self.buffer.is_full();
            self.buffer.room().await;
            if connection.is_expiring() {
                connection = connector.open(address).await?;
            }
            let Some(partitions) = self.placed_at(node) else { return Ok(()) };
            for (partition, error) in self.check_epochs(&mut connection, &partitions).await? {
                self.displace(node, partition, &error);
            }
            let Some(partitions) = self.placed_at(node) else { return Ok(()) };
            let response = match self.fetch(&mut connection, node, &partitions).await {
                // The node may have closed it meanwhile (`connections.max.idle.ms`).
                Err(CallError::Lost(_)) if was_idle => {
                    connection = connector.open(address).await?;
                    self.fetch(&mut connection, node, &partitions).await?
                }
                response => response?,
            };
            let is_known = self.places.lock().sessions.entry(node).or_default().answered(&response)?;
            self.read_again(&partitions, &response);
            for fetched in response.partitions.into_iter().filter(|_| is_known) {
                let partition = fetched.partition as u32;
                if let Err(error) = self.take(fetched).await {
                    self.displace(node, partition, &error);
                }
            }
            // Until then, the broker does not read from this connection (KIP-219).
            if let Ok(throttled @ 1..) = u64::try_from(response.throttled_ms) {
                let asked = Duration::from_millis(throttled);
                if asked > MAX_THROTTLE {
                    let message = throttle_words(asked);
                    self.buffer.fail(ReceiveError { class: FailureClass::Refused, message });
                }
                connector.throttled(&of_node, asked);
                sleep(asked.min(MAX_THROTTLE)).await;
                of_node.end();
            }
        }
    }

    /// Nothing holds up those of `partitions` that a node has answered for without an error; one without news may not be in the response.
    fn read_again(&self, partitions: &[u32], response: &FetchResponse) {
        let mut places = self.places.lock();
        if !places.held_up.is_empty() {
            let failed = response.partitions.iter().filter(|one| one.code != 0).map(|one| one.partition as u32);
            let failed: BTreeSet<u32> = failed.collect();
            partitions.iter().filter(|of| !failed.contains(of)).for_each(|of| _ = places.held_up.remove(of));
        }
    }

    async fn fetch(
        &self,
        connection: &mut ControlConnection,
        node: i32,
        partitions: &[u32],
    ) -> Result<FetchResponse, CallError> {
        let fetch = {
            let (mut guard, positions) = (self.places.lock(), self.positions.lock());
            let Placement { sessions, leader_epochs, .. } = &mut *guard;
            let place = |partition: &u32| FetchPlace {
                next: positions.get(partition).copied().unwrap_or(0),
                leader_epoch: leader_epochs.get(partition).copied().unwrap_or(-1),
            };
            let places = partitions.iter().map(|partition| (*partition, place(partition))).collect();
            sessions.entry(node).or_default().fetch(places)
        };
        let request = self.request(fetch);
        let (body, version) = connection.call_body(&request, NEWEST_FETCHED).await?;
        let response = read_fetched(&body, version)?;
        self.start_offsets.admin.fetched.answered(response.throttled_ms > 0);
        Ok(response)
    }

    fn request(&self, SessionFetch { id, epoch, changed, forgotten }: SessionFetch) -> FetchRequest {
        let partition = |(partition, place): (u32, FetchPlace)| {
            FetchPartition::default()
                .with_partition(partition as i32)
                .with_current_leader_epoch(place.leader_epoch)
                .with_fetch_offset(place.next)
                .with_partition_max_bytes(MAX_PARTITION_BYTES)
        };
        let mut request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(MAX_WAIT.as_millis() as i32)
            .with_min_bytes(1)
            .with_max_bytes(MAX_BYTES)
            .with_isolation_level(self.isolation as i8)
            .with_session_id(id)
            .with_session_epoch(epoch);
        let topic = name_of(&self.start_offsets.topic);
        if !changed.is_empty() {
            let changed = changed.into_iter().map(partition).collect();
            request.topics.push(FetchTopic::default().with_topic(topic.clone()).with_partitions(changed));
        }
        if !forgotten.is_empty() {
            request.forgotten_topics_data.push(ForgottenTopic::default().with_topic(topic).with_partitions(forgotten));
        }
        request
    }

    async fn take(&self, fetched: FetchedPartition) -> Result<(), CallError> {
        let FetchedPartition { partition, code, mut aborted, records } = fetched;
        let partition = partition as u32;
        match code {
            0 => {}
            OUT_OF_RANGE => return self.go_on_elsewhere(partition).await,
            code => return Err(CallError::Refused(code, None)),
        }
        let Some(from) = self.positions.lock().get(&partition).copied() else { return Ok(()) };
        let Some(SkippedBatch { next_offset: next, leader_epoch }) = last_of(&records)? else { return Ok(()) };
        aborted.sort_unstable();
        let read_before = self.read_before.lock().get(&partition).copied().unwrap_or(0);
        self.buffer.put(Fetched { partition, records, from, next, read_before, aborted, open: None });
        self.positions.lock().insert(partition, next);
        self.epochs.lock().insert(partition, leader_epoch);
        Ok(())
    }
}

/// The last whole batch; `None`: no batch is whole.
fn last_of(records: &Bytes) -> Result<Option<SkippedBatch>, Malformed> {
    let mut rest = &records[..];
    let mut last = None;
    while let Some(batch) = records::skip_batch(&mut rest)? {
        last = Some(batch);
    }
    Ok(last)
}

/// As an error of receiving.
pub fn failure(error: &CallError) -> ReceiveError {
    let class = if matches!(error, CallError::Unsupported(_)) { FailureClass::Other } else { error.class() };
    ReceiveError { class, message: error.to_string() }
}
