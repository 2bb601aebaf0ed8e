//! The producer of a topic, with or without a wait for other messages.

use super::lingering::LingeringProducer;
use super::topic_producer::TopicProducer;
use crate::broker::{Outgoing, Producer, SubmitError};

/// What the engine sends to one topic with.
pub enum PulsarProducer {
    /// What is submitted together goes out at once.
    AtOnce(TopicProducer),
    /// With `linger`.
    Lingering(LingeringProducer),
}

impl Producer for PulsarProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        match self {
            PulsarProducer::AtOnce(producer) => producer.submit(batch).await,
            PulsarProducer::Lingering(producer) => producer.submit(batch).await,
        }
    }

    fn fatal_error(&self) -> Option<String> {
        match self {
            PulsarProducer::AtOnce(producer) => producer.fatal_error(),
            PulsarProducer::Lingering(producer) => producer.fatal_error(),
        }
    }
}
