//! A producing client: its partitions, the nodes that lead them, and what its tasks share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::super::codec::batch::Headers;
use super::super::codec::checksum::PayloadChecksums;
use super::super::codec::compression::Compression;
use super::super::config::KafkaNativeOptions;
use super::super::error::CallError;
use super::super::net::cluster::{Cluster, Metadata};
use super::super::net::connect::Connector;
use super::super::traffic::Traffic;
use super::accumulator::{Limits, Node, Partition};
use super::partitioner::TopicRoutes;
use super::producer_batch::{BufferPool, ProducerBatch};
use super::transactions::{TRANSACTION_TIMEOUT, Transactions};
use crate::broker::{BrokerError, FailureClass, SubmitError};
use crate::load::{PayloadPlace, PayloadPool};
use crate::measure::{Acks, ConditionKind};

/// Producers wait while messages of more bytes have no outcome.
const MAX_BUFFERED_BYTES: usize = 256 << 20;

/// Producers that wait are woken when there is room for so much, not for each message.
const WAKE_BELOW_BYTES: usize = MAX_BUFFERED_BYTES - (16 << 20);

/// Smaller payloads cost less to copy than to refer to.
const MIN_SHARED_BYTES: usize = 512;

/// How long a node may not know of a topic that is to be written to, and the pause before it is asked again.
const TOPIC_PATIENCE: Duration = Duration::from_secs(20);
const TOPIC_PAUSE: Duration = Duration::from_millis(100);

/// Time for the requests that end a transaction, once its messages have their outcomes.
const TRANSACTION_END: Duration = Duration::from_secs(10);

/// Starts the task for a node.
type ServeNode = fn(Arc<Node>, Arc<Client>) -> AbortHandle;

/// What messages of a trial are made of, and where their outcomes go.
pub struct Messages {
    pub headers: Vec<Headers>,
    pub payloads: Arc<PayloadPool>,
    pub acks: Acks,
}

/// A client, which several producers share.
pub struct Client {
    pub options: KafkaNativeOptions,
    pub limits: Limits,
    pub headers: Vec<Headers>,
    pub connector: Arc<Connector>,
    pub acks: Acks,
    /// Payloads of the trial, to which batches refer.
    pub payloads: Arc<PayloadPool>,
    pub checksums: PayloadChecksums,
    pub buffers: BufferPool,
    pub traffic: Traffic,
    cluster: Arc<Cluster>,
    topics: Mutex<BTreeMap<String, Arc<TopicRoutes>>>,
    nodes: Mutex<BTreeMap<i32, (Arc<Node>, AbortHandle)>>,
    /// Whether some leaders have changed or are not known. Kept for each client, because others ask for metadata of the cluster too.
    is_outdated: AtomicBool,
    serve_node: ServeNode,
    /// Id and epoch of an idempotent producer.
    identity: Mutex<Option<(i64, i16)>>,
    /// Transactions in which it sends, if it does.
    transactions: Option<Arc<Transactions>>,
    /// Partitions that need another identity.
    broken: Mutex<Vec<Arc<Partition>>>,
    buffered_bytes: AtomicUsize,
    /// Signal for producers that wait for memory.
    capacity: Notify,
    /// Signal for the maintenance task: metadata is old, or partitions need another identity.
    maintenance_due: Notify,
    fatal: OnceLock<SubmitError>,
    last_error: Mutex<Option<String>>,
    maintenance_task: OnceLock<AbortHandle>,
}

impl Client {
    /// A client without topics. `identity`: of an idempotent producer; `transactions`: if it sends in them; `serve_node` starts the task
    /// for a node.
    pub fn new(
        cluster: Arc<Cluster>,
        options: KafkaNativeOptions,
        messages: Messages,
        identity: Option<(i64, i16)>,
        transactions: Option<Arc<Transactions>>,
        serve_node: ServeNode,
    ) -> Self {
        // What waits for longer fails, and its transaction is aborted before the coordinator ends it and fences the producer.
        let most_delivery = options
            .transactions
            .map_or(Duration::MAX, |of| (TRANSACTION_TIMEOUT - TRANSACTION_END).saturating_sub(of.interval));
        let Messages { headers, payloads, acks } = messages;
        Client {
            limits: Limits {
                batch_bytes: options.batch_bytes as usize,
                linger: options.linger,
                delivery_timeout: options.delivery_timeout.min(most_delivery),
            },
            options,
            headers,
            connector: cluster.connector.clone(),
            acks,
            checksums: PayloadChecksums::new(&payloads, MIN_SHARED_BYTES),
            payloads,
            buffers: BufferPool::default(),
            traffic: Traffic::default(),
            cluster,
            topics: Mutex::default(),
            nodes: Mutex::default(),
            is_outdated: AtomicBool::new(false),
            serve_node,
            identity: Mutex::new(identity),
            transactions,
            broken: Mutex::default(),
            buffered_bytes: AtomicUsize::new(0),
            capacity: Notify::new(),
            maintenance_due: Notify::new(),
            fatal: OnceLock::new(),
            last_error: Mutex::default(),
            maintenance_task: OnceLock::new(),
        }
    }

