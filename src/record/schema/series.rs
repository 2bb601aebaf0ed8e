//! What happened when: single seconds (the lines of `series.jsonl`), the parts of a schedule that changes its rate, the backlog that
//! consumers were to find with the tasks of single groups, and where acknowledgements stopped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latency;
use crate::measure::{ConditionKind, SubjectKind};
use crate::record::readable::duration;

/// What happened during one second, or a part of one in a short trial, by when it happened.
///
/// Unlike the record, whose counts go by intended time, a row counts events in the second in which they occurred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SeriesRow {
    /// The trial's point, as in its record.
    pub point_index: usize,
    /// The trial's repetition, as in its record.
    pub trial: u32,
    /// Full seconds between the begin of the load and the begin of this one.
    pub second: u64,
    /// Begin of the row, in nanoseconds since the load began; left out where several shares are together, and in rows of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_ns: Option<u64>,
    /// Length of the row, in nanoseconds; 0 in rows of an earlier build, which lasted a second where `full` is true.
    #[serde(default)]
    pub length_ns: u64,
    /// Messages that the schedule had due in it, before chance in a Poisson process; left out in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// The phase the second began in.
    pub phase: Phase,
    /// Whether it lies in one phase and lasted as long as was intended: a second, or a tenth of a shorter window.
    pub full: bool,
    /// Messages handed to the client.
    pub attempted: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages failed.
    pub failed: u64,
    /// Payload of the acknowledged messages, in bytes.
    pub payload_bytes: u64,
    /// Messages that arrived at a group for the first time, by all consumers, warm-up included; all messages received where
    /// nothing is verified. `null` without consumers.
    pub consumed: Option<u64>,
    /// Groups of consumers with what each received; of over 16 groups, the 16 that are the furthest behind. Left out without consumers, and in
    /// rows of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRow>,
    /// Messages that the pipeline was done with: written to every sink, unparsable, or abandoned; left out without a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<u64>,
    /// Messages that the pipeline was behind at the end of the second: in its partitions, and not done; left out without a
    /// pipeline or where the lag is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_lag: Option<u64>,
    /// Messages without outcome at the end of the second.
    pub in_flight: u64,
    /// Median of the headline latency of messages acknowledged in this second, in nanoseconds; `null` when there were none.
    pub p50_ns: Option<u64>,
    /// 99th percentile of that latency, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Most messages seen in the client library's queues; `null` when the library does not report it.
    pub queue_messages: Option<u64>,
    /// Cores busy with this process.
    pub cpu_cores: f64,
    /// Resident memory of this process at the end of the second, in bytes; left out where the system does not tell, and in rows of
    /// older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Cores busy with the broker's processes, as `broker.watch` names them; left out where they are not known. Of an endpoint with
    /// metrics: between the last two times that it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_cpu_cores: Option<f64>,
    /// Resident memory of the broker's processes, in bytes; left out where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_memory_bytes: Option<u64>,
    /// Commands of faults that began in it; left out where none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl SeriesRow {
    /// How long the row lasted, in seconds.
    pub fn seconds(&self) -> f64 {
        if self.length_ns == 0 { 1.0 } else { self.length_ns as f64 / 1e9 }
    }

    /// Messages acknowledged, per second.
    pub fn acknowledged_per_second(&self) -> f64 {
        self.acknowledged as f64 / self.seconds()
    }

    /// The row as a line of `series.jsonl`, with its line end.
    pub fn to_line(&self) -> String {
        super::line(self)
    }
}

