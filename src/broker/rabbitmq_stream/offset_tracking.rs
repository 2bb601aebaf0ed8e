//! Offsets that the server keeps for groups: `StoreOffset` and `QueryOffset`.
//!
//! The server keeps the offset of the last message that was processed, so that a group goes on at the one after it. It does not
//! answer `StoreOffset`: what it has is asked for. The leader's process handles both in the order of the connection
//! (`rabbit_stream_reader.erl`, `osiris_writer.erl`), so all commits of this process go over one connection. No command deletes
//! what is stored.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::admin::{Admin, Failure};
use super::codec::Reader;
use super::codec::code;
use super::codec::command::{Request, store_offset};
use super::error::{ConnectError, Refusal};
use crate::broker::ReceiveError;

/// How long a commit may take to be confirmed.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// Between questions for an offset that the server does not have yet.
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
