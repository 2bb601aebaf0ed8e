//! A sender to one topic.

use std::sync::Arc;
use std::time::Instant;

use super::connection::Connection;
use super::native::{Handed, Space, TopicHandle, class_of, name_of};
use crate::broker::{Outgoing, Producer, SubmitError};

/// A sender to one topic, over a connection it shares with others.
pub struct KafkaProducer {
    connection: Arc<Connection>,
    topic: Arc<TopicHandle>,
    space: Space,
}

impl KafkaProducer {
    pub(super) fn new(connection: Arc<Connection>, topic: Arc<TopicHandle>) -> Self {
        KafkaProducer { connection, topic, space: Space::default() }
    }

    fn hand_over(&mut self, batch: &[Outgoing<'_>]) -> Handed {
        let recorder = &self.connection.recorder;
        self.topic.hand_over(batch, &mut self.space, |outgoing, code| {
            recorder.batch().failed(outgoing.send_tag, class_of(code), || name_of(code));
        })
    }
}

impl Producer for KafkaProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let mut full_since = None;
        loop {
            // Created before the attempt, so that capacity freed in between is not missed.
            let connection = self.connection.clone();
            let capacity = connection.capacity();
            match self.hand_over(batch) {
                Handed::Taken(taken) => {
                    if let Some(since) = full_since {
                        self.connection.waited(Instant::elapsed(&since));
                    }
                    return Ok(taken);
                }
                Handed::QueueFull => {
                    full_since.get_or_insert_with(Instant::now);
                    capacity.await;
                }
            }
        }
    }
}
