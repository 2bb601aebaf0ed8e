//! Results of single parts of a schedule that changes its rate.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latency;

/// What happened while the schedule was in one part, and what became of the messages that were intended in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SchedulePart {
    /// What the part is.
    pub kind: SchedulePartKind,
    /// When it began, in nanoseconds since the load began; of bursts, when the first one that was measured did.
    pub begin_ns: u64,
    /// How long it lasted inside the measured window, in nanoseconds; of bursts, all of them together.
    pub duration_ns: u64,
    /// Messages that the schedule had due, per second.
    pub target_per_second: f64,
    /// Messages handed to the client meanwhile, per second.
    pub sent_per_second: f64,
    /// Messages acknowledged meanwhile, per second.
    pub messages_per_second: f64,
    /// Response times of the messages that were intended in the part, whenever they were acknowledged; `null` when none was.
    pub response: Option<Latency>,
}

/// What a part of a schedule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulePartKind {
    /// A step of its own rate.
    Step,
    /// A tenth of a ramp.
    Ramp,
    /// All bursts together.
    Burst,
    /// What lies between bursts, or follows a ramp.
    Base,
}

/// As in a record.
impl fmt::Display for SchedulePartKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}
