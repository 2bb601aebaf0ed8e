//! `[[faults]]`: commands that break something while the load runs, and take it back.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DurationText;
use super::units::format_duration;

/// `[[faults]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("x-advice" = "write `run = \"docker kill kafka-2\"` with `at = \"20s\"`"))]
pub struct FaultTable {
    /// When the command begins, since the measured window began. Default, with `every`: after the first `every`.
    #[serde(default, with = "DurationText")]
    pub at: Option<Duration>,
    /// Time from one begin of the command to the next. Default: it runs once.
    #[serde(default, with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub every: Option<Duration>,
    /// Command, by `sh -c` in the current directory, on the machine of this process.
    #[schemars(length(min = 1))]
    pub run: String,
    /// Command that takes it back, `for` after the first one began, and in any case when the load has ended.
    #[schemars(length(min = 1))]
    pub undo: Option<String>,
    /// How long the fault lasts.
    #[serde(default, rename = "for", with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub lasts: Option<Duration>,
}

/// A fault at its time: one that is repeated is several of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Position of its table in the scenario, from 0.
    pub table: usize,
    /// When it begins, since the measured window began.
    pub at: Duration,
    pub run: String,
    pub undo: Option<Undo>,
}

/// What takes a fault back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    pub run: String,
    /// How long after the fault's begin.
    pub after: Duration,
}

impl Fault {
    /// When it has been taken back, or has begun where it never is.
    pub fn end(&self) -> Duration {
        self.at + self.undo.as_ref().map_or(Duration::ZERO, |undo| undo.after)
    }
}

/// As in "at 20s: `docker kill kafka-2`, undone after 10s by `docker start kafka-2`".
impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at {}: {}", format_duration(self.at), on_one_line(&self.run))?;
        let Some(Undo { run, after }) = &self.undo else { return Ok(()) };
        write!(formatter, ", undone after {} by {}", format_duration(*after), on_one_line(run))
    }
}

/// A command between backticks, on one line: so that it cannot seem to be something else than a command.
pub fn on_one_line(command: &str) -> String {
    format!("`{}`", command.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"))
}
