//! NSQ: any number of nsqd, named or found through nsqlookupd, over a protocol module of our own.
//!
//! - `config`: the `[broker.nsq]` table.
//! - `admin`: topics and channels over HTTP. `assigned`: those that were found and made.
//! - `connect`, `upgraded_stream`: opens connections; their encryption and compression.
//! - [`codec`]: the protocol's commands and frames.
//! - `connection`, `producer`: publishing connections with what crossed the wire, and the producers that share them.
//! - `consumer`: a member of a channel, with a connection to each nsqd. `discovery`: nsqd that appear later.
//! - `error`: nsqd's errors and their classes; `names`: names that nsqd accepts.
//!
//! nsqd share nothing: a topic on several nsqd is several queues. `broker.connections` counts publishing connections to all
//! nsqd together, and is raised to one for each nsqd that has a producer. A topic's producers use the nsqd in turn. Every
//! consumer connects to every nsqd, and subscribes before anything is sent. NSQ does not guarantee an order.

mod admin;
mod assigned;
pub mod codec;
mod config;
mod connect;
mod connection;
mod consumer;
mod discovery;
mod durability;
mod error;
mod names;
mod producer;
mod upgraded_stream;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

use self::admin::{Admin, Node, next_port};
use self::assigned::{Assigned, TopicLocation};
pub use self::config::NsqOptions;
use self::connect::{Connector, Role};
use self::connection::{Connection, Publishing, quantile};
use self::consumer::NsqConsumer;
use self::discovery::Discovery;
use self::producer::{NsqProducer, Placement};
use super::{Broker, BrokerError, BrokerInfo, Durability, Setup, Subscription, Telemetry, Topic};
use crate::scenario::{Capabilities, Descriptor};

/// Some nsqd, reached over publishing connections.
pub struct NsqBroker {
    options: NsqOptions,
    nodes: Vec<Node>,
    connector: Arc<Connector>,
    admin: Admin,
    connections: Vec<Arc<Connection>>,
    placement: Placement,
    /// The number of the first producer of this process.
    first_producer: usize,
    run_id: String,
    version: String,
    /// How long closing may take.
    timeout: Duration,
    assigned: Arc<Mutex<Assigned>>,
    /// nsqlookupd, if they are to be asked.
    lookups: Vec<String>,
}

