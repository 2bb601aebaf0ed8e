//! The producer of a topic, by the trial's client, with or without a wait for other messages.

#[cfg(feature = "pulsar-rs")]
use super::crate_client::CrateProducer;
use super::lingering::LingeringProducer;
use super::topic_producer::TopicProducer;
use crate::broker::{Outgoing, Producer, SubmitError};

/// What the engine sends to one topic with.
pub enum PulsarProducer {
    /// What is submitted together goes out at once.
    AtOnce(TopicProducer),
    /// With `linger`.
    Lingering(LingeringProducer),
    #[cfg(feature = "pulsar-rs")]
    Crate(CrateProducer),
}

impl Producer for PulsarProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        match self {
            PulsarProducer::AtOnce(producer) => producer.submit(batch).await,
            PulsarProducer::Lingering(producer) => producer.submit(batch).await,
            #[cfg(feature = "pulsar-rs")]
            PulsarProducer::Crate(producer) => producer.submit(batch).await,
        }
    }

    fn fatal_error(&self) -> Option<String> {
        match self {
            PulsarProducer::AtOnce(producer) => producer.fatal_error(),
            PulsarProducer::Lingering(producer) => producer.fatal_error(),
            #[cfg(feature = "pulsar-rs")]
            PulsarProducer::Crate(producer) => producer.fatal_error(),
        }
    }

    fn finish(&mut self) {
        match self {
            PulsarProducer::AtOnce(_) | PulsarProducer::Lingering(_) => {}
            #[cfg(feature = "pulsar-rs")]
            PulsarProducer::Crate(producer) => producer.finish(),
        }
    }
}
