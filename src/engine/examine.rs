//! What a broker says before any load: connects, logs in, makes the topics, opens a producer and a consumer, and removes all of it
//! again. For `brokermark doctor`.

use std::future::Future;
use std::pin::Pin;

use tokio::time::timeout;

use super::context::{CONTROL_TIMEOUT, TrialContext};
use super::interruption::Interruption;
use super::prepare::{Prepared, prepare};
use super::receive::subscription;
use super::{EngineError, TrialIdentity, topics};
use crate::broker::registry::{self, Visitor};
use crate::broker::{Broker, BrokerError, BrokerInfo, Consumer, Durability, Producer, Topic};
use crate::measure::{Conditions, SubscriptionIndex};
use crate::scenario::{ProducerMode, Scenario};

/// What a broker has shown of itself.
#[derive(Debug)]
pub struct Examined {
    pub identity: BrokerInfo,
    /// The topics that the load would use, as they are.
    pub topics: Vec<Topic>,
    /// How many of them were made, and removed again.
    pub created: usize,
    pub durability: Durability,
    /// Whether a producer, and a consumer if the scenario has some, could be opened. Empty where topics exist that are not the
    /// run's own: nothing of others is touched.
    pub opened: Vec<Opened>,
    /// Why what was made could not be removed.
    pub removal_error: Option<String>,
}

/// A client that was opened on a topic and closed again, without a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// `producer` or `consumer`.
    pub client: &'static str,
    /// Why it could not be opened.
    pub error: Option<String>,
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
        None => Err(EngineError::unknown_kind(kind)),
    }
}

async fn examine<B: Broker>(scenario: &Scenario, identity: &TrialIdentity) -> Result<Examined, EngineError> {
    let interruption = Interruption::none();
    let Prepared { context, broker, created } =
        prepare::<B>(scenario, identity, &interruption, &Conditions::default()).await?;
    let opened = match created.len() == context.topics.len() {
        true => open(&broker, &context).await,
        false => Vec::new(),
    };
    let (topics, durability) = (context.topics.clone(), context.durability.clone());
    let identity = BrokerInfo { broker: broker.describe().await, ..broker.identity() };
    let number = created.len();
    let removed = match timeout(CONTROL_TIMEOUT, topics::close(broker, &created)).await {
        Ok(closed) => closed.err().map(|error| error.to_string()),
        Err(_) => Some(silence()),
    };
    Ok(Examined { identity, topics, created: number, durability, opened, removal_error: removed })
}

/// Opens a producer and a consumer on the first topic: brokers refuse those who may not write or read.
async fn open<B: Broker>(broker: &B, context: &TrialContext<'_>) -> Vec<Opened> {
    let Some(topic) = context.topics.first() else { return Vec::new() };
    let mut opened = Vec::new();
    if context.producer_mode() != Some(ProducerMode::None) {
        let produced = async {
            broker.producer(context.scenario.first_producer(), topic).await?.close().await;
            Ok(())
        };
        opened.push(Opened { client: "producer", error: failure(produced).await });
    }
    let shared = context.scenario.pipeline.as_ref().is_some_and(|pipeline| pipeline.group.is_some());
    if let Some(consumers) = context.scenario.consumers.as_ref().filter(|_| !shared) {
        let mut subscription = subscription(context, consumers, SubscriptionIndex { group: 0, topic: 0 }, 0);
        // It does not wait for others.
        subscription.members = 1;
        let consumed = async {
            broker.consumer(&subscription).await?.close().await;
            Ok(())
        };
        opened.push(Opened { client: "consumer", error: failure(consumed).await });
    }
    opened
}

async fn failure(opening: impl Future<Output = Result<(), BrokerError>>) -> Option<String> {
    match timeout(CONTROL_TIMEOUT, opening).await {
        Ok(opened) => opened.err().map(|error| error.to_string()),
        Err(_) => Some(silence()),
    }
}

fn silence() -> String {
    format!("it took longer than {} s", CONTROL_TIMEOUT.as_secs())
}
