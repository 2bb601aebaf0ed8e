//! The client against brokers that answer as no real one does on demand.

mod accumulator;
mod asked;
mod bench;
mod bootstrap;
mod captured;
mod conditions;
mod cooperative;
mod fetching;
mod gone;
mod grouping;
mod idle;
#[cfg(feature = "kafka")]
mod librdkafka;
mod many_partitions;
mod pauses;
mod producing;
mod recovery;
mod scripted;
mod server_assigned;
mod sharing;
mod static_members;
mod topics;
mod transactions;
mod versions;

use crate::load::PayloadPool;
use crate::scenario::{Content, Payload, Size};

/// Some of them are larger than what a batch copies.
pub fn payloads() -> PayloadPool {
    let content = Content::Random { size: Size::Uniform { min: 0, max: 2000 }, compressibility: 0.0 };
    PayloadPool::build(&Payload { content, pool: 16, seed: 1, tombstones: 0.0 }, 0).unwrap()
}
