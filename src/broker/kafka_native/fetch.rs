//! Fetches from the nodes that lead a member's partitions, one request at a time from each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::admin::{Admin, End, EndsQuery, name_of};
use super::beginning::{Beginning, Positions};
use super::codec::records;
use super::codec::responses::{FetchResponse, FetchedPartition, NEWEST_FETCHED, read_fetched};
use super::config::Isolation;
use super::error::{CallError, class_of, is_retriable};
use super::fetch_session::{FetchSession, SessionFetch};
use super::inbox::{Fetched, Inbox};
use super::sequential::SequentialConnection;
use crate::broker::{FailureClass, ReceiveError};
use crate::net::backoff::Backoff;

/// `OFFSET_OUT_OF_RANGE`.
const OUT_OF_RANGE: i16 = 1;

/// As Kafka's own client asks: `fetch.max.wait.ms`, `fetch.max.bytes` and `max.partition.fetch.bytes`.
const MOST_WAIT: Duration = Duration::from_millis(500);
const MOST_BYTES: i32 = 50 << 20;
const MOST_PARTITION_BYTES: i32 = 1 << 20;

/// What a member reads from.
pub struct Fetcher {
    pub admin: Arc<Admin>,
    pub topic: String,
    pub isolation: Isolation,
    pub inbox: Arc<Inbox>,
}

/// How far a member is.
struct Progress {
    fetcher: Fetcher,
    /// The offset of the next message of each partition.
    positions: Mutex<Positions>,
    /// What nodes remember of it, by their ids.
    sessions: Mutex<BTreeMap<i32, FetchSession>>,
}

/// Fetches these partitions until the task is aborted. Positions that are not `known` are asked for first.
pub async fn run(fetcher: Fetcher, beginning: Arc<Beginning>, partitions: Vec<u32>, known: Positions) {
    let mut positions = known;
    let unknown: Vec<u32> = partitions.into_iter().filter(|partition| !positions.contains_key(partition)).collect();
    if !unknown.is_empty() {
        let found = find(&fetcher.inbox, &beginning, &unknown).await;
        // The consumer learns where it is before there is a message.
        found.iter().for_each(|(partition, next)| fetcher.inbox.put(Fetched::none(*partition, *next)));
        positions.extend(found);
    }
    if !positions.is_empty() {
        let (positions, sessions) = (Mutex::new(positions), Mutex::default());
        Progress { fetcher, positions, sessions }.run().await;
    }
}

async fn find(inbox: &Inbox, beginning: &Beginning, partitions: &[u32]) -> Positions {
    let mut backoff = Backoff::RECEIVE;
    loop {
        match beginning.positions(partitions).await {
            Ok(positions) => return positions,
            Err(error) => inbox.fail(failure(&error)),
        }
        backoff.pause().await;
    }
}

impl Progress {
    async fn run(self) {
        let mut backoff = Backoff::RECONNECT;
        loop {
            let ended = self.follow_leaders(&mut backoff).await;
            match ended {
                // Its leader moves, or is about to be elected.
                Err(CallError::Refused(code, _)) if is_retriable(code) => {}
                Err(error) => self.fetcher.inbox.fail(failure(&error)),
                Ok(()) => {}
            }
            backoff.pause().await;
        }
    }

    /// Fetches from the leaders as they are now, until one of them cannot be fetched from.
    async fn follow_leaders(&self, backoff: &mut Backoff) -> Result<(), CallError> {
        let metadata = self.fetcher.admin.cluster.metadata(&[&self.fetcher.topic]).await?;
        let found = metadata.topics.get(&self.fetcher.topic).ok_or(CallError::Refused(3, None))?;
        let mut by_leader: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
        let mut leaderless = false;
        for partition in self.positions.lock().keys() {
            match found.leaders.get(*partition as usize).copied().flatten() {
                Some(leader) => by_leader.entry(leader).or_default().push(*partition),
                None => leaderless = true,
            }
        }
        let mut fetches = Vec::new();
        for (leader, partitions) in by_leader {
            let Some(address) = metadata.nodes.get(&leader) else { continue };
            fetches.push(Box::pin(self.fetch_from(leader, address.clone(), partitions)));
        }
        if fetches.is_empty() {
            return Ok(());
        }
        backoff.succeeded();
        if leaderless {
            // The others are fetched from meanwhile, and asked about leaders again soon.
            let again = tokio::time::timeout(Duration::from_secs(1), select_all(fetches)).await;
            return again.map_or(Ok(()), |(ended, ..)| ended);
        }
        select_all(fetches).await.0
    }

