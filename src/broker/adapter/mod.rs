//! For brokers whose client is a crate: what every such client needs beside the crate, written once.
//!
//! - `clients`: the clients of the crate, one for each of the scenario's connections, and a time limit for what a crate repeats without one.
//! - `queued_producer`: a [`Producer`](super::Producer) from anything that sends one message at a time ([`SendOne`]). It keeps the send
//!   tags, awaits the receipts and records the outcomes.
//! - `stream_consumer`: a [`Consumer`](super::Consumer) from the crate's streams of messages ([`Deliveries`]). It takes turns among them,
//!   and acknowledges what the engine has taken.
//!
//! A crate's errors become [`ClientError`](super::ClientError). A crate's own cost for each message is a part of what is measured, as it is
//! for the application that uses it.

mod clients;
#[cfg(feature = "pulsar-rs")]
mod queued_producer;
mod stream_consumer;

pub use clients::{Clients, within};
#[cfg(feature = "pulsar-rs")]
pub use queued_producer::{OwnedMessage, ProducerQueues, QueuedProducer, SendOne};
pub use stream_consumer::{Deliveries, Delivery, StreamConsumer};
