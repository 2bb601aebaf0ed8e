//! Where a record comes from: what is needed to repeat its trial besides the scenario, what an acknowledgement meant, topics that were there before
//! the trial, and the shares of a scenario that several processes run at once: a share's own record, and that of all together.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Versions and machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Environment {
    /// Version of brokermark.
    pub brokermark_version: String,
    /// Commit that brokermark was built from; `null` when the build did not know it.
    pub brokermark_commit: Option<String>,
    /// Compiler that brokermark was built with; `null` when the build did not know it.
    pub rust_compiler: Option<String>,
    /// Whether brokermark was built without optimisation: figures of such a build mean nothing.
    pub debug_build: bool,
    /// The client library and its version; `null` when the trial failed before there was a client.
    pub client_library: Option<String>,
    /// Name and version as the broker reports them; `null` when it reports none.
    pub broker: Option<String>,
    /// Whether the broker ran inside this process. No throughput is ever claimed from such a run.
    pub embedded: bool,
    /// Operating system and its release, as it names itself.
    pub operating_system: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Logical cores of the machine.
    pub cores: usize,
    /// Physical cores of the machine: fewer than `cores` where hardware threads share them; `null` where the system does not tell, and in
    /// records of older builds.
    #[serde(default)]
    pub physical_cores: Option<usize>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// The command line, one item an argument, secrets masked.
    pub command_line: Vec<String>,
}

impl Environment {
    /// The build of brokermark in words: two of the same words are the same program.
    pub fn build(&self) -> String {
        let of = |what: &Option<String>, unknown: &str| what.clone().unwrap_or_else(|| unknown.to_owned());
        format!(
            "brokermark {} ({}, {}{})",
            self.brokermark_version,
            of(&self.brokermark_commit, "unknown commit"),
            of(&self.rust_compiler, "unknown compiler"),
            if self.debug_build { ", without optimisation" } else { "" }
        )
    }
}

/// A topic as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FoundTopic {
    /// Name of the topic.
    pub name: String,
    /// Number of partitions.
    pub partitions: u32,
    /// Copies of its first partition.
    pub replication: u32,
}

/// When the load began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Start {
    /// Planned begin, in UTC (`--start-at`).
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub planned_at: Timestamp,
    /// Time at which its first message was intended, in UTC, by this machine's wall clock.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub began_at: Timestamp,
    /// Delay against the plan, in nanoseconds.
    pub late_ns: u64,
}

/// Which part of a scenario a record is about. Its rates, messages and verification are of that part; messages of other shares that its
/// consumers received are in what was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Share {
    /// Number of this share, from 1.
    #[schemars(range(min = 1))]
    pub number: usize,
    /// Number of all shares.
    #[schemars(range(min = 1))]
    pub count: usize,
    /// The first of its producers, counted over all shares from 0. Without producers: a number beyond all of them.
    pub first_producer: usize,
    /// Number of its producers.
    pub producers: usize,
    /// Number of its consumers in each group; where groups have members of their own, in the largest.
    pub consumers: usize,
    /// Begin of the measured window, in nanoseconds since 1970, by this machine's wall clock.
    pub window_begin_unix_ns: u64,
    /// Time at which its first message was handed to the client, in nanoseconds since 1970, by the same clock; `null`: none was, or the record is of an
    /// older build.
    #[serde(default)]
    pub first_sent_unix_ns: Option<u64>,
    /// Time at which that message was due: in an open loop by the schedule, in a closed one when the load began.
    #[serde(default)]
    pub first_due_unix_ns: Option<u64>,
    /// Correction added to this machine's wall clock to get that of rank 0, in nanoseconds: all times of the record are corrected by it. `null`
    /// where the share was not run by a rank of an MPI job.
    #[serde(default)]
    pub clock_shift_ns: Option<i64>,
    /// Most that the times of this machine's wall clock may be off, in nanoseconds: the larger of what its kernel knew when the trial began
    /// and when the load had ended, and how far it moved against the monotonic clock in between; `null` where it is not synchronised or
    /// the system does not tell. Of a rank: most that the corrected times are off from rank 0's, as was known before the trial, and what two
    /// clocks may drift apart since (30 µs/s); in a merged record as round trips during and after the trial show as well.
    pub clock_error_ns: Option<u64>,
    /// Identifier of the kernel that keeps the clock: shares with the same one are on one machine. `null` where it is not known; of a rank then
    /// its number.
    pub boot_id: Option<String>,
    /// Messages that arrived before their intended time, because clocks differ. Their end-to-end latency is recorded as 0.
    pub before_intended: u64,
    /// Most that one of them arrived before its intended time, in nanoseconds: the smallest end-to-end latency, which is negative.
    #[serde(default)]
    pub most_before_intended_ns: u64,
}

/// How far the shares of a merged record loaded at the same time. On several machines, as far as their clocks agree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Together {
    /// Share of the stretch covered by all measured windows which lies in every one of them.
    #[schemars(range(min = 0, max = 1))]
    pub window_overlap: f64,
    /// Nanoseconds from the begin of the first share's load to that of the last one's. A share's load begins at its set time, or later, by as
    /// much as its first message was handed over after it was due. `null` where that is not known of every share with producers.
    pub start_skew_ns: Option<u64>,
}

/// One of the shares of a merged record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MergedShare {
    /// Share as its own record has it.
    pub share: Share,
    /// Begin of its load; `null` where no time was set.
    pub start: Option<Start>,
    /// Name of its machine.
    pub hostname: Option<String>,
    /// Length of its measured window, in nanoseconds.
    pub window_ns: u64,
    /// Messages that it had acknowledged inside its window, per second.
    pub messages_per_second: f64,
    /// Cores that its process used.
    pub cores_used: f64,
    /// Whether its own record was valid, but for what only all shares can show.
    pub valid: bool,
    /// Comparison of its clock with that of the first, where ranks of an MPI job ran the shares; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<RankClock>,
}

/// How far a rank's clock is from the first rank's, by round trips between them before, during and after the trial. Ranks on one host read
/// one clock, so these are the round trips of all of them, and each has the same figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RankClock {
    /// Offset by which it was ahead before the trial, in nanoseconds: all its times were corrected by that.
    pub offset_ns: i64,
    /// Most that the corrected times are off, as far as round trips show, in nanoseconds. 0: both ranks read the clock of one kernel.
    pub error_ns: u64,
    /// Drift: how much further ahead it got in each second from before to after the trial, in nanoseconds; `null` where one of the two is not
    /// known, or the clock is the same.
    pub drift_ns_per_second: Option<f64>,
    /// Shortest round trip, in nanoseconds.
    pub round_trip_ns: u64,
    /// Number of round trips.
    pub round_trips: u64,
}

/// A rank of an MPI job that was lost during the trial, or failed. What it measured is in no figure of this record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LostRank {
    /// Number of its share, from 1.
    #[schemars(range(min = 1))]
    pub number: usize,
    /// Name of its machine.
    pub hostname: Option<String>,
    /// Sign by which it was noticed; of one that failed, the reason.
    pub reason: String,
    /// Whether it said itself that it could not run its share or keep it; `false`: it was not heard of any more.
    #[serde(default)]
    pub failed: bool,
    /// Phase in which it was heard of last.
    pub phase: String,
    /// Messages that it had handed over, as far as it had told.
    pub attempted: u64,
    /// Messages that it had acknowledged, as far as it had told.
    pub acknowledged: u64,
}
