//! Runs one trial: prepare ▸ warm up ▸ measure ▸ drain ▸ verify.
//!
//! - [`run_scenario`]: from the kind that a scenario names to the code compiled for it: the only dynamic call of a trial.
//! - `start_barrier`: a load that begins at a set time.
//! - `trial`: the phases, in order. `prepare`: the first one. `load_phase`: warm-up and measured window.
//! - `topics`: created, found and deleted, for every broker alike.
//! - `send`: producers. `receive`: consumers and pipelines.
//! - `sampler`, `collector`: read all recorders once a second and add up; an [`Observer`] gets the result, or a checkpoint: the trial as if
//!   it had ended now.
//! - `faults`: the commands that break something meanwhile.
//! - `backlog`: a backlog that is built and drained during the load.
//! - [`Interruption`]: what the user's signals end.
//! - [`Outcome`]: what was measured.

mod backlog;
mod broker_watch;
mod collector;
mod examine;
mod fault_log;
mod faults;
mod idle_connections;
mod interruption;
mod load_phase;
mod observer;
mod outcome;
mod prepare;
mod receive;
mod sampler;
mod send;
mod start_barrier;
mod topics;
mod trial;

use std::future::Future;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

pub use broker_watch::WatchedUsage;
#[cfg(test)]
pub(crate) use collector::{Collector, Sample};
pub use collector::{SegmentTotals, StretchTotals, Totals, WindowTotals};
pub use examine::{Examined, Opened, examine_scenario, remove_topics};
pub use fault_log::{CommandRun, FaultRun};
pub use idle_connections::IdleTally;
pub use interruption::{InterruptiblePhase, Interruption};
pub use observer::{GroupSecond, Observer, Phase, Second, TopicProgress};
pub use outcome::{
    Account, BacklogOutcome, End, GroupDrain, GroupOutcome, Ledger, Outcome, PartOutcome, PayloadSizes, Times,
};
pub use send::{Attempted, FirstSent, Sent, WakeUpDelays};
pub use start_barrier::{Preparation, StartBarrier};
pub use trial::run;

use crate::broker::registry::{self, Visitor};
use crate::broker::{Broker, BrokerError};
use crate::load::LoadError;
use crate::measure::host::HostShare;
use crate::pipeline::sink;
use crate::scenario::{Kinds, Scenario};

/// Identifies one trial.
#[derive(Debug, Clone)]
pub struct TrialIdentity {
    /// Topics, groups and client ids begin with it.
    pub run_id: String,
    /// Carried in every trace header.
    pub tag: u32,
    /// When its load is to begin, in nanoseconds since 1970; `None`: once everything is prepared.
    pub load_start_unix_ns: Option<u64>,
    /// Where the processes that run the trial together agree on that time.
    pub start_barrier: Option<StartBarrier>,
    /// What is added to this machine's wall clock to get the time that all processes of the trial go by.
    pub clock_shift_ns: i64,
    /// What was found out about that clock before the trial, where the processes compare theirs. Otherwise only its kernel knows how far it is off.
    pub compared: Option<ComparedClock>,
    /// Which of the processes on its host this one is.
    pub host_share: HostShare,
}

/// A clock that was compared with that of another process of the trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedClock {
    /// Processes with the same name read the same clock.
    pub name: String,
    /// What is added to it to get the other's.
    pub shift_ns: i64,
    /// Most that it is off after that; `None`: not known.
    pub error_ns: Option<u64>,
}

impl TrialIdentity {
    /// Of a trial that this process runs alone, and begins when everything is prepared.
    pub fn alone(run_id: String, tag: u32) -> Self {
        TrialIdentity {
            run_id,
            tag,
            load_start_unix_ns: None,
            start_barrier: None,
            clock_shift_ns: 0,
            compared: None,
            host_share: HostShare::ALONE,
        }
    }

    /// Now, in nanoseconds since 1970, by the time that all processes of the trial go by.
    pub fn now_unix_ns(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (now.as_nanos() as u64).saturating_add_signed(self.clock_shift_ns)
    }

    /// When its load is to begin, in nanoseconds since 1970, as far as that is known.
    pub fn begins_at_unix_ns(&self) -> Option<u64> {
        self.load_start_unix_ns.or_else(|| self.start_barrier.as_ref()?.start_unix_ns())
    }
}

impl EngineError {
    /// An error of broker `B`.
    pub(crate) fn from_broker<B: Broker>(error: BrokerError) -> Self {
        EngineError::Broker { kind: B::DESCRIPTOR.kind, error }
    }
}

/// Why a trial could not begin, or its result cannot be trusted at all.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{kind}: {error}")]
    Broker { kind: &'static str, error: BrokerError },
    /// The scenario asks for what brokermark itself does not do.
    #[error("{0}")]
    Refused(String),
    #[error("the id of the payload's schema is unknown: {0}")]
    Schema(String),
    #[error("the pipeline cannot begin: {0}")]
    Pipeline(String),
    #[error("rank {rank}: {reason}")]
    Rank { rank: usize, reason: String },
    #[error("it was interrupted before its load began")]
    Interrupted,
}

/// The kinds of brokers and sinks of this build.
pub fn kinds() -> Kinds<'static> {
    Kinds {
        brokers: registry::descriptors(),
        sinks: sink::descriptors(),
        absent: registry::ABSENT,
        absent_sinks: sink::ABSENT,
    }
}

struct Trial<'a> {
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
    interruption: &'a Interruption,
    observer: &'a mut dyn Observer,
}

impl<'a> Visitor for Trial<'a> {
    type Output = Visit<'a, Outcome>;

    fn visit<B: Broker>(self) -> Self::Output {
        Box::pin(run::<B>(self.scenario, self.identity, self.interruption, self.observer))
    }
}

/// [`run`] with the broker that the scenario names.
///
/// # Errors
/// As [`run`], and when this build has no such broker.
pub async fn run_scenario(
    scenario: &Scenario,
    identity: &TrialIdentity,
    interruption: &Interruption,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    visit(scenario, Trial { scenario, identity, interruption, observer }).await
}

/// What is done with a broker whose kind is known only when the program runs.
type Visit<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + 'a>>;

/// Has `visitor` do its work with the broker that the scenario names.
async fn visit<'a, T>(scenario: &Scenario, visitor: impl Visitor<Output = Visit<'a, T>>) -> Result<T, EngineError> {
    let kind = &scenario.broker.kind;
    match registry::dispatch(kind, scenario.broker.client, visitor) {
        Some(visit) => visit.await,
        None => {
            Err(EngineError::Refused(format!("this build has no broker of kind '{kind}': see `brokermark brokers`")))
        }
    }
}
