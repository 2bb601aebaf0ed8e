//! A scripted broker in this process. It proves the measurements, and with an empty script it shows the most that the engine
//! itself can do.
//!
//! - [`script`](NullOptions): the `[broker.null]` table, and what happens to each message.
//! - `server`: acknowledges at the scripted time, on a thread of its own where that is later.
//! - `topic`, `group`: from the producer to the topic, its groups and each consumer's queue.

mod group;
mod script;
mod server;
#[cfg(test)]
#[path = "../../../tests/unit/broker/null/mod.rs"]
mod tests;
mod topic;

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use parking_lot::Mutex;

pub use self::script::NullOptions;
use self::script::Script;
use self::server::Server;
use self::topic::{Delivery, Membership, TopicLog};
use super::{
    Broker, BrokerError, BrokerInfo, Consumer, Created, Durability, DurabilityLevel, FailureClass, Offsets, Outgoing,
    Producer, Progress, ReceiveError, Received, Setup, SubmitError, Subscription, Topic,
};
use crate::measure::Acks;
use crate::scenario::{Capabilities, Descriptor};

/// The scripted broker.
pub struct NullBroker {
    servers: Vec<Arc<Server>>,
    topics: Mutex<BTreeMap<String, Arc<TopicLog>>>,
    /// The names of the topics that were asked for, in their order.
    asked_for: Mutex<Vec<String>>,
    options: NullOptions,
    acks: Acks,
}

impl NullBroker {
    fn log(&self, topic: &Topic) -> Arc<TopicLog> {
        let partition = |number| self.acks.partition(&topic.name, Some(number));
        let log = || Arc::new(TopicLog::new((0..topic.partitions).map(partition).collect(), self.options.clone()));
        self.topics.lock().entry(topic.name.clone()).or_insert_with(log).clone()
    }
}

impl Broker for NullBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "null",
        example: include_str!("example.toml"),
        summary: "in this process, scripted: proves the measurements and shows the client's own ceiling",
        capabilities: Capabilities {
            partitions: true,
            keys: true,
            headers: true,
            own_partition: true,
            null_payloads: true,
            consumers: true,
            groups: true,
            ordered: true,
            offsets: true,
            ..Capabilities::NONE
        },
        ..Descriptor::NONE
    };

    type Options = NullOptions;
    type Producer = NullProducer;
    type Consumer = NullConsumer;

    async fn connect(setup: Setup<NullOptions>) -> Result<Self, BrokerError> {
        let options = setup.options;
        let script = Arc::new(Script::new(options.clone()));
        let servers = (0..setup.config.connections)
            .map(|_| Server::start(script.clone(), setup.acks.recorder(), setup.acks.clock()));
        let (topics, asked_for) = Default::default();
        Ok(NullBroker { servers: servers.collect(), topics, asked_for, options, acks: setup.acks.clone() })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        let number = {
            let mut asked_for = self.asked_for.lock();
            let number = asked_for.iter().position(|name| *name == topic.name);
            number.unwrap_or_else(|| {
                asked_for.push(topic.name.clone());
                asked_for.len() - 1
            })
        };
        if self.options.refuse_topic == Some(number) {
            let (topic, reason) = (topic.name.clone(), REFUSED.to_owned());
            return Err(BrokerError::Topic { topic, action: "created", reason });
        }
        self.log(topic);
        if self.options.forget_topic == Some(number) {
            let (topic, reason) = (topic.name.clone(), "no answer, by the null broker's script".to_owned());
            return Err(BrokerError::Topic { topic, action: "created", reason });
        }
        Ok(Created::New)
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        Ok(self.topics.lock().contains_key(&topic.name).then(|| topic.clone()))
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        tokio::time::sleep(self.options.removal_time).await;
        self.topics.lock().remove(&topic.name);
        Ok(())
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<NullProducer, BrokerError> {
        let server = self.servers[producer_number % self.servers.len()].clone();
        let NullOptions { producer_panics_after, producer_refuses_after, refusals_are_fatal, .. } = &self.options;
        Ok(NullProducer {
            server,
            delivery: Delivery::new(self.log(topic), producer_number),
            left: *producer_panics_after,
            takes: *producer_refuses_after,
            refusals_are_fatal: *refusals_are_fatal,
        })
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<NullConsumer, BrokerError> {
        if subscription.progress == Progress::Kept {
            let reason = "its groups end with the run: remove `pipeline.group`".to_owned();
            return Err(BrokerError::Configuration(reason));
        }
        let NullOptions { hide_ends, consumer_panics_after, groups, .. } = &self.options;
        if groups.get(subscription.number).is_some_and(|group| group.refuse) {
            let (topic, reason) = (subscription.topic.name.clone(), REFUSED.to_owned());
            return Err(BrokerError::Topic { topic, action: "consumed", reason });
        }
        let membership = self.log(&subscription.topic).join(subscription);
        Ok(NullConsumer { membership, has_offsets: !hide_ends, left: *consumer_panics_after })
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        self.log(&subscription.topic).register(subscription);
        Ok(())
    }

    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        (!self.options.hide_ends).then(|| ready(Some(self.log(topic).end_offsets())))
    }

    async fn durability(&self, _: &[Topic]) -> Durability {
        Durability::new(DurabilityLevel::Memory, Some(1), [], "the null broker keeps messages in memory")
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo { client: format!("brokermark {}", env!("CARGO_PKG_VERSION")), broker: None, embedded: false }
    }

    async fn close(self) -> Result<(), BrokerError> {
        self.servers.iter().for_each(|server| server.stop());
        Ok(())
    }
}

