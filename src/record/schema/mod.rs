//! The record of one trial, `brokermark.record/1`: plain data, one file a subject.
//!
//! Field docs give unit and meaning; they become the descriptions in the JSON Schema. `null` always means "not known"
//! or "does not apply", never zero. Within version 1, fields may be added, but none is renamed, removed or given
//! another meaning; a reader ignores what it does not know.

mod client;
mod counts;
mod environment;
mod faults;
mod idle_connections;
mod latency;
mod pipeline;
mod series;
mod spread;
mod throughput;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::broker::{ConsumerAnswers, Durability, DurabilityLevel, RemovalCause, RemovalRule};
pub use client::{BrokerSource, BrokerUsage, Client, HostLoad, Lateness, LongPause, Pauses};
pub use counts::{Counts, ErrorCount, GroupVerification, Transactions, Verification, WarmUpCounts, saturating_sum};
pub use environment::{Environment, FoundTopic, LostRank, MergedShare, RankClock, Share, Start, Together};
pub use faults::{Fault, FaultCommand};
pub use idle_connections::IdleConnections;
pub use latency::{
    Exceedances, GroupLatency, HistogramError, Latencies, Latency, MIN_TAIL_SECONDS, SlowestMessages, Tail,
    decode_histogram, encode_histogram, independent_values_needed,
};
pub use pipeline::{
    Bottleneck, KeptUp, Pipeline, PublishedFigures, ReadBack, Reconciliation, RowCount, SinkRecord, StageTime,
    UnparsableCount,
};
pub use series::{
    Backlog, BacklogPhase, Condition, GroupDrain, GroupRow, GroupTask, Outage, Phase, SchedulePart, SchedulePartKind,
    SeriesRow, WorkDistribution,
};
pub use spread::{ConsumerFigures, ConsumerSpread, Consumers, Extent, PartitionFigures, Partitions};
pub use throughput::{Completion, PayloadSizes, ProducerShares, Throughput, Wire};
pub use verdict::{LimitedBy, Limiter, Reason, ReasonKind, ThresholdOutcome, Verdict};

use crate::measure::FailureClass;
use crate::scenario::{ScenarioTables, Timing};
pub use crate::schemas::PayloadSchema;

/// The value of [`Record::schema`] that this build writes and reads.
pub const SCHEMA: &str = "brokermark.record/1";