/// What one group of consumers received in a row, whether messages are verified or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupRow {
    /// The group's number, from 0.
    pub group: u32,
    /// Messages of this trial that arrived at the group for the first time, warm-up included; repetitions are among them where nothing is
    /// verified.
    pub consumed: u64,
    /// Messages that had been acknowledged and had not arrived at the group at the end of the row. In a share, only its own producers and
    /// consumers count, so it may be negative, and only the sum over all shares says how far the group is behind. `null` where it is not
    /// known: the broker withholds messages on request, other programs read in the same group, or other programs send.
    pub consumer_lag: Option<i64>,
    /// Median of the end-to-end latency of measured messages that arrived in the row, in nanoseconds, within 1.6 %; `null` when there were
    /// none, with over 256 consumers, and where several shares received some.
    pub end_to_end_p50_ns: Option<u64>,
    /// 99th percentile of that latency.
    pub end_to_end_p99_ns: Option<u64>,
}

/// What a trial is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The same load, not measured.
    WarmUp,
    /// The load that the record is about.
    Measure,
    /// No more load; outcomes and consumers are waited for.
    Drain,
}

/// What happened while the schedule was in one part, and what became of the messages that were intended in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SchedulePart {
    /// Kind of the part.
    pub kind: SchedulePartKind,
    /// Begin in nanoseconds since the load began; of bursts, that of the first one that was measured.
    pub begin_ns: u64,
    /// Length inside the measured window, in nanoseconds; of bursts, all of them together.
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

/// A backlog: built before the consumers began, and drained while the producers went on at their rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Backlog {
    /// Messages that were acknowledged when the consumers were told to begin, warm-up included; `null` if the load ended before.
    pub messages: Option<u64>,
    /// The payload of these messages, in bytes.
    pub payload_bytes: Option<u64>,
    /// Phase in which no consumer had begun; without the warm-up.
    pub build: BacklogPhase,
    /// Phase from when the consumers were told to begin until the slowest group had caught up, or the load ended.
    pub drain: Option<BacklogPhase>,
    /// Phase after that, until the load ended; `null` if a group did not catch up.
    pub after: Option<BacklogPhase>,
    /// Drain of each group; empty if the consumers did not begin during the load.
    pub groups: Vec<GroupDrain>,
}

/// What the producers saw during one phase of a backlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BacklogPhase {
    /// Begin in nanoseconds since the load began.
    pub begin_ns: u64,
    /// Length in nanoseconds.
    pub duration_ns: u64,
    /// Messages handed to the client, per second.
    pub sent_per_second: f64,
    /// Messages acknowledged, per second.
    pub messages_per_second: f64,
    /// Messages received by all groups together, per second.
    pub consumed_per_second: f64,
    /// Response times of the measured messages that were acknowledged meanwhile; `null` when none was.
    pub response: Option<Latency>,
}

/// How one group drained the backlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupDrain {
    /// The group's number, from 0.
    pub group: usize,
    /// Time from when the consumers were told to begin to the group's first message, in nanoseconds, to 5 ms; `null`: none came before
    /// the load ended.
    pub first_arrival_ns: Option<u64>,
    /// Time from the group's first message until it had caught up, in nanoseconds, to 5 ms; `null`: not before the load ended.
    pub duration_ns: Option<u64>,
    /// Messages that it had received by then, or when the load ended.
    pub received: u64,
    /// Messages that it had still to receive at that moment: those of the last `caught_up_within` where it had caught up.
    pub behind: u64,
    /// Rate of `received` over `duration_ns`, per second; `null` if it did not catch up.
    pub received_per_second: Option<f64>,
}

/// What a group was told to do besides receiving.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupTask {
    /// Mean time for which each of its consumers worked on a message, in nanoseconds. Left out if it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_mean_ns: Option<u64>,
    /// Distribution of the times of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_distribution: Option<WorkDistribution>,
    /// Most messages per second that its consumers took together; left out without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_second: Option<f64>,
    /// Planned begin in nanoseconds after the load; left out if it began before the load, or with a backlog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_after_ns: Option<u64>,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkDistribution {
    Fixed,
    Exponential,
    Lognormal,
    Pareto,
}

