//! A producer of one topic of one nsqd.

use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use crate::broker::{Outgoing, Producer, SubmitError};

/// A producer of one topic, over a connection that it shares with others.
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
        let topic = &self.topic;
        let write = self
            .connection
            .submit(self.reconnect, |publishing, in_flight, out| publishing.publish(topic, batch, in_flight, out));
        write.await
    }
}
