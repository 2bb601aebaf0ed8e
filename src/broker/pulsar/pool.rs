//! Connections to the brokers of a cluster, and which of them serves a topic.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::codec::proto::{Kind, Lookup, LookupResponse, LookupType, ToBroker};
use super::connect::SocketSettings;
use super::connection::{Connection, Outcomes, Traffic};
use super::retry::refused;
use crate::broker::{BrokerError, ClientError, FailureClass};
use crate::measure::{AckRecorder, ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::tcp::in_turn;

/// A connection that failed less than this ago is not tried again: all who wait for it get the same error.
const FRESH: Duration = Duration::from_millis(100);

/// How long an address may say nothing before the next one is tried as well.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// Times a broker may send us on to another: `maxLookupRedirects` of the Java client.
const MAX_REDIRECTS: usize = 20;

/// A broker to connect to, directly or through a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicConnection {
    /// `host:port`.
    address: String,
    /// The broker that a proxy at `address` is to connect us with.
    proxy_to: Option<String>,
}

/// Makes connections when they are needed, and makes them again when they broke.
pub struct Pool {
    settings: SocketSettings,
    addresses: Vec<String>,
    /// The number of the address that answered last.
    entrance: AtomicUsize,
    /// One for each of the scenario's connections: a connection that replaces a broken one continues its recorder.
    outcomes: Vec<Outcomes>,
    traffic: Arc<Traffic>,
    slots: Mutex<Slots>,
}

/// By the broker and the connection's number among those to it. Locked while one is made, so that all who need it wait
/// for the same one.
type Slots = HashMap<(TopicConnection, usize), Arc<AsyncMutex<Slot>>>;

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    failed: Option<(Instant, ClientError)>,
}

impl Pool {
    pub fn new(settings: SocketSettings, addresses: Vec<String>, recorders: Vec<AckRecorder>) -> Self {
        let traffic = Arc::<Traffic>::default();
        let outcomes = |recorder| Outcomes { recorder: Arc::new(recorder), traffic: traffic.clone() };
        let outcomes = recorders.into_iter().map(outcomes).collect();
        Pool { settings, addresses, entrance: AtomicUsize::new(0), outcomes, traffic, slots: Mutex::default() }
    }

    /// Where it is reported what holds producers up.
    pub fn conditions(&self) -> &Conditions {
        &self.settings.conditions
    }

    /// How long the broker may take to respond.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// What all connections have sent.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Opens each of the scenario's connections to the first of its addresses that responds, and returns the broker's version.
    ///
    /// # Errors
    /// When no address responds: the last one's error.
    pub async fn greet_all(&self) -> Result<String, BrokerError> {
        let mut version = String::new();
        for index in 0..self.outcomes.len() {
            let entrance = self.entrance(index).await;
            let (_, connection) = entrance.map_err(|failure| failure.at(&self.addresses.join(", ")))?;
            version.clone_from(&connection.greeting.server_version);
        }
        Ok(version)
    }

    /// Connection number `index` to the broker that serves `topic`.
    ///
    /// # Errors
    /// When no broker serves it, or it cannot be reached.
    pub async fn connection_for(&self, topic: &str, index: usize) -> Result<Arc<Connection>, ClientError> {
        let (entrance, mut via) = self.entrance(index).await?;
        let mut authoritative = false;
        for _ in 0..MAX_REDIRECTS {
            let answer = self.look_up(&via, topic, authoritative).await?;
            if answer.response() == LookupType::Failed {
                let words = answer.message.as_deref().unwrap_or_default();
                return Err(refused(answer.error.unwrap_or(0), words));
            }
            let broker = service_address(topic, &answer, self.settings.tls.is_some())?;
            let target = if answer.proxy_through_service_url() {
                TopicConnection { address: entrance.clone(), proxy_to: Some(broker) }
            } else {
                TopicConnection { address: broker, proxy_to: None }
            };
            via = self.get(&target, index).await?;
            if answer.response() == LookupType::Connect {
                return Ok(via);
            }
            authoritative = answer.authoritative();
        }
        Err(ClientError::lost(format!("the cluster redirected the lookup of {topic} {MAX_REDIRECTS} times")))
    }

