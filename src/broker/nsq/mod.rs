//! NSQ: any number of nsqd, named or found through nsqlookupd, over a protocol module of our own.
//!
//! - `config`: the `[broker.nsq]` table, and names that nsqd accepts.
//! - `nodes`: the nsqd of a trial.
//! - `admin`: topics and channels over HTTP; nsqd that appear later, and what was found and made.
//! - `connect`, `upgraded_stream`: opens connections, and nsqd's errors by class; their encryption and compression.
//! - [`codec`]: the protocol's commands and frames.
//! - `connection`, `producer`: publishing connections with what crossed the wire, and the producers that share them.
//! - `consumer`: a member of a channel, with a connection to each nsqd.
//!
//! nsqd share nothing: a topic on several nsqd is several queues. `broker.connections` counts publishing connections to all
//! nsqd together, and is raised to one for each nsqd that has a producer. A topic's producers use the nsqd in turn. Every
//! consumer connects to every nsqd, and subscribes before anything is sent. NSQ does not guarantee an order.

mod admin;
pub mod codec;
mod config;
mod connect;
mod connection;
mod consumer;
mod nodes;
mod producer;
mod upgraded_stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

use self::admin::{Admin, Assigned, Discovery, Node, OPTIONS, PATIENCE, TopicLocation, durability};
pub use self::config::NsqOptions;
use self::connect::{Connector, Role};
use self::connection::{Connection, Publishing, quantile};
use self::consumer::NsqConsumer;
use self::nodes::Nodes;
use self::producer::{NsqProducer, Placement};
use super::{Broker, BrokerError, BrokerInfo, Created, Durability, Setup, Subscription, Telemetry, Topic};
use crate::measure::ConditionKind;
use crate::net::address;
use crate::scenario::{BrokerConfig, Capabilities, Contradiction, Descriptor, Need, Scenario};

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
    assigned: Arc<Mutex<Assigned>>,
    /// nsqlookupd, if they are to be asked.
    lookups: Vec<String>,
    lookups_that_answered: Vec<String>,
    /// Nsqd that nsqlookupd lists and that cannot be reached.
    left_out: usize,
}

