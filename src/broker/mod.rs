//! The brokers: what the engine asks of one, one module for each kind, and the list of kinds.

#[cfg(any(feature = "nats", feature = "pulsar-rs"))]
mod adapter;
mod api;
#[cfg(any(feature = "kafka", feature = "kafka-native", feature = "rabbitmq-stream"))]
pub mod compression;
mod error;
pub(crate) mod fraction;
mod info;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_cluster;
#[cfg(feature = "kafka-native")]
pub mod kafka_native;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_options;
#[cfg(any(feature = "kafka", feature = "kafka-native"))]
mod kafka_shares;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(any(feature = "pulsar", feature = "rabbitmq-stream"))]
mod murmur3;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nsq")]
pub mod nsq;
mod null;
mod offsets;
#[cfg(feature = "pulsar")]
pub mod pulsar;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "rabbitmq-stream")]
pub mod rabbitmq_stream;
#[cfg(feature = "redis")]
mod redis;
pub mod registry;
#[cfg(all(test, any(feature = "mqtt", feature = "nats", feature = "rabbitmq", feature = "redis")))]
#[path = "../../tests/unit/broker/scripted.rs"]
mod scripted;
#[cfg(any(feature = "mqtt", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod servers;
#[cfg(feature = "sls")]
pub mod sls;

pub use api::*;
pub use error::{BrokerError, ClientError, ReceiveError, SubmitError};
pub use info::*;
pub use offsets::Offsets;

pub use crate::limits::TRACE_HEADER_NAME;
pub use crate::measure::{Details, FailureClass, NoDetails, Received, UNORDERED_PARTITION};
