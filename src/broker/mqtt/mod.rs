//! MQTT, versions 5 and 3.1.1, by a protocol module of our own: see docs/decisions/0016-mqtt-protocol.md.
//!
//! - `config`: the `[broker.mqtt]` table.
//! - `codec`, `encode`, `reason`: what is on a connection.
//! - `connect`: connections, and what the server allows on them.
//! - `publish`, `in_flight`: publishing connections.
//! - `consume`: members of groups.
//!
//! A topic is one of MQTT, which needs no creation. A group is a shared subscription, or the subscription of its only member; its messages are in
//! order only while it has one.

mod codec;
mod config;
mod connect;
mod consume;
mod encode;
mod in_flight;
mod publish;
mod reason;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::codec::property;
pub use self::config::MqttOptions;
use self::config::Version;
use self::connect::{Client, ConnectError, Connector, Filter, NO_SHARES, Opened};
use self::consume::{Member, MqttConsumer};
use self::encode::{DISCONNECT, MAX_TEXT_BYTES, PINGREQ, Publish, append_headers, append_subscribe};
use self::in_flight::InFlight;
use self::publish::{Connection, MqttProducer, Publishing};
use super::{
    Broker, BrokerError, BrokerInfo, ClientError, Created, Durability, DurabilityLevel, FailureClass, OpenIdle, Setup,
    Subscription, Telemetry, Topic,
};
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::net::transport::WriteBuffer;
use crate::printable::printable;
use crate::scenario::{BrokerConfig, Capabilities, Contradiction, Descriptor, Need, SaslMechanism, Scenario};

/// How long the last packets of a connection may take.
const CLOSING: Duration = Duration::from_secs(5);

/// An MQTT server, reached over publishing connections; each consumer has one of its own.
pub struct MqttBroker {
    setup: Setup<MqttOptions>,
    connector: Arc<Connector>,
    version: Option<String>,
    connections: Vec<Arc<Connection>>,
    /// Client ids whose sessions a server keeps, and the number of the server that each of them began at.
    sessions: Mutex<BTreeMap<String, usize>>,
    /// That the server shares subscriptions, once that is known.
    shares: OnceCell<()>,
}