    /// A connection to one of the scenario's addresses: the one that answered last is asked first, and one that is silent does not hold up
    /// the others.
    async fn entrance(&self, index: usize) -> Result<(String, Arc<Connection>), ClientError> {
        let first = self.entrance.load(Ordering::Relaxed);
        let numbers = (0..self.addresses.len()).map(|number| (first + number) % self.addresses.len());
        let attempts = numbers.map(async |number| {
            let target = TopicConnection { address: self.addresses[number].clone(), proxy_to: None };
            self.get(&target, index).await.map(|connection| (number, connection))
        });
        match in_turn(attempts.collect(), PATIENCE).await {
            Ok(((number, connection), _)) => {
                self.entrance.store(number, Ordering::Relaxed);
                Ok((self.addresses[number].clone(), connection))
            }
            Err(mut failures) => {
                Err(failures.pop().unwrap_or_else(|| ClientError::lost("the scenario has no address")))
            }
        }
    }

    async fn get(&self, target: &TopicConnection, index: usize) -> Result<Arc<Connection>, ClientError> {
        let slot = {
            let mut slots = self.slots.lock();
            slots.entry((target.clone(), index)).or_default().clone()
        };
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        if let Some((at, failure)) = &slot.failed
            && at.elapsed() < FRESH
        {
            return Err(failure.clone());
        }
        let outcomes = self.outcomes[index % self.outcomes.len()].clone();
        let node = Subject::new(self.conditions(), SubjectKind::Node, &target.address);
        let opening = Connection::open(&self.settings, &target.address, target.proxy_to.as_deref(), outcomes);
        let opened = node.during(ConditionKind::Connecting, "no answer yet", opening).await;
        match opened {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *slot = Slot { connection: Some(connection.clone()), failed: None };
                Ok(connection)
            }
            Err(mut failure) => {
                failure.message = format!("{}: {}", target.address, failure.message);
                *slot = Slot { connection: None, failed: Some((Instant::now(), failure.clone())) };
                Err(failure)
            }
        }
    }

    async fn look_up(&self, via: &Connection, topic: &str, authoritative: bool) -> Result<LookupResponse, ClientError> {
        let answer = via
            .request(self.settings.timeout, |request_id| {
                let lookup = Lookup { topic: topic.to_owned(), request_id, authoritative: Some(authoritative) };
                ToBroker { kind: Kind::Lookup.into(), lookup: Some(Box::new(lookup)), ..ToBroker::default() }
            })
            .await?;
        let answer = answer
            .lookup_response
            .ok_or_else(|| ClientError::lost("the broker sent an unexpected response to a lookup"))?;
        Ok(*answer)
    }
}

/// `host:port` of the broker that a lookup's response names.
///
/// # Errors
/// When the broker states none for connections with TLS, or without: another lookup would give the same.
fn service_address(topic: &str, answer: &LookupResponse, tls: bool) -> Result<String, ClientError> {
    let address = |url: &Option<String>| {
        let (_, rest) = url.as_ref()?.split_once("://")?;
        Some(rest.trim_end_matches('/').to_owned()).filter(|address| !address.is_empty())
    };
    let (encrypted, plain) = (address(&answer.broker_service_url_tls), address(&answer.broker_service_url));
    let (wanted, other) = if tls { (encrypted, plain) } else { (plain, encrypted) };
    let advice = match (tls, &other) {
        (true, Some(_)) => "no address for TLS: set `brokerServicePortTls` there, or leave out `broker.security.tls`",
        (false, Some(_)) => "an address for TLS only: set `broker.security.tls`",
        (_, None) => "no address",
    };
    wanted.ok_or_else(|| ClientError {
        class: FailureClass::Refused,
        message: format!("the broker that serves {topic} states {advice}"),
        lasting: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_without_an_address_for_tls_is_named_as_such() {
        let plain = Some("pulsar://one:6650".to_owned());
        let encrypted = Some("pulsar+ssl://one:6651/".to_owned());
        let found = |broker_service_url: &Option<String>, broker_service_url_tls: &Option<String>, tls| {
            let (broker_service_url, broker_service_url_tls) =
                (broker_service_url.clone(), broker_service_url_tls.clone());
            let answer = LookupResponse { broker_service_url, broker_service_url_tls, ..LookupResponse::default() };
            service_address("orders", &answer, tls).map_err(|failure| (failure.message, failure.lasting))
        };
        assert_eq!(found(&plain, &encrypted, false), Ok("one:6650".to_owned()));
        assert_eq!(found(&plain, &encrypted, true), Ok("one:6651".to_owned()));
        for (plain, encrypted, tls, words) in [
            (&plain, &None, true, &["orders", "no address for TLS", "brokerServicePortTls"][..]),
            (&None, &encrypted, false, &["orders", "for TLS only", "broker.security.tls"]),
            (&None, &None, true, &["orders", "no address"]),
        ] {
            let (message, lasting) = found(plain, encrypted, tls).unwrap_err();
            assert!(lasting && words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
