//! The kinds that a scenario may name, and from one of them to the code compiled for it: the only dynamic call of a trial.

use std::future::Future;
use std::pin::Pin;

use super::{EngineError, Interruption, Observer, Outcome, TrialIdentity, run};
use crate::broker::Broker;
use crate::broker::registry::{self, Visitor};
use crate::pipeline::sink;
use crate::scenario::{Kinds, Scenario};

/// The kinds of brokers and sinks of this build.
pub fn kinds() -> Kinds<'static> {
    Kinds { brokers: registry::descriptors(), sinks: sink::descriptors(), absent: registry::ABSENT }
}

struct Trial<'a> {
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
    interruption: &'a Interruption,
    observer: &'a mut dyn Observer,
}

impl<'a> Visitor for Trial<'a> {
    type Output = Pin<Box<dyn Future<Output = Result<Outcome, EngineError>> + 'a>>;

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
    let (kind, client) = (&scenario.broker.kind, scenario.broker.client);
    match registry::dispatch(kind, client, Trial { scenario, identity, interruption, observer }) {
        Some(trial) => trial.await,
        None => Err(EngineError::unknown_kind(kind)),
    }
}