impl Broker for MqttBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "mqtt",
        aliases: &["mosquitto", "emqx", "hivemq"],
        tls_scheme: Some(("mqtts", 8883)),
        default_port: Some(1883),
        example: include_str!("example.toml"),
        summary: "MQTT 5 and 3.1.1, QoS 0 to 2, shared subscriptions",
        capabilities: Capabilities {
            addresses: true,
            headers: true,
            own_headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[SaslMechanism::Plain],
            idle_connections: true,
            ..Capabilities::NONE
        },
        tells: |kind| {
            kind.is_told_by_all()
                || matches!(kind, ConditionKind::Fenced | ConditionKind::Throttled | ConditionKind::Unanswered)
        },
        ..Descriptor::NONE
    };

    type Options = MqttOptions;
    type Producer = MqttProducer;
    type Consumer = MqttConsumer;

    fn contradiction(scenario: &Scenario, _: &BTreeMap<String, String>) -> Option<Contradiction> {
        let options: MqttOptions = scenario.broker.options.clone().try_into().ok()?;
        let refused =
            |message: &str, advice: &str| Some(Contradiction { message: message.into(), advice: advice.into() });
        let is_latest = options.version == Version::V5;
        if !is_latest && scenario.producers.header_sets.iter().any(|headers| !headers.is_empty()) {
            return refused(
                "messages of MQTT 3.1.1 have no headers",
                "remove `producers.headers`, or set `broker.mqtt.version` to \"5\"",
            );
        }
        let consumers = scenario.consumers.as_ref()?;
        if !is_latest && (consumers.end_to_end || consumers.verify) && !scenario.payload.fits_trace_header() {
            return refused(
                "payloads that are so small cannot carry the trace header, and messages of MQTT 3.1.1 have no headers",
                "make payloads larger, set `broker.mqtt.version` to \"5\", or set `consumers.verify` and `consumers.end_to_end` to false",
            );
        }
        if !options.shared && consumers.most_members() > 1 {
            return refused(
                "without shared subscriptions, each member of a group gets all messages",
                "set `consumers.members` to 1 and use more groups, or set `broker.mqtt.shared` to true",
            );
        }
        None
    }

    fn remedy(need: Need<'_>, _: &BrokerConfig, _: &MqttOptions) -> Option<String> {
        match need {
            Need::Topic(topic) => Some(format!("mosquitto_sub -t '{topic}' -v shows what is sent to it")),
            _ => None,
        }
    }

    async fn connect(setup: Setup<MqttOptions>) -> Result<Self, BrokerError> {
        let connector = Connector::new(&setup).map(Arc::new).map_err(BrokerError::Configuration)?;
        let (connections, sessions, shares) = (Vec::new(), Mutex::default(), OnceCell::new());
        let mut broker = MqttBroker { setup, connector, version: None, connections, sessions, shares };
        let MqttBroker { setup, connector, .. } = &broker;
        let Setup { config, options, run_id, conditions, .. } = setup;
        let unreachable = |error: ClientError| error.at(&config.addresses.join(", "));
        if setup.header_sets.iter().flatten().any(|(name, value)| name.len().max(value.len()) > MAX_TEXT_BYTES) {
            let reason = format!("a name or value of `producers.headers` has more than {MAX_TEXT_BYTES} bytes");
            return Err(BrokerError::Configuration(reason));
        }
        let mut properties = Vec::new();
        if let Some(expiry) = options.message_expiry {
            properties.push(property::MESSAGE_EXPIRY);
            properties.extend((expiry.as_secs() as u32).to_be_bytes());
        }
        let encoded = |headers: &Vec<(String, String)>| {
            let mut encoded = Vec::new();
            append_headers(&mut encoded, headers);
            encoded
        };
        let header_sets: Vec<Vec<u8>> = setup.header_sets.iter().map(encoded).collect();
        let version = broker.ask_version().await.map_err(unreachable)?;
        let mut connections = Vec::with_capacity(config.connections);
        for number in 0..config.connections {
            let id = format!("{run_id}-{}-{number}", setup.first_producer);
            let client = Client { id, has_will: true, ..Client::default() };
            let opened = connector.connect(number, &client, None).await.map_err(unreachable)?;
            let publishing = Publishing {
                connector: connector.clone(),
                client,
                number,
                recorder: setup.acks.recorder(),
                header_sets: header_sets.clone(),
                properties: properties.clone(),
                routes: RwLock::default(),
                node: Subject::new(conditions, SubjectKind::Node, &opened.address),
                reconnects: AtomicUsize::default(),
                address: Mutex::default(),
            };
            connections.push(Arc::new(publishing.start(opened)));
        }
        (broker.version, broker.connections) = (version, connections);
        Ok(broker)
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        // MQTT 5, 4.7.1 and 4.7.3.
        if topic.name.contains(['+', '#']) || topic.name.len() > MAX_TEXT_BYTES {
            let reason = format!("its name must have no `+` and no `#`, and at most {MAX_TEXT_BYTES} bytes");
            return Err(BrokerError::Topic { topic: topic.name.clone(), action: "used", reason });
        }
        Ok(Created::New)
    }

    /// A server does not list topics. It only sends the retained message of one.
    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        if !self.setup.options.retain {
            return Ok(None);
        }
        let asked = self.with_admin(async |opened| {
            opened.subscribe(&topic.name, 0, true).await?;
            opened.ask(&PINGREQ).await
        });
        let retained = asked.await.and_then(|answer| answer.map_err(ClientError::from));
        let retained = retained.map_err(|error| error.for_topic(&topic.name, "looked up"))?;
        Ok(retained.map(|_| topic.clone()))
    }

    /// Only a retained message is there to be removed: by an empty one (MQTT 5, 3.3.1.3).
    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        let MqttOptions { version, retain, .. } = self.setup.options;
        if !retain {
            return Ok(());
        }
        let mut request = Vec::new();
        append_notice(&mut request, version, &topic.name, retain);
        let deleted = self.with_admin(async |opened| opened.ask(&request).await).await;
        let deleted = deleted.and_then(|answer| answer.map_err(|error| ClientError::lost(error.to_string())));
        deleted.map(drop).map_err(|error| error.for_topic(&topic.name, "deleted"))
    }

    async fn producer(&self, producer_number: usize, topic: &Topic) -> Result<MqttProducer, BrokerError> {
        let connection = self.connections[producer_number % self.connections.len()].clone();
        let held_up = Subject::new(&self.setup.conditions, SubjectKind::Topic, &topic.name);
        Ok(MqttProducer::new(connection, &topic.name, held_up))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<MqttConsumer, BrokerError> {
        self.join(subscription).await.map_err(|error| error.for_topic(&subscription.topic.name, "consumed"))
    }

    async fn register(&self, subscription: &Subscription) -> Result<(), BrokerError> {
        let MqttOptions { qos, session_expiry, .. } = self.setup.options;
        if qos == 0 || session_expiry.is_zero() {
            let reason = "no message is kept for a group that joins later: set `broker.mqtt.qos` to 1 or 2, and \
                `broker.mqtt.session_expiry` to more than 0";
            return Err(BrokerError::Configuration(reason.to_owned()));
        }
        // The session stays without its connection.
        let registered = self.consumer(subscription).await?;
        super::Consumer::close(registered).await;
        Ok(())
    }

    fn identity(&self) -> BrokerInfo {
        let version = self.setup.options.version.name();
        BrokerInfo {
            client: format!("brokermark {}, MQTT {version}", env!("CARGO_PKG_VERSION")),
            broker: self.version.clone(),
            embedded: false,
        }
    }

    async fn durability(&self, _: &[Topic]) -> Durability {
        let qos = self.setup.options.qos;
        // A server does not tell where it has a message that it has acknowledged.
        let level = if qos == 0 { DurabilityLevel::Nowhere } else { DurabilityLevel::Unknown };
        Durability::new(level, None, [("qos", qos.to_string())], "broker.mqtt.qos")
    }

    fn takes_turns(&self) -> bool {
        self.setup.options.shared
    }

    fn idle_connections(&self) -> Option<OpenIdle> {
        let (connector, run_id) = (self.connector.clone(), self.setup.run_id.clone());
        Some(Arc::new(move |number| {
            let client = Client { id: format!("{run_id}-idle-{number}"), ..Client::default() };
            connector.clone().idle(number, client).boxed()
        }))
    }

    fn telemetry(&self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        for connection in &self.connections {
            let (queue_full_ns, messages) = connection.take_telemetry();
            telemetry.queue_full_ns += queue_full_ns;
            *telemetry.queue_messages.get_or_insert(0) += messages;
            telemetry.unmatched_answers += connection.with_state(InFlight::take_unmatched);
        }
        telemetry
    }

    async fn stop(&self) {
        join_all(self.connections.iter().map(|connection| publish::end(connection))).await;
    }

    async fn close(self) -> Result<(), BrokerError> {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for (id, first) in sessions {
            // A connection that is clean ends it.
            let mut opened = self.admin(id.clone(), first).await.map_err(|error| {
                BrokerError::Client(format!("the session of the client id {id} cannot be removed: {error}"))
            })?;
            let _ = opened.write(disconnect()).await;
        }
        Ok(())
    }
}

