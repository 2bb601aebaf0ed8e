//! What is kept of a run: the versioned record of each trial, and the directory it lies in.
//!
//! A [`Record`] is the result of one trial, a [`SeriesRow`] is one second of it. Both are plain data that serialise to
//! JSON; their field docs are the descriptions of the JSON Schema that `brokermark schema` prints. This module does
//! not measure: `evaluate` fills records with merged histograms and final counts.

mod answers;
mod directory;
pub mod export;
mod hlog;
pub mod readable;
#[cfg(test)]
#[path = "../../tests/unit/record/sample.rs"]
pub mod sample;
mod schema;

pub use answers::{
    CEILING_SCHEMA, CEILINGS_FILE, Ceiling, ProbeRecord, ProbeResult, SEARCH_SCHEMA, SearchAnswer, SearchEnd,
    SearchRecord,
};
pub use directory::*;
pub use hlog::{HlogInterval, HlogLines};
pub use schema::*;
