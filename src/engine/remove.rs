//! Removes what a run in shares has left on the broker: its topics, which no share could remove while others might still use them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::prepare::{setup, topics_of};
use super::{EngineError, TrialIdentity, topics};
use crate::broker::registry::{self, Visitor};
use crate::broker::{Broker, BrokerError, Topic};
use crate::load::PayloadPool;
use crate::measure::{Acks, Clock};
use crate::scenario::{Content, Payload, Scenario, Size};

struct Removal<'a> {
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
    is_dry: bool,
}

impl<'a> Visitor for Removal<'a> {
    type Output = Pin<Box<dyn Future<Output = Result<Vec<String>, EngineError>> + 'a>>;

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
    match registry::dispatch(&scenario.broker.kind, scenario.broker.client, Removal { scenario, identity, is_dry }) {
        Some(removal) => removal.await,
        None => Err(EngineError::unknown_kind(&scenario.broker.kind)),
    }
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
    let found = topics::find(&broker, &wanted).await.and_then(|found| agree(&wanted, &found).map(|()| found));
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
fn agree(wanted: &[Topic], found: &[Topic]) -> Result<(), BrokerError> {
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
        assert!(agree(&wanted, &[topic("b", 4)]).is_ok());
        let refused = agree(&wanted, &[topic("a", 1), topic("b", 2)]).unwrap_err().to_string();
        assert!(refused.contains("'b'") && refused.contains("it has 2 partition(s)"), "{refused}");
        assert!(refused.contains("the scenario asks for 4,"), "{refused}");
    }
}
