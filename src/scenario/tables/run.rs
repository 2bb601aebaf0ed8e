//! `[run]`, `[sweep]`, `[thresholds]` and `[output]`: how long a trial lasts, how often it is repeated, and what becomes of it.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ByteSize, Count, DurationText, Load, WhenInvalid};

/// Where runs are kept unless the scenario or the command line says otherwise.
pub const DEFAULT_OUTPUT_DIRECTORY: &str = "results";

/// More than any machine has cores.
const MAX_THREADS: u64 = 4096;

/// More trials than this are a mistake: at a second each they would take a day.
pub(in crate::scenario) const MAX_TRIALS: usize = 100_000;

/// `[run]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct RunTable {
    #[serde(flatten)]
    pub limits: RunLimits,
    /// Threads that send and receive. Default: one for each core that the process may use.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_THREADS))]
    pub threads: Option<usize>,
    /// How the kernel schedules all threads of the process. Default: `batch` in a closed loop, `other` in an open one.
    pub scheduling_policy: Option<SchedulingPolicy>,
}

/// How long a trial lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunLimits {
    /// Warm-up: the same load, not measured.
    #[serde(with = "DurationText")]
    pub warm_up: Duration,
    #[serde(flatten)]
    pub stop: Stop,
    /// How long to wait for outcomes afterwards, and for consumers without progress.
    // Under 10 minutes.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub drain_deadline: Duration,
    /// How long to wait for consumers afterwards, even if they make progress.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub catch_up_deadline: Duration,
    /// How long a load without `duration` may make no progress before it ends.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub stall_deadline: Duration,
    /// How long the run may take to end after SIGTERM or SIGHUP, its record and the removal of its topics included.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub signal_deadline: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        RunLimits {
            warm_up: Duration::ZERO,
            stop: Stop::default(),
            drain_deadline: Duration::from_secs(30),
            catch_up_deadline: Duration::from_secs(300),
            stall_deadline: Duration::from_secs(60),
            // Docker kills a container that has not ended after 10 s.
            signal_deadline: Duration::from_secs(8),
        }
    }
}

/// What ends the measurement: whichever comes first. At least one is set.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stop {
    /// Messages that end the measurement; the limit that is reached first counts.
    #[serde(with = "Count")]
    #[schemars(range(min = 1))]
    pub messages: Option<u64>,
    /// Payload bytes that end the measurement.
    #[serde(with = "ByteSize")]
    #[schemars(range(min = 1))]
    pub payload_bytes: Option<u64>,
    /// Time that ends the measurement.
    #[serde(with = "DurationText")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub duration: Option<Duration>,
}

/// The threads that carry the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Threads {
    /// `None`: one for each core that the process may use.
    pub count: Option<usize>,
    pub scheduling_policy: SchedulingPolicy,
}

/// How the kernel schedules them where cores are scarce (sched(7) of Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingPolicy {
    /// `SCHED_BATCH`: a thread that wakes does not take the core from one that runs, such as one of a broker on the same machine.
    Batch,
    /// `SCHED_OTHER`, which processes have by default.
    #[default]
    Other,
}

impl SchedulingPolicy {
    /// That of a scenario which does not say: an open loop has to wake when a message is due, and a closed loop does not.
    pub fn for_load(load: &Load) -> Self {
        match load {
            Load::Closed => SchedulingPolicy::Batch,
            Load::Open(_) => SchedulingPolicy::Other,
        }
    }

    /// As the scenario has it.
    pub fn name(self) -> &'static str {
        match self {
            SchedulingPolicy::Batch => "batch",
            SchedulingPolicy::Other => "other",
        }
    }
}