impl Broker for NsqBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "nsq",
        aliases: &["nsqd"],
        default_port: Some(4150),
        example: include_str!("example.toml"),
        client: None,
        alternative: None,
        summary: "NSQ's nsqd, named or found through nsqlookupd, over its TCP protocol V2",
        capabilities: Capabilities { addresses: true, consumers: true, groups: true, tls: true, ..Capabilities::NONE },
        check_options: |options| options.try_into::<NsqOptions>().map(drop),
        refuses: |_| None,
    };

    type Producer = NsqProducer;
    type Consumer = NsqConsumer;

    async fn connect(setup: Setup) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: "nsq", reason };
        let options: NsqOptions =
            setup.config.options.clone().try_into().map_err(|error: toml::de::Error| refused(error.to_string()))?;
        let admin = Admin::new(setup.timeout);
        let nodes = match options.lookup {
            true => admin.nodes(&setup.config.addresses).await?,
            false => named_nodes(&setup.config.addresses, &options).map_err(refused)?,
        };
        let connector = Arc::new(Connector::new(&setup.config, &options, &setup.run_id, setup.timeout)?);
        let placement = Placement::new(&setup.places_on_topics, nodes.len(), setup.config.connections);
        let mut connections = Vec::with_capacity(placement.nodes.len());
        let mut version = String::new();
        for node in &placement.nodes {
            let address = &nodes[*node].address;
            let session =
                connector.connect(address, &Role::Writer).await.map_err(|error| error.into_broker_error(address))?;
            version.clone_from(&session.server.version);
            let connection = Publishing::start(address.clone(), session, connector.clone(), setup.acks.recorder());
            connections.push(Arc::new(connection));
        }
        let (run_id, timeout, assigned) = (setup.run_id, setup.timeout, Arc::default());
        let lookups = if options.lookup { setup.config.addresses } else { Vec::new() };
        Ok(NsqBroker {
            options,
            nodes,
            connector,
            admin,
            connections,
            placement,
            first_producer: setup.first_producer,
            run_id,
            version,
            timeout,
            assigned,
            lookups,
        })
    }

    async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        for Topic { name, .. } in topics {
            for http in self.http_addresses() {
                self.prepare_at(http, name, created).await?;
            }
        }
        Ok(())
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<NsqProducer, BrokerError> {
        let connection = self.placement.of_producer(producer_number - self.first_producer);
        let topic = self.topic_name(&topic.name).into();
        Ok(NsqProducer::new(self.connections[connection].clone(), topic, self.options.reconnect))
    }

    async fn adopt(&self, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
        let mut existing = Vec::new();
        for wanted @ Topic { name, .. } in topics {
            let topic = self.topic_name(name);
            for http in self.http_addresses() {
                let found = self.admin.topic(http, &topic).await.map_err(|reason| BrokerError::Topic {
                    topic: name.clone(),
                    action: "found",
                    reason: format!("nsqd at {http}: {reason}"),
                })?;
                if found.is_some() {
                    self.assigned().made.insert(TopicLocation { http: http.to_owned(), topic: topic.clone() });
                    if existing.last() != Some(wanted) {
                        existing.push(wanted.clone());
                    }
                }
            }
        }
        Ok(existing)
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<NsqConsumer, BrokerError> {
        let topic = self.topic_name(&subscription.topic.name);
        let channel = self.channel(&topic, subscription);
        let appeared = (!self.lookups.is_empty()).then(|| Discovery {
            admin: self.admin.clone(),
            lookups: self.lookups.clone(),
            interval: self.options.lookup_interval,
            topic: topic.clone(),
            channel: channel.clone(),
            known: self.nodes.iter().map(|node| node.address.clone()).collect(),
            assigned: self.assigned.clone(),
        });
        let role = Role::Reader { topic, channel };
        let mut sessions = Vec::with_capacity(self.nodes.len());
        for Node { address, .. } in &self.nodes {
            let session =
                self.connector.connect(address, &role).await.map_err(|error| error.into_broker_error(address))?;
            sessions.push((address.clone(), session));
        }
        Ok(NsqConsumer::new(sessions, self.connector.clone(), role, appeared.map(Discovery::start)))
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        let is_ephemeral = |channel: &String| channel.ends_with("#ephemeral");
        if self.options.ephemeral_topics || self.options.channel.as_ref().is_some_and(is_ephemeral) {
            let reason = "ephemeral topics and channels do not keep messages for a group that begins late: make \
                          `broker.nsq.ephemeral_topics` false, and name a `broker.nsq.channel` that is not ephemeral"
                .to_owned();
            return Err(BrokerError::Configuration { broker: "nsq", reason });
        }
        let topic = self.topic_name(&subscription.topic.name);
        let channel = self.channel(&topic, subscription);
        // nsqd keeps a channel that it has made, with all that is published from then on. It must send nothing meanwhile: what is in
        // flight to a connection that ends is delivered again only after its timeout.
        let role = Role::ChannelMaker { topic, channel };
        for Node { address, .. } in &self.nodes {
            self.connector.connect(address, &role).await.map_err(|error| error.into_broker_error(address))?;
        }
        Ok(())
    }

    async fn durability(&self, topics: &[Topic]) -> Durability {
        let _ = topics;
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let Some(values) = self.admin.options(&node.http_address, &durability::OPTIONS).await else {
                return Durability::default();
            };
            nodes.push(values);
        }
        durability::durability(&nodes, self.options.ephemeral_topics)
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!("brokermark {}, NSQ protocol V2", env!("CARGO_PKG_VERSION")),
            broker: Some(format!("nsqd {} ({} of them)", self.version, self.nodes.len())),
            embedded: false,
        }
    }

    fn telemetry(&self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        let mut round_trips = Vec::new();
        for connection in &self.connections {
            let (queue_full_ns, messages) = connection.take_telemetry();
            telemetry.queue_full_ns += queue_full_ns;
            *telemetry.queue_messages.get_or_insert(0) += messages;
            let (wire, mut own) = connection.with_state(|in_flight| in_flight.traffic.take());
            *telemetry.wire.get_or_insert_default() += wire;
            round_trips.append(&mut own);
        }
        round_trips.sort_unstable();
        telemetry.round_trip_p50_ns = quantile(&round_trips, 0.5);
        telemetry.round_trip_p99_ns = quantile(&round_trips, 0.99);
        telemetry
    }

    async fn close(self, created: Vec<String>) -> Result<(), BrokerError> {
        let Assigned { made: mut topics, mut channels, .. } = std::mem::take(&mut *self.assigned());
        let names: BTreeSet<String> = created.iter().map(|name| self.topic_name(name)).collect();
        topics.retain(|location| names.contains(&location.topic));
        // A topic's channels are removed with it.
        channels.retain(|(location, _)| !topics.contains(location));
        // Connections are closed first: a message that is published later would create a removed topic again.
        self.connections.iter().for_each(|connection| connection.end());
        timeout(self.timeout, self.remove(&topics, &channels)).await.unwrap_or_else(|_| {
            let reason = format!("topics and channels were not removed within {:?}", self.timeout);
            Err(BrokerError::Client { broker: "nsq", reason })
        })
    }
}

