//! For brokers whose client is a crate: what every such client needs beside the crate, written once.
//!
//! - `queued_producer`: a [`Producer`](super::Producer) from anything that sends one message at a time ([`SendOne`]). It keeps the send
//!   tags, awaits the receipts and records the outcomes.
//! - `stream_consumer`: a [`Consumer`](super::Consumer) from anything that messages are polled from ([`Deliveries`]).
//! - `owned_message`: a message that outlives the call of the engine.
//!
//! A crate's own cost for each message is a part of what is measured, as it is for the application that uses it.

mod owned_message;
mod queued_producer;
mod stream_consumer;

pub use owned_message::OwnedMessage;
pub use queued_producer::{ProducerQueues, QueuedProducer, SendError, SendOne};
pub use stream_consumer::{Deliveries, StreamConsumer};
