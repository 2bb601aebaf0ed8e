//! A client with one producer, and what becomes of its messages.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use super::payloads;
use crate::broker::kafka_native::codec::batch::Headers;
use crate::broker::kafka_native::config::KafkaNativeOptions;
use crate::broker::kafka_native::consume::consumer::KafkaNativeConsumer;
use crate::broker::kafka_native::group::groups::Groups;
use crate::broker::kafka_native::net::admin::{Admin, FetchTraffic};
use crate::broker::kafka_native::net::cluster::Cluster;
use crate::broker::kafka_native::net::connect::Connector;
use crate::broker::kafka_native::produce::client::{Client, Messages};
use crate::broker::kafka_native::produce::maintenance;
use crate::broker::kafka_native::produce::producer::KafkaNativeProducer;
use crate::broker::{Attributes, FailureClass, Outgoing, Producer, Progress, Subscription, Topic};
use crate::measure::{Acks, Clock, Condition, Conditions, Interval, SendTag};
use crate::scenario::{Security, StartFrom};

/// Far more than anything here takes.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const TOPIC: &str = "topic";

/// The transactional id of the client.
pub const TRANSACTIONS: &str = "transactions";

/// A client, and one producer for [`TOPIC`].
pub struct Bench {
    pub acks: Acks,
    pub client: Arc<Client>,
    pub admin: Arc<Admin>,
    pub producer: KafkaNativeProducer,
    pub sent: u64,
}

impl Bench {
    pub async fn new(addresses: Vec<String>, options: KafkaNativeOptions) -> Bench {
        Bench::try_new(addresses, options).await.unwrap()
    }

    pub async fn try_new(addresses: Vec<String>, options: KafkaNativeOptions) -> Result<Bench, Box<dyn Error>> {
        let connector = Arc::new(Connector {
            tls: None,
            security: Security::default(),
            token: None,
            given: addresses.clone(),
            client_id: "test".to_owned(),
            timeout: TIMEOUT,
            conditions: Conditions::default(),
        });
        let cluster = Arc::new(Cluster::new(connector, addresses));
        let acks = Acks::new(Clock::start(), 1, false);
        let sets = [vec![], vec![("tenant".to_owned(), "second".to_owned())]];
        let headers = sets.iter().map(|set| Headers::new(set)).collect();
        let messages = Messages { headers, payloads: Arc::new(payloads()), acks: acks.clone() };
        let client = maintenance::start(cluster.clone(), options, messages, TRANSACTIONS).await?;
        let producer = KafkaNativeProducer::new(client.clone(), client.topic(TOPIC, 0, None).await?);
        let (config, fetched, limits) = (Vec::new(), FetchTraffic::default(), parking_lot::Mutex::default());
        let admin = Arc::new(Admin { cluster, config, timeout: TIMEOUT, fetched, limits });
        Ok(Bench { acks, client, admin, producer, sent: 0 })
    }

    /// Sends messages whose payloads are their numbers.
    pub async fn send(&mut self, messages: u64) {
        self.send_with(messages, |_| None).await;
    }

    /// The same, each to a partition by its number.
    pub async fn send_to(&mut self, messages: u64, partition: impl Fn(u64) -> u32) {
        self.send_with(messages, |number| Some(partition(number))).await;
    }

    /// Sends one whose payload is its number and so many bytes more.
    pub async fn send_padded(&mut self, padding: usize) {
        self.submit(None, &vec![0; padding]).await;
    }

    async fn send_with(&mut self, messages: u64, partition: impl Fn(u64) -> Option<u32>) {
        for _ in 0..messages {
            self.submit(partition(self.sent), &[]).await;
        }
    }

    async fn submit(&mut self, partition: Option<u32>, padding: &[u8]) {
        let payload = [&self.sent.to_be_bytes()[..], padding].concat();
        let send_tag = SendTag::new(0, self.sent, 0, 0, true);
        let attributes = Attributes { partition, ..Attributes::default() };
        let attributes = Some(&attributes);
        let outgoing = Outgoing { payload: &payload, key: None, trace_header: None, attributes, send_tag };
        self.acks.window(0).submit(1);
        assert_eq!(self.producer.submit(&[outgoing]).await, Ok(1));
        self.sent += 1;
    }

    /// What holds messages up, once it is as `wanted`.
    pub async fn held_up(&self, wanted: impl Fn(&[Condition]) -> bool) -> Vec<Condition> {
        let conditions = &self.client.connector.conditions;
        let reached = async {
            while !wanted(&conditions.lasting()) {
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        reached.unwrap_or_else(|_| panic!("{:?}", conditions.lasting()));
        conditions.lasting()
    }

    /// Waits until every message has its outcome.
    pub async fn outcomes(&mut self) -> Interval {
        let resolved = self.acks.window(0).resolved_reaches(self.sent, self.acks.stopped());
        assert!(tokio::time::timeout(TIMEOUT, resolved).await.unwrap(), "{:?}", self.client.last_error());
        let mut interval = Interval::default();
        self.acks.collect(&mut interval, &mut Interval::default());
        interval
    }

    pub async fn consumer(&self, partitions: u32) -> KafkaNativeConsumer {
        let groups = Groups::new(self.admin.clone(), KafkaNativeOptions::default());
        groups.consumer(&subscription(partitions, Progress::Uncommitted)).await.unwrap()
    }

    /// The numbers of the first `messages` of partition 0.
    #[cfg(feature = "kafka")]
    pub async fn received(&self, messages: usize) -> Vec<u64> {
        use crate::broker::Consumer;

        let mut consumer = self.consumer(1).await;
        let mut numbers = Vec::new();
        while numbers.len() < messages {
            tokio::time::timeout(TIMEOUT, consumer.ready()).await.unwrap().unwrap();
            // What fails is fetched again.
            let _ = consumer.take(|message| numbers.push(u64::from_be_bytes(message.payload.try_into().unwrap())));
        }
        numbers
    }
}

/// The only member of a group.
pub fn subscription(partitions: u32, progress: Progress) -> Subscription {
    Subscription {
        group: "group".to_owned(),
        number: 0,
        topic: Topic { name: TOPIC.to_owned(), partitions, replication: 1 },
        from: StartFrom::Earliest,
        members: 1,
        member: 0,
        consumer_number: 0,
        is_divided: false,
        properties: Vec::new(),
        progress,
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.client.close();
    }
}

/// So that several requests are on their way.
pub fn one_message_a_batch() -> KafkaNativeOptions {
    KafkaNativeOptions { linger: Duration::ZERO, batch_bytes: 100, ..KafkaNativeOptions::default() }
}

/// The classes of failed messages, and how many are of each.
pub fn classes(outcomes: &Interval) -> Vec<(FailureClass, u64)> {
    outcomes.errors.iter().map(|(class, tally)| (class, tally.count)).collect()
}
