//! A sender to one topic of one nsqd.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::connection::{Connection, Offered};
use crate::broker::{FailureClass, Outgoing, Producer, SubmitError};

/// A sender to one topic, over a connection it shares with others.
pub struct NsqProducer {
    connection: Arc<Connection>,
    topic: Arc<str>,
    reconnect: Duration,
}

impl NsqProducer {
    pub(super) fn new(connection: Arc<Connection>, topic: Arc<str>, reconnect: Duration) -> Self {
        NsqProducer { connection, topic, reconnect }
    }
}

impl Producer for NsqProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let mut waiting_since = None;
        loop {
            // Made before the attempt, so that room made in between is not missed.
            let room = self.connection.room();
            match self.connection.offer(&self.topic, batch) {
                Offered::Taken(count) => {
                    if let Some(since) = waiting_since {
                        self.connection.waited(Instant::elapsed(&since));
                    }
                    return Ok(count);
                }
                Offered::NoRoom => {
                    waiting_since.get_or_insert_with(Instant::now);
                    room.await;
                }
                Offered::ConnectionLost(since, reason) => {
                    let left = self.reconnect.saturating_sub(since.elapsed());
                    if left.is_zero() || timeout(left, room).await.is_err() {
                        return Err(SubmitError { class: FailureClass::ConnectionLost, message: reason });
                    }
                }
            }
        }
    }
}
