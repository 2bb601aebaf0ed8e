//! The part of librdkafka that rdkafka's safe types do not reach: delivery reports in batches, messages handed over in
//! batches and without a copy, consumption in batches. All `unsafe` of the Kafka broker is in this module.
//!
//! Against rdkafka's `FutureProducer` this takes a half to a third of the processor time per message: there is no future,
//! box or lock per message, and one event carries the delivery reports of a whole produce request.

mod callbacks;
mod client;
mod commits;
mod consume;
mod create_topics;
mod details;
mod error;
mod events;
mod membership;
mod oauthbearer;
mod partition_list;
mod produce;
#[cfg(test)]
mod property_table;
mod transaction;

pub use client::{Client, Role};
pub use consume::{Begin, ConsumerQueue, Taken};
pub use create_topics::create_topics;
pub use error::{class_of, is_unknown_topic, name_of, without_circumstances};
pub use events::{Batch, Deliveries, Event, PartitionKey, Report};
pub use membership::{GroupOffsets, Membership};
pub use oauthbearer::set_admin_token;
pub use produce::{Handed, Space, TopicHandle};
#[cfg(test)]
pub use property_table::property_table;
pub use transaction::{Remedy, TransactionError};
