//! Removes what a run in shares has left on the broker: its topics, which no share could remove while others might still use them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::prepare::{setup, topics};
use super::{EngineError, TrialIdentity};
use crate::broker::registry::{self, Visitor};
use crate::broker::{Broker, BrokerError};
use crate::load::PayloadPool;
use crate::measure::{Acks, Clock};
use crate::scenario::{Content, Payload, Scenario, Size};

struct Removal<'a> {
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
}

impl<'a> Visitor for Removal<'a> {
    type Output = Pin<Box<dyn Future<Output = Result<Vec<String>, EngineError>> + 'a>>;

    fn visit<B: Broker>(self) -> Self::Output {
        Box::pin(remove::<B>(self.scenario, self.identity))
    }
}

/// Removes the topics of a trial, whose names are made from its identity; returns their names.
///
/// # Errors
/// When the scenario names its topics, so that they may have been there before, or the broker cannot be reached or refuses.
pub async fn remove_topics(scenario: &Scenario, identity: &TrialIdentity) -> Result<Vec<String>, EngineError> {
    let refused = |reason: &str| {
        Err(EngineError::from(BrokerError::Configuration { broker: "brokermark", reason: reason.to_owned() }))
    };
    if !scenario.topology.is_named_by_run() {
        return refused(
            "the scenario names its topics, so they are not brokermark's to remove: remove them with the broker's own tools",
        );
    }
    match registry::dispatch(&scenario.broker.kind, scenario.broker.client, Removal { scenario, identity }) {
        Some(removal) => removal.await,
        None => refused("this build has no broker of this kind: see `brokermark brokers`"),
    }
}

async fn remove<B: Broker>(scenario: &Scenario, identity: &TrialIdentity) -> Result<Vec<String>, EngineError> {
    // Nothing is sent.
    let content = Content::Zeros { size: Size::Fixed(1) };
    let payloads = Arc::new(PayloadPool::build(&Payload { content, pool: 1, seed: 0, tombstones: 0.0 }, 0)?);
    let acks = Acks::verified(Clock::start(), scenario.producers.count, false, None);
    let broker = B::connect(setup(scenario, identity, &acks, &payloads)).await?;
    let topics = topics(scenario, identity);
    // Some brokers have to know a topic's partitions or places to remove it.
    let prepared = broker.prepare(&topics, &mut Vec::new()).await;
    let prepared = match prepared {
        Ok(()) => broker.adopt(&topics).await,
        failed => failed,
    };
    let names: Vec<String> = topics.into_iter().map(|topic| topic.name).collect();
    let closed = broker.close(names.clone()).await;
    prepared?;
    closed?;
    Ok(names)
}