impl MqttBroker {
    fn member(&self, subscription: &Subscription) -> Member {
        let Subscription { group, topic, member, consumer_number, .. } = subscription;
        let (MqttOptions { shared, session_expiry, .. }, topic) = (&self.setup.options, &topic.name);
        let id = format!("{}-{topic}-{group}-{member}", self.setup.run_id);
        // What was registered under this id has its subscription: another one would have to wait behind the messages that the server has kept.
        let is_missing =
            session_expiry.is_zero() || self.sessions.lock().insert(id.clone(), *consumer_number).is_none();
        let filter = match shared {
            // A group's name has no wildcard and no level (MQTT 5, 4.8.2).
            true => format!("$share/{}/{topic}", group.replace(['/', '+', '#'], "-")),
            false => topic.clone(),
        };
        let client = Client { id, session_expiry: *session_expiry, has_will: false };
        Member { connector: self.connector.clone(), client, filter: Filter::new(filter, is_missing) }
    }

    /// A member of a group, which receives what is sent from now on, and what the server has kept for it.
    async fn join(&self, subscription: &Subscription) -> Result<MqttConsumer, ClientError> {
        self.shares.get_or_try_init(|| self.check_shares()).await?;
        MqttConsumer::connect(subscription.consumer_number, self.member(subscription)).await
    }

