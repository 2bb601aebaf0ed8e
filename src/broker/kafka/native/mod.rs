//! The part of librdkafka that rdkafka's safe types do not reach: delivery reports in batches, messages handed over in
//! batches and without a copy, consumption in batches. All `unsafe` of the Kafka broker is in this module.
//!
//! Against rdkafka's `FutureProducer` this takes a half to a third of the processor time per message: there is no future,
//! box or lock per message, and one event carries the delivery reports of a whole produce request.

mod client;
mod consume;
mod details;
mod error;
mod events;
mod membership;
mod partition_list;
mod produce;

pub use client::{Client, Role};
pub use consume::{ConsumerQueue, Taken};
pub use error::{class_of, name_of};
pub use events::{Deliveries, Event};
pub use membership::{GroupOffsets, Membership};
pub use produce::{Handed, Space, TopicHandle};