/// The result of one trial: what was asked for, what happened, and whether it can be trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Record {
    /// Name and version of this format, `brokermark.record/1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The scenario's `name`.
    pub scenario_name: String,
    /// Identifier of the run: all trials of one invocation share it. Client ids, groups and topics made by it begin with it.
    pub run_id: String,
    /// End of the trial.
    pub status: Status,
    /// Reason why the trial failed, when `status` is `failed`.
    pub error: Option<String>,
    /// Begin of the trial (before its warm-up), in UTC.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: jiff::Timestamp,
    /// Number of this repetition of its point, from 1.
    #[schemars(range(min = 1))]
    pub trial: u32,
    /// Position of the point among the points of the sweep, from 0; 0 when nothing is swept.
    pub point_index: usize,
    /// The swept keys with this point's values; empty when nothing is swept.
    pub point: BTreeMap<String, serde_json::Value>,
    /// Rule that decided when messages were sent.
    pub load_model: LoadModel,
    /// Name of the trial's headline latency: `response` in an open loop, `service` in a closed one. A closed loop has
    /// no schedule, so it has no response time.
    pub headline: Headline,
    /// The account of messages.
    pub counts: Counts,
    /// Rates: what was carried, per second.
    pub throughput: Throughput,
    /// Latencies: how long messages took.
    pub latency: Latencies,
    /// The parts of a schedule that changes its rate, in their order; left out where it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SchedulePart>,
    /// The backlog that the consumers were to find; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Outages, where acknowledgements stopped for a while, in their order; left out where they did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Faults that the scenario asks for, in the order of their times, with what followed them; left out without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Conditions that held messages up, as the client saw it, in the order in which they began; left out where nothing did, and in records of older
    /// builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Failed messages by class, most frequent first; empty when none failed. Warm-up is not in it.
    pub errors: Vec<ErrorCount>,
    /// Errors the consumers met while receiving, by class, most frequent first, warm-up and verification included; each
    /// was retried. Their `count` is of errors, not of messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receive_errors: Vec<ErrorCount>,
    /// Meaning of an acknowledgement; `level` is `unknown` where the broker does not tell.
    #[serde(default)]
    pub durability: Durability,
    /// Messages that the consumers found missing, twice or damaged; `null` when nothing was verified.
    pub verification: Option<Verification>,
    /// Figures of single partitions; left out where there is one only, where no client knows the partition of a message, and
    /// in merged records and checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Partitions>,
    /// Figures of single consumers; left out where no group has two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumers: Option<Consumers>,
    /// Topics as they were found, with `topology.existing`; left out otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_topics: Vec<FoundTopic>,
    /// Names of the topics, at most the first 100; left out in records of older builds, and where the trial failed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Messages that topics had been written to before the trial, by their end offsets: of topics whose names the scenario gives. Left
    /// out where the topics were made for the trial, or where the broker does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_before: Option<u64>,
    /// Sizes of the payloads; left out in records of older builds, and where the trial failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_sizes: Option<PayloadSizes>,
    /// Schema of the payloads; left out where they have none, and where the trial failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<PayloadSchema>,
    /// The transactions in which messages were sent; left out where they were sent without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    /// Answers of consumers to messages; left out where the broker takes none for single messages, or the client does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_answers: Option<ConsumerAnswers>,
    /// Requests and bytes that crossed the wire; absent where the client library does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// Connections that carried no messages; left out where the scenario has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_connections: Option<IdleConnections>,
    /// Figures of the pipeline; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Resources that the load generator itself used.
    pub client: Client,
    /// Load of the whole machine meanwhile; `null` where the system does not report it.
    pub host_load: Option<HostLoad>,
    /// Resources that the broker's processes used, as far as `broker.watch` names them; left out where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_usage: Option<BrokerUsage>,
    /// Verdict: whether the figures can be trusted, and what limited them.
    pub verdict: Verdict,
    /// The scenario's thresholds, in its order; empty when it has none.
    pub thresholds: Vec<ThresholdOutcome>,
    /// Begin of the load, where a time was set (`--start-at`); left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Share of the scenario that this record is about, where several processes ran it (`--share`); left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The shares that this record was merged from; left out otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<MergedShare>,
    /// Overlap of these shares in time; left out otherwise, and in records of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// Ranks of an MPI job that were lost during the trial, or failed; left out where all kept what they measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_ranks: Vec<LostRank>,
    /// Environment that is needed to repeat the trial, besides the scenario.
    pub environment: Environment,
    /// The scenario at this point as a JSON document, secrets masked.
    pub scenario: serde_json::Value,
    /// Keys that the scenario leaves out, with the values that held; empty in records of older builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, serde_json::Value>,
}

impl Record {
    /// Failed messages of transactions that the scenario has aborted: no consumer waits for them.
    pub fn aborted_on_purpose(&self) -> u64 {
        let aborted = self.errors.iter().filter(|error| error.class == FailureClass::Aborted);
        saturating_sum(aborted.map(|error| error.count))
    }

    /// [`Counts::without_acknowledgement`] without the messages that the scenario aborted on purpose.
    pub fn without_acknowledgement(&self) -> u64 {
        self.counts.without_acknowledgement().saturating_sub(self.aborted_on_purpose())
    }

    /// Messages per second that the schedule had due, but for the share of transactions that the scenario has aborted; `None` in a closed loop.
    pub fn target_without_aborted(&self) -> Option<f64> {
        let wanted = self.counts.attempted.saturating_add(self.counts.unsent);
        let aborted = self.aborted_on_purpose().min(wanted) as f64 / wanted.max(1) as f64;
        self.throughput.target_per_second.map(|target| target * (1.0 - aborted))
    }

    /// The latency that [`Record::headline`] names, if any message was acknowledged.
    pub fn headline_latency(&self) -> Option<&Latency> {
        match self.headline {
            Headline::Response => self.latency.response.as_ref(),
            Headline::Service => self.latency.service.as_ref(),
        }
    }

    /// The record as a line of `records.jsonl`, with its line end: also what is printed when the file cannot be written.
    pub fn to_line(&self) -> String {
        line(self)
    }

    /// The scenario's tables, with the defaults that the record tells.
    pub fn tables(&self) -> ScenarioTables {
        ScenarioTables::from_record(&self.scenario, &self.defaults)
    }

    /// The name of a group of consumers; without one, its number.
    pub fn group_name(&self, group: usize) -> String {
        let name = self.scenario["consumers"]["group"][group]["name"].as_str();
        name.map_or_else(|| group.to_string(), str::to_owned)
    }

