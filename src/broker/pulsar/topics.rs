//! What both clients of Pulsar share: how they log in, and the trial's topics and subscriptions, by the admin interface.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::admin::{Admin, TopicName};
use super::config::{PulsarOptions, SubscriptionType};
use super::connect::SocketSettings;
use super::policies::{durability, non_persistent_durability};
use super::pool;
use super::topic_consumer::Membership;
use crate::broker::{BrokerError, Created, Durability, Removal, Setup, Subscription, Topic};
use crate::net::tcp::{self, in_turn};
use crate::net::tls::{TlsIdentity, client_config};
use crate::net::token::{Token, TokenSource};
use crate::net::{Tls, address};

/// The trial's topics and subscriptions.
pub struct Topics {
    /// What connections log in with.
    #[cfg(feature = "pulsar-rs")]
    pub token: Option<Arc<Token>>,
    admin: Admin,
    namespace: String,
    persistent: bool,
    run_id: String,
    connections: usize,
    /// Partitions of the topics, as found or made.
    partitions: Mutex<BTreeMap<String, u32>>,
    /// Subscriptions that were made: topic and name.
    subscriptions: Mutex<BTreeSet<(String, String)>>,
    consumers: AtomicUsize,
}

impl Topics {
    /// Topics, and how connections are made.
    ///
    /// # Errors
    /// When a certificate cannot be read or no token can be had.
    pub async fn new(setup: &Setup<PulsarOptions>) -> Result<(Self, SocketSettings), BrokerError> {
        let Setup { config, options, timeout, .. } = setup;
        let identity =
            config.security.tls.as_ref().map(TlsIdentity::read).transpose().map_err(BrokerError::Configuration)?;
        let token = token(options, *timeout).await?;
        let admin_urls = match &options.admin {
            Some(url) => vec![url.clone()],
            None => admin_urls(&config.addresses, identity.is_some()).await,
        };
        let tls = identity.as_ref().map(TlsIdentity::client_config).transpose().map_err(BrokerError::Configuration)?;
        let admin_tls = match &tls {
            None if admin_urls[0].starts_with("https://") => {
                client_config(Some(&Tls::default())).map_err(BrokerError::Configuration)?
            }
            tls => tls.clone(),
        };
        let topics = Topics {
            #[cfg(feature = "pulsar-rs")]
            token: token.clone(),
            admin: Admin::new(&admin_urls, token.clone(), admin_tls, *timeout),
            namespace: options.namespace.clone(),
            persistent: options.persistent,
            run_id: setup.run_id.clone(),
            connections: config.connections,
            partitions: Mutex::default(),
            subscriptions: Mutex::default(),
            consumers: AtomicUsize::new(0),
        };
        let settings = SocketSettings {
            tls,
            token,
            certified: identity.as_ref().is_some_and(|identity| identity.own.is_some()),
            timeout: *timeout,
            keep_alive: options.keep_alive,
            send_timeout: options.send_timeout,
            conditions: setup.conditions.clone(),
            publish_rate: topics.admin.publish_rate(&options.namespace).await,
        };
        Ok((topics, settings))
    }

    /// Creates a topic, unless it exists.
    pub async fn create(&self, topic: &Topic) -> Result<Created, BrokerError> {
        let (partitions, is_new) = self.admin.create(&self.name(&topic.name), topic.partitions).await?;
        let found = self.learn(topic, partitions);
        Ok(if is_new { Created::New } else { Created::Existing(found) })
    }

    /// The topic as it is, if it exists.
    pub async fn find(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        let partitions = self.admin.partitions(&self.name(&topic.name)).await?;
        Ok(partitions.map(|partitions| self.learn(topic, partitions)))
    }

    /// Deletes a topic, with its subscriptions.
    pub async fn delete(&self, topic: &Topic) -> Result<(), BrokerError> {
        let is_partitioned = self.partitions.lock().get(&topic.name).is_some_and(|partitions| *partitions > 0);
        self.subscriptions.lock().retain(|(name, _)| *name != topic.name);
        self.admin.delete(&self.name(&topic.name), is_partitioned).await
    }

    /// Notes how many partitions a topic has, 0 where it is not partitioned. The topic as the engine counts them.
    fn learn(&self, topic: &Topic, partitions: u32) -> Topic {
        self.partitions.lock().insert(topic.name.clone(), partitions);
        Topic { partitions: partitions.max(1), ..topic.clone() }
    }

    /// The names of a topic's partitions; that of the topic if it has none.
    pub fn parts(&self, topic: &str) -> Vec<Arc<str>> {
        let partitions = self.partitions.lock().get(topic).copied().unwrap_or(0);
        self.name(topic).parts(partitions)
    }

