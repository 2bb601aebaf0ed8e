//! brokermark puts a described load on a message broker and writes down, honestly, what happened.
//!
//! The way of the data is one direction:
//!
//! ```text
//! scenario.toml ─ scenario ─▶ plan ─▶ engine: prepare ▸ warm up ▸ measure ▸ drain ▸ verify
//!                                      │ load: intended times, payloads
//!                                      ▼
//!                               broker (trait): kafka · rabbitmq-stream · null
//!                                      │ acknowledgements, received messages
//!                                      ▼
//!                               measure: histograms, series, ledger, host
//!                                      ▼
//!                               evaluate: figures, thresholds ─▶ verdict
//!                                      ▼
//!                               record ─▶ results/<run>/ ─▶ show (only reads)
//! ```
//!
//! Each arrow is a room of its own:
//!
//! - [`scenario`]: a TOML file becomes a checked, typed [`scenario::Plan`].
//! - [`load`]: when messages are due and what they carry, as pure functions of a seed and a clock.
//! - [`broker`]: the traits a broker implements, the registry of brokers, and one module per broker.
//! - [`engine`]: runs one trial through its phases.
//! - [`pipeline`]: consumers that parse what they receive and write it to databases.
//! - [`measure`]: the clock, what is recorded per message, and what the machine was doing.
//! - [`evaluate`]: the record's figures, and whether they can be trusted, with the evidence.
//! - [`record`]: the versioned result and the directory it lies in.
//! - [`emulator`]: endpoints that run inside this process.
//! - [`cli`]: the command line, one file a verb.

// An `expect` says what makes it impossible; an `unwrap` does not. Tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod broker;
pub mod cli;
pub mod emulator;
pub mod engine;
pub mod evaluate;
pub mod limits;
pub mod load;
pub mod measure;
pub mod net;
pub mod pipeline;
pub mod record;
pub mod scenario;
pub mod secrets;
