//! Whether the figures can be trusted, what limited them, and whether the thresholds held.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the record can be trusted, with the evidence. Before the evaluation it is not valid.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Verdict {
    /// Whether the figures mean what they seem to: no reason speaks against it.
    pub valid: bool,
    /// Reasons against trusting the figures, the gravest first; empty when `valid`.
    pub reasons: Vec<Reason>,
    /// Notes that a reader should know, and that do not make the figures wrong.
    pub notes: Vec<Reason>,
    /// Limit that kept the throughput from being higher.
    pub limited_by: LimitedBy,
}

impl Verdict {
    /// The kinds of the reasons, for formats that have no room for more; `None` of a valid record.
    pub fn kinds_against(&self) -> Option<String> {
        let kinds = || self.reasons.iter().map(|reason| reason.kind.to_string()).collect::<Vec<_>>().join(", ");
        (!self.valid).then(kinds)
    }
}

/// One finding, with its evidence and what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reason {
    /// Kind of the finding.
    pub kind: ReasonKind,
    /// A sentence with the figures that show it.
    pub evidence: String,
    /// A sentence on what to change.
    pub advice: String,
    /// The evidence's figures, named with their units.
    pub figures: BTreeMap<String, f64>,
}

impl Reason {
    /// A finding. Figures that are not finite are left out.
    pub fn new(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Self {
        let figures = figures.iter().filter(|(_, value)| value.is_finite());
        let figures = figures.map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Reason { kind, evidence, advice: advice.to_owned(), figures }
    }
}

/// What can be found; `docs/RESULT.md` has each one's exact condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonKind {
    /// The ledger does not add up: a bug of brokermark.
    LedgerMismatch,
    /// The trial failed before its end.
    Failed,
    /// Not all shares of the scenario are in the merged record.
    ShareMissing,
    /// The measured windows of the shares overlap too little.
    SharesApart,
    /// The trial was stopped by a signal.
    Interrupted,
    /// Nothing moved for `run.stall_deadline`.
    Stalled,
    /// The trial had not ended when the checkpoint was written.
    Unfinished,
    /// A consumer crashed: a bug of brokermark or of a client library.
    ConsumerCrashed,
    /// Another client deleted a topic of the trial, and one of its name was created again.
    TopicReplaced,
    /// The broker ran in this process, so no throughput of it means anything.
    Embedded,
    /// brokermark was built without optimisation.
    DebugBuild,
    /// Acknowledged messages were lost, delivered twice or damaged.
    Losses,
    /// Acknowledged messages were not read before the wait for consumers ended.
    Unread,
    /// Acknowledged messages were removed by the broker's own rules before a group had received them.
    Removed,
    /// Consumers fell further and further behind, so that end-to-end latency tells the length of the trial.
    LagGrew,
    /// Consumers received the last messages long after the load had ended.
    ConsumersBehind,
    /// Messages arrived that had failed or had no outcome.
    NotAcknowledgedButStored,
    /// Messages came in another order than they were sent.
    Reordered,
    /// The verifier could not follow every message.
    VerificationIncomplete,
    /// A command of a fault failed, or was not begun.
    FaultFailed,
    /// Consumers met errors while receiving.
    ReceiveErrors,
    /// Connections without messages did not become ready, or were lost.
    ConnectionsMissing,
    /// Not every message is in every database of the pipeline, or not once.
    NotReconciled,
    /// Databases had rows already.
    WrittenTwice,
    /// Writing to a database failed and was tried again.
    SinkErrors,
    /// Messages could not be read by the pipeline.
    Unparsable,
    /// The pipeline did not keep up with the producers.
    FellBehind,
    /// Messages are missing from the latencies: they failed, had no outcome when the drain deadline passed, or were due and never
    /// sent.
    MissingMessages,
    /// Latencies were too large for the histogram.
    BeyondRange,
    /// The schedule's rate was not reached, or not in time.
    RateMissed,
    /// The load generator itself was the limit.
    ClientBound,
    /// Time was withheld from the machine or from this process.
    TimeWithheld,
    /// A good part of the latency, or of an outage, is the load generator's own delay.
    OwnDelay,
    /// Too few events made a high percentile for another run to have it as well.
    FewEventsInTail,
    /// The topics had been written to before the trial.
    TopicNotEmpty,
    /// What the broker's processes used is not known, though the scenario watches them.
    BrokerUnwatched,
    /// The machine was short of CPU, or its tasks waited for disks, for reasons outside this process.
    HostContended,
    /// So many hardware threads were busy that physical cores ran two at once.
    SharedCores,
    /// Nothing was warmed up, and the slowest messages are those of the begin.
    ColdStart,
    /// The measurement began before the load was steady.
    WarmUpTooShort,
    /// Throughput or latency was not steady over the measurement.
    NotSteady,
    /// The rate inside the window and the rate until the last acknowledgement differ.
    RatesDiffer,
    /// Too little was measured.
    TooShort,
    /// End-to-end latency was measured between clocks that may differ by a good part of it.
    ClocksDiffer,
    /// Shares ran on machines that are not alike.
    UnequalMachines,
    /// The record is of one share of a scenario: `brokermark merge` puts all of them together.
    OneShare,
    /// The load began later than planned.
    LateStart,
}

impl ReasonKind {
    /// Whether it speaks against rates and latencies alone. Other reasons say that messages are missing, or that something broke.
    pub fn is_about_speed(self) -> bool {
        use ReasonKind::*;
        matches!(
            self,
            ClientBound
                | ColdStart
                | ConsumersBehind
                | DebugBuild
                | FewEventsInTail
                | HostContended
                | LagGrew
                | NotSteady
                | OwnDelay
                | RateMissed
                | RatesDiffer
                | SharedCores
                | TimeWithheld
                | TooShort
                | WarmUpTooShort
        )
    }
}

/// What kept the throughput from being higher, as far as the evidence goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LimitedBy {
    /// Limit.
    pub limiter: Limiter,
    /// A sentence with the figures that point to it.
    pub evidence: String,
}

/// What can limit throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limiter {
    /// The load generator: it had no more CPU to send with.
    Client,
    /// The machine of the load generator: its cores were all busy, with the load generator and with other processes. A broker
    /// on the same machine is usually among them.
    Machine,
    /// The broker, or the network to it: messages waited for it while the client was idle.
    Broker,
    /// The schedule asked for no more, and got it.
    Schedule,
    /// The window of messages without an answer, of a closed or an open loop: messages waited for the answer to those before, with the queue
    /// never full.
    Window,
    /// The pipeline behind the broker: `pipeline.bottleneck` names the stage.
    Pipeline,
    /// The evidence does not show it.
    #[default]
    Unknown,
}

/// Whether one threshold of the scenario held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ThresholdOutcome {
    /// Threshold as the scenario has it.
    pub text: String,
    /// Measured value, in the metric's own unit (nanoseconds, messages or bytes per second, a count); `null` when the
    /// record has no such figure, and then the threshold did not hold.
    pub measured: Option<f64>,
    /// Whether it held.
    pub held: bool,
    /// Measured value, readably, or why there is none.
    pub explanation: String,
}