    /// The task that keeps it up to date, which ends with it.
    pub fn set_maintenance_task(&self, maintenance_task: AbortHandle) {
        self.maintenance_task.get_or_init(|| maintenance_task);
    }

    /// Waits until metadata is old or partitions need another identity, for `most` at most.
    pub async fn needs_maintenance(&self, most: Duration) {
        let _ = timeout(most, self.maintenance_due.notified()).await;
    }

    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }

    /// The partitions of all its topics.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.topics.lock().values().flat_map(|topic| &topic.partitions).cloned().collect()
    }

    /// The routes to a topic, whose leaders are known once.
    ///
    /// # Errors
    /// When the cluster does not know the topic.
    pub async fn topic(self: &Arc<Self>, name: &str, begin: usize) -> Result<Arc<TopicRoutes>, BrokerError> {
        if let Some(topic) = self.topics.lock().get(name) {
            return Ok(topic.clone());
        }
        let topic_error = |reason| BrokerError::Topic { topic: name.to_owned(), action: "written to", reason };
        let deadline = Instant::now() + TOPIC_PATIENCE;
        let (metadata, partitions) = loop {
            let metadata = self.cluster.metadata(&[name]).await.map_err(|error| topic_error(error.to_string()))?;
            match metadata.topics.get(name).map_or(0, |found| found.leaders.len()) {
                0 if Instant::now() >= deadline => return Err(topic_error("it does not exist".to_owned())),
                // A node may hear of a new topic, and of its partitions, after the one that has created it.
                0 => sleep(TOPIC_PAUSE).await,
                partitions => break (metadata, partitions),
            }
        };
        let mut topics = self.topics.lock();
        let topic = topics.entry(name.to_owned()).or_insert_with(|| self.routes(name, partitions, begin)).clone();
        drop(topics);
        self.apply(&metadata, &[name]);
        Ok(topic)
    }

    fn routes(&self, name: &str, partitions: usize, begin: usize) -> Arc<TopicRoutes> {
        let routes = TopicRoutes::new(name, partitions, begin, self.identity());
        if self.transactions.is_some() {
            routes.partitions.iter().for_each(|partition| partition.leave_transaction());
        }
        Arc::new(routes)
    }

    /// The id and epoch of an idempotent producer.
    pub fn identity(&self) -> Option<(i64, i16)> {
        *self.identity.lock()
    }

    /// From now on, all that is sent has this id and epoch.
    pub fn set_identity(&self, identity: (i64, i16)) {
        *self.identity.lock() = Some(identity);
        self.partitions().iter().for_each(|partition| partition.renew(identity));
    }

    /// The transactions in which it sends, if it does.
    pub fn transactions(&self) -> Option<&Arc<Transactions>> {
        self.transactions.as_ref()
    }

    /// Whether every message that was handed over has its outcome, apart from that of its transaction.
    pub fn is_idle(&self) -> bool {
        self.traffic.is_idle()
    }

    /// Resolves when messages have got their outcomes after this call.
    pub fn settled(&self) -> impl Future<Output = ()> {
        self.capacity.notified()
    }

    /// Waits until messages may be handed over.
    ///
    /// # Errors
    /// When none will be taken any more.
    pub async fn admit(&self) -> Result<(), SubmitError> {
        let mut waiting_since = None;
        loop {
            // Created before the look, so that a notification in between is not missed.
            let capacity = self.capacity.notified();
            if let Some(fatal) = self.fatal.get() {
                return Err(fatal.clone());
            }
            if self.buffered_bytes.load(Ordering::Relaxed) < MAX_BUFFERED_BYTES {
                if let Some(since) = waiting_since {
                    self.traffic.waited(Instant::elapsed(&since));
                }
                return Ok(());
            }
            waiting_since.get_or_insert_with(Instant::now);
            capacity.await;
        }
    }

    /// The place of a payload to which its batch refers instead of copying it.
    #[inline]
    pub fn shared(&self, payload: &[u8]) -> Option<PayloadPlace> {
        if payload.len() < MIN_SHARED_BYTES || self.options.compression != Compression::None {
            return None;
        }
        self.payloads.place(payload)
    }

    /// Counts messages that are handed over.
    pub fn buffer(&self, messages: usize, payload_bytes: usize) {
        self.traffic.queued(messages);
        self.buffered_bytes.fetch_add(payload_bytes, Ordering::Relaxed);
    }

    /// A batch has its outcome.
    pub fn release(&self, batch: ProducerBatch) {
        self.traffic.settled(batch.sent.messages());
        self.buffered_bytes.fetch_sub(batch.payload_bytes, Ordering::Relaxed);
        self.buffers.deallocate(batch);
    }

    /// Wakes producers that wait for memory, if there is room for many of them.
    pub fn notify_capacity(&self) {
        if self.buffered_bytes.load(Ordering::Relaxed) < WAKE_BELOW_BYTES {
            self.capacity.notify_waiters();
        }
    }

    /// No message is taken any more.
    pub fn end(&self, class: FailureClass, message: String) {
        let fatal = self.fatal.get_or_init(|| SubmitError { class, message });
        if let Some(transactions) = &self.transactions {
            transactions.fail(fatal.class, fatal.message.clone());
        }
        self.capacity.notify_waiters();
    }

    pub fn fatal(&self) -> Option<&SubmitError> {
        self.fatal.get()
    }

    /// Remembers why a node cannot be reached.
    pub fn note_error(&self, address: &str, error: CallError) {
        match &error {
            CallError::Authorisation(reason) => {
                self.end(FailureClass::Authorisation, format!("{address} refused the credentials: {reason}"));
            }
            CallError::Unsupported(reason) => self.end(FailureClass::Refused, format!("{address}: {reason}")),
            _ => {}
        }
        *self.last_error.lock() = Some(format!("{address}: {}", error.beside(address)));
    }

    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// Asks for metadata again.
    pub fn refresh(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
        self.maintenance_due.notify_one();
    }

    /// Gets another identity for a partition; in a transaction, for all of them once it is aborted.
    pub fn renew(&self, partition: &Arc<Partition>) {
        if self.transactions.is_some() {
            return;
        }
        self.broken.lock().push(partition.clone());
        self.maintenance_due.notify_one();
    }

    /// Aborts the transaction that is open.
    pub async fn end_transactions(&self) {
        if let Some(transactions) = &self.transactions {
            transactions.abort(self.identity()).await;
        }
    }

    /// Ends all tasks: messages without an outcome stay without one.
    pub fn close(&self) {
        if let Some(maintenance_task) = self.maintenance_task.get() {
            maintenance_task.abort();
        }
        if let Some(transactions) = &self.transactions {
            transactions.close();
        }
        for (_, task) in std::mem::take(&mut *self.nodes.lock()).into_values() {
            task.abort();
        }
        // Partitions know their nodes, whose lists know partitions.
        for topic in std::mem::take(&mut *self.topics.lock()).into_values() {
            topic.partitions.iter().for_each(|partition| partition.set_leader(None, self.limits.linger));
        }
    }

    /// Gives partitions the leaders that the cluster names. `asked`: the topics that it was asked for.
    fn apply(self: &Arc<Self>, metadata: &Metadata, asked: &[&str]) {
        let topics: Vec<Arc<TopicRoutes>> = self.topics.lock().values().cloned().collect();
        for topic in topics {
            let conditions = &self.connector.conditions;
            let Some(found) = metadata.topics.get(&*topic.name) else {
                let words = "the metadata does not name it";
                let gone = |partition: &Arc<Partition>| partition.hold_up(conditions, ConditionKind::TopicGone, words);
                topic.partitions.iter().filter(|_| asked.contains(&&*topic.name)).for_each(gone);
                continue;
            };
            for (partition, leader) in topic.partitions.iter().zip(&found.leaders) {
                let leader = leader.and_then(|id| Some((id, metadata.nodes.get(&id)?)));
                if leader.is_none() {
                    self.is_outdated.store(true, Ordering::Relaxed);
                    partition.hold_up(conditions, ConditionKind::WaitingForLeader, "the metadata names no leader");
                } else if let Some(held_up) = partition.held_up() {
                    held_up.end_only(ConditionKind::WaitingForLeader);
                }
                let leader = leader.map(|(id, address)| self.node(id, address).ready.clone());
                partition.set_leader(leader, self.limits.linger);
            }
        }
    }

    fn node(self: &Arc<Self>, id: i32, address: &str) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        if let Some((node, _)) = nodes.get(&id) {
            node.set_address(address.to_owned());
            return node.clone();
        }
        let node = Arc::new(Node::new(address.to_owned()));
        let task = (self.serve_node)(node.clone(), self.clone());
        nodes.insert(id, (node.clone(), task));
        node
    }

    /// Asks for the leaders of its topics' partitions.
    pub async fn update_metadata(self: &Arc<Self>) {
        let names: Vec<String> = self.topics.lock().keys().cloned().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Before the question: what is seen from here on, the answer may not know.
        self.is_outdated.store(false, Ordering::Relaxed);
        match self.cluster.metadata(&names).await {
            Ok(metadata) => self.apply(&metadata, &names),
            Err(error) => {
                self.is_outdated.store(true, Ordering::Relaxed);
                *self.last_error.lock() = Some(error.to_string());
            }
        }
    }

    /// Gets another identity for the partitions that need one.
    pub async fn renew_broken(&self) {
        let broken = std::mem::take(&mut *self.broken.lock());
        for partition in broken {
            // It may have been noticed twice.
            if !partition.needs_identity() {
                continue;
            }
            match self.cluster.new_identity().await {
                Ok(identity) => partition.renew(identity),
                // The next look finds it broken still.
                Err(error) => *self.last_error.lock() = Some(error.to_string()),
            }
        }
    }
}
