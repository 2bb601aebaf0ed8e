//! The client against brokers that answer as no real one does on demand.

mod bench;
mod cooperative;
mod fetching;
mod grouping;
#[cfg(feature = "kafka")]
mod librdkafka;
mod producing;
mod scripted;
mod server_assigned;
mod static_members;
mod transactions;
mod versions;
