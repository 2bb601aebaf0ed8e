//! brokermark puts a described load on a message broker and records honestly what happened.
//!
//! Data flows in one direction:
//!
//! ```text
//! scenario.toml ─ scenario ─▶ plan ─▶ engine: prepare ▸ warm up ▸ measure ▸ drain ▸ verify
//!                                      │ load: intended times, payloads
//!                                      ▼
//!                               broker (traits): kafka · nsq · pulsar · rabbitmq-stream · sls · null
//!                                      │ acknowledgements, received messages ─▶ pipeline ─▶ databases
//!                                      ▼
//!                               measure: histograms, series, ledger, host
//!                                      ▼
//!                               evaluate: figures, thresholds ─▶ verdict
//!                                      ▼
//!                               record ─▶ results/<run>/ ─▶ present ─▶ show · compare · report (only read)
//! ```
//!
//! The modules, from the ground up. A module imports only modules above it in this list:
//!
//! - [`limits`]: limits that several modules share. [`secrets`]: which keys are secret, and how they are masked.
//! - `printable`: text of others, without what a terminal obeys. `notices`: what is told to people on standard error.
//! - [`net`]: addresses, TLS, backoff, sockets, and a publishing session that is generic over a protocol.
//! - [`schemas`]: messages that have a schema, and the registries of schemas.
//! - [`measure`]: the clock, the recorders of each message, and the state of the machine.
//! - [`scenario`]: turns a TOML file into a checked, typed [`scenario::Plan`].
//! - [`load`]: intended times, keys and payloads, as pure functions of a seed and a clock.
//! - [`emulator`]: endpoints that run inside this process.
//! - [`broker`]: the traits of a broker, the registry of brokers, and one module per broker.
//! - [`pipeline`]: consumers that parse messages and write them to databases.
//! - [`engine`]: runs one trial through its phases.
//! - `statistics`: intervals, tests and comparisons of numbers; it imports nothing.
//! - [`record`]: the versioned result and its run directory.
//! - `evaluate`: computes the figures of a record and judges them.
//! - `distributed`: puts the records of several processes that ran one scenario together.
//! - `ranks` (feature `mpi`): the processes that MPI started together, and what they tell each other.
//! - `present`: what records say, in words and tables, once for text and pages.
//! - `report`: a page with charts, from records; it only reads.
//! - [`cli`]: the command line, one file per subcommand.

// The message of an `expect` is the reason why it cannot fail; an `unwrap` has none. Tests may use it.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

#[cfg(test)]
#[macro_use]
#[path = "../tests/harness/fields.rs"]
mod fields;

pub mod broker;
pub mod cli;
mod distributed;
pub mod emulator;
pub mod engine;
mod evaluate;
pub mod limits;
pub mod load;
pub mod measure;
pub mod net;
mod notices;
pub mod pipeline;
mod present;
mod printable;
#[cfg(feature = "mpi")]
mod ranks;
pub mod record;
mod report;
pub mod scenario;
pub mod schemas;
pub mod secrets;
mod statistics;
