//! Runs one trial: prepare ▸ warm up ▸ measure ▸ drain ▸ verify.
//!
//! - `appointment`: a load that begins at a set time.
//! - `trial`: the phases, in order. `prepare`: the first one. `load_phase`: warm-up and measured window.
//! - `topics`: created, found and deleted, for every broker alike.
//! - `send`: producers. `receive`: consumers and pipelines.
//! - `sampler`, `collector`: read all recorders once a second and add up; an [`Observer`] gets the result.
//! - `backlog`: a backlog that is built and drained during the load.
//! - `checkpoint`: the trial as if it had ended now, for an observer that keeps it.
//! - [`Interruption`]: what the user's signals end.
//! - [`Outcome`]: what was measured.

mod appointment;
mod backlog;
mod broker_watch;
mod checkpoint;
mod collector;
mod context;
mod dispatch;
mod examine;
mod interruption;
mod listening;
mod load_phase;
mod observer;
mod outcome;
mod part;
mod prepare;
mod receive;
mod remove;
mod sampler;
mod send;
mod stretch;
mod topics;
mod trial;

pub use appointment::{Preparation, Rendezvous};
pub use broker_watch::WatchedUsage;
#[cfg(test)]
pub(crate) use collector::Collector;
pub use collector::{PartTotals, Totals, WindowTotals};
pub use dispatch::{kinds, run_scenario};
pub use examine::{Examined, Opened, examine_scenario};
pub use interruption::{InterruptiblePhase, Interruption};
pub use observer::{GroupSecond, Observer, Phase, Second, TopicProgress};
pub use outcome::{
    Account, BacklogOutcome, End, GroupDrain, GroupOutcome, Ledger, Outcome, PartOutcome, PayloadSizes, Times,
};
pub use remove::remove_topics;
pub use send::{Attempted, FirstSent, Sent, WakeUpDelays};
pub use stretch::Stretch;
pub use trial::run;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::broker::BrokerError;
use crate::load::LoadError;
use crate::measure::host::HostShare;

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
    pub rendezvous: Option<Rendezvous>,
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
            rendezvous: None,
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
        self.load_start_unix_ns.or_else(|| self.rendezvous.as_ref()?.start_unix_ns())
    }
}

/// Why a trial could not begin, or its result cannot be trusted at all.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("the pipeline cannot begin: {0}")]
    Pipeline(String),
    #[error("rank {rank}: {reason}")]
    Rank { rank: usize, reason: String },
    #[error("it was interrupted before its load began")]
    Interrupted,
}
