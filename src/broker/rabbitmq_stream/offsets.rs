//! Offsets that the server keeps for groups (`StoreOffset` and `QueryOffset`), and the ends of streams.
//!
//! The server keeps the offset of the last message that was processed, so that a group goes on at the one after it. It does not
//! answer `StoreOffset`: what it has is asked for. The leader's process handles both in the order of the connection
//! (`rabbit_stream_reader.erl`, `osiris_writer.erl`), so all commits of this process go over one connection. No command deletes
//! what is stored.
//!
//! `StreamEnds` finds the offsets that the next messages of streams will have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::admin::{Admin, Failure, Nodes};
use super::codec::command::{Offset, Request, store_offset};
use super::codec::{ConnectError, Reader, Refusal, code};
use super::connect::{Connector, Session};
use super::subscriptions::{MAX_SUBSCRIPTIONS, Numbered, StreamProgress, resolve_offsets};
use crate::broker::ReceiveError;

/// How long a commit may take to be confirmed.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// The pause between questions for an offset that the server does not have yet.
const ASK_AGAIN: Duration = Duration::from_millis(20);

const QUERY: &str = "the stored offset";

/// Stores and finds groups' offsets, over a connection of its own.
pub struct OffsetTracking {
    admin: Admin,
    timeout: Duration,
}

impl OffsetTracking {
    /// `timeout`: of each request.
    pub fn new(admin: Admin, timeout: Duration) -> Self {
        OffsetTracking { admin, timeout }
    }

    /// The offset at which a group goes on; `None`: nothing is stored.
    ///
    /// # Errors
    /// When no server responds, or one refuses.
    pub async fn next(&self, group: &str, stream: &str) -> Result<Option<u64>, Failure> {
        let answer = self.admin.request(&Request::query_offset(group, stream), QUERY, self.timeout).await?;
        let refused = |error| (stream.to_owned(), error);
        match answer {
            Ok(rest) => {
                let stored = Reader::new(&rest, "stored offset").u64().map_err(|error| refused(error.into()))?;
                Ok(Some(stored.saturating_add(1)))
            }
            Err(code::NO_OFFSET) => Ok(None),
            Err(code) => Err(refused(ConnectError::Refused(Refusal { what: QUERY, code }))),
        }
    }

    /// Stores, for each stream, that a group has processed the messages before an offset. With `confirmed` it waits until the
    /// server has all of it.
    ///
    /// # Errors
    /// When no server can be written to, or the server has something else for too long.
    pub async fn commit(&self, group: &str, next: &[(String, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let failed =
            |(place, error): Failure| ReceiveError { class: error.class(), message: format!("{place}: {error}") };
        let deadline = Instant::now() + CONFIRMED_WITHIN;
        loop {
            self.store(group, next).await.map_err(failed)?;
            if !confirmed {
                return Ok(());
            }
            let Some(missing) = self.find_missing(group, next).await.map_err(failed)? else { return Ok(()) };
            if Instant::now() >= deadline {
                let limit = ConnectError::Timeout(CONFIRMED_WITHIN);
                return Err(failed((format!("{missing}: the offset of the group {group} is not stored"), limit)));
            }
            sleep(ASK_AGAIN).await;
        }
    }

    async fn store(&self, group: &str, next: &[(String, u64)]) -> Result<(), Failure> {
        let write = |out: &mut Vec<u8>| {
            for (stream, next) in next {
                // The offset of a message: before the first one there is nothing to store.
                if let Some(last) = next.checked_sub(1) {
                    store_offset(out, group, stream, last);
                }
            }
        };
        self.admin.send(write, self.timeout).await
    }

    /// The first stream of which the server has another offset.
    async fn find_missing(&self, group: &str, next: &[(String, u64)]) -> Result<Option<String>, Failure> {
        for (stream, next) in next.iter().filter(|(_, next)| *next > 0) {
            if self.next(group, stream).await? != Some(*next) {
                return Ok(Some(stream.clone()));
            }
        }
        Ok(None)
    }

    /// Takes leave of the server.
    pub async fn close(&self) {
        self.admin.close().await;
    }
}

/// Finds the ends of streams, over connections of its own: only a node that has a stream can deliver its last chunk.
pub struct StreamEnds {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    /// Sessions by address.
    sessions: Mutex<BTreeMap<String, Session>>,
}

impl StreamEnds {
    pub fn new(connector: Arc<Connector>, admin: Arc<Admin>, nodes: Arc<Nodes>) -> Self {
        StreamEnds { connector, admin, nodes, sessions: Mutex::default() }
    }

    /// The end of each stream; `None`: a server did not respond in time.
    pub async fn find(&self, streams: &[String]) -> Option<Vec<u64>> {
        let limit = self.connector.recovery_limit(0);
        let names: Vec<&str> = streams.iter().map(String::as_str).collect();
        let locations = self.admin.locations_within(limit, &names).await.ok()?;
        let mut groups = BTreeMap::<String, Vec<Numbered>>::new();
        for (number, stream) in streams.iter().enumerate() {
            let location = locations.iter().find(|location| location.stream == *stream)?;
            let address = self.nodes.for_consuming(location, number).into_iter().next()?;
            groups.entry(address).or_default().push((number, StreamProgress::new(stream.clone(), Offset::Next)));
        }
        let mut sessions = self.sessions.lock().await;
        let located = groups.into_iter().map(|(address, group)| {
            let session = sessions.remove(&address);
            async move {
                let located = self.locate(&address, session, group, limit).await;
                (address, located)
            }
        });
        let mut ends = vec![None; streams.len()];
        for (address, located) in join_all(located).await {
            // A connection that failed is dropped.
            let Ok((session, group)) = located else { continue };
            sessions.insert(address, session);
            group.into_iter().for_each(|(number, place)| ends[number] = place.next);
        }
        ends.into_iter().collect()
    }

    /// Finds the ends of the streams that one node has.
    async fn locate(
        &self,
        address: &str,
        session: Option<Session>,
        mut group: Vec<Numbered>,
        limit: Duration,
    ) -> Result<(Session, Vec<Numbered>), ConnectError> {
        let mut session = match session {
            Some(session) => session,
            None => self.connector.connect_without_heartbeat(address, limit).await?,
        };
        for part in group.chunks_mut(MAX_SUBSCRIPTIONS) {
            resolve_offsets(&mut session, part, limit).await?;
        }
        Ok((session, group))
    }

    /// Takes leave of the servers.
    pub async fn close(&self) {
        join_all(std::mem::take(&mut *self.sessions.lock().await).into_values().map(Session::close)).await;
    }
}