impl Broker for NsqBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "nsq",
        aliases: &["nsqd"],
        default_port: Some(4150),
        omb_driver: Some("NsqBenchmarkDriver"),
        example: include_str!("example.toml"),
        summary: "NSQ's nsqd, named or found through nsqlookupd, over its TCP protocol V2",
        capabilities: Capabilities { addresses: true, consumers: true, groups: true, tls: true, ..Capabilities::NONE },
        tells: |kind| kind.is_told_by_all() || kind == ConditionKind::TopicGone,
        ..Descriptor::NONE
    };

    type Options = NsqOptions;
    type Producer = NsqProducer;
    type Consumer = NsqConsumer;

    fn contradiction(scenario: &Scenario, _: &BTreeMap<String, String>) -> Option<Contradiction> {
        let options: NsqOptions = scenario.broker.options.clone().try_into().ok()?;
        Contradiction::of_delay(scenario, "broker.nsq.defer", options.defer)
    }

    fn remedy(need: Need<'_>, config: &BrokerConfig, _: &NsqOptions) -> Option<String> {
        let host = config.addresses.first().map_or("HOST", |address| address::host(address));
        match need {
            Need::TopicUsers(topic) => {
                Some(format!("curl 'http://{host}:4151/stats?topic={topic}' lists its readers and writers"))
            }
            Need::Durability(_) => {
                Some(format!("curl http://{host}:4151/config/mem_queue_size must answer, on each nsqd alike"))
            }
            _ => None,
        }
    }

    async fn connect(setup: Setup<NsqOptions>) -> Result<Self, BrokerError> {
        let options = setup.options;
        let admin = Admin::new(setup.timeout);
        let connector =
            Arc::new(Connector::new(&setup.config, &options, &setup.run_id, setup.timeout, &setup.conditions)?);
        let found = Nodes::find(&setup.config.addresses, &options, &admin, &connector).await?;
        let nodes = found.nodes;
        let placement = Placement::new(&setup.places_on_topics, nodes.len(), setup.config.connections);
        let mut connections = Vec::with_capacity(placement.nodes.len());
        let mut version = String::new();
        for node in &placement.nodes {
            let Node { address, http_address, .. } = &nodes[*node];
            let session =
                connector.connect(address, &Role::Writer).await.map_err(|error| error.into_broker_error(address))?;
            version.clone_from(&session.server.version);
            let max_body_bytes = match http_address.as_str() {
                "" => None,
                http_address => admin.max_body_bytes(http_address).await,
            };
            let recorder = setup.acks.recorder();
            let connection = Publishing::start(address.clone(), session, connector.clone(), recorder, max_body_bytes);
            connections.push(Arc::new(connection));
        }
        let (run_id, assigned) = (setup.run_id, Arc::default());
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
            assigned,
            lookups,
            lookups_that_answered: found.lookups,
            left_out: found.left_out,
        })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        let mut created = Vec::new();
        for http in self.http_addresses() {
            match self.create_at(http, &topic.name).await {
                Ok(None) => {}
                Ok(Some(location)) => created.push(location),
                Err(error) => {
                    for TopicLocation { http, topic } in &created {
                        // An error would hide the cause.
                        let _ = self.admin.delete_topic(http, topic).await;
                    }
                    return Err(error);
                }
            }
        }
        let is_new = !created.is_empty();
        self.assigned().made.extend(created);
        // Without HTTP, topics are created by use.
        Ok(if is_new { Created::New } else { Created::Existing(topic.clone()) })
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        let name = self.topic_name(&topic.name);
        for http in self.http_addresses() {
            let found = self.admin.topic(http, &name).await;
            if found.map_err(|reason| refused_at(http, &topic.name, "found", &reason))?.is_some() {
                return Ok(Some(topic.clone()));
            }
        }
        Ok(None)
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        let locations = self.take_made(&self.topic_name(&topic.name));
        let mut result = Ok(());
        for TopicLocation { http, topic } in &locations {
            let deleted = self.admin.delete_topic(http, topic).await;
            result = result.and(deleted.map_err(|reason| refused_at(http, topic, "removed", &reason)));
        }
        // They keep the name of a topic that no nsqd has. One that does not answer any more keeps it as well.
        let name = self.topic_name(&topic.name);
        let forgotten = self.lookups_that_answered.iter().map(|lookup| self.admin.delete_topic(lookup, &name));
        let _ = timeout(PATIENCE, join_all(forgotten)).await;
        result
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<NsqProducer, BrokerError> {
        let connection = self.placement.for_producer(producer_number - self.first_producer);
        let topic = self.topic_name(&topic.name).into();
        Ok(NsqProducer::new(self.connections[connection].clone(), topic, self.options.reconnect))
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
            has_http: self.http_addresses().next().is_some(),
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
            return Err(BrokerError::Configuration(reason));
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
            let Some(values) = self.admin.options(&node.http_address, &OPTIONS).await else {
                return Durability::default();
            };
            nodes.push(values);
        }
        durability(&nodes, self.options.ephemeral_topics)
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo {
            client: format!("brokermark {}, NSQ protocol V2", env!("CARGO_PKG_VERSION")),
            broker: Some(match self.left_out {
                0 => format!("nsqd {} ({} of them)", self.version, self.nodes.len()),
                left_out => format!("nsqd {} ({} of them, {left_out} left out)", self.version, self.nodes.len()),
            }),
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

    async fn stop(&self) {
        self.connections.iter().for_each(|connection| connection.end());
    }

    async fn close(self) -> Result<(), BrokerError> {
        let channels = std::mem::take(&mut self.assigned().channels);
        let mut result = Ok(());
        for (TopicLocation { http, topic }, channel) in &channels {
            let deleted = self.admin.delete_channel(http, topic, channel).await;
            result = result.and(deleted.map_err(|reason| refused_at(http, topic, "removed", &reason)));
        }
        result
    }
}

