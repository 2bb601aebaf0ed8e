//! A member of a subscription, by the trial's client.

#[cfg(feature = "pulsar-rs")]
use super::crate_client::CrateConsumer;
use super::topic_consumer::TopicConsumer;
use crate::broker::{Consumer, ReceiveError, Received};

/// What the engine receives with.
pub enum PulsarConsumer {
    Native(TopicConsumer),
    #[cfg(feature = "pulsar-rs")]
    Crate(CrateConsumer),
}

impl Consumer for PulsarConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        match self {
            PulsarConsumer::Native(consumer) => consumer.ready().await,
            #[cfg(feature = "pulsar-rs")]
            PulsarConsumer::Crate(consumer) => consumer.ready().await,
        }
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        match self {
            PulsarConsumer::Native(consumer) => consumer.take(each),
            #[cfg(feature = "pulsar-rs")]
            PulsarConsumer::Crate(consumer) => consumer.take(each),
        }
    }

    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        match self {
            PulsarConsumer::Native(consumer) => consumer.take_some(most, each),
            #[cfg(feature = "pulsar-rs")]
            PulsarConsumer::Crate(consumer) => consumer.take_some(most, each),
        }
    }

    async fn close(self) {
        match self {
            PulsarConsumer::Native(consumer) => consumer.close().await,
            #[cfg(feature = "pulsar-rs")]
            PulsarConsumer::Crate(consumer) => consumer.close().await,
        }
    }
}