/// Why something is refused.
const REFUSED: &str = "refused by the null broker's script";

/// A sender to one topic of the scripted broker.
pub struct NullProducer {
    server: Arc<Server>,
    delivery: Arc<Delivery>,
    /// Messages until it panics, if the script has it panic.
    left: Option<u64>,
    /// Messages until it refuses all, if the script has it refuse any.
    takes: Option<u64>,
    refusals_are_fatal: bool,
}

impl Producer for NullProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        self.delivery.capacity().await;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(batch.len() as u64);
            assert!(*left > 0, "the null broker's script made this producer panic");
        }
        let mut taken = batch;
        if let Some(takes) = &mut self.takes {
            if *takes == 0 {
                return Err(SubmitError { class: FailureClass::Injected, message: REFUSED.to_owned() });
            }
            taken = &batch[..batch.len().min(*takes as usize)];
            *takes -= taken.len() as u64;
        }
        self.server.accept(taken, &self.delivery);
        Ok(taken.len())
    }

    fn fatal_error(&self) -> Option<String> {
        (self.refusals_are_fatal && self.takes == Some(0)).then(|| REFUSED.to_owned())
    }

    async fn close(self) {
        self.delivery.end();
    }
}

/// A member of a group on one topic of the scripted broker.
pub struct NullConsumer {
    membership: Membership,
    has_offsets: bool,
    /// Messages until it panics, if the script has it panic.
    left: Option<u64>,
}

impl Consumer for NullConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        self.membership.member.ready().await;
        Ok(())
    }

    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let taken = self.membership.member.take(most, each);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(taken as u64);
            assert!(*left > 0, "the null broker's script made this consumer panic");
        }
        Ok(taken)
    }

    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        self.has_offsets.then_some(&mut self.membership)
    }
}

impl Offsets for Membership {
    fn assigned(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        Membership::assigned(self)
    }

    async fn commit(&mut self, next: &[(u32, u64)], _confirmed: bool) -> Result<(), ReceiveError> {
        Membership::commit(self, next);
        Ok(())
    }

    fn is_revocation_requested(&self) -> bool {
        Membership::is_revocation_requested(self)
    }

    async fn revoke(&mut self) {
        Membership::revoke(self);
    }
}