impl NsqBroker {
    fn assigned(&self) -> MutexGuard<'_, Assigned> {
        self.assigned.lock()
    }

    /// The topic's name in nsqd, which may shorten the engine's names. A name of the scenario is never changed.
    fn topic_name(&self, name: &str) -> String {
        match name.starts_with(&self.run_id) {
            _ if self.options.ephemeral_topics => names::ephemeral(name),
            true => names::shorten(name),
            false => name.to_owned(),
        }
    }

    fn http_addresses(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.http_address.as_str()).filter(|address| !address.is_empty())
    }

    /// The group's channel on a topic. A channel that did not exist before is removed at the end, unless other processes use it, too.
    fn channel(&self, topic: &str, Subscription { group, is_divided, .. }: &Subscription) -> String {
        let mut assigned = self.assigned();
        let groups = assigned.groups.entry(topic.to_owned()).or_default();
        let number = groups.iter().position(|known| known == group).unwrap_or_else(|| {
            groups.push(group.clone());
            groups.len() - 1
        });
        let channel = names::channel(self.options.channel.as_deref(), group, number);
        let new: Vec<(TopicLocation, String)> = assigned
            .found
            .iter()
            .filter(|(location, channels)| !is_divided && location.topic == topic && !channels.contains(&channel))
            .map(|(location, _)| (location.clone(), channel.clone()))
            .collect();
        assigned.channels.extend(new);
        channel
    }

    /// Creates the topic at one nsqd, if it is not there.
    async fn prepare_at(&self, http: &str, name: &str, created: &mut Vec<String>) -> Result<(), BrokerError> {
        let topic = self.topic_name(name);
        let failed = |action, reason| {
            let reason = format!(
                "nsqd at {http}: {reason} (set `broker.nsq.http_addresses` to nsqd's HTTP addresses, or to [] to use none)"
            );
            BrokerError::Topic { topic: name.to_owned(), action, reason }
        };
        let place = TopicLocation { http: http.to_owned(), topic: topic.clone() };
        let found = self.admin.topic(http, &topic).await.map_err(|reason| failed("found", reason))?;
        if found.is_none() {
            self.admin.create_topic(http, &topic).await.map_err(|reason| failed("created", reason))?;
            self.assigned().made.insert(place.clone());
            if !created.iter().any(|one| one == name) {
                created.push(name.to_owned());
            }
        }
        let channels = found.and_then(|found| found.channels).into_iter().flatten();
        self.assigned().found.insert(place, channels.map(|channel| channel.channel_name).collect());
        Ok(())
    }

    /// Removes the topics and channels. Goes on after an error, and returns the first one.
    async fn remove(
        &self,
        topics: &BTreeSet<TopicLocation>,
        channels: &BTreeSet<(TopicLocation, String)>,
    ) -> Result<(), BrokerError> {
        let mut result = Ok(());
        let failed = |TopicLocation { http, topic }: &TopicLocation, reason: String| {
            let reason = format!("nsqd at {http}: {reason}");
            Err(BrokerError::Topic { topic: topic.clone(), action: "removed", reason })
        };
        for (location, channel) in channels {
            if let Err(reason) = self.admin.delete_channel(&location.http, &location.topic, channel).await {
                result = result.and(failed(location, reason));
            }
        }
        for location in topics {
            if let Err(reason) = self.admin.delete_topic(&location.http, &location.topic).await {
                result = result.and(failed(location, reason));
            }
        }
        result
    }
}

/// The nsqd of the scenario, with their HTTP addresses: those of the scenario, or NSQ's default. Empty: HTTP is not used.
fn named_nodes(addresses: &[String], options: &NsqOptions) -> Result<Vec<Node>, String> {
    let http = match &options.http_addresses {
        None => addresses.iter().map(|address| next_port(address).unwrap_or_default()).collect(),
        Some(named) if named.is_empty() => vec![String::new(); addresses.len()],
        Some(named) if named.len() == addresses.len() => named.clone(),
        Some(named) => {
            return Err(format!(
                "`broker.nsq.http_addresses` has {} addresses and `broker.addresses` {}: give one for each",
                named.len(),
                addresses.len()
            ));
        }
    };
    let pair = |(address, http_address): (&String, String)| Node { address: address.clone(), http_address };
    Ok(addresses.iter().zip(http).map(pair).collect())
}
