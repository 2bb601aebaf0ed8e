//! The client against brokers that answer as no real one does on demand.

mod bench;
mod fetching;
mod grouping;
#[cfg(feature = "kafka")]
mod librdkafka;
mod producing;
mod scripted;
mod transactions;
mod versions;
