//! Pulsar's binary protocol, as far as a load generator needs it.
//!
//! - [`proto`]: its messages.
//! - [`frame`]: how they lie on the wire.
//! - [`entry`]: what a message or a batch of them consists of, written and read.
//! - [`compression`]: of an entry's payload.

#[cfg(test)]
#[path = "../../../../tests/unit/broker/pulsar/codec/captured.rs"]
mod captured;
pub mod compression;
pub mod entry;
pub mod frame;
pub mod proto;
