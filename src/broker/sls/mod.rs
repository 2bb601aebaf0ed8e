//! Aliyun's log service (SLS), through a producer of its own and HTTP.
//!
//! What this broker measures *is* the producer: it does what the service's Java producer does, with the same settings.
//!
//! - `config`: the `[broker.sls]` table.
//! - `admin`: log stores, their shards, and reading.
//! - `connect`, `sign`, `credentials`: one HTTP request and its response; its signature, and by whom.
//! - `codec`: the protobuf of logs.
//! - `producer`: encodes logs and takes their size from the budget.
//! - `batch`, `accumulator`, `queue`, `worker`: batches, how they are collected, and the threads that send them.
//! - `chunks`, `compressor`: a batch's memory while it is collected and while it is compressed.
//! - `consumer`: reads the logs back.
//! - `error`: the service's errors and their classes.

mod accumulator;
mod admin;
mod batch;
mod chunks;
mod codec;
mod compressor;
mod config;
mod connect;
mod consumer;
mod credentials;
mod error;
mod producer;
mod queue;
mod sign;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use md5::{Digest, Md5};
use tokio::sync::watch;

use self::accumulator::{Accumulator, Limits};
use self::admin::Admin;
use self::codec::Tag;
use self::config::Credentials;
pub use self::config::SlsOptions;
use self::connect::{Client, Endpoint};
use self::consumer::SlsConsumer;
use self::credentials::CredentialSource;
use self::error::ServiceError;
use self::producer::SlsProducer;
use self::sign::{Signer, hex};
use self::worker::{Traffic, Worker};
use super::{Broker, BrokerError, BrokerInfo, Setup, Subscription, Telemetry, Topic};
use crate::emulator::sls::{Emulator, Entrance, Key};
use crate::net::backoff::Backoff;
use crate::scenario::{Capabilities, Descriptor, StartFrom};

/// How often a new store is checked for its shards.
const STORE_POLL: Duration = Duration::from_millis(200);

/// Letters of a log store's name.
const MOST_NAME_LETTERS: usize = 63;

/// Log stores of one project, written to through one producer.
pub struct SlsBroker {
    accumulator: Arc<Accumulator>,
    traffic: Arc<Traffic>,
    endpoint: Arc<Endpoint>,
    signer: Arc<Signer>,
    options: SlsOptions,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
    sweeper: tokio::task::JoinHandle<()>,
    timeout: Duration,
    run_id: String,
    identity: BrokerInfo,
    /// Ends after the clients that are connected to it.
    _embedded: Option<Emulator>,
}

impl SlsBroker {
    fn admin(&self) -> Admin {
        Admin::new(Client::new(self.endpoint.clone(), self.signer.clone(), self.timeout))
    }
}

impl Broker for SlsBroker {
    const DESCRIPTOR: Descriptor = Descriptor {
        kind: "sls",
        client: None,
        alternative: None,
        summary: "Aliyun's log service, through a producer of brokermark's own over HTTP",
        capabilities: Capabilities {
            addresses: true,
            embedded: true,
            partitions: true,
            replication: false,
            keys: true,
            headers: true,
            own_headers: false,
            own_partition: false,
            null_payloads: false,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[],
            properties: false,
            topic_config: false,
            existing_topics: false,
            offsets: false,
        },
        check_options: |options| SlsOptions::read(options).map(drop),
    };

    type Producer = SlsProducer;
    type Consumer = SlsConsumer;

