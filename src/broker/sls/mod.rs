//! Aliyun's log service (SLS), through a producer of its own and HTTP.
//!
//! What this broker measures *is* the producer: it does what the service's Java producer does, with the same settings.
//!
//! - `config`: the `[broker.sls]` table.
//! - `admin`: log stores with their names and shards, and reading.
//! - `connect`, `sign`: one HTTP request, its response, and the service's errors by class; its signature, and the credentials.
//! - `codec`: the protobuf of logs.
//! - `producer`: encodes logs and takes their size from the budget.
//! - `batch`, `accumulator`, `worker`: batches and their queue, how they are collected and compressed, and the threads that send them.
//! - `consumer`: reads the logs back.

mod accumulator;
mod admin;
mod batch;
mod codec;
mod config;
mod connect;
mod consumer;
mod producer;
mod sign;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use self::accumulator::{Accumulator, Limits};
use self::admin::{Admin, is_store_name, store_name};
use self::codec::Tag;
use self::config::Credentials;
pub use self::config::SlsOptions;
use self::connect::{Client, Endpoint, ServiceError};
use self::consumer::{AssignedShards, SlsConsumer};
use self::producer::SlsProducer;
use self::sign::{CredentialSource, Signer};
use self::worker::{Traffic, Worker};
use super::{Broker, BrokerError, BrokerInfo, Created, Setup, Subscription, Telemetry, Topic, Unready};
use crate::emulator::NO_SLS;
use crate::emulator::sls::{Emulator, Key, ListenOptions};
use crate::measure::ConditionKind;
use crate::net::backoff::Backoff;
use crate::scenario::{BrokerConfig, Capabilities, Descriptor, StartFrom};

/// Log stores of one project, written to through one producer.
pub struct SlsBroker {
    accumulator: Arc<Accumulator>,
    traffic: Arc<Traffic>,
    endpoint: Arc<Endpoint>,
    signer: Arc<Signer>,
    options: SlsOptions,
    stop: watch::Sender<bool>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    sweeper: tokio::task::JoinHandle<()>,
    timeout: Duration,
    run_id: String,
    identity: BrokerInfo,
    /// The key may not list or look at log stores.
    is_unmanaged: AtomicBool,
    /// Ends after the clients that are connected to it.
    _embedded: Option<Emulator>,
}

impl SlsBroker {
    fn admin(&self) -> Admin {
        Admin::new(Client::new(self.endpoint.clone(), self.signer.clone(), self.timeout))
    }

    /// How many of a store's shards can be written to; `None`: it does not exist.
    async fn writable_shards(&self, topic: &Topic) -> Result<Option<u32>, ServiceError> {
        let shards = self.admin().shards(&store_name(&topic.name, &self.run_id)).await?;
        Ok(shards.map(|shards| shards.iter().filter(|shard| shard.is_writable()).count() as u32))
    }
}

fn failed(topic: &str, action: &'static str, reason: String) -> BrokerError {
    BrokerError::Topic { topic: topic.to_owned(), action, reason }
}