/// `[sweep]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct SweepTable {
    /// Values of each swept key: a list, or a span of numbers.
    #[schemars(with = "std::collections::BTreeMap<String, Axis>", extend("x-advice" = "write `[sweep.over]` and below it `\"producers.count\" = [1, 2]`"))]
    pub over: toml::Table,
    /// Trials of each point. Default: 1, or 6 with `until`, where it is the fewest.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_TRIALS))]
    pub trials: Option<u32>,
    /// Metric, and half the width of its interval at which a point needs no further trial.
    pub until: Option<String>,
    /// Most trials of a point with `until`. Default: 30.
    #[serde(with = "Count")]
    #[schemars(range(min = 1, max = MAX_TRIALS))]
    pub trials_at_most: Option<u32>,
    /// Order of the trials.
    pub order: Order,
    /// Seed of a shuffled order.
    #[serde(with = "Count")]
    pub seed: u64,
    /// How the values of several keys are combined.
    pub combine: Combine,
    /// Time between two trials.
    #[serde(with = "DurationText")]
    pub pause: Duration,
}

impl Default for SweepTable {
    fn default() -> Self {
        SweepTable {
            over: toml::Table::new(),
            trials: None,
            until: None,
            trials_at_most: None,
            order: Order::Sequential,
            seed: 1,
            combine: Combine::Cartesian,
            pause: Duration::ZERO,
        }
    }
}

const OVER: &str = "write a list, { doubling = [128, 8192] } or { from = 1, to = 10, step = 3 }";

/// The values of a swept key; a table may also be a part of a key with dots and without quotes.
#[derive(JsonSchema)]
#[schemars(untagged, extend("x-advice" = OVER))]
#[allow(dead_code)]
enum Axis {
    Values(#[schemars(length(min = 1))] Vec<serde_json::Value>),
    Table(serde_json::Map<String, serde_json::Value>),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All trials of a point, then the next point.
    Sequential,
    /// Every point once, then every point again.
    Interleaved,
    /// Every point once in an order by `seed`, then every point again in another.
    Shuffled,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Every combination, the first key changing slowest.
    Cartesian,
    /// The first values together, then the second, and so on.
    Zipped,
}

/// A swept key's span of numbers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = OVER))]
pub enum SpanTable {
    Doubling(DoublingTable),
    Steps(StepsTable),
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DoublingTable {
    /// First and last value.
    #[schemars(extend("x-advice" = "write the first and the last value, as in [128, 8192]"))]
    pub doubling: [SpanEnd; 2],
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StepsTable {
    /// First value.
    pub from: SpanEnd,
    /// Last value.
    pub to: SpanEnd,
    /// Difference between two values.
    pub step: SpanEnd,
}

/// A number, with or without a unit.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-wanted" = "a number, with or without a unit", "x-advice" = "write it as in 128 or \"64KiB\""))]
pub enum SpanEnd {
    Whole(i64),
    Fraction(f64),
    Text(String),
}

/// `[thresholds]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ThresholdsTable {
    /// Requirements, each as `metric comparison value`. A single one needs no list.
    pub require: Option<Requirements>,
    /// What a record that is not valid means for the run.
    pub when_invalid: WhenInvalid,
}

const THRESHOLD: &str = "write `metric comparison value`, as in \"p99 < 10ms\" or \"messages_per_second > 50k\"";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = THRESHOLD))]
pub enum Requirements {
    One(Requirement),
    Several(#[schemars(length(min = 1), extend("x-advice" = THRESHOLD))] Vec<Requirement>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement(#[schemars(extend("format" = "threshold"))] pub String);

/// `[output]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Output {
    /// Directory of runs, relative to the working directory.
    #[schemars(length(min = 1), extend("x-advice" = "write \".\" for the working directory"))]
    pub directory: PathBuf,
    /// Files that are written beside the records.
    pub formats: Vec<OutputFormat>,
}

impl Default for Output {
    fn default() -> Self {
        Output { directory: PathBuf::from(DEFAULT_OUTPUT_DIRECTORY), formats: vec![OutputFormat::Hlog] }
    }
}

/// What is written beside `records.jsonl` and `series.jsonl`, which every run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// `latency.hlog`, an HdrHistogram interval log.
    Hlog,
    /// `metrics.txt`, the figures for Prometheus.
    OpenMetrics,
}
