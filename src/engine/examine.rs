//! What is done on a broker without any load. For `brokermark doctor`: what the broker says when brokermark connects, logs in, makes the topics, opens
//! a producer and a consumer, and removes all of it again. For `brokermark remove-topics`: the topics that a run in shares has left, which no share
//! could remove while others might still use them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::timeout;

use super::interruption::Interruption;
use super::prepare::{Prepared, TrialContext, prepare, setup, topics_of};
use super::receive::subscription;
use super::topics::{self, CONTROL_TIMEOUT};
use super::{EngineError, TrialIdentity, Visit, visit};
use crate::broker::registry::Visitor;
use crate::broker::{Broker, BrokerError, BrokerInfo, Consumer, Durability, Producer, Topic};
use crate::load::PayloadPool;
use crate::measure::{Acks, Clock, Conditions, SubscriptionIndex};
use crate::scenario::{Content, Payload, ProducerMode, Scenario, Size};

/// What a broker has shown of itself.
#[derive(Debug)]
pub struct Examined {
    pub identity: BrokerInfo,
    /// The topics that the load would use, as they are.
    pub topics: Vec<Topic>,
    /// How many of them were made, and removed again.
    pub created: usize,
    pub durability: Durability,
    /// The settings of topics, as far as the broker tells them.
    pub settings: Vec<BTreeMap<String, String>>,
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
    type Output = Visit<'a, Examined>;

    fn visit<B: Broker>(self) -> Self::Output {
        Box::pin(examine::<B>(self.scenario, self.identity))
    }
}

/// Examines the broker that the scenario names. Nothing is sent.
///
/// # Errors
/// When it cannot be reached, refuses the login, or the topics cannot be made or found.
pub async fn examine_scenario(scenario: &Scenario, identity: &TrialIdentity) -> Result<Examined, EngineError> {
    visit(scenario, Examination { scenario, identity }).await
}

async fn examine<B: Broker>(scenario: &Scenario, identity: &TrialIdentity) -> Result<Examined, EngineError> {
    let interruption = Interruption::none();
    let conditions = Conditions::default();
    let prepared = prepare::<B>(scenario, identity, &interruption, &conditions).await?;
    let Prepared { context, broker, created, settings } = prepared;
    let is_own = created.len() == context.topics.len();
    let opened = if is_own { open(&broker, &context).await } else { Vec::new() };
    let (topics, durability) = (context.topics.clone(), context.durability.clone());
    let identity = BrokerInfo { broker: broker.describe().await, ..broker.identity() };
    let number = created.len();
    let removed = match timeout(CONTROL_TIMEOUT, topics::close(broker, &created)).await {
        Ok(closed) => closed.err().map(|error| error.to_string()),
        Err(_) => Some(silence()),
    };
    Ok(Examined { identity, topics, created: number, durability, settings, opened, removal_error: removed })
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

struct Removal<'a> {
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
    is_dry: bool,
}

impl<'a> Visitor for Removal<'a> {
    type Output = Visit<'a, Vec<String>>;

    fn visit<B: Broker>(self) -> Self::Output {
        Box::pin(remove::<B>(self.scenario, self.identity, self.is_dry))
    }
}

/// Removes those of a trial's topics that exist, and returns their names. The names are made from the trial's identity, which no topic of
/// others has in its name. Nothing is created. `is_dry`: nothing is removed either.
///
/// # Errors
/// When the scenario names its topics, so that they may have been there before; when one has other partitions than the scenario asks for,
/// and is then not removed, nor are the others; and when the broker cannot be reached or refuses.
pub async fn remove_topics(
    scenario: &Scenario,
    identity: &TrialIdentity,
    is_dry: bool,
) -> Result<Vec<String>, EngineError> {
    if !scenario.topology.is_named_by_run() {
        let reason = "the scenario names its topics, so they are not brokermark's to remove: remove them with the broker's own tools";
        return Err(EngineError::Refused(reason.to_owned()));
    }
    visit(scenario, Removal { scenario, identity, is_dry }).await
}

async fn remove<B: Broker>(
    scenario: &Scenario,
    identity: &TrialIdentity,
    is_dry: bool,
) -> Result<Vec<String>, EngineError> {
    // Nothing is sent.
    let content = Content::Zeros { size: Size::Fixed(1) };
    let payloads = Arc::new(PayloadPool::build(&Payload { content, pool: 1, seed: 0, tombstones: 0.0 }, 0)?);
    let acks = Acks::new(Clock::start(), scenario.producers.count, false);
    let of_broker = EngineError::from_broker::<B>;
    let setup = setup::<B>(scenario, identity, &acks, &payloads).map_err(of_broker)?;
    let broker = B::connect(setup).await.map_err(of_broker)?;
    let wanted = topics_of(scenario, identity);
    let found = topics::find(&broker, &wanted).await.and_then(|found| check_is_own(&wanted, &found).map(|()| found));
    let delete = match &found {
        Ok(found) if !is_dry => found.as_slice(),
        Ok(_) | Err(_) => &[],
    };
    let closed = topics::close(broker, delete).await;
    let names = found.map_err(of_broker)?.into_iter().map(|topic| topic.name).collect();
    closed.map_err(of_broker)?;
    Ok(names)
}

/// Checks that what exists is what the trial would have created.
fn check_is_own(wanted: &[Topic], found: &[Topic]) -> Result<(), BrokerError> {
    let other = |found: &Topic| {
        let wanted = wanted.iter().find(|wanted| wanted.name == found.name && wanted.partitions != found.partitions)?;
        Some((found.name.clone(), found.partitions, wanted.partitions))
    };
    match found.iter().find_map(other) {
        None => Ok(()),
        Some((topic, has, asks_for)) => Err(BrokerError::Topic {
            topic,
            action: "removed",
            reason: format!(
                "it has {has} partition(s), and the scenario asks for {asks_for}, so it may not be the run's: nothing was removed",
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_partitions_of_the_topic_it_names() {
        let topic = |name: &str, partitions| Topic { name: name.to_owned(), partitions, replication: 1 };
        let wanted = [topic("a", 1), topic("b", 4)];
        assert!(check_is_own(&wanted, &[topic("b", 4)]).is_ok());
        let refused = check_is_own(&wanted, &[topic("a", 1), topic("b", 2)]).unwrap_err().to_string();
        assert!(refused.contains("'b'") && refused.contains("it has 2 partition(s)"), "{refused}");
        assert!(refused.contains("the scenario asks for 4,"), "{refused}");
    }
}