/// A stretch that begins with a gap: no message was acknowledged for 200 ms or longer (and five times as long as is usual in the
/// trial), although ten messages or more were due. Gaps that follow before the rate is held again belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outage {
    /// Time at which the last message before it was acknowledged, in nanoseconds since the begin of the measured phase (0: before it); where a
    /// schedule paused then, when messages were due again, to 100 ms.
    pub begin_ns: u64,
    /// Longest time without an acknowledgement, in nanoseconds; until the load ended where none came any more. What of it lies outside the
    /// measured window counts.
    pub longest_gap_ns: u64,
    /// Longest time without an acknowledgement inside the measured window, in nanoseconds, without the pauses of the load generator. 0 in
    /// records of older builds.
    #[serde(default)]
    pub in_window_ns: u64,
    /// Time from `begin_ns` to the next acknowledgement, in nanoseconds; 0: that came before the measured phase as well; `null`: none came.
    pub first_acknowledgement_ns: Option<u64>,
    /// Time from `begin_ns` until the rate was held again, in nanoseconds, to 100 ms: in the second that follows, 95 % of what was expected
    /// and more was acknowledged, without another gap. `null`: not before the load ended.
    pub recovered_ns: Option<u64>,
    /// Messages expected during the first gap, per second: in an open loop what the schedule had due, in a closed loop the rate of the
    /// 5 s before.
    pub expected_per_second: f64,
    /// Part of `longest_gap_ns` for which a thread of the load generator was not woken, in nanoseconds: as its probe of pauses saw, in pauses of 20 ms
    /// and more. 0 in records of older builds.
    #[serde(default)]
    pub client_paused_ns: u64,
    /// Whether, without the pauses of the load generator, none of its gaps would be an outage: it is not known whether the broker had one.
    #[serde(default)]
    pub caused_by_client: bool,
}

impl Outage {
    /// When it began: "at 2.10 s", or that it was before the measured phase.
    pub fn when(&self) -> String {
        match self.begin_ns {
            0 => "before the measured phase".to_owned(),
            begin_ns => format!("at {}", duration(begin_ns as f64)),
        }
    }
}

/// What held messages up, as the client saw it: one kind of condition on one kind of subject, from the first subject that had it until none
/// had it any more. Where it comes back within a second, it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Condition {
    /// Kind of what held messages up.
    pub kind: ConditionKind,
    /// Kind of the subjects that were held up.
    pub subject: SubjectKind,
    /// Subjects that had it at once, at most.
    pub subjects_max: u64,
    /// Subjects that there are; `null` where that is not known.
    pub subjects: Option<u64>,
    /// Names of the first subjects that had it, at most eight.
    pub names: Vec<String>,
    /// Words of the broker when it began; empty where it says nothing.
    pub words: String,
    /// Begin, in nanoseconds since the load began (0: before it).
    pub begin_ns: u64,
    /// End, in nanoseconds since the load began; `null`: it lasted until the end of the trial.
    pub end_ns: Option<u64>,
    /// Time for which subjects had it, in nanoseconds: without the times in between in which none had it.
    pub lasted_ns: u64,
    /// Part of that which lay in the measured window.
    pub in_window_ns: u64,
}

impl Condition {
    /// Whether messages that are sent wait for it. A consumer's partition and group hold back what is received alone.
    pub fn holds_producers_up(&self) -> bool {
        self.kind.holds_up() && !matches!(self.subject, SubjectKind::ConsumedPartition | SubjectKind::Group)
    }

    /// What it was and of whom: "3 of 4 partitions: not enough in-sync replicas".
    pub fn told(&self) -> String {
        self.subject.told(self.subjects_max, self.subjects, &self.names, self.kind)
    }

    /// The same, with when, for how long, and the broker's words.
    pub fn told_in_full(&self) -> String {
        let begin = duration(self.begin_ns as f64);
        let until = self.end_ns.map_or("the end".to_owned(), |end| duration(end as f64));
        let words = if self.words.is_empty() { String::new() } else { format!(": {}", self.words) };
        format!("{}, for {} ({begin} to {until}){words}", self.told(), duration(self.lasted_ns as f64))
    }
}
