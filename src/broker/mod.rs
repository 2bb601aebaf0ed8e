//! The brokers: what the engine asks of one, one module for each kind, and the list of kinds.

#[cfg(feature = "pulsar-rs")]
mod adapter;
mod api;
mod durability;
mod error;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_acks;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_assignment;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_durability;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_identity;
#[cfg(feature = "kafka-native")]
pub mod kafka_native;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_transactions;
#[cfg(any(feature = "pulsar", feature = "rabbitmq-stream"))]
mod murmur3;
#[cfg(feature = "nsq")]
pub mod nsq;
mod null;
#[cfg(feature = "pulsar")]
pub mod pulsar;
#[cfg(feature = "rabbitmq-stream")]
pub mod rabbitmq_stream;
pub mod registry;
#[cfg(any(feature = "nsq", feature = "pulsar"))]
mod share;
#[cfg(feature = "sls")]
pub mod sls;

pub use api::*;
pub use durability::{Durability, DurabilityLevel};
pub use error::{BrokerError, ReceiveError, SubmitError};

pub use crate::limits::TRACE_HEADER_NAME;
pub use crate::measure::{Details, FailureClass, NoDetails, Received, UNORDERED_PARTITION};
