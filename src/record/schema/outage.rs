//! Where acknowledgements stopped, and how long it took until the rate was held again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stretch that begins with a gap: no message was acknowledged for 200 ms or longer (and five times as long as is usual in the
/// trial), although ten messages or more were due. Gaps that follow before the rate is held again belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outage {
    /// When the last message before it was acknowledged, in nanoseconds since the begin of the measured phase (0: before it); where a
    /// schedule paused then, when messages were due again, to 100 ms.
    pub begin_ns: u64,
    /// Its longest time without an acknowledgement, in nanoseconds; until the load ended where none came any more.
    pub longest_gap_ns: u64,
    /// From `begin_ns` to the next acknowledgement, in nanoseconds; `null`: none came.
    pub first_acknowledgement_ns: Option<u64>,
    /// From `begin_ns` until the rate was held again, in nanoseconds, to 100 ms: in the second that follows, 95 % of what was expected
    /// and more was acknowledged, without another gap. `null`: not before the load ended.
    pub recovered_ns: Option<u64>,
    /// What was expected during the first gap, per second: in an open loop what the schedule had due, in a closed loop the rate of the
    /// 5 s before.
    pub expected_per_second: f64,
    /// For how much of `longest_gap_ns` a thread of the load generator was not woken, in nanoseconds: as its probe of pauses saw, in pauses of 20 ms
    /// and more. 0 in records of older builds.
    #[serde(default)]
    pub client_paused_ns: u64,
    /// Without the pauses of the load generator, none of its gaps would be an outage: it is not known whether the broker had one.
    #[serde(default)]
    pub caused_by_client: bool,
}
