//! Tests against real servers, which `scripts/test` starts, and against scripted ones.
//!
//! One program, because each test program links the whole crate.

#[path = "../harness/mod.rs"]
mod harness;

mod cluster;
mod conformance;
mod faults;
mod fingerprints;
mod interchange;
mod kafka;
mod load;
mod nsq;
mod pipeline;
mod pulsar;
mod rabbitmq_stream;
mod rebalance;
mod sls;
mod topics;