    /// The kind of broker that was loaded. Every scenario writes it, so that its tables need not be read for it: renderers ask often.
    pub fn broker_kind(&self) -> Option<&str> {
        self.scenario.get("broker")?.get("kind")?.as_str()
    }

    /// The part of the machine's CPU that programs took beside brokermark and the watched processes of the broker: 0 to 1.
    pub fn cpu_share_of_others(&self) -> Option<f64> {
        let cores = self.environment.cores.max(1) as f64;
        // Of processes on another machine, the number of cores is not known.
        let broker = self.broker_usage.as_ref().filter(|usage| usage.cores_of_machine.is_some());
        let known = self.client.cores_used + broker.and_then(|usage| usage.cores_used).unwrap_or(0.0);
        Some((self.host_load?.system_cpu_busy - known / cores).max(0.0))
    }

    /// The broker that the scenario names: its kind, the client where the kind has several, and its addresses.
    pub fn broker_asked_for(&self) -> Option<(String, Option<String>, Vec<String>)> {
        let broker = ScenarioTables::from_record(&self.scenario, &BTreeMap::new()).broker?;
        Some((broker.kind, broker.client, broker.addresses.unwrap_or_else(|| Vec::from_iter(broker.address))))
    }

    /// Whether end-to-end latency is that of messages which the consumers' own process sent: `consumers.timing = "own"`.
    pub fn times_own_messages(&self) -> bool {
        self.tables().consumers.is_some_and(|consumers| consumers.timing == Timing::Own)
    }

    /// Whether it only shows what a result looks like: the broker ran in this process, and nothing broke. How fast such a broker
    /// is, and how steady, does not matter.
    pub fn is_demonstration(&self) -> bool {
        let is_to_show = |reason: &Reason| reason.kind == ReasonKind::Embedded || reason.kind.is_about_speed();
        self.status == Status::Completed
            && self.environment.embedded
            && !self.verdict.reasons.is_empty()
            && self.verdict.reasons.iter().all(is_to_show)
    }

    /// Whether the broker was the one that answers within this process: `kind = "null"`.
    pub fn is_without_broker(&self) -> bool {
        self.broker_kind() == Some("null")
    }

    /// Whether a threshold was missed.
    pub fn missed_a_threshold(&self) -> bool {
        self.thresholds.iter().any(|outcome| !outcome.held)
    }
}

/// A line of JSON with its end. Serialising fails only for maps whose keys are not strings; what is kept of a run has no such maps.
pub(in crate::record) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ran to its stop condition.
    Completed,
    /// It was stopped by a signal; what had been measured until then is kept.
    Interrupted,
    /// Nothing moved for `run.stall_deadline`, so the load was ended before its stop condition.
    Stalled,
    /// It could not run, or not to its end; `error` has the cause.
    #[default]
    Failed,
    /// It had not ended when this was written, once a minute: it still runs, or the run was killed. Only a checkpoint has
    /// this status.
    Running,
}

/// What decided when messages were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadModel {
    /// The broker did: every producer kept a window of messages in flight. A stall delays all later messages unseen.
    #[default]
    Closed,
    /// A schedule did, which does not wait for the broker.
    Open,
}

impl LoadModel {
    /// The latency that is the headline under this load.
    pub fn headline(self) -> Headline {
        match self {
            LoadModel::Closed => Headline::Service,
            LoadModel::Open => Headline::Response,
        }
    }
}

/// The latency that a record leads with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Headline {
    /// Intended → acknowledged.
    Response,
    /// Sent → acknowledged.
    #[default]
    Service,
}

/// As in a record.
macro_rules! display_as_recorded {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.serialize(formatter)
            }
        }
    )*};
}

display_as_recorded!(Headline, SchedulePartKind, ReasonKind, Limiter, super::ProbeResult);

/// A point's swept values as a record carries them.
///
/// A value that JSON cannot hold (a TOML date, a float that is not finite) becomes its TOML text.
pub fn point_values(point: &crate::scenario::Point) -> BTreeMap<String, serde_json::Value> {
    point.iter().map(|(key, value)| (key.clone(), json_value(value))).collect()
}

fn json_value(value: &toml::Value) -> serde_json::Value {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) if number.is_finite() => (*number).into(),
        toml::Value::Boolean(flag) => (*flag).into(),
        toml::Value::Array(items) => items.iter().map(json_value).collect(),
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), json_value(value))).collect(),
        toml::Value::Float(_) | toml::Value::Datetime(_) => value.to_string().into(),
    }
}
