//! Turns a TOML file into a plan: checked, typed values, or an error with its place and its cause.
//!
//! ```text
//! text ─ overrides ─▶ document ─ sweep ─▶ one tree for each point ─ check ─▶ tables ─ parse ─▶ Scenario, or problems
//!                                                                                 source: problems ─▶ file, line, what is valid
//! ```
//!
//! The parser does not track positions in the file. A problem carries the path of its key; when it is printed, that path is
//! looked up in the file, among the overrides of the command line, or in the sweep that gives the value.

use std::path::Path;

mod check;
mod content;
mod distribution;
mod error;
mod foreign_words;
mod group;
mod kind;
mod model;
pub mod omb;
mod overrides;
mod parse;
mod path;
mod pipeline;
mod plan;
mod problem;
mod setting;
mod share;
mod source;
mod suggestion;
mod sweep;
pub mod tables;
pub mod template;
mod threshold;
pub mod units;
mod unreadable;
mod until;
mod url;
mod watch;

pub use content::{Content, Payload, Size};
pub use distribution::{RankRoles, RankSet};
pub use error::ScenarioError;
pub use group::{Backlog, ConsumerGroup, Work, WorkLaw};
pub use kind::{Absent, Capabilities, Descriptor, Kinds, Need, SinkDescriptor, SinkNeeds};
pub use model::*;
#[cfg(test)]
pub(crate) use parse::{every_key, own_keys_of};
pub use pipeline::{CommitPolicy, Parse, Pipeline, ProducerMode, Sink, SinksRun};
pub use plan::{notes_on, parse_for, parse_written};
pub use setting::{Origin, Setting, Written};
pub use share::{Part, Share};
pub use tables::{DEFAULT_OUTPUT_DIRECTORY, OutputTable, ScenarioTables, scenario_schema};
pub use threshold::{Comparison, LatencyKind, LatencyStatistic, Metric, Threshold, WhenInvalid};
pub use until::Until;
pub use url::{UrlScenario, is_url, parse_url};
pub use watch::{Watch, WatchedProcess};

pub use crate::secrets::Secret;

/// Reads and checks the scenario file at `path`, with each of `overrides` (`producers.count=512`) applied to it, for these
/// kinds of brokers and sinks.
///
/// Nothing is connected to. Relative paths in the scenario start at its own folder.
///
/// # Errors
/// When the file cannot be read, and for everything in it that is not right.
pub fn load(path: &Path, overrides: &[String], kinds: Kinds<'_>) -> Result<Plan, ScenarioError> {
    let text = read_text(path, kinds)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    parse_for(kinds, &text, &path.display().to_string(), overrides, directory)
}

/// Reads a scenario's file.
///
/// # Errors
/// When the file cannot be read.
pub fn read_text(path: &Path, kinds: Kinds<'_>) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path).map_err(|error| {
        let advice = unreadable::advice(path, kinds);
        ScenarioError::single(format!("{}: the scenario cannot be read: {error}\n   = {advice}\n", path.display()))
    })
}