impl Broker for SlsBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "sls",
        aliases: &["aliyun-log", "aliyun", "log-service"],
        example: include_str!("example.toml"),
        summary: "Aliyun's log service, through a producer of brokermark's own over HTTP",
        capabilities: Capabilities {
            addresses: true,
            embedded: true,
            partitions: true,
            keys: true,
            headers: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            ..Capabilities::NONE
        },
        tells: |kind| kind.is_told_by_all() || matches!(kind, ConditionKind::TopicGone | ConditionKind::Throttled),
        ..Descriptor::NONE
    };

    type Options = SlsOptions;
    type Producer = SlsProducer;
    type Consumer = SlsConsumer;

    fn refusal(config: &BrokerConfig, options: &SlsOptions) -> Option<String> {
        if config.is_embedded() {
            return cfg!(not(feature = "sls-emulator")).then(|| NO_SLS.to_owned());
        }
        options.contradiction(&config.addresses)
    }

    async fn connect(setup: Setup<SlsOptions>) -> Result<Self, BrokerError> {
        let Project { embedded, endpoint, signer } = reach(&setup)?;
        let options = &setup.options;
        let mut admin = Admin::new(Client::new(endpoint.clone(), signer.clone(), setup.timeout));
        let is_unmanaged = is_unmanaged(&mut admin).await.map_err(|error| unusable(&error, &endpoint.address))?;
        let limits = Limits { bytes: options.batch_size, logs: options.batch_count, linger: options.linger };
        let tags =
            setup.headers().iter().map(|(key, value)| Tag { key: key.clone().into(), value: value.clone().into() });
        let accumulator = Arc::new(Accumulator::new(options.total_size, limits, tags.collect(), setup.run_id.clone()));
        let traffic = Arc::new(Traffic::default());
        let (stop, stopped) = watch::channel(false);
        let worker = |number| {
            let worker = Worker {
                accumulator: accumulator.clone(),
                traffic: traffic.clone(),
                client: Client::new(endpoint.clone(), signer.clone(), options.request_timeout),
                recorder: setup.acks.recorder(),
                compression: options.compression,
                retries: options.retries,
                backoff: Backoff::new(options.backoff, options.max_backoff),
                conditions: setup.conditions.clone(),
                address: endpoint.address.clone(),
                stop: stopped.clone(),
            };
            worker
                .start(number)
                .map_err(|error| BrokerError::Configuration(format!("no thread for `io_threads`: {error}")))
        };
        let workers = (0..options.io_threads).map(worker).collect::<Result<Vec<_>, _>>()?;
        let swept = accumulator.clone();
        let sweeper = tokio::spawn(async move { swept.sweep().await });
        let identity = BrokerInfo {
            client: format!("brokermark {} (its own SLS producer)", env!("CARGO_PKG_VERSION")),
            broker: Some(format!("project {}", options.project)),
            embedded: embedded.is_some(),
        };
        Ok(SlsBroker {
            accumulator,
            traffic,
            endpoint,
            signer,
            options: setup.options,
            stop,
            workers: Mutex::new(workers),
            sweeper,
            timeout: setup.timeout,
            run_id: setup.run_id,
            identity,
            is_unmanaged: AtomicBool::new(is_unmanaged),
            _embedded: embedded,
        })
    }

    async fn create_topic(&self, topic: &Topic) -> Result<Created, BrokerError> {
        let failed = |action, reason: String| failed(&topic.name, action, reason);
        let store = store_name(&topic.name, &self.run_id);
        if !is_store_name(&store) {
            let reason = "a log store's name has 2 to 63 lower-case letters, digits, hyphens and underscores, and a letter or digit at both ends";
            return Err(failed("created", reason.to_owned()));
        }
        match self.writable_shards(topic).await {
            Ok(Some(partitions)) => Ok(Created::Existing(Topic { partitions, ..topic.clone() })),
            Ok(None) => {
                let response = self.admin().create(&store, topic.partitions).await;
                response.map(|()| Created::New).map_err(|error| failed("created", error.to_string()))
            }
            Err(error) if error.is_denied() && topic.name.starts_with(&self.run_id) => {
                let reason = "this key may not manage log stores: name one that exists with `topology.name`";
                Err(failed("created", reason.to_owned()))
            }
            // A store that the key may not look at is taken as it is: writing shows whether it is there.
            Err(error) if error.is_denied() => {
                self.is_unmanaged.store(true, Ordering::Relaxed);
                Ok(Created::Existing(topic.clone()))
            }
            Err(error) => Err(failed("looked at", error.to_string())),
        }
    }

    async fn find_topic(&self, topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        match self.writable_shards(topic).await {
            Ok(shards) => Ok(shards.map(|partitions| Topic { partitions, ..topic.clone() })),
            // A key that may not look at stores has created none.
            Err(error) if error.is_denied() => Ok(None),
            Err(error) => Err(failed(&topic.name, "looked at", error.to_string())),
        }
    }

    async fn delete_topic(&self, topic: &Topic) -> Result<(), BrokerError> {
        let deleted = self.admin().delete(&store_name(&topic.name, &self.run_id)).await;
        deleted.map_err(|error| failed(&topic.name, "removed", error.to_string()))
    }

    async fn unready_topic(&self, topics: &[Topic]) -> Result<Option<Unready>, BrokerError> {
        for topic in topics {
            match self.writable_shards(topic).await {
                Ok(None | Some(0)) => {
                    return Ok(Some(Unready { topic: topic.name.clone(), reason: "it has no shards".to_owned() }));
                }
                Err(error) if !error.is_denied() => return Err(failed(&topic.name, "looked at", error.to_string())),
                Ok(Some(_)) | Err(_) => {}
            }
        }
        Ok(None)
    }

    async fn producer(&self, _producer_number: usize, topic: &Topic) -> Result<SlsProducer, BrokerError> {
        let options = &self.options;
        let store = store_name(&topic.name, &self.run_id);
        Ok(SlsProducer::new(self.accumulator.clone(), &store, options.max_block, options.total_size))
    }

    async fn consumer(&self, subscription: &Subscription) -> Result<SlsConsumer, BrokerError> {
        let store = &store_name(&subscription.topic.name, &self.run_id);
        let failed = |error: ServiceError| BrokerError::Topic {
            topic: store.clone(),
            action: "read",
            reason: error.to_string(),
        };
        let mut admin = self.admin();
        let shards: Vec<u32> = match admin.shards(store).await {
            // The scenario says how many there are.
            Err(error) if error.is_denied() => (0..subscription.topic.partitions).collect(),
            shards => shards.map_err(failed)?.unwrap_or_default().iter().map(|shard| shard.id).collect(),
        };
        let from = match subscription.from {
            StartFrom::Earliest => "begin",
            StartFrom::Latest => "end",
        };
        let mut share = AssignedShards {
            store: store.clone(),
            member: subscription.member,
            members: subscription.members,
            shards: Vec::new(),
            interval: self.options.pull_interval,
        };
        for shard in shards {
            if share.has(shard) {
                share.shards.push((shard, admin.cursor(store, shard, from).await.map_err(failed)?));
            }
        }
        Ok(SlsConsumer::start(admin, share))
    }

    /// The io workers send batches beside each other, and again behind others. Nor is it known in which shards and packs a missing log may be.
    fn may_reorder(&self) -> bool {
        true
    }

    fn identity(&self) -> BrokerInfo {
        let mut identity = self.identity.clone();
        if self.is_unmanaged.load(Ordering::Relaxed) {
            let broker = identity.broker.get_or_insert_default();
            broker.push_str(" (log stores as they are: the key may not manage them)");
        }
        identity
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry {
            queue_messages: Some(self.accumulator.pending.load(Ordering::Relaxed)),
            queue_full_ns: self.accumulator.waited_ns.swap(0, Ordering::Relaxed),
            wire: Some(self.traffic.take()),
            ..Telemetry::default()
        }
    }

    async fn stop(&self) {
        self.sweeper.abort();
        self.stop.send_replace(true);
        let workers = std::mem::take(&mut *self.workers.lock());
        tokio::task::block_in_place(|| {
            for worker in workers {
                // A panic was printed on standard error.
                let _ = worker.join();
            }
        });
    }

    async fn close(self) -> Result<(), BrokerError> {
        Ok(())
    }
}