    async fn connect(setup: Setup) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: "sls", reason };
        let options = SlsOptions::read(setup.config.options.clone()).map_err(|error| refused(error.to_string()))?;
        let Project { embedded, endpoint, signer } = reach(&setup, &options)?;
        let mut admin = Admin::new(Client::new(endpoint.clone(), signer.clone(), setup.timeout));
        admin.check().await.map_err(|error| unusable(&error, &endpoint.address))?;
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
                stop: stopped.clone(),
            };
            worker.start(number).map_err(|error| refused(format!("no thread for `io_threads`: {error}")))
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
            options,
            stop,
            workers,
            sweeper,
            timeout: setup.timeout,
            run_id: setup.run_id,
            identity,
            _embedded: embedded,
        })
    }

    async fn prepare(&self, topics: &[Topic], created: &mut Vec<String>) -> Result<(), BrokerError> {
        let mut admin = self.admin();
        let failed = |topic: &str, action: &'static str, reason: String| BrokerError::Topic {
            topic: topic.to_owned(),
            action,
            reason,
        };
        // All of them before anything is made.
        if let Some(name) = refused_name(topics, &self.run_id) {
            let reason = "a log store's name has 2 to 63 lower-case letters, digits, hyphens and underscores, and a letter or digit at both ends";
            return Err(failed(name, "created", reason.to_owned()));
        }
        for Topic { name, partitions, .. } in topics {
            let store = store_name(name, &self.run_id);
            let found = admin.shards(&store).await.map_err(|error| failed(name, "looked at", error.to_string()))?;
            match found {
                Some(shards) if shards.len() != *partitions as usize => {
                    return Err(BrokerError::TopicMismatch {
                        topic: name.clone(),
                        found: format!("{} shards that can be written to", shards.len()),
                        wanted: format!("{partitions}"),
                    });
                }
                Some(_) => {}
                None => {
                    let response = admin.create(&store, *partitions).await;
                    response.map_err(|error| failed(name, "created", error.to_string()))?;
                    created.push(name.clone());
                }
            }
        }
        // A new store has shards a little later than the service responds.
        let deadline = Instant::now() + self.timeout;
        for name in created.iter() {
            let store = store_name(name, &self.run_id);
            let shards = async |admin: &mut Admin| {
                admin.shards(&store).await.map_err(|error| failed(name, "looked at", error.to_string()))
            };
            while shards(&mut admin).await?.is_none_or(|shards| shards.is_empty()) {
                if Instant::now() >= deadline {
                    return Err(failed(name, "created", format!("it has no shards within {:?}", self.timeout)));
                }
                tokio::time::sleep(STORE_POLL).await;
            }
        }
        Ok(())
    }

    async fn producer(&self, _slot: usize, topic: &Topic) -> Result<SlsProducer, BrokerError> {
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
        let shards = admin.shards(store).await.map_err(failed)?.unwrap_or_default();
        let own = shards.into_iter().skip(subscription.member).step_by(subscription.members.max(1));
        let from = match subscription.from {
            StartFrom::Earliest => "begin",
            StartFrom::Latest => "end",
        };
        let mut cursors = Vec::new();
        for shard in own {
            cursors.push((shard, admin.cursor(store, shard, from).await.map_err(failed)?));
        }
        Ok(SlsConsumer::start(admin, store.clone(), cursors, self.options.pull_interval))
    }

    fn identity(&self) -> BrokerInfo {
        self.identity.clone()
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry {
            queue_messages: Some(self.accumulator.pending.load(Ordering::Relaxed)),
            queue_full_ns: self.accumulator.waited_ns.swap(0, Ordering::Relaxed),
            wire: Some(self.traffic.take()),
            ..Telemetry::default()
        }
    }

    async fn close(mut self, created: Vec<String>) -> Result<(), BrokerError> {
        self.sweeper.abort();
        self.stop.send_replace(true);
        let workers = std::mem::take(&mut self.workers);
        tokio::task::block_in_place(|| {
            for worker in workers {
                // A panic was printed on standard error.
                let _ = worker.join();
            }
        });
        let mut admin = self.admin();
        let mut result = Ok(());
        for topic in created {
            if let Err(error) = admin.delete(&store_name(&topic, &self.run_id)).await {
                result = Err(BrokerError::Topic { topic, action: "removed", reason: error.to_string() });
            }
        }
        result
    }
}

/// Where a project is, and who signs requests to it.
struct Project {
    embedded: Option<Emulator>,
    endpoint: Arc<Endpoint>,
    signer: Arc<Signer>,
}