    /// What the server tells of itself, where it does as mosquitto does.
    ///
    /// # Errors
    /// When it cannot be reached, or allows less than the scenario asks for.
    async fn ask_version(&self) -> Result<Option<String>, ClientError> {
        let MqttOptions { version, qos, .. } = self.setup.options;
        // With version 3.1.1, a server tells what it allows only when it grants a subscription.
        let qos = if version == Version::V5 { 0 } else { qos };
        let told = self.with_admin(async |opened| match opened.subscribe("$SYS/broker/version", qos, true).await {
            Ok(()) => opened.ask(&PINGREQ).await,
            Err(error) => Err(error),
        });
        match told.await? {
            Err(ConnectError::Incompatible(reason)) => Err(ClientError::lasting(FailureClass::Other, reason)),
            told => Ok(told.ok().flatten().map(|told| printable(&told).chars().take(100).collect())),
        }
    }

    /// Version 3.1.1 has no word about shared subscriptions: a server that does not know them grants them, and takes `$share/…` for a topic.
    ///
    /// # Errors
    /// When the server does so.
    async fn check_shares(&self) -> Result<(), ClientError> {
        let MqttOptions { version, shared, .. } = self.setup.options;
        if version == Version::V5 || !shared {
            return Ok(());
        }
        let topic = format!("$share/{}/probe", self.setup.run_id);
        let mut request = Vec::new();
        append_subscribe(&mut request, version, &topic, 0, false);
        append_notice(&mut request, version, &topic, false);
        let delivered = self.with_admin(async |opened| {
            // What the first answer may overtake comes before the second one.
            let first = opened.ask(&request).await?;
            Ok(first.or(opened.ask(&PINGREQ).await?))
        });
        match delivered.await? {
            Ok(Some(_)) => Err(ClientError::lasting(FailureClass::Other, NO_SHARES.to_owned())),
            // A server that knows them delivers nothing, and may close the connection.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Lets `each` use a connection of its own.
    ///
    /// # Errors
    /// When there is no connection.
    async fn with_admin<T>(
        &self,
        each: impl AsyncFnOnce(&mut Opened) -> Result<T, ConnectError>,
    ) -> Result<Result<T, ConnectError>, ClientError> {
        let mut opened = self.admin(format!("{}-{}-admin", self.setup.run_id, self.setup.first_producer), 0).await?;
        let answer = timeout(self.setup.timeout, each(&mut opened)).await;
        let answer = answer.unwrap_or(Err(ConnectError::Timeout(self.setup.timeout)));
        let _ = opened.write(disconnect()).await;
        Ok(answer)
    }

    async fn admin(&self, id: String, first: usize) -> Result<Opened, ClientError> {
        self.connector.connect(first, &Client { id, ..Client::default() }, None).await
    }
}

/// Appends an empty message of QoS 0, and a `PINGREQ`.
fn append_notice(out: &mut Vec<u8>, version: Version, topic: &str, retain: bool) {
    let topic = topic.as_bytes();
    Publish { version, qos: 0, retain, topic, packet_id: 0, properties: [&[]; 4], payload: &[] }.append_to(out);
    out.extend_from_slice(&PINGREQ);
}

fn disconnect() -> WriteBuffer {
    let mut out = WriteBuffer::default();
    out.bytes.extend_from_slice(&DISCONNECT);
    out
}
