//! From a TOML file to a plan: what the user wrote becomes checked, typed values, or an error that says where and why.
//!
//! ```text
//! text ─ overrides ─▶ document ─ sweep ─▶ one tree for each point ─ reading ─▶ Scenario, or problems
//!                                                                    source: problems ─▶ file, line, what is right
//! ```
//!
//! Reading knows no positions: a problem carries the path of its key, and only when it is shown is that path looked up
//! in the file, among the overrides of the command line, or in the sweep that put the value there.

use std::path::Path;

mod content;
pub mod deserialize;
mod error;
mod fields;
mod keys;
mod kind;
mod model;
mod overrides;
mod parse;
mod path;
mod pipeline;
mod plan;
mod problem;
mod source;
mod suggestion;
mod sweep;
pub mod template;
pub mod units;

pub use crate::secrets::Secret;
pub use content::{Content, Payload, Size, TRACE_HEADER_BYTES, TRACE_HEADER_NAME};
pub use error::ScenarioError;
pub use kind::{Capabilities, Descriptor, SinkDescriptor, SinkNeeds};
pub use model::*;
pub use pipeline::{CommitPolicy, Parse, Pipeline, ProducerMode, Sink, SinksRun};
pub use plan::parse_for;

/// Reads and checks the scenario file at `path`, with each of `overrides` (`producers.count=512`) applied to it, for the
/// kinds of broker that `descriptors` describe.
///
/// Nothing is connected to. Relative paths in the scenario start at its own folder.
///
/// # Errors
/// When the file cannot be read, and for everything in it that is not right.
pub fn load(path: &Path, overrides: &[String], descriptors: &[Descriptor]) -> Result<Plan, ScenarioError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ScenarioError::single(format!("{}: the scenario cannot be read: {error}", path.display())))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    parse_for(descriptors, &text, &path.display().to_string(), overrides, directory)
}
