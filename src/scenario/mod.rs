//! Turns a TOML file into a plan: checked, typed values, or an error with its place and its cause.
//!
//! ```text
//! text ─ overrides ─▶ document ─ sweep ─▶ one tree for each point ─ check ─▶ tables ─ resolve ─▶ Scenario, or problems
//!                                                                                             problems ─▶ file, line, what is valid
//! ```
//!
//! The parser does not track positions in the file. A problem carries the path of its key; when it is printed, that path is
//! looked up in the file, among the overrides of the command line, or in the sweep that gives the value.

use std::path::Path;

mod advice;
mod check;
pub mod client_file;
mod kind;
pub mod omb;
mod overrides;
mod path;
mod plan;
mod problem;
mod resolve;
mod sweep;
pub mod tables;
mod url;

pub use check::scenario_schema;
pub use kind::{Absent, Capabilities, Contradiction, Descriptor, Kinds, NAMES_OF_RUNS, Need, SinkDescriptor};
pub use overrides::{Origin, Setting, Written};
pub use plan::{notes_on, parse_for, parse_written};
pub use problem::{Refusal, ScenarioError};
pub use resolve::keys_of_brokers;
#[cfg(test)]
pub(crate) use resolve::{every_key, own_keys_of};
pub use tables::*;
pub use url::{UrlScenario, is_url, parse_url};

use crate::net::address;
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
        let advice = instead_of(path, kinds);
        ScenarioError::single(format!("{}: the scenario cannot be read: {error}\n   = {advice}\n", path.display()))
    })
}

/// What to write in place of a path that cannot be read: perhaps a broker was meant.
fn instead_of(path: &Path, kinds: Kinds<'_>) -> String {
    let written = path.to_string_lossy();
    let kept = path.join("scenario.toml");
    if kept.is_file() {
        return format!("this is a directory of results: its scenario is {}", kept.display());
    }
    if let Some(descriptor) = kinds.broker(&written) {
        let kind = descriptor.kind;
        return format!(
            "write the broker's URL, as in `{kind}://10.0.0.5`, or a file: `brokermark new {kind} > my.toml`"
        );
    }
    if let Some((kind, rest)) = written.split_once(':')
        && kinds.broker(kind).is_some()
    {
        return format!("write the broker's URL as `{kind}://{}`", rest.trim_start_matches('/'));
    }
    if address::check(&written).is_ok() {
        let known = kinds.names();
        let kind = known.first().copied().unwrap_or("kafka");
        return format!("an address needs the kind of its broker before it, as in `{kind}://{written}`");
    }
    "a scenario is a TOML file (`brokermark new` writes one) or a broker's URL, as in `kafka://10.0.0.5:9092`"
        .to_owned()
}