/// Whether the service accepts the credentials, but not to list log stores.
async fn is_unmanaged(admin: &mut Admin) -> Result<bool, ServiceError> {
    match admin.check().await {
        Err(error) if error.is_denied() => Ok(true),
        checked => checked.map(|()| false),
    }
}

/// Where a project is, and who signs requests to it.
struct Project {
    embedded: Option<Emulator>,
    endpoint: Arc<Endpoint>,
    signer: Arc<Signer>,
}

/// Finds the project of the scenario. An embedded endpoint is started.
fn reach(setup: &Setup<SlsOptions>) -> Result<Project, BrokerError> {
    let options = &setup.options;
    let credentials = options.credentials(&setup.config)?;
    let embedded = setup.config.is_embedded().then(|| start_emulator(options, &credentials));
    let embedded = embedded.transpose().map_err(BrokerError::Configuration)?;
    let address = match (&embedded, setup.config.addresses.first()) {
        (Some(embedded), _) => embedded.address().to_string(),
        (None, Some(address)) => address.clone(),
        (None, None) => return Err(BrokerError::Configuration("`broker.address` is missing".to_owned())),
    };
    let tls = setup.config.security.tls.as_ref();
    let endpoint = Endpoint::new(&address, options.endpoint.as_deref(), &options.project, tls)
        .map_err(BrokerError::Configuration)?;
    let region = options.region.clone().unwrap_or_default();
    let (again, config) = (options.clone(), setup.config.clone());
    let credentials = CredentialSource::new(credentials, Box::new(move || again.credentials(&config).ok()));
    let signer = Signer { credentials, version: options.signature, region };
    Ok(Project { embedded, endpoint: Arc::new(endpoint), signer: Arc::new(signer) })
}

/// The endpoint that runs in this process, with the scenario's credentials.
fn start_emulator(options: &SlsOptions, credentials: &Credentials) -> Result<Emulator, String> {
    let key = Key {
        id: credentials.key_id.clone(),
        secret: credentials.key_secret.clone(),
        security_token: credentials.security_token.clone(),
    };
    let listen = "127.0.0.1:0".to_owned();
    Emulator::start(&options.emulator, ListenOptions { listen, key: Some(key), ..ListenOptions::default() })
}

/// What helps where the service refuses the time of requests.
const CLOCK: &str = "The clock of this machine differs from the service's by more than 15 minutes: set it right (`timedatectl set-ntp true`)";

/// The error of a trial that cannot use the project.
fn unusable(error: &ServiceError, address: &str) -> BrokerError {
    let (address, reason) = (address.to_owned(), error.to_string());
    if error.is_of_the_clock() {
        return BrokerError::Client(format!("{address} refuses the time of a request ({reason}). {CLOCK}"));
    }
    if error.is_authorisation() {
        BrokerError::Authorisation { address, reason }
    } else if error.is_unknown_store() {
        BrokerError::Configuration(reason)
    } else {
        BrokerError::Unreachable { address, reason }
    }
}
