//! The brokers: what the engine asks of one, one module for each kind, and the list of kinds.

mod api;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nsq")]
pub mod nsq;
mod null;
mod pause;
#[cfg(feature = "pulsar")]
pub mod pulsar;
#[cfg(feature = "rabbitmq-stream")]
pub mod rabbitmq_stream;
pub mod registry;
#[cfg(feature = "sls")]
pub mod sls;
#[cfg(any(feature = "nsq", feature = "pulsar", feature = "rabbitmq-stream", feature = "sls"))]
pub mod tls;
#[cfg(any(feature = "nsq", feature = "rabbitmq-stream"))]
pub mod transport;

pub use api::*;
pub use pause::ReceivePause;

pub use crate::measure::{FailureClass, Received, UNORDERED_PARTITION};
pub use crate::scenario::TRACE_HEADER_NAME;
