//! Tests without servers: the program as its users run it, its files, and the correctness of its figures.
//!
//! One program, because each test program links the whole crate.

#[macro_use]
#[path = "../harness/mod.rs"]
mod harness;

mod book;
mod cli;
mod comparing;
mod conditions;
mod consumer_groups;
mod damaged;
mod doctor;
mod documentation;
mod durability;
#[cfg(target_os = "linux")]
mod faults;
mod first_steps;
mod honesty;
mod honesty_verdict;
mod honesty_verification;
mod honesty_window;
#[cfg(feature = "kafka")]
mod kafka_client;
#[cfg(all(target_os = "linux", feature = "sls-emulator"))]
mod names;
mod partitions;
mod pipeline;
#[cfg(feature = "pulsar")]
mod pulsar_client;
#[cfg(feature = "pulsar")]
mod pulsar_oauth2;
#[cfg(feature = "mpi")]
mod ranks;
mod refusing;
mod remedies;
mod report;
mod results;
mod scenario;
mod schema;
#[cfg(feature = "schemas")]
mod schemas;
mod scripts;
mod searching;
#[cfg(feature = "kafka")]
mod secrets;
mod shares;
mod shipped;
mod terminal;
mod watching;
