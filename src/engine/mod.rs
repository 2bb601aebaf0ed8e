//! Runs one trial: prepare ▸ warm up ▸ measure ▸ drain ▸ verify.
//!
//! - [`run`]: the phases, in order.
//! - `producing`: the producer task's three loops, one per kind of load; `sender` is what they share.
//! - `consuming`: the consumer task.
//! - `trial_window`, `quota`, `rounds`, `pacer`: when to send, how much is left, together or alone.
//! - `catch_up`: the wait for consumers after the load, and what they were offered.
//! - `stall`: notices a load that no longer moves.
//! - `look`, `collector`: look at all recorders once a second and add up; an [`Observer`] is told.
//! - `checkpoint`: the trial as if it had ended now, for an observer that wants to keep it.
//! - [`Interruption`]: what the user's signals end.
//! - [`Outcome`]: what it came to.

mod catch_up;
mod checkpoint;
mod closing;
mod collector;
mod consuming;
mod dispatch;
mod interruption;
mod observer;
mod outcome;
mod pacer;
mod producing;
mod quota;
mod rounds;
mod sampler;
mod sender;
mod stall;
mod starting;
mod trial;
mod trial_window;

pub use catch_up::GroupOutcome;
#[cfg(test)]
pub(crate) use collector::Collector;
pub use collector::{PartTotals, Totals, WindowTotals};
pub use dispatch::{kinds, run_scenario};
pub use interruption::{InterruptiblePhase, Interruption};
pub use observer::{Observer, Phase, Second};
pub use outcome::{Account, End, Ledger, Outcome, Times};
pub use sender::{Attempted, Sent};
pub use trial::run;

use crate::broker::BrokerError;
use crate::load::LoadError;

/// What tells one trial from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialIdentity {
    /// Topics, groups and client ids begin with it.
    pub run_id: String,
    /// Carried in every envelope.
    pub tag: u32,
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
    #[error("it was interrupted before its load began")]
    Interrupted,
}
