//! Tests against real servers, which `scripts/test` starts, and against scripted ones.
//!
//! One program, because each test program links the whole crate.

#[path = "../harness/mod.rs"]
mod harness;

mod browser;
mod cluster;
mod conformance;
mod doctor;
mod faults;
mod fingerprints;
#[cfg(feature = "mpi")]
mod hosts;
mod interchange;
mod kafka;
#[cfg(feature = "kafka-native")]
mod kafka_native;
#[cfg(feature = "kafka-native")]
mod kafka_native_groups;
#[cfg(feature = "kafka-native")]
mod kafka_readers;
mod kafka_transactions;
mod load;
mod manifests;
mod nsq;
mod pipeline;
mod pulsar;
mod pulsar_rs;
mod rabbitmq_stream;
mod ranks;
mod rebalance;
mod shares;
mod slow_readers;
mod sls;
mod topics;