/// Finds the project of the scenario. An embedded endpoint is started.
fn reach(setup: &Setup, options: &SlsOptions) -> Result<Project, BrokerError> {
    let refused = |reason: String| BrokerError::Configuration { broker: "sls", reason };
    let credentials = options.credentials(&setup.config)?;
    let embedded = setup.config.is_embedded().then(|| start_emulator(options, &credentials));
    let embedded = embedded.transpose().map_err(refused)?;
    let address = match (&embedded, setup.config.addresses.first()) {
        (Some(embedded), _) => embedded.address().to_string(),
        (None, Some(address)) => address.clone(),
        (None, None) => return Err(refused("`broker.address` is missing".to_owned())),
    };
    let tls = setup.config.security.tls.as_ref();
    let endpoint = Endpoint::new(&address, options.endpoint.as_deref(), &options.project, tls).map_err(refused)?;
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
    let entrance = Entrance { listen: "127.0.0.1:0".to_owned(), key: Some(key), tls: None };
    Emulator::start(&options.emulator, entrance)
}

/// The error of a trial that cannot use the project.
fn unusable(error: &ServiceError, address: &str) -> BrokerError {
    let (address, reason) = (address.to_owned(), error.to_string());
    if error.is_authorisation() {
        BrokerError::Authorisation { broker: "sls", address, reason }
    } else if error.is_unknown_store() {
        BrokerError::Configuration { broker: "sls", reason }
    } else {
        BrokerError::Unreachable { broker: "sls", address, reason }
    }
}

/// The store of a topic. Names that brokermark chose begin with the run's id and are changed to fit the service's rules. A
/// name that the scenario gives is never changed.
fn store_name(topic: &str, run_id: &str) -> String {
    if !topic.starts_with(run_id) || is_store_name(topic) {
        return topic.to_owned();
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = topic.chars().map(plain).collect();
    if name.len() <= MOST_NAME_LETTERS && is_store_name(&name) {
        return name;
    }
    // The end of the name distinguishes topics of one run.
    let digest = hex(&Md5::digest(topic)[..8]);
    let kept: String = name.chars().filter(char::is_ascii).take(MOST_NAME_LETTERS - digest.len() - 3).collect();
    format!("b-{}-{digest}", kept.trim_matches('-'))
}

/// The first of the topics whose store's name the service does not accept.
fn refused_name<'a>(topics: &'a [Topic], run_id: &str) -> Option<&'a str> {
    topics.iter().map(|topic| topic.name.as_str()).find(|name| !is_store_name(&store_name(name, run_id)))
}

/// Whether the service accepts the name.
fn is_store_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (2..=MOST_NAME_LETTERS).contains(&name.len())
        && name.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'_')
        && name.bytes().next().is_some_and(plain)
        && name.bytes().last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run_are_made_to_fit_and_given_ones_are_not() {
        let run = "Seeds.sls_io-20261121T063926Z";
        let (first, second) = (store_name(&format!("{run}-0"), run), store_name(&format!("{run}-1"), run));
        assert_eq!(first, "seeds-sls-io-20261121t063926z-0");
        assert!(is_store_name(&first) && is_store_name(&second) && first != second);
        let long = "x".repeat(100);
        let names = [store_name(&format!("{long}-0"), &long), store_name(&format!("{long}-1"), &long)];
        assert!(names.iter().all(|name| is_store_name(name)) && names[0] != names[1], "{names:?}");
        assert_eq!(store_name("Mine", run), "Mine");
        let topics = |names: &[&str]| -> Vec<Topic> {
            names.iter().map(|name| Topic { name: (*name).to_owned(), partitions: 1, replication: 1 }).collect()
        };
        assert_eq!(refused_name(&topics(&["orders0", "Orders1", "o"]), run), Some("Orders1"));
        assert_eq!(refused_name(&topics(&["orders0", &format!("{run}-0")]), run), None);
    }
}