    /// Fetches from one node until that fails.
    async fn fetch_from(&self, node: i32, address: String, partitions: Vec<u32>) -> Result<(), CallError> {
        let mut connection = self.fetcher.admin.cluster.connector.open(&address).await?;
        loop {
            self.fetcher.inbox.room().await;
            let response = self.fetch(&mut connection, node, &partitions).await?;
            let is_known = self.sessions.lock().entry(node).or_default().answered(&response)?;
            if is_known {
                for partition in response.partitions {
                    self.take(partition).await?;
                }
            }
            // Until then, the broker does not read from this connection (KIP-219).
            if let Ok(throttled @ 1..) = u64::try_from(response.throttled_ms) {
                sleep(Duration::from_millis(throttled)).await;
            }
        }
    }

    async fn fetch(
        &self,
        connection: &mut SequentialConnection,
        node: i32,
        partitions: &[u32],
    ) -> Result<FetchResponse, CallError> {
        let positions = {
            let positions = self.positions.lock();
            let position = |partition: &u32| (*partition, positions.get(partition).copied().unwrap_or(0));
            partitions.iter().map(position).collect()
        };
        let fetch = self.sessions.lock().entry(node).or_default().fetch(positions);
        let request = self.request(fetch);
        let (body, version) = connection.call_body(&request, NEWEST_FETCHED).await?;
        let response = read_fetched(&body, version)?;
        self.fetcher.admin.fetched.answered(response.throttled_ms > 0);
        Ok(response)
    }

    fn request(&self, SessionFetch { id, epoch, changed, forgotten }: SessionFetch) -> FetchRequest {
        let partition = |(partition, next): (u32, i64)| {
            FetchPartition::default()
                .with_partition(partition as i32)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(next)
                .with_partition_max_bytes(MOST_PARTITION_BYTES)
        };
        let mut request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(MOST_WAIT.as_millis() as i32)
            .with_min_bytes(1)
            .with_max_bytes(MOST_BYTES)
            .with_isolation_level(self.fetcher.isolation as i8)
            .with_session_id(id)
            .with_session_epoch(epoch);
        let topic = name_of(&self.fetcher.topic);
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
            OUT_OF_RANGE => return self.begin_again(partition).await,
            code => return Err(CallError::Refused(code, None)),
        }
        let Some(from) = self.positions.lock().get(&partition).copied() else { return Ok(()) };
        let Some(next) = end_of(&records)? else { return Ok(()) };
        aborted.sort_unstable();
        self.fetcher.inbox.put(Fetched { partition, records, from, next, aborted });
        self.positions.lock().insert(partition, next);
        Ok(())
    }

    /// The messages at the position are gone: the member goes on with the first that is there.
    async fn begin_again(&self, partition: u32) -> Result<(), CallError> {
        let (partitions, isolation) = ([partition], self.fetcher.isolation);
        let query = EndsQuery { topic: &self.fetcher.topic, partitions: &partitions, end: End::Earliest, isolation };
        let begins = self.fetcher.admin.ends(&query).await?;
        self.positions.lock().extend(begins);
        Ok(())
    }
}

/// The offset after the last whole batch; `None`: no batch is whole.
fn end_of(records: &Bytes) -> Result<Option<i64>, super::codec::Malformed> {
    let mut rest = &records[..];
    let mut end = None;
    while let Some(next) = records::skip_batch(&mut rest)? {
        end = Some(next);
    }
    Ok(end)
}

/// As an error of receiving.
pub fn failure(error: &CallError) -> ReceiveError {
    let class = match error {
        CallError::Refused(code, _) => class_of(*code),
        CallError::Timeout(_) => FailureClass::Timeout,
        CallError::Authorisation(_) => FailureClass::Authorisation,
        CallError::Lost(_) | CallError::Malformed(_) => FailureClass::ConnectionLost,
        CallError::Unsupported(_) => FailureClass::Other,
    };
    ReceiveError { class, message: error.to_string() }
}
