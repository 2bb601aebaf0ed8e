//! Sends messages: from the producer over batches of partitions to requests and their outcomes.

pub mod client;
pub mod completion;
pub mod connection;
pub mod keeper;
pub mod node;
pub mod partition;
pub mod partitioner;
pub mod pending;
pub mod producer;
pub mod request;
pub mod schedule;
pub mod serve;
pub mod topic;
pub mod transaction_coordinator;
pub mod transaction_task;
pub mod transactions;
