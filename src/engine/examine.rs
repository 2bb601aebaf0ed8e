//! What a broker says before any load: connects, logs in, makes the topics and removes them again. For `brokermark doctor`.

use std::future::Future;
use std::pin::Pin;

use tokio::time::timeout;

use super::context::CONTROL_TIMEOUT;
use super::interruption::Interruption;
use super::prepare::{Prepared, prepare};
use super::{EngineError, TrialIdentity};
use crate::broker::registry::{self, Visitor};
use crate::broker::{Broker, BrokerError, BrokerInfo, Durability, Topic};
use crate::scenario::Scenario;

/// What a broker has shown of itself.
#[derive(Debug)]
pub struct Examined {
    pub identity: BrokerInfo,
    /// The topics that the load would use, as they are.
    pub topics: Vec<Topic>,
    /// How many of them were made, and removed again.
    pub created: usize,
    pub durability: Durability,
    /// Why what was made could not be removed.
    pub removal_error: Option<String>,
}

struct Examination<'a> {
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
}

impl<'a> Visitor for Examination<'a> {
    type Output = Pin<Box<dyn Future<Output = Result<Examined, EngineError>> + 'a>>;

    fn visit<B: Broker>(self) -> Self::Output {
        Box::pin(examine::<B>(self.scenario, self.identity))
    }
}

/// Examines the broker that the scenario names. Nothing is sent.
///
/// # Errors
/// When it cannot be reached, refuses the login, or the topics cannot be made or found.
pub async fn examine_scenario(scenario: &Scenario, identity: &TrialIdentity) -> Result<Examined, EngineError> {
    let (kind, client) = (&scenario.broker.kind, scenario.broker.client);
    match registry::dispatch(kind, client, Examination { scenario, identity }) {
        Some(examined) => examined.await,
        None => {
            let reason = format!("this build has no broker of kind '{kind}': see `brokermark brokers`");
            Err(BrokerError::Configuration { broker: "brokermark", reason }.into())
        }
    }
}

async fn examine<B: Broker>(scenario: &Scenario, identity: &TrialIdentity) -> Result<Examined, EngineError> {
    let interruption = Interruption::none();
    let Prepared { context, broker, created } = prepare::<B>(scenario, identity, &interruption).await?;
    let (topics, durability, identity) = (context.topics.clone(), context.durability.clone(), broker.identity());
    let number = created.len();
    let removed = match timeout(CONTROL_TIMEOUT, broker.close(created)).await {
        Ok(closed) => closed.err().map(|error| error.to_string()),
        Err(_) => Some(format!("it took longer than {} s", CONTROL_TIMEOUT.as_secs())),
    };
    Ok(Examined { identity, topics, created: number, durability, removal_error: removed })
}
