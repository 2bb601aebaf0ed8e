//! Where streams end: the offsets that their next messages will have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::admin::Admin;
use super::codec::command::Offset;
use super::connect::{Connector, Session};
use super::error::ConnectError;
use super::nodes::Nodes;
use super::recovery::MAX_SUBSCRIPTIONS;
use super::stream_progress::{Numbered, StreamProgress};
use super::tail;

/// Finds the ends of streams, over connections of its own: only a node that has a stream can deliver its last chunk.
pub struct StreamEnds {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    /// By address.
    sessions: Mutex<BTreeMap<String, Session>>,
}

impl StreamEnds {
    pub fn new(connector: Arc<Connector>, admin: Arc<Admin>, nodes: Arc<Nodes>) -> Self {
        StreamEnds { connector, admin, nodes, sessions: Mutex::default() }
    }

    /// The end of each stream; `None`: a server did not respond in time.
    pub async fn of(&self, streams: &[String]) -> Option<Vec<u64>> {
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
            tail::locate(&mut session, part, limit).await?;
        }
        Ok((session, group))
    }

    /// Takes leave of the servers.
    pub async fn close(&self) {
        join_all(std::mem::take(&mut *self.sessions.lock().await).into_values().map(Session::close)).await;
    }
}