impl NsqBroker {
    fn assigned(&self) -> MutexGuard<'_, Assigned> {
        self.assigned.lock()
    }

    /// The topic's name in nsqd, which may shorten the engine's names. A name of the scenario is never changed.
    fn topic_name(&self, name: &str) -> String {
        match name.starts_with(&self.run_id) {
            _ if self.options.ephemeral_topics => config::ephemeral(name),
            true => config::shorten(name),
            false => name.to_owned(),
        }
    }

    fn http_addresses(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.http_address.as_str()).filter(|address| !address.is_empty())
    }

    /// The group's channel on a topic. A channel that did not exist before is removed at the end, unless other processes use it as well.
    fn channel(&self, topic: &str, Subscription { group, is_divided, .. }: &Subscription) -> String {
        let mut assigned = self.assigned();
        let groups = assigned.groups.entry(topic.to_owned()).or_default();
        let number = groups.iter().position(|known| known == group).unwrap_or_else(|| {
            groups.push(group.clone());
            groups.len() - 1
        });
        let channel = config::channel(self.options.channel.as_deref(), group, number);
        let new: Vec<(TopicLocation, String)> = assigned
            .found
            .iter()
            .filter(|(location, channels)| !is_divided && location.topic == topic && !channels.contains(&channel))
            .map(|(location, _)| (location.clone(), channel.clone()))
            .collect();
        assigned.channels.extend(new);
        channel
    }

    /// Creates the topic at one nsqd; `None`: it is there already.
    async fn create_at(&self, http: &str, name: &str) -> Result<Option<TopicLocation>, BrokerError> {
        let location = TopicLocation { http: http.to_owned(), topic: self.topic_name(name) };
        let failed = |action, reason: String| {
            let lookup = self.nodes.iter().find(|node| node.http_address == http).and_then(|node| node.lookup.as_ref());
            let advice = match lookup {
                Some(lookup) => format!(
                    "nsqlookupd at {lookup} names this address: have nsqd tell one that can be reached (`-broadcast-address`, \
                     `-http-address`), or set `broker.nsq.http_addresses` to [] to have topics created by use"
                ),
                None => "set `broker.nsq.http_addresses` to nsqd's HTTP addresses, or to [] to use none".to_owned(),
            };
            refused_at(http, name, action, &format!("{reason} ({advice})"))
        };
        let found = self.admin.topic(http, &location.topic).await.map_err(|reason| failed("found", reason))?;
        let is_new = found.is_none();
        if is_new {
            self.admin.create_topic(http, &location.topic).await.map_err(|reason| failed("created", reason))?;
        }
        let channels = found.and_then(|found| found.channels).into_iter().flatten();
        self.assigned().found.insert(location.clone(), channels.map(|channel| channel.channel_name).collect());
        Ok(is_new.then_some(location))
    }

    /// Where the topic was created by this process, else by another one, which is every nsqd that has it. Its channels are deleted with it.
    fn take_made(&self, topic: &str) -> Vec<TopicLocation> {
        let mut assigned = self.assigned();
        let mut locations: Vec<_> = assigned.made.iter().filter(|made| made.topic == topic).cloned().collect();
        assigned.made.retain(|made| made.topic != topic);
        if locations.is_empty() {
            let location = |http: &str| TopicLocation { http: http.to_owned(), topic: topic.to_owned() };
            locations = self.http_addresses().map(location).collect();
        }
        assigned.channels.retain(|(location, _)| !locations.contains(location));
        locations
    }
}

/// Why an nsqd does not do something with a topic.
fn refused_at(http: &str, topic: &str, action: &'static str, reason: &str) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason: format!("nsqd at {http}: {reason}") }
}
