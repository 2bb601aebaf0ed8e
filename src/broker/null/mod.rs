//! A broker in this process that does what its script says: it proves the measurements, and with an empty script it
//! shows the most that the engine itself can do.
//!
//! - [`script`](NullOptions): the `[broker.null]` table and the fates it deals to messages.
//! - `server`: acknowledges when the script says, on a thread of its own where that takes time.
//! - `delivery`: hands messages to consumers, lossless or not.

mod delivery;
mod script;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use self::delivery::{Delivery, Member, TopicLog};
pub use self::script::NullOptions;
use self::script::Script;
use self::server::Server;
use super::registry::{Capabilities, Descriptor};
use super::{
    Broker, BrokerError, BrokerInfo, Consumer, Outgoing, Producer, ReceiveError, Received, Setup, SubmitError,
    Subscription, Topic,
};

/// The scripted broker.
pub struct NullBroker {
    servers: Vec<Arc<Server>>,
    topics: Mutex<BTreeMap<String, Arc<TopicLog>>>,
    options: NullOptions,
}

impl NullBroker {
    fn log(&self, topic: &Topic) -> Arc<TopicLog> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let log = || Arc::new(TopicLog::new(topic.partitions, self.options.groups.clone()));
        topics.entry(topic.name.clone()).or_insert_with(log).clone()
    }
}

impl Broker for NullBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "null",
        summary: "in this process, scripted: proves the measurements and shows the client's own ceiling",
        capabilities: Capabilities {
            addresses: false,
            embedded: false,
            partitions: true,
            replication: false,
            keys: true,
            headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: false,
            sasl: &[],
            properties: false,
            offsets: false,
        },
        check_options: |options| options.try_into::<NullOptions>().map(drop),
    };

    type Producer = NullProducer;
    type Consumer = NullConsumer;

    async fn connect(setup: Setup) -> Result<Self, BrokerError> {
        let options: NullOptions = setup.config.options.clone().try_into().map_err(|error: toml::de::Error| {
            BrokerError::Configuration { broker: "null", reason: error.to_string() }
        })?;
        let script = Arc::new(Script::new(options.clone()));
        let servers = (0..setup.config.connections)
            .map(|_| Server::start(script.clone(), setup.acks.recorder(), setup.acks.clock()));
        Ok(NullBroker { servers: servers.collect(), topics: Mutex::default(), options })
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<Vec<String>, BrokerError> {
        for topic in topics {
            self.log(topic);
        }
        Ok(topics.iter().map(|topic| topic.name.clone()).collect())
    }

    async fn producer(&self, producer_index: usize, topic: &Topic) -> Result<NullProducer, BrokerError> {
        let server = self.servers[producer_index % self.servers.len()].clone();
        let left = self.options.producer_panics_after;
        Ok(NullProducer { server, delivery: Delivery::new(self.log(topic), producer_index), left })
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<NullConsumer, BrokerError> {
        Ok(NullConsumer {
            member: self.log(&subscription.topic).join(subscription),
            left: self.options.consumer_panics_after,
        })
    }

    async fn end_offsets(&self, topic: &Topic) -> Option<Vec<u64>> {
        (!self.options.hide_ends).then(|| self.log(topic).end_offsets())
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo { client: format!("brokermark {}", env!("CARGO_PKG_VERSION")), broker: None, embedded: false }
    }

    async fn close(self, _created: Vec<String>) -> Result<(), BrokerError> {
        tokio::time::sleep(self.options.removal_time).await;
        self.servers.iter().for_each(|server| server.stop());
        Ok(())
    }
}

/// A sender to one topic of the scripted broker.
pub struct NullProducer {
    server: Arc<Server>,
    delivery: Arc<Delivery>,
    /// Messages until it panics, if it is to.
    left: Option<u64>,
}

impl Producer for NullProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        self.delivery.room().await;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(batch.len() as u64);
            assert!(*left > 0, "a producer crashed as the null broker's script says");
        }
        self.server.accept(batch, &self.delivery);
        Ok(batch.len())
    }
}

impl Drop for NullProducer {
    fn drop(&mut self) {
        self.server.producer_ends(&self.delivery);
    }
}

/// A member of a group on one topic of the scripted broker.
pub struct NullConsumer {
    member: Arc<Member>,
    /// Messages until it panics, if it is to.
    left: Option<u64>,
}

impl Consumer for NullConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        self.member.ready().await;
        Ok(())
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let taken = self.member.take(each);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(taken as u64);
            assert!(*left > 0, "a consumer crashed as the null broker's script says");
        }
        Ok(taken)
    }
}
