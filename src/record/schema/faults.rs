//! The faults of a scenario, in a record: their commands, and what followed each of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fault that the scenario asks for. One that is repeated is several of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Fault {
    /// Position of its table `[[faults]]` in the scenario, from 0.
    pub table: usize,
    /// Time at which it was to begin, in nanoseconds since the begin of the measured phase.
    pub at_ns: u64,
    /// Command that breaks something, and what followed it.
    pub run: FaultCommand,
    /// Command that takes it back, and what followed that; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<FaultCommand>,
}

impl Fault {
    /// Its commands: each with the word for what it did.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &FaultCommand)> {
        std::iter::once(("run", &self.run)).chain(self.undo.iter().map(|undo| ("undo", undo)))
    }
}

/// A command of a fault. What followed it is what happened from its begin to that of the next command, or to the end of the load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FaultCommand {
    /// Command, as the scenario has it.
    pub command: String,
    /// Begin, in nanoseconds since the begin of the measured phase; `null`: it was not begun.
    pub begin_ns: Option<u64>,
    /// End, by the same clock; `null`: it had not ended.
    pub end_ns: Option<u64>,
    /// Exit code; `null` where it did not end by itself.
    pub exit_code: Option<i32>,
    /// Reason why it did not do its work, as a part of a sentence; `null` where it exited with 0.
    pub failure: Option<String>,
    /// Last 4 KiB of what it printed to its standard output and its standard error.
    pub output: String,
    /// Outages that it was followed by: those that began at most 200 ms before it or later, without those that the load generator caused.
    pub outages: u64,
    /// Longest time without an acknowledgement in these outages, in nanoseconds; `null`: there were none.
    pub longest_gap_ns: Option<u64>,
    /// Time from the command's begin to the first acknowledgement after the first of these outages, in nanoseconds; `null`: there were none, or
    /// no acknowledgement followed.
    pub first_acknowledgement_ns: Option<u64>,
    /// Time from the command's begin until, after the last of these outages, the rate was held again, in nanoseconds; `null`: there were
    /// none, or it was not held again.
    pub recovered_ns: Option<u64>,
    /// Messages that failed, warm-up included, from the row of the series in which the command began to that in which the next one did.
    pub failed: u64,
}