    /// The name of a producer that the broker is to recognise, unique over all processes of the trial.
    pub fn producer_name(&self, producer_number: usize) -> String {
        format!("{}-{}", self.run_id, producer_number)
    }

    /// What the next consumer joins.
    ///
    /// # Errors
    /// When the kind of subscription does not let so many members in.
    pub fn membership(&self, subscription: &Subscription, options: &PulsarOptions) -> Result<Membership, BrokerError> {
        let number = self.consumers.fetch_add(1, Ordering::Relaxed);
        let kind = SubscriptionType::for_group(options, subscription.members).map_err(BrokerError::Configuration)?;
        Ok(Membership {
            subscription: subscription.group.clone(),
            kind,
            consumer_name: format!("{}-{}", self.run_id, subscription.member),
            from: subscription.from,
            // Not a producer's connection: arriving messages must not delay receipts.
            index: self.connections + number % self.connections,
        })
    }

    /// Has the subscription removed with the trial. Where other processes use it as well, it stays.
    pub fn joined(&self, subscription: &Subscription) {
        if !subscription.is_divided {
            self.subscriptions.lock().insert((subscription.topic.name.clone(), subscription.group.clone()));
        }
    }

    /// Makes a subscription that begins at the earliest message.
    pub async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        if !self.persistent {
            let reason = "non-persistent topics do not keep messages for a group that begins late: set \
                          `broker.pulsar.persistent = true`"
                .to_owned();
            return Err(BrokerError::Configuration(reason));
        }
        self.admin.subscribe(&self.name(&subscription.topic.name), &subscription.group).await?;
        self.joined(subscription);
        Ok(())
    }

    /// What an acknowledgement means.
    pub async fn durability(&self, topics: &[Topic]) -> Durability {
        if !self.persistent {
            return non_persistent_durability();
        }
        // All topics of a trial are made alike, in one namespace.
        let Some(first) = topics.first() else { return Durability::default() };
        durability(self.admin.persistence(&self.name(&first.name)).await)
    }

    /// What the broker has removed from a topic before it delivered it to `groups`.
    pub async fn removal(&self, topic: &Topic, groups: &[String]) -> Option<Removal> {
        let is_partitioned = self.partitions.lock().get(&topic.name).is_some_and(|partitions| *partitions > 0);
        self.admin.removal(&self.name(&topic.name), is_partitioned, groups).await
    }

    /// Removes the subscriptions of the topics that stay. Goes on after an error, and returns the first one.
    pub async fn unsubscribe(&self) -> Result<(), BrokerError> {
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        let left = subscriptions
            .iter()
            .map(async |(topic, subscription)| self.admin.unsubscribe(&self.name(topic), subscription).await);
        join_all(left).await.into_iter().fold(Ok(()), Result::and)
    }

    fn name(&self, topic: &str) -> TopicName {
        TopicName::new(&self.namespace, topic, self.persistent)
    }
}

/// What connections and requests log in with. That there is a token is known before anything connects.
async fn token(options: &PulsarOptions, timeout: Duration) -> Result<Option<Arc<Token>>, BrokerError> {
    let Some(source) = options.token_source() else { return Ok(None) };
    let is_written = matches!(source, TokenSource::Secret(_));
    let token = Token::new(source, timeout).map_err(BrokerError::Configuration)?;
    token.current().await.map_err(if is_written { BrokerError::Configuration } else { BrokerError::Client })?;
    Ok(Some(Arc::new(token)))
}

/// The admin interfaces of brokers in Pulsar's default configuration, at the hosts of the addresses. The first one accepts a connection, if any does.
async fn admin_urls(addresses: &[String], tls: bool) -> Vec<String> {
    let (scheme, port) = if tls { ("https", 8443) } else { ("http", 8080) };
    let mut hosts: Vec<&str> =
        addresses.iter().filter_map(|address| address::split(address)).map(|(host, _)| host).collect();
    if hosts.is_empty() {
        hosts.push("127.0.0.1");
    }
    let attempts = hosts.iter().enumerate();
    let attempt = async |(number, host): (usize, &&str)| tcp::connect(&format!("{host}:{port}")).await.map(|_| number);
    if hosts.len() > 1
        && let Ok((answering, _)) = in_turn(attempts.map(attempt).collect(), pool::PATIENCE).await
    {
        hosts.rotate_left(answering);
    }
    hosts.iter().map(|host| format!("{scheme}://{host}:{port}")).collect()
}
