//! The crate `pulsar` as a client, with the cargo feature `pulsar-rs`: what its users get from it is measured.
//!
//! Configuration, names of topics, the choice of partitions and the admin interface are those of our own client.
//!
//! - `login`: the token, as the crate asks for it.
//! - `producer`: a producer of a topic; it has one `lane` for each partition, a task that owns a producer of the crate.
//! - `consumer`: a member of a subscription.
//! - `error`: the crate's errors, by class.

mod consumer;
mod error;
mod lane;
mod login;
mod producer;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pulsar_rs::{ConnectionRetryOptions, OperationRetryOptions, Pulsar, TokioExecutor};
use tokio::sync::OnceCell;

pub use self::consumer::CrateConsumer;
pub use self::producer::CrateProducer;

use self::login::Login;
use self::producer::Manner;
use super::config::PulsarOptions;
use super::error::RequestError;
use super::token::Token;
use super::topic_consumer::Membership;
use crate::broker::{BrokerError, Setup, Telemetry};
use crate::measure::AckRecorder;
use crate::net::tls::Tls;

/// What the crate connects with.
struct CrateSettings {
    addresses: Vec<String>,
    connections: usize,
    tls: Option<Tls>,
    token: Option<Arc<Token>>,
    timeout: Duration,
}

/// The crate's clients of a trial.
pub struct CrateClient {
    settings: CrateSettings,
    options: PulsarOptions,
    manner: Arc<Manner>,
    /// One for each of the scenario's connections: each has connections of its own.
    producing: Vec<Pulsar<TokioExecutor>>,
    recorders: Vec<Arc<AckRecorder>>,
    /// As many, made when the first consumer needs one: arriving messages must not delay receipts.
    consuming: OnceCell<Vec<Pulsar<TokioExecutor>>>,
}

impl CrateClient {
    /// Connects one of the crate's clients for each of the scenario's connections.
    ///
    /// # Errors
    /// When a broker cannot be reached or refuses the token.
    pub async fn connect(
        setup: &Setup,
        options: &PulsarOptions,
        token: Option<Arc<Token>>,
    ) -> Result<Self, BrokerError> {
        let settings = CrateSettings {
            addresses: setup.config.addresses.clone(),
            connections: setup.config.connections,
            tls: setup.config.security.tls.clone(),
            token,
            timeout: setup.timeout,
        };
        let headers: HashMap<String, String> = setup.headers().iter().cloned().collect();
        let producing = clients(&settings, options).await?;
        Ok(CrateClient {
            manner: Arc::new(Manner::new(options, headers)),
            recorders: producing.iter().map(|_| Arc::new(setup.acks.recorder())).collect(),
            producing,
            consuming: OnceCell::new(),
            options: options.clone(),
            settings,
        })
    }

    pub fn telemetry(&self) -> Telemetry {
        Telemetry { queue_full_ns: self.manner.waited_ns.swap(0, Ordering::Relaxed), ..Telemetry::default() }
    }

    /// A producer on all `parts` of `topic`.
    ///
    /// # Errors
    /// When the broker does not want it.
    pub async fn producer(
        &self,
        producer_number: usize,
        topic: &str,
        parts: Vec<Arc<str>>,
        name: Option<String>,
    ) -> Result<CrateProducer, RequestError> {
        let index = producer_number % self.producing.len();
        let (pulsar, recorder) = (&self.producing[index], &self.recorders[index]);
        let mut lanes = Vec::with_capacity(parts.len());
        for (number, part) in parts.into_iter().enumerate() {
            let mut builder = pulsar.producer().with_topic(&*part).with_options(self.manner.producer_options.clone());
            if let Some(name) = &name {
                builder = builder.with_name(name);
            }
            let producer = within(self.options.opening_timeout(self.settings.timeout), builder.build()).await?;
            let counted_in = recorder.partition(topic, Some(number as u32));
            lanes.push(lane::Lane::start(producer, recorder.clone(), counted_in));
        }
        Ok(CrateProducer::new(self.manner.clone(), lanes, producer_number))
    }

    /// A member of a subscription on all `parts` of a topic.
    ///
    /// # Errors
    /// When the broker does not let it.
    pub async fn consumer(&self, membership: &Membership, parts: Vec<Arc<str>>) -> Result<CrateConsumer, RequestError> {
        let pulsars = self.consuming.get_or_try_init(|| clients(&self.settings, &self.options)).await;
        let pulsars = pulsars.map_err(|error| RequestError::lost(error.to_string()))?;
        let pulsar = &pulsars[membership.index % pulsars.len()];
        let open = CrateConsumer::open(pulsar, membership, self.options.receiver_queue, parts);
        tokio::time::timeout(self.settings.timeout, open).await.unwrap_or_else(|_| Err(late(self.settings.timeout)))
    }
}

async fn clients(settings: &CrateSettings, options: &PulsarOptions) -> Result<Vec<Pulsar<TokioExecutor>>, BrokerError> {
    let mut clients = Vec::with_capacity(settings.connections);
    for index in 0..settings.connections {
        // It takes one address and finds the other brokers by itself.
        let address = &settings.addresses[index % settings.addresses.len()];
        clients.push(client(settings, options, address).await?);
    }
    Ok(clients)
}

async fn client(
    settings: &CrateSettings,
    options: &PulsarOptions,
    address: &str,
) -> Result<Pulsar<TokioExecutor>, BrokerError> {
    let scheme = if settings.tls.is_some() { "pulsar+ssl" } else { "pulsar" };
    let mut builder = Pulsar::builder(format!("{scheme}://{address}"), TokioExecutor)
        .with_connection_retry_options(ConnectionRetryOptions {
            connection_timeout: settings.timeout,
            keep_alive: options.keep_alive,
            ..ConnectionRetryOptions::default()
        })
        .with_operation_retry_options(OperationRetryOptions {
            // How long a message may await its receipt, too.
            operation_timeout: options.send_timeout,
            ..OperationRetryOptions::default()
        });
    if let Some(ca) = settings.tls.as_ref().and_then(|tls| tls.ca.as_ref()) {
        builder = builder.with_certificate_chain_file(ca).map_err(|error| BrokerError::Configuration {
            broker: "pulsar",
            reason: format!("`broker.security.tls.ca`: {} cannot be read: {error}", ca.display()),
        })?;
    }
    if let Some(token) = &settings.token {
        builder = builder.with_auth_provider(Box::new(Login(token.clone())));
    }
    within(settings.timeout, builder.build()).await.map_err(|failure| failure.at(address))
}

/// The crate goes on trying to open what the broker does not want yet, so that its callers set the bound.
async fn within<T>(
    timeout: Duration,
    opening: impl Future<Output = Result<T, pulsar_rs::Error>>,
) -> Result<T, RequestError> {
    match tokio::time::timeout(timeout, opening).await {
        Ok(result) => result.map_err(RequestError::from),
        Err(_) => Err(late(timeout)),
    }
}

fn late(timeout: Duration) -> RequestError {
    RequestError::late(format!("the crate `pulsar` did not succeed within {timeout:?}"))
}
